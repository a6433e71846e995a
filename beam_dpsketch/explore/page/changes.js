// What changed between two releases of one kind, as Python found it.
"use strict";

function showChanges() {
  const section = byId("changes");
  section.hidden = data.changes.length === 0;
  if (section.hidden) return;
  const place = element("div", {});
  const names = data.changes.map((/** @type {any} */ each) => each.name);
  section.querySelector(".content").replaceChildren(
    element("div", { class: "fields controls" }, selection("change", "From one to another", names, show)),
    place,
  );
  /** @param {number} number */
  function show(number) {
    const found = data.changes[number];
    const rows = found.rows.map((/** @type {any} */ each) => {
      const shown = interval({ estimate: each.change, lower: each.lower, upper: each.upper });
      const may = each.lower <= 0 && each.upper >= 0 ? "it may not have changed" : "it changed";
      return [each.item, rounded(each.before, each.lower, each.upper), rounded(each.after, each.lower, each.upper), shown.estimate, shown.between, may];
    });
    place.replaceChildren(
      element("p", {}, found.words),
      rows.length ? table(found.caption, ["item", "before ", "after ", "change ", "interval ", "which says"], rows) : "",
    );
  }
  show(0);
}
