// One number of all keys side by side, in a table.
"use strict";

/** The nodes of the last table, and of which releases it is: it stays when another of its keys is chosen. @type {{alike: any[], nodes: Node[]}} */
let ofKeys = { alike: [], nodes: [] };

/** @param {any} release @returns {Node[]} */
function showKeys(release) {
  const alike = releasesLike(release, ["file", "window", "from", "to", "metric"]);
  if (alike.length < 2 || release.numbers.length === 0) return [];
  if (!isSame(alike, ofKeys.alike)) ofKeys = { alike, nodes: tableOfKeys(alike) };
  return ofKeys.nodes;
}

/** @param {any[]} alike @returns {Node[]} */
function tableOfKeys(alike) {
  const spelled = (/** @type {number} */ count) => count.toLocaleString("en-US");
  const place = element("div", {});
  const [release] = alike;
  const names = release.numbers.map((/** @type {any} */ each) => each.words);
  const keys = KEYS.filter((name) => alike.some((each) => partOf(each, name) !== null));
  const choice = selection("number", "Of all keys", names, show);
  /** @param {number} number */
  function show(number) {
    const { kind, words } = release.numbers[number];
    const rows = alike.slice(0, MANY).map((/** @type {any} */ each) => {
      const found = each.numbers.find((/** @type {any} */ other) => other.kind === kind);
      const shown = found ? interval(found) : { estimate: UNTOLD, between: "" };
      return [
        ...keys.map((name) => named(partOf(each, name) ?? "")),
        shown.estimate,
        shown.between,
        each.clipping.state,
      ];
    });
    const cut = `The table has the first ${spelled(MANY)} of ${spelled(alike.length)} keys. Choose another key above.`;
    const columns = [...keys, "estimate ", "interval ", "clipping"];
    place.replaceChildren(
      alike.length > MANY ? element("p", { class: "soft" }, cut) : "",
      table(`${words}, with ${release.intervals}`, columns, rows),
    );
  }
  show(0);
  return [element("h3", {}, "Key by key"), element("div", { class: "controls" }, choice), place];
}
