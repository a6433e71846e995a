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
const DIMENSIONS = { file: "File", key: "Key", window: "Window", from: "From", to: "To", metric: "Metric" };
/** @type {Record<string, string | null | undefined>} */
const chosen = {};

/** The release that fits what is chosen best. */
function current() {
  const names = Object.keys(DIMENSIONS);
  let best = data.releases[0];
  let most = -1;
  for (const each of data.releases) {
    let fits = 0;
    while (fits < names.length && each.place[names[fits]] === chosen[names[fits]]) fits += 1;
    if (fits > most) [best, most] = [each, fits];
  }
  return best;
}

/** Lists to choose from, each of what the choices before it leave. @param {any} release */
function showChoice(release) {
  const section = byId("choice");
  const fields = [];
  let left = data.releases;
  for (const [name, words] of Object.entries(DIMENSIONS)) {
    /** @type {(string | null | undefined)[]} */
    const values = [...new Set(left.map((/** @type {any} */ each) => each.place[name]))];
    if (values.length > 1) {
      const field = selection(`choose-${name}`, words, values.map((each) => (each || "all")), (place) => {
        chosen[name] = values[place];
        show();
        byId(`choose-${name}`)?.focus();
      });
      field.querySelector("select").value = String(values.indexOf(release.place[name]));
      fields.push(field);
    }
    left = left.filter((/** @type {any} */ each) => each.place[name] === release.place[name]);
  }
  section.hidden = fields.length === 0;
  section.querySelector(".fields").replaceChildren(...fields);
}

function show() {
  const release = current();
  Object.assign(chosen, release.place);
  forgetCharts();
  showChoice(release);
  showPrivacy(release);
  byId("privacy").hidden = false;
  byId("ask").hidden = false;
  const reader = makeReader(release.reading);
  const time = askOverTime(release);
  byId("ask").querySelector(".content").replaceChildren(
    element("p", {}, `${release.name}: ${release.holds}`),
    ...askRanks(release, reader),
    ...askItems(release, reader, time.follow),
    ...showTop(release),
    numbersOf(release),
    ...time.nodes,
  );
  drawAll();
}

if (data === null) {
  byId("broken").textContent = "This file was cut or changed on its way, so it answers nothing: get it again.";
} else {
  Object.assign(chosen, data.releases.find((/** @type {any} */ each) => each.is_whole).place);
  show();
  showChanges();
  byId("broken").hidden = true;
  performance.mark("answers");
  addEventListener("DOMContentLoaded", drawAll);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
  addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((each) => { each.open = true; }));
}
