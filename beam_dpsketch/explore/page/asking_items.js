// Questions about items: one that is typed, and the list of the largest.
"use strict";

const LISTED = 20;

/**
 * @param {any} release
 * @param {any} reader
 * @param {(item: string, type: string) => void} follow
 * @returns {Node[]}
 */
function askItems(release, reader, follow) {
  if (reader === null || !reader.interval) return [];
  const box = element("input", { type: "text", list: "known", autocomplete: "off", spellcheck: "false" });
  const known = [...new Set([...data.suggestions, ...(reader.items || [])])].slice(0, MANY);
  const types = reader.itemTypes;
  const type = element("select", {}, ...types.map((/** @type {string} */ each) => element("option", { value: each }, TYPE_WORDS[each])));
  const answer = element("output", { class: "answer", id: "item-answer", for: "item" });
  const ask = element("button", { type: "submit" }, "Ask");
  const form = element(
    "form",
    { class: "fields controls" },
    labelled("item", "Item", box),
    types.length > 1 ? labelled("item-type", "Read as", type) : null,
    ask,
  );
  form.addEventListener("submit", (/** @type {Event} */ event) => {
    event.preventDefault();
    answering(answer, () => {
      const found = reader.interval(box.value, type.value);
      const shown = interval(found);
      keepAnswer(release.name, `${release.counted} of ${box.value}`, found, shown);
      follow(box.value, type.value);
      return `${box.value}: about ${shown.estimate} ${release.counted}, ${shown.between}`;
    });
  });
  return [
    element("h3", {}, "How much is there of one item?"),
    element("datalist", { id: "known" }, ...known.map((each) => element("option", { value: each }))),
    form,
    answer,
  ];
}

/** @type {Record<string, string>} */
const TYPE_WORDS = { any: "what is listed", text: "text", int: "a whole number", bytes: "bytes" };

/**
 * Write an answer, or in words why there is none.
 * @param {HTMLElement} place
 * @param {() => string} find
 */
function answering(place, find) {
  let words;
  let refused = false;
  try {
    words = find();
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    words = error.message;
    refused = true;
  }
  place.classList.toggle("refused", refused);
  place.textContent = words;
}

/** @param {any} release @returns {Node[]} */
function showTop(release) {
  if (release.top === null || release.top.rows.length === 0) return [];
  const rows = release.top.rows.map((/** @type {any} */ each, /** @type {number} */ place) => {
    const shown = interval(each);
    return [String(place + 1), each.item, shown.estimate, shown.between];
  });
  const all = table(`All ${rows.length.toLocaleString("en-US")} of the list`, ["place ", "item", "estimate ", "interval "], rows);
  const first = table(release.top.caption, ["place ", "item", "estimate ", "interval "], rows.slice(0, LISTED));
  const chart = element("div", { class: "chart", id: "top-chart" });
  drawBars(chart, release.top.rows.slice(0, LISTED), release);
  return [
    element("h3", {}, "The largest"),
    ...release.top.notes.map((/** @type {string} */ words) => element("p", { class: "soft" }, words)),
    chart,
    first,
    rows.length > LISTED ? element("details", {}, element("summary", {}, "The whole list"), all) : "",
  ];
}
