// The statement of a release in words, what it contains, how much was clipped, and what else there is to know.
"use strict";

const FIRST = [
  "Protects",
  "Guarantee",
  "Meaning",
  "Contribution",
  "Keys",
  "Items",
  "Clipping",
  "Contents",
  "Not hidden",
];

/** @param {any} release */
function showPrivacy(release) {
  const place = byId("privacy").querySelector(".content");
  const first = FIRST.filter((name) => name in release.statement);
  const others = Object.keys(release.statement).filter((name) => !FIRST.includes(name));
  const notes = release.notes.map((/** @type {string} */ words) => element("li", {}, words));
  place.replaceChildren(
    facts(release.statement, first),
    ...data.spent.map((/** @type {string} */ words) => element("p", {}, words)),
    notes.length ? element("ul", { class: "notes", "aria-label": "Notes" }, ...notes) : "",
    element("details", {}, element("summary", {}, "Details"), facts(release.statement, others)),
  );
}

/** @param {Record<string, string>} statement @param {string[]} names */
function facts(statement, names) {
  return element("dl", {}, ...names.flatMap((name) => [element("dt", {}, name), element("dd", {}, statement[name])]));
}

/** @param {any} release */
function numbersOf(release) {
  const rows = release.numbers.map((/** @type {any} */ each) => {
    const shown = interval(each);
    return [each.words, shown.estimate, shown.between];
  });
  return rows.length
    ? table(`Summary counts, with ${release.intervals}`, ["about", "estimate ", "interval "], rows)
    : "";
}
