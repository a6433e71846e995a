// One number of all keys side by side, in a table.
"use strict";

/** @param {any} release @returns {Node[]} */
function showKeys(release) {
  const alike = releasesLike(release, ["file", "window", "from", "to", "metric"]);
  if (alike.length < 2 || release.numbers.length === 0) return [];
  const place = element("div", {});
  const names = release.numbers.map((/** @type {any} */ each) => each.words);
  const choice = selection("number", "Of all keys", names, show);
  /** @param {number} number */
  function show(number) {
    const { kind, words } = release.numbers[number];
    const rows = alike.slice(0, MANY).map((/** @type {any} */ each) => {
      const found = each.numbers.find((/** @type {any} */ other) => other.kind === kind);
      const shown = found ? interval(found) : { estimate: UNTOLD, between: "" };
      return [each.place.key, shown.estimate, shown.between];
    });
    place.replaceChildren(table(`${words}, with ${release.intervals}`, ["key", "estimate ", "interval "], rows));
  }
  show(0);
  return [element("h3", {}, "Key by key"), element("div", { class: "controls" }, choice), place];
}
