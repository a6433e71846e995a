// The answers that the reader asked for, in a table, and as CSV.
"use strict";

const FORMULA = /^[=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20]/;
const COLUMNS = ["release", "question", "estimate", "lower", "upper", "confidence"];

/** @type {{release: string, question: string, estimate: string | number, lower: string | number, upper: string | number, shown: string[]}[]} */
const asked = [];

/**
 * Keep an answer.
 * @param {string} release
 * @param {string} question
 * @param {{estimate: any, lower: any, upper: any}} answer
 * @param {{estimate: string, between: string}} shown
 */
function keepAnswer(release, question, answer, shown) {
  const { estimate, lower, upper } = answer;
  asked.push({ release, question, estimate, lower, upper, shown: [release, question, shown.estimate, shown.between] });
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
  const rows = asked.map((each) => each.shown);
  section.querySelector(".content").replaceChildren(
    table(data.confidence_words, ["release", "question", "estimate ", "interval "], rows),
    element("div", { class: "fields controls" }, save, clear),
  );
}

/** The answers as CSV. Text that a spreadsheet would take for a formula has an apostrophe before it. */
function answersAsCsv() {
  const rows = asked.map((each) => [each.release, each.question, each.estimate, each.lower, each.upper, data.confidence]);
  return [COLUMNS, ...rows].map((row) => `${row.map(csvCell).join(",")}\n`).join("");
}

/** @param {any} value */
function csvCell(value) {
  if (value === null || Number.isNaN(value)) return "";
  if (typeof value === "number") return Number.isFinite(value) ? String(value) : "";
  const text = FORMULA.test(value) ? `'${value}` : value;
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

function saveAnswers() {
  const address = URL.createObjectURL(new Blob([answersAsCsv()], { type: "text/csv" }));
  const link = element("a", { href: address, download: "answers.csv" });
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), MANY);
}
