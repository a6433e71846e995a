// What changed between two releases of one kind, as Python found it.
"use strict";

/** Show the pairs that a release is in. @param {any} release */
function showChanges(release) {
  const section = byId("changes");
  const parts = ["file", ...KEYS, "window"];
  const isOf = (/** @type {any} */ place) => parts.every((name) => place[name] === release.place[name]);
  const pairs = data.changes.filter((/** @type {any} */ each) => each.places.some(isOf));
  section.hidden = pairs.length === 0;
  if (section.hidden) return;
  const place = element("div", {});
  const names = pairs.map((/** @type {any} */ each) => each.name);
  const choice = selection("change", "From one to another", names, (number) => showPair(place, pairs[number]));
  const left = data.changes_left ? `${data.changes_left} older pairs are not in this page.` : "";
  section
    .querySelector(".content")
    .replaceChildren(
      element("div", { class: "fields controls" }, choice),
      element("p", { class: "soft" }, left),
      place,
    );
  showPair(place, pairs[0]);
}

/** @param {HTMLElement} place @param {any} found */
function showPair(place, found) {
  const rows = found.rows.map((/** @type {any} */ each) => {
    const { change, lower, upper, before, after } = each;
    const shown = interval({ estimate: change, lower, upper });
    const direction = !each.changed ? "cannot tell" : change > 0 ? "more" : "less";
    return [
      named(each.item),
      rounded(before, lower, upper),
      rounded(after, lower, upper),
      shown.estimate,
      shown.between,
      direction,
    ];
  });
  const names = ["item", "before ", "after ", "change ", "interval ", "direction"];
  place.replaceChildren(
    ...found.words.map((/** @type {string} */ words) => element("p", { class: "soft" }, words)),
    rows.length ? table(found.caption, names, rows) : "",
  );
}
