// Questions about items: one that is typed, and the list of the most frequent.
"use strict";

const LISTED = 20;
/** @type {Record<string, string>} */
const TYPE_WORDS = { any: "what is listed", text: "text", int: "a whole number", bytes: "bytes" };

/**
 * @param {any} release
 * @param {any} reader
 * @param {(item: string, type: string) => void} follow
 * @returns {Node[]}
 */
function askItems(release, reader, follow) {
  if (reader === null || !reader.interval) return [];
  /** @type {string[]} */
  const types = reader.itemTypes;
  const known = new Set([...data.suggestions, ...(reader.items || [])]);
  const suggested = element("datalist", { id: "known" });
  function suggest() {
    const found = [];
    for (const each of known) {
      if (found.length < MANY && each.includes(box.value)) found.push(element("option", { value: each }));
    }
    suggested.replaceChildren(...found);
  }
  const box = textBox("item", { type: "text", list: "known" }, "", () => {
    suggest();
    asking.update();
  });
  const type = element("select", {}, ...types.map((each) => element("option", { value: each }, TYPE_WORDS[each])));
  if (types.includes(data.suggested_type)) type.value = data.suggested_type;
  type.addEventListener("change", () => asking.update());
  const controls = [labelled("item", "Item", box), types.length > 1 ? labelled("item-type", "Read as", type) : null];
  const asking = questionOf(
    release,
    "Count of an item",
    "item",
    controls,
    () => {
      if (box.value === "" && !known.has("")) throw new Refusal("Type an item, exactly as it was counted.");
      return foundItem(release, box.value, reader.interval(box.value, type.value), known);
    },
    () => follow(box.value, type.value),
  );
  asking.update();
  suggest();
  return [suggested, ...asking.nodes];
}

/**
 * @param {any} release
 * @param {string} item
 * @param {any} answer
 * @param {Set<string>} known
 * @returns {Found}
 */
function foundItem(release, item, answer, known) {
  const shown = interval(answer);
  const isTold = !Number.isNaN(answer.estimate);
  const about = isTold ? `about ${shown.estimate} ${release.counted}` : `${release.counted} cannot be told`;
  const cut = answer.truncated
    ? `; all items that begin as it does, in the first ${release.reading.domain.max_bytes} bytes, count as one`
    : "";
  const isStrange = known.size > 0 && !known.has(item);
  const strange = isStrange ? ". It is not in the list, so check its spelling: this may be noise alone" : "";
  const question = `${release.counted} of ${item || "(empty)"}`;
  return { question, answer, shown, sentence: `${named(item)}: ${about}, ${shown.between}${cut}${strange}.` };
}

/** The most frequent; values of numbers are folded away, because they are seldom what is asked. @param {any} release @returns {Node[]} */
function showTop(release) {
  if (release.top === null)
    return release.kind === "frequencies" ? [element("p", { class: "soft" }, data.no_list)] : [];
  if (release.top.rows.length === 0) return [];
  const isOfValues = release.kind === "quantiles";
  const title = isOfValues ? "The most frequent values" : "The most frequent";
  const rows = release.top.rows.map((/** @type {any} */ each, /** @type {number} */ place) => {
    const shown = interval(each);
    return [String(place + 1), named(each.item), shown.estimate, shown.between];
  });
  const names = ["place ", isOfValues ? "value" : "item", "estimate ", "interval "];
  const chart = element("div", { class: "chart", id: "top-chart" });
  drawBars(chart, release.top.rows.slice(0, LISTED), release);
  const all = table(release.top.summary, names, rows);
  const nodes = [
    ...release.top.notes.map((/** @type {string} */ words) => element("p", { class: "soft" }, words)),
    chart,
    table(release.top.caption, names, rows.slice(0, LISTED)),
    rows.length > LISTED ? element("details", {}, element("summary", {}, release.top.summary), all) : "",
  ];
  if (!isOfValues) return [element("h3", {}, title), ...nodes];
  const folded = element("details", {}, element("summary", {}, title), ...nodes);
  folded.addEventListener("toggle", drawAll);
  return [folded];
}
