// The page: which release is asked, and its parts from the statement to the answers.
"use strict";

/** What Python embedded; null where the file was cut. @returns {any} */
function readData() {
  try {
    return JSON.parse(byId("data").textContent);
  } catch {
    return null;
  }
}

const data = readData();
const WINDOWS = { window: "Window", from: "From", to: "To (exclusive)" };
const OTHERS = { file: "File", ...WINDOWS, metric: "Metric" };
/** The columns of keys. @type {string[]} */
const KEYS = [...new Set((data?.releases ?? []).flatMap((/** @type {any} */ each) => Object.keys(each.place)))].filter(
  (name) => !Object.hasOwn(OTHERS, name),
);
/** @type {Record<string, string>} */
const DIMENSIONS = {
  file: "File",
  ...Object.fromEntries(KEYS.map((name) => [name, name === "key" ? "Key" : name])),
  ...WINDOWS,
  metric: "Metric",
};
/** @type {Record<string, string | null | undefined>} */
const chosen = Object.create(null); // a column may have a name such as __proto__
/** The lists to choose from that were made last, each with its values. @type {Map<string, {values: any[], field: HTMLElement}>} */
const choices = new Map();

/** What a release has in a list, or null. @param {any} release @param {string} name @returns {string | null} */
function partOf(release, name) {
  return Object.hasOwn(release.place, name) ? release.place[name] : null;
}

/** The release that fits what is chosen best. */
function current() {
  const names = Object.keys(DIMENSIONS);
  let best = data.releases[0];
  let most = -1;
  for (const each of data.releases) {
    let fits = 0;
    while (fits < names.length && partOf(each, names[fits]) === chosen[names[fits]]) fits += 1;
    if (fits > most) [best, most] = [each, fits];
  }
  return best;
}

/** Lists to choose from, each of what the choices before it leave. @param {any} release */
function showChoice(release) {
  const section = byId("choice");
  /** @type {HTMLElement[]} */
  const fields = [];
  let left = data.releases;
  for (const [name, words] of Object.entries(DIMENSIONS)) {
    /** @type {(string | null)[]} */
    const values = [...new Set(left.map((/** @type {any} */ each) => partOf(each, name)))];
    const endsRange = name === "to" && fields.some((each) => each.querySelector("#choose-from"));
    if (values.length > 1 || (endsRange && release.place.to !== null)) {
      const field = choiceOf(name, words, values);
      /** @type {any} */ (field.querySelector("select")).selectedIndex = values.indexOf(partOf(release, name));
      fields.push(field);
    }
    left = left.filter((/** @type {any} */ each) => partOf(each, name) === partOf(release, name));
  }
  const isPartial = Boolean(release.place.to) && !hasAllRanges(release);
  section.hidden = fields.length === 0;
  const row = section.querySelector(".fields");
  if (!isSame([...row.children], fields)) row.replaceChildren(...fields);
  section.querySelector("p").textContent = isPartial
    ? "This page has each window alone, and all windows from the first one up to each."
    : "";
}

/** A list of values, the same as before if they are: one of many keys takes long to make. @param {string} name @param {string} words @param {any[]} values */
function choiceOf(name, words, values) {
  const made = choices.get(name);
  if (made && isSame(made.values, values)) return made.field;
  const options = values.map((each) => (each === null ? "none" : named(each)));
  const field = selection(`choose-${name}`, words, options, (place) => {
    chosen[name] = values[place];
    show();
    byId(`choose-${name}`)?.focus();
  });
  choices.set(name, { values, field });
  return field;
}

/** Whether each range of the windows of a timeline can be chosen. @param {any} release */
function hasAllRanges(release) {
  const ranges = releasesLike(release, ["file", ...KEYS, "metric"]);
  const windows = ranges.filter((each) => each.moment !== null).length;
  return ranges.length === (windows * (windows + 1)) / 2;
}

/** What the page begins with: of the first file and key, all of it, or its latest window. */
function beginning() {
  const whole = data.releases.filter((/** @type {any} */ each) => each.is_whole);
  const first = releasesLike(whole[0], ["file", ...KEYS, "metric"]).filter((each) => each.is_whole);
  return first.reduce((best, each) => (each.moment > best.moment ? each : best));
}

function show() {
  const release = current();
  for (const name of Object.keys(DIMENSIONS)) chosen[name] = partOf(release, name);
  forgetCharts();
  showChoice(release);
  showPrivacy(release);
  byId("privacy").hidden = false;
  byId("ask").hidden = false;
  const reader = makeReader(release.reading);
  const time = askOverTime(release);
  byId("ask")
    .querySelector(".content")
    .replaceChildren(
      release.holds ? element("p", {}, `${release.name}: ${release.holds}`) : "",
      element("p", { class: "clipping" }, `Clipping: ${release.clipping.sentence}`),
      ...askRanks(release, reader),
      ...askItems(release, reader, time.follow),
      ...showTop(release),
      numbersOf(release),
      ...time.nodes,
      ...showKeys(release),
    );
  showChanges(release);
  drawAll();
}

/** Say that there are no pictures, and leave no room for them: all that they show is in words too. */
function showUndrawn() {
  document.body.classList.add("undrawn");
  byId("broken").textContent = "This file was cut on its way, so it has no pictures. Its answers are all there.";
  byId("broken").hidden = false;
}

if (data === null) {
  byId("broken").textContent = "This file was cut or changed on its way, so it answers nothing: get it again.";
} else {
  for (const name of Object.keys(DIMENSIONS)) chosen[name] = partOf(beginning(), name);
  show();
  byId("broken").hidden = true;
  performance.mark("answers");
  addEventListener("DOMContentLoaded", () => {
    if (!("Plotly" in window)) showUndrawn();
    drawAll();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
  addEventListener("beforeprint", () => {
    document.querySelectorAll("details").forEach((each) => {
      each.open = true;
    });
    drawOnPaper(true);
  });
  addEventListener("afterprint", () => drawOnPaper(false));
}
