// The curve of shares at or below each value, with a line to drag.
"use strict";

const POINTS = 300;
const TICKS = 4;
const TAIL = 0.002;
/** @type {Record<string, string>} */
const AXES = { log: "log", timestamp: "date" };

/**
 * The curve of shares with its band; returns what moves the line to a position. A drag on the chart calls `moved`.
 * @param {HTMLElement} place
 * @param {any} reader
 * @param {any} release
 * @param {(position: bigint) => void} moved
 * @returns {(position: bigint | null) => void}
 */
function drawCurve(place, reader, release, moved) {
  const type = AXES[release.reading.domain.type] || "linear";
  const onAxis = (/** @type {number} */ value) => (type === "log" ? Math.log10(value) : value);
  const ends = positionsShown(reader).map((position) => onAxis(reader.domain.axis(position)));
  const room = (ends[1] - ends[0] || 1) * 0.05;
  const ticks = reader.domain.isNumeric || type === "date" ? {} : ticksOf(reader.domain, ends);
  const plot = element("div", { class: "chart" });
  const line = element("div", { class: "cursor", hidden: true });
  place.append(plot, line);
  plot.setAttribute(
    "aria-label",
    `Shares at or below each value, with ${release.intervals}; the box below asks the same`,
  );
  /** @type {bigint | null} */
  let marked = null;
  /** @type {{places: any[], answers: any[]} | null} */
  let curve = null;
  draw(plot, () => {
    curve = curve || curveOf(reader);
    return {
      traces: bandOf(curve.places, curve.answers, "lines"),
      layout: {
        xaxis: {
          type,
          range: [ends[0] - room, ends[1] + room],
          fixedrange: true,
          title: { text: label(release.value) },
          ...ticks,
        },
        yaxis: { range: [0, 1.02], tickformat: ".0%", fixedrange: true },
      },
    };
  });
  const axis = () => /** @type {any} */ (plot)._fullLayout?.xaxis;
  function mark() {
    const shown = axis();
    if (marked === null || !shown) {
      line.hidden = true;
      return;
    }
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

/** The ends of what a curve shows: nearly all of the weight, and the values beside it where one has all. @param {any} reader @returns {bigint[]} */
function positionsShown(reader) {
  const [low, high] = [TAIL, 1 - TAIL].map((share) => reader.quantile(share).estimate);
  return low < high ? [low, high] : [positionBefore(low), clamp(high + 1n, high, reader.domain.size - 1n)];
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
  return { tickvals, ticktext: tickvals.map((each) => label(domain.show(nearestPosition(domain, each)))) };
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
