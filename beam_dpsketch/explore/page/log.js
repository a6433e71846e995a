// The answers that the reader keeps, in a table, and as CSV.
"use strict";

const FORMULA = /^[=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20]/;
const NUMBER = /^-[0-9.]+(?:e[-+]?[0-9]+)?$/i;
const ANSWER = ["estimate", "lower", "upper"];
const CLIPPING = ["state", "estimate", "at_least", "upper_estimate"];
const BYTE_ORDER_MARK = "\ufeff"; // spreadsheets take text for UTF-8 that begins so

/** @type {(Found & {release: any})[]} */
const asked = [];

/** Keep an answer, unless it is there. @param {any} release @param {Found} found */
function keepAnswer(release, found) {
  const isThere = asked.some((each) => each.release === release && each.question === found.question);
  if (!isThere) asked.push({ release, ...found });
  showAnswers();
}

function showAnswers() {
  const section = byId("answers");
  section.hidden = asked.length === 0;
  const save = element("button", { type: "button", id: "csv" }, "Save as CSV");
  const clear = element("button", { type: "button", class: "quiet", id: "clear" }, "Clear");
  save.addEventListener("click", saveAnswers);
  clear.addEventListener("click", () => {
    asked.length = 0;
    showAnswers();
    byId("ask").focus();
  });
  const rows = asked.map(({ release, question, shown }) => {
    return [release.name, question, shown.estimate, shown.between, release.clipping.state];
  });
  section
    .querySelector(".content")
    .replaceChildren(
      table(data.confidence_words, ["release", "question", "estimate ", "interval ", "clipping"], rows),
      element("div", { class: "fields controls" }, save, clear),
    );
}

/** The answers as CSV. Text that a spreadsheet would take for a formula has an apostrophe before it. */
function answersAsCsv() {
  const places = Object.keys(DIMENSIONS);
  const rows = asked.map(({ release, question, answer }) => [
    ...places.map((name) => partOf(release, name)),
    question,
    ...ANSWER.map((name) => /** @type {any} */ (answer)[name]),
    data.confidence,
    ...CLIPPING.map((name) => release.clipping[name]),
  ]);
  const names = [...places, "question", ...ANSWER, "confidence", ...data.clipping_columns];
  return [names, ...rows].map((row) => `${row.map(csvCell).join(",")}\n`).join("");
}

/** @param {any} value */
function csvCell(value) {
  if (value === null || Number.isNaN(value)) return "";
  if (typeof value === "number") return Number.isFinite(value) ? String(value) : "";
  const text = FORMULA.test(value) && !NUMBER.test(value) ? `'${value}` : value;
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

function saveAnswers() {
  const csv = new Blob([BYTE_ORDER_MARK, answersAsCsv()], { type: "text/csv" });
  const address = URL.createObjectURL(csv);
  const link = element("a", { href: address, download: "answers.csv" });
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), MANY);
}
