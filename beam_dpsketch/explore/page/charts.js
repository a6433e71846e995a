// Pictures, by Plotly: curves with their band, and bars with intervals. All that they show is in words too.
"use strict";

const FONT = "system-ui, 'DejaVu Sans', sans-serif";
let onPaper = false;
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
      margin: { l: 60, r: 20, t: 10, b: 40 },
      font: { family: FONT, color: ink, size: 13 },
      paper_bgcolor: paper,
      plot_bgcolor: paper,
      showlegend: false,
      dragmode: false,
      ...layout,
      xaxis: { ...axis, ...layout.xaxis },
      yaxis: { ...axis, ...layout.yaxis },
    };
    /** @type {any} */ (window).Plotly.react(place, traces, whole, {
      displayModeBar: false,
      responsive: true,
      doubleClick: false,
    });
  };
  place.setAttribute("role", "img");
  drawing.set(place, now);
  if (place.isConnected && "Plotly" in window) now();
}

/** Draw all that is on the page; a file that was cut in the library has no pictures. */
function drawAll() {
  if ("Plotly" in window) for (const each of drawing.values()) each();
}

/** Draw dark on light for a printer, and as before for the screen. @param {boolean} isPaper */
function drawOnPaper(isPaper) {
  onPaper = isPaper;
  drawAll();
}

function forgetCharts() {
  drawing.clear();
}

function colours() {
  if (onPaper) return { ink: "#000", paper: "#fff", line: "#bbb", accent: "#0060a0", band: "#0060a040" };
  const style = getComputedStyle(document.documentElement);
  const read = (/** @type {string} */ name) => style.getPropertyValue(name).trim();
  return {
    ink: read("--ink"),
    paper: read("--paper"),
    line: read("--line"),
    accent: read("--accent"),
    band: read("--band"),
  };
}

/**
 * A curve with its band.
 * @param {any[]} x
 * @param {(Estimate | undefined)[]} answers
 * @param {string} mode of the curve itself
 */
function bandOf(x, answers, mode) {
  const column = (/** @type {"estimate" | "lower" | "upper"} */ name) =>
    answers.map((each) => (each ? each[name] : null));
  const edge = { x, mode: "lines", line: { width: 0 }, hoverinfo: "skip" };
  return [
    { ...edge, y: column("lower") },
    { ...edge, y: column("upper"), fill: "tonexty", fillcolor: colours().band },
    { x, y: column("estimate"), mode, line: { color: colours().accent, width: 2 }, hoverinfo: "skip" },
  ];
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
        type: "bar",
        orientation: "h",
        x: listed.map((each) => each.estimate),
        y: listed.map((_, row) => row),
        hoverinfo: "skip",
        marker: { color: colours().accent, opacity: 0.55 },
        error_x: {
          type: "data",
          symmetric: false,
          color: colours().ink,
          thickness: 1.5,
          width: 4,
          array: listed.map((each) => reach(each.upper, each.estimate)),
          arrayminus: listed.map((each) => reach(each.estimate, each.lower)),
        },
      },
    ],
    layout: {
      xaxis: { title: { text: release.counted }, fixedrange: true },
      yaxis: {
        tickvals: listed.map((_, row) => row),
        ticktext: names.map(escapedText),
        fixedrange: true,
        showgrid: false,
      },
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
  draw(place, () => ({
    traces: bandOf(moments, answers, "lines+markers"),
    layout: {
      xaxis: { type: "date", fixedrange: true },
      yaxis: { title: { text: named.axis }, fixedrange: true, rangemode: "tozero" },
    },
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
