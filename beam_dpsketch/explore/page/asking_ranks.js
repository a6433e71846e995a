// Questions about ordered values: the share at or below one, the value at a share, and the weight of a range.
"use strict";

const STEPS = 1000n;

/**
 * A slider over the positions of a domain, and a box with the value that it stands at; `moved` hears of both.
 * @param {any} domain
 * @param {string} id
 * @param {string} words
 * @param {bigint} start
 * @param {() => void} moved
 */
function valueControl(domain, id, words, start, moved) {
  const last = domain.size - 1n;
  const steps = last < STEPS ? last : STEPS;
  const box = textBox(id, { type: "text" }, domain.show(start), read);
  const named = { "aria-label": `${words}, by sliding`, id: `${id}-slider` };
  const slider = element("input", { type: "range", min: 0, max: steps, ...named });
  const control = {
    position: start,
    /** @type {string | null} */
    refused: null,
    outside: "",
    node: element("div", {}, labelled(id, words, box), slider),
    /** @param {bigint} position */
    set(position) {
      stand(position);
      slide();
    },
  };
  /** @param {bigint} position */
  function stand(position) {
    [control.position, control.refused, control.outside] = [position, null, ""];
    slider.classList.remove("refused");
    box.value = domain.show(position);
    typed.set(id, box.value);
    slider.setAttribute("aria-valuetext", box.value);
    moved();
  }
  function slide() {
    slider.value = last === 0n ? "0" : String((control.position * steps) / last);
    slider.setAttribute("aria-valuetext", domain.show(control.position));
  }
  function parse() {
    control.refused = null;
    try {
      control.position = domain.parse(box.value);
      control.outside = outsideWords(domain, box.value, control.position);
      slide();
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      control.refused = error.message;
      slider.setAttribute("aria-valuetext", "none");
    }
    slider.classList.toggle("refused", control.refused !== null);
  }
  function read() {
    parse();
    moved();
  }
  slider.addEventListener("input", () => stand(steps === 0n ? 0n : (BigInt(slider.value) * last) / steps));
  parse();
  if (control.refused !== null) {
    box.value = domain.show(start); // what is remembered was typed for a release of another domain
    parse();
  }
  return control;
}

/** What is to be said of a number outside a domain, which moves it to its end. @param {any} domain @param {string} text @param {bigint} position */
function outsideWords(domain, text, position) {
  const [number, end] = [Number(text), domain.axis(position)];
  const isOutside = (position === 0n && number < end) || (position === domain.size - 1n && number > end);
  if (!domain.isNumeric || !isOutside) return "";
  return `. Values go from ${domain.show(0n)} to ${domain.show(domain.size - 1n)}, and all outside count as these`;
}

/**
 * @param {any} release
 * @param {any} reader
 * @returns {Node[]}
 */
function askRanks(release, reader) {
  if (reader === null || !reader.quantile) return [];
  return [...askShare(release, reader), ...askQuantile(release, reader), ...askRange(release, reader)];
}

/** @param {any} release @param {any} reader @returns {Node[]} */
function askShare(release, reader) {
  const chart = element("div", { class: "chart", id: "curve" });
  const middle = reader.quantile(0.5).estimate;
  const value = valueControl(reader.domain, "value", "Value", middle, () => asking.update());
  const cursor = drawCurve(chart, reader, release, (position) => value.set(position));
  const asking = questionOf(release, "Which share lies at or below a value?", "share", [value.node], () => {
    cursor(value.refused === null ? value.position : null);
    if (value.refused !== null) throw new Refusal(value.refused);
    const answer = reader.cdf(value.position);
    const [shown, ranks] = [
      interval(answer, (end) => percent(Number(end), answer)),
      interval(reader.rank(value.position)),
    ];
    const name = reader.domain.show(value.position);
    const weight = `about ${ranks.estimate} ${release.counted} (${ranks.between})`;
    const sentence = `${shown.estimate} (${shown.between}) lies at or below ${name}: ${weight}${value.outside}.`;
    return { question: `share at or below ${name}`, answer, shown, sentence };
  });
  asking.update();
  const [title, ...others] = asking.nodes;
  return [title, chart, ...others];
}

/** @param {any} release @param {any} reader @returns {Node[]} */
function askQuantile(release, reader) {
  const attributes = { type: "number", min: 0, max: 100, step: "any", inputmode: "decimal" };
  const box = textBox("share", attributes, "50", () => asking.update());
  const show = (/** @type {any} */ position) => reader.domain.show(position);
  const controls = [labelled("share", "Share, percent", box)];
  const asking = questionOf(release, "Which value does a share lie at or below?", "quantile", controls, () => {
    const share = Number(box.value) / 100;
    if (box.value === "" || !(share >= 0 && share <= 1)) {
      throw new Refusal("Give a share from 0 to 100 percent, such as 95.");
    }
    const found = reader.quantile(share);
    const isUnknown = found.lower === 0n && found.upper === reader.domain.size - 1n && found.upper > 0n;
    const estimate = isUnknown ? null : show(found.estimate);
    const answer = { estimate, lower: show(found.lower), upper: show(found.upper) };
    const shown = { estimate: estimate ?? UNTOLD, between: `${answer.lower} to ${answer.upper}` };
    const sentence = isUnknown
      ? `The value at ${box.value} % is unknown: any from ${shown.between} is possible.`
      : `${box.value} % lies at or below ${shown.estimate} (${shown.between}).`;
    return { question: `value at ${box.value} %`, answer, shown, sentence };
  });
  asking.update();
  return asking.nodes;
}

/** @param {any} release @param {any} reader @returns {Node[]} */
function askRange(release, reader) {
  const [low, high] = [0.25, 0.75].map((share) => reader.quantile(share).estimate);
  const from = valueControl(reader.domain, "low", "From", low, () => asking.update());
  const to = valueControl(reader.domain, "high", "To, included", high, () => asking.update());
  const asking = questionOf(release, "How much lies in a range?", "range", [from.node, to.node], () => {
    const refused = from.refused || to.refused;
    if (refused) throw new Refusal(refused);
    if (from.position > to.position) throw new Refusal("The range ends before it begins: swap its ends.");
    const answer = reader.range(from.position, to.position);
    const shown = interval(answer);
    const ends = `from ${reader.domain.show(from.position)} to ${reader.domain.show(to.position)}`;
    const outside = from.outside || to.outside;
    const sentence = `About ${shown.estimate} ${release.counted} (${shown.between}) lie ${ends}${outside}.`;
    return { question: `${release.counted} ${ends}`, answer, shown, sentence };
  });
  asking.update();
  return asking.nodes;
}
