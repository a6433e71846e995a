// One answer in each window, as a curve: a number that releases tell by themselves, or an item that was asked for.
"use strict";

/** @typedef {{words: string, axis: string, of: (release: any) => Estimate | undefined}} Series */

/** The releases of single windows that belong together with this one, in order of time. @param {any} release */
function windowsLike(release) {
  const alike = releasesLike(release, ["file", ...KEYS, "metric"]).filter((each) => each.moment !== null);
  return alike.sort((one, other) => (one.moment < other.moment ? -1 : 1));
}

/**
 * A chart over time, and what adds an answer about an item to it; nothing where there are no windows.
 * @param {any} release
 * @returns {{nodes: Node[], follow: (item: string, type: string) => void}}
 */
function askOverTime(release) {
  const windows = windowsLike(release);
  if (windows.length < 2) return { nodes: [], follow: () => {} };
  /** @type {Series[]} */
  const series = release.numbers.map(numberOf).filter((/** @type {Series} */ each) => hasBand(windows.map(each.of)));
  const asksItems = Boolean(makeReader(release.reading)?.interval);
  if (series.length === 0 && !asksItems) return { nodes: [], follow: () => {} };
  const chart = element("div", { class: "chart", id: "time-chart" });
  const choice = element("div", { class: "controls" });
  function offer() {
    choice.replaceChildren(
      selection(
        "series",
        "What is drawn",
        series.map((each) => each.words),
        (place) => show(series[place]),
      ),
    );
  }
  /** @param {Series} wanted */
  function show(wanted) {
    drawMoments(
      chart,
      windows.map((/** @type {any} */ each) => each.moment),
      windows.map(wanted.of),
      wanted,
      release,
    );
  }
  offer();
  if (series.length) show(series[0]);
  /** @param {string} item @param {string} type */
  function follow(item, type) {
    const words = `${release.counted} of ${item || "(empty)"}`;
    const added = { words, axis: release.counted, of: (/** @type {any} */ each) => answerIn(each, item, type) };
    series.splice(0, series.length, added, ...series.filter((each) => each.words !== words));
    offer();
    show(added);
  }
  const words = element(
    "p",
    { class: "soft" },
    "Each point is one window. Ask for an item above, and it is drawn here.",
  );
  return { nodes: [element("h3", {}, "Over time"), asksItems ? words : "", choice, chart], follow };
}

/** A number that releases tell, as a series. @param {any} number @returns {Series} */
function numberOf(number) {
  const { kind, words, axis } = number;
  return { words, axis, of: (release) => release.numbers.find((/** @type {any} */ each) => each.kind === kind) };
}

/** Whether intervals have both ends, so that a line is never without its band. @param {(Estimate | undefined)[]} answers */
function hasBand(answers) {
  return answers.every((each) => each && each.estimate !== null && !isOpen(each.lower) && !isOpen(each.upper));
}

/** The answer of one window; nothing where its release has none. @param {any} release @param {string} item @param {string} type */
function answerIn(release, item, type) {
  try {
    return makeReader(release.reading)?.interval?.(item, type);
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    return undefined;
  }
}
