// Pictures, by Plotly: curves with their band and a line to drag, and bars with intervals. All they show is in words too.
"use strict";

const POINTS = 300;
const TICKS = 4;
const TAIL = 0.002;
/** @type {Record<string, string>} */
const AXES = { log: "log", timestamp: "date" };
const FONT = "system-ui, 'DejaVu Sans', sans-serif";
/** What draws each place, once the library is there and the place is on the page. @type {Map<HTMLElement, () => void>} */
const drawing = new Map();

/**
 * Draw once the library is there, which comes after the first answers, and again where colours change.
 * @param {HTMLElement} place
 * @param {() => {traces: any[], layout: any}} make
 */
function draw(place, make) {
  const now = () => {
    const { traces, layout } = make();
    const { ink, line, paper } = colours();
    const axis = { gridcolor: line, linecolor: line, zerolinecolor: line, automargin: true };
    const whole = {
      margin: { l: 60, r: 20, t: 10, b: 40 }, font: { family: FONT, color: ink, size: 13 }, paper_bgcolor: paper, plot_bgcolor: paper,
      showlegend: false, dragmode: false, ...layout, xaxis: { ...axis, ...layout.xaxis }, yaxis: { ...axis, ...layout.yaxis },
    };
    /** @type {any} */ (window).Plotly.react(place, traces, whole, { displayModeBar: false, responsive: true, doubleClick: false });
  };
  place.setAttribute("role", "img");
  drawing.set(place, now);
  if (place.isConnected && "Plotly" in window) now();
}

/** Draw all that is on the page; a file that was cut in the library has no pictures. */
function drawAll() {
  if ("Plotly" in window) for (const each of drawing.values()) each();
}

function forgetCharts() {
  drawing.clear();
}

function colours() {
  const style = getComputedStyle(document.documentElement);
  const read = (/** @type {string} */ name) => style.getPropertyValue(name).trim();
  return { ink: read("--ink"), paper: read("--paper"), line: read("--line"), accent: read("--accent"), band: read("--band") };
}

/**
 * The curve of shares with its band; returns what moves the line to a position. A drag on the chart calls `moved`.
 * @param {HTMLElement} place
 * @param {any} reader
 * @param {any} release
 * @param {(position: bigint) => void} moved
 * @returns {(position: bigint) => void}
 */
function drawCurve(place, reader, release, moved) {
  const type = AXES[release.reading.domain.type] || "linear";
  const onAxis = (/** @type {number} */ value) => (type === "log" ? Math.log10(value) : value);
  const ends = [TAIL, 1 - TAIL].map((share) => onAxis(reader.domain.axis(reader.quantile(share).estimate)));
  const room = (ends[1] - ends[0] || 1) * 0.05;
  const ticks = reader.domain.isNumeric || type === "date" ? {} : ticksOf(reader.domain, ends);
  const plot = element("div", { class: "chart" });
  const line = element("div", { class: "cursor", hidden: true });
  place.append(plot, line);
  plot.setAttribute("aria-label", `Shares at or below each value, with ${release.intervals}; the box below asks the same`);
  /** @type {bigint | null} */
  let marked = null;
  /** @type {{places: any[], answers: any[]} | null} */
  let curve = null;
  draw(plot, () => {
    curve = curve || curveOf(reader);
    const { places, answers } = curve;
    return {
    traces: [
      { x: places, y: answers.map((each) => each.lower), mode: "lines", line: { width: 0 }, hoverinfo: "skip" },
      { x: places, y: answers.map((each) => each.upper), mode: "lines", line: { width: 0 }, fill: "tonexty", fillcolor: colours().band, hoverinfo: "skip" },
      { x: places, y: answers.map((each) => each.estimate), mode: "lines", line: { color: colours().accent, width: 2 }, hoverinfo: "skip" },
    ],
    layout: {
      xaxis: { type, range: [ends[0] - room, ends[1] + room], fixedrange: true, ...ticks },
      yaxis: { range: [0, 1.02], tickformat: ".0%", fixedrange: true },
    },
  };
  });
  const axis = () => /** @type {any} */ (plot)._fullLayout?.xaxis;
  function mark() {
    const shown = axis();
    if (marked === null || !shown) return;
    const height = /** @type {any} */ (plot)._fullLayout.yaxis;
    const left = shown.d2p(reader.domain.axis(marked));
    line.hidden = left < 0 || left > shown._length;
    line.style.left = `${shown._offset + left}px`;
    line.style.top = `${height._offset}px`;
    line.style.height = `${height._length}px`;
  }
  drawing.set(line, mark);
  new ResizeObserver(mark).observe(plot);
  place.addEventListener("pointerdown", (event) => {
    place.setPointerCapture(event.pointerId);
    drag(event);
  });
  place.addEventListener("pointermove", (event) => {
    if (place.hasPointerCapture(event.pointerId)) drag(event);
  });
  /** @param {PointerEvent} event */
  function drag(event) {
    const shown = axis();
    if (!shown) return;
    const x = Math.min(Math.max(event.clientX - plot.getBoundingClientRect().left - shown._offset, 0), shown._length);
    moved(nearestPosition(reader.domain, shown.p2d(x)));
  }
  return (position) => {
    marked = position;
    mark();
  };
}

/**
 * The first position whose place on the axis is this or more.
 * @param {any} domain
 * @param {any} wanted
 */
function nearestPosition(domain, wanted) {
  const aim = typeof wanted === "string" ? Date.parse(`${wanted.replace(" ", "T")}Z`) : wanted;
  let [low, high] = [0n, domain.size - 1n];
  while (low < high) {
    const middle = (low + high) / 2n;
    if (domain.axis(middle) < aim) low = middle + 1n;
    else high = middle;
  }
  return low;
}

/** Places on an axis whose values are no numbers, with their names. @param {any} domain @param {number[]} ends */
function ticksOf(domain, ends) {
  const tickvals = Array.from({ length: TICKS }, (_, step) => ends[0] + ((ends[1] - ends[0]) * step) / (TICKS - 1));
  return { tickvals, ticktext: tickvals.map((each) => domain.show(nearestPosition(domain, each))) };
}

/** Shares at even steps over the domain, and where they rise. @param {any} reader */
function curveOf(reader) {
  const last = reader.domain.size - 1n;
  const steps = BigInt(POINTS);
  const found = new Set([0n, last]);
  for (let step = 0n; step <= steps; step += 1n) found.add((last * step) / steps);
  for (let step = 1; step < POINTS; step += 1) {
    const position = reader.quantile(step / POINTS).estimate;
    found.add(position);
    if (position > 0n) found.add(position - 1n);
  }
  const positions = [...found].sort((first, second) => (first < second ? -1 : 1));
  return {
    places: positions.map((each) => reader.domain.axis(each)),
    answers: positions.map((each) => reader.cdf(each)),
  };
}

/**
 * Bars with intervals, the largest on top.
 * @param {HTMLElement} place
 * @param {any[]} rows
 * @param {any} release
 */
function drawBars(place, rows, release) {
  place.setAttribute("aria-label", `The largest items, with ${release.intervals}; the table below has the same`);
  const listed = [...rows].reverse();
  place.style.height = `${5 + 1.6 * listed.length}rem`;
  const names = listed.map((each) => (each.item.length > 24 ? `${each.item.slice(0, 23)}\u2026` : each.item));
  draw(place, () => ({
    traces: [
      {
        type: "bar", orientation: "h", x: listed.map((each) => each.estimate), y: listed.map((_, row) => row), hoverinfo: "skip",
        marker: { color: colours().accent, opacity: 0.55 },
        error_x: {
          type: "data", symmetric: false, color: colours().ink, thickness: 1.5, width: 4,
          array: listed.map((each) => reach(each.upper, each.estimate)), arrayminus: listed.map((each) => reach(each.estimate, each.lower)),
        },
      },
    ],
    layout: {
      xaxis: { title: { text: release.counted }, fixedrange: true },
      yaxis: { tickvals: listed.map((_, row) => row), ticktext: names.map(escapedText), fixedrange: true, showgrid: false },
    },
  }));
}

/**
 * A curve over time with its band.
 * @param {HTMLElement} place
 * @param {string[]} moments
 * @param {(Estimate | undefined)[]} answers
 * @param {{words: string, axis: string}} named
 * @param {any} release
 */
function drawMoments(place, moments, answers, named, release) {
  place.setAttribute("aria-label", `${named.words} in each window, with ${release.intervals}`);
  const column = (/** @type {"estimate" | "lower" | "upper"} */ name) => answers.map((each) => (each && each.lower !== null && each.upper !== null ? each[name] : null));
  draw(place, () => ({
    traces: [
      { x: moments, y: column("lower"), mode: "lines", line: { width: 0 }, hoverinfo: "skip" },
      { x: moments, y: column("upper"), mode: "lines", line: { width: 0 }, fill: "tonexty", fillcolor: colours().band, hoverinfo: "skip" },
      { x: moments, y: answers.map((each) => (each ? each.estimate : null)), mode: "lines+markers", line: { color: colours().accent, width: 2 }, hoverinfo: "skip" },
    ],
    layout: { xaxis: { type: "date", fixedrange: true }, yaxis: { title: { text: named.axis }, fixedrange: true, rangemode: "tozero" } },
  }));
}

/** @param {number | null} far @param {number | null} near */
function reach(far, near) {
  return far === null || near === null ? 0 : far - near;
}

/** Plotly reads some tags in texts; an item is text alone. @param {string} text */
function escapedText(text) {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
}
