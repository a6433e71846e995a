// Pictures, by Plotly: curves with their band, and bars with intervals. All that they show is in words too.
"use strict";

const FONT = "system-ui, 'DejaVu Sans', sans-serif";
const LABEL = 24;
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
      xaxis: { title: { text: label(release.counted) }, fixedrange: true },
      yaxis: {
        tickvals: listed.map((_, row) => row),
        ticktext: listed.map((each) => label(shortened(named(each.item)))),
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
 * @param {{words: string, axis: string}} drawn
 * @param {any} release
 */
function drawMoments(place, moments, answers, drawn, release) {
  place.setAttribute("aria-label", `${drawn.words} in each window, with ${release.intervals}`);
  draw(place, () => ({
    traces: bandOf(moments, answers, "lines+markers"),
    layout: {
      xaxis: { type: "date", fixedrange: true },
      yaxis: { title: { text: label(drawn.axis) }, fixedrange: true, rangemode: "tozero" },
    },
  }));
}

/** @param {number | null} far @param {number | null} near */
function reach(far, near) {
  return far === null || near === null ? 0 : far - near;
}

/** Text of a chart: Plotly reads some tags in texts, and this has none. @param {string} text */
function label(text) {
  return plainly(text).replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
}

/** The beginning of a long text, without half a character. @param {string} text */
function shortened(text) {
  const characters = Array.from(text);
  return characters.length > LABEL ? `${characters.slice(0, LABEL - 1).join("")}\u2026` : text;
}
