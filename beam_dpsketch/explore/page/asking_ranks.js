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
  const box = element("input", { type: "text", autocomplete: "off", spellcheck: "false" });
  const slider = element("input", { type: "range", min: 0, max: steps, "aria-label": `${words}, by sliding`, id: `${id}-slider` });
  const control = {
    position: start,
    /** @type {string | null} */ refused: null,
    box,
    node: element("div", {}, labelled(id, words, box), slider),
    /** @param {bigint} position */
    set(position) {
      stand(position);
      slide();
    },
  };
  /** @param {bigint} position */
  function stand(position) {
    control.position = position;
    control.refused = null;
    box.value = domain.show(position);
    slider.setAttribute("aria-valuetext", box.value);
    moved();
  }
  function slide() {
    slider.value = last === 0n ? "0" : String((control.position * steps) / last);
    slider.setAttribute("aria-valuetext", domain.show(control.position));
  }
  box.addEventListener("input", () => {
    control.refused = null;
    try {
      control.position = domain.parse(box.value);
      slide();
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      control.refused = error.message;
    }
    moved();
  });
  slider.addEventListener("input", () => stand(steps === 0n ? 0n : (BigInt(slider.value) * last) / steps));
  box.value = domain.show(start);
  slide();
  return control;
}

/**
 * @param {any} release
 * @param {any} reader
 * @returns {Node[]}
 */
function askRanks(release, reader) {
  if (reader === null || !reader.quantile) return [];
  const middle = reader.quantile(0.5).estimate;
  return [...askShare(release, reader, middle), ...askQuantile(release, reader), ...askRange(release, reader)];
}

/** @param {any} release @param {any} reader @param {bigint} middle @returns {Node[]} */
function askShare(release, reader, middle) {
  const answer = element("output", { class: "answer", id: "share-answer" });
  const chart = element("div", { class: "chart", id: "curve" });
  const value = valueControl(reader.domain, "value", "Value", middle, update);
  const cursor = drawCurve(chart, reader, release, (position) => value.set(position));
  function found() {
    const share = reader.cdf(value.position);
    const rank = reader.rank(value.position);
    return { share, rank, shown: interval(share, (end) => percent(Number(end), share)), ranks: interval(rank) };
  }
  function update() {
    answering(answer, () => {
      if (value.refused !== null) throw new Refusal(value.refused);
      cursor(value.position);
      const { shown, ranks } = found();
      const name = reader.domain.show(value.position);
      return (
        `${shown.estimate} (${shown.between}) lies at or below ${name}: ` +
        `about ${ranks.estimate} ${release.counted} (${ranks.between})`
      );
    });
  }
  const form = keeping([value.node], () => {
    if (value.refused !== null) return;
    const { share, shown } = found();
    keepAnswer(release.name, `share at or below ${reader.domain.show(value.position)}`, share, shown);
  });
  update();
  return [element("h3", {}, "Which share lies at or below a value?"), chart, form, answer];
}

/** @param {any} release @param {any} reader @returns {Node[]} */
function askQuantile(release, reader) {
  const answer = element("output", { class: "answer", id: "quantile-answer" });
  const box = element("input", { type: "number", min: 0, max: 100, step: "any", value: 50, inputmode: "decimal" });
  const show = (/** @type {any} */ position) => reader.domain.show(position);
  function found() {
    const share = Number(box.value) / 100;
    if (box.value === "" || !(share >= 0 && share <= 1)) throw new Refusal("Give a share from 0 to 100 percent, such as 95.");
    return reader.quantile(share);
  }
  function update() {
    answering(answer, () => {
      const { estimate, lower, upper } = found();
      return `${box.value} % lies at or below ${show(estimate)} (${show(lower)} to ${show(upper)})`;
    });
  }
  box.addEventListener("input", update);
  const form = keeping([labelled("share", "Share, percent", box)], () => {
    answering(answer, () => {
      const { estimate, lower, upper } = found();
      const texts = { estimate: show(estimate), lower: show(lower), upper: show(upper) };
      keepAnswer(release.name, `value at ${box.value} %`, texts, { estimate: texts.estimate, between: `${texts.lower} to ${texts.upper}` });
      return `${box.value} % lies at or below ${texts.estimate} (${texts.lower} to ${texts.upper})`;
    });
  });
  update();
  return [element("h3", {}, "Which value does a share lie at or below?"), form, answer];
}

/** @param {any} release @param {any} reader @returns {Node[]} */
function askRange(release, reader) {
  const answer = element("output", { class: "answer", id: "range-answer" });
  const [low, high] = [reader.quantile(0.25).estimate, reader.quantile(0.75).estimate];
  const from = valueControl(reader.domain, "low", "From", low, update);
  const to = valueControl(reader.domain, "high", "To, included", high, update);
  function found() {
    const refused = from.refused || to.refused;
    if (refused) throw new Refusal(refused);
    if (from.position > to.position) throw new Refusal("The range ends before it begins: swap its ends.");
    return reader.range(from.position, to.position);
  }
  function update() {
    answering(answer, () => {
      const range = found();
      const shown = interval(range);
      return `About ${shown.estimate} ${release.counted} (${shown.between}) lie from ${ends()}`;
    });
  }
  function ends() {
    return `${reader.domain.show(from.position)} to ${reader.domain.show(to.position)}`;
  }
  const form = keeping([from.node, to.node], () => {
    answering(answer, () => {
      const range = found();
      const shown = interval(range);
      keepAnswer(release.name, `${release.counted} from ${ends()}`, range, shown);
      return `About ${shown.estimate} ${release.counted} (${shown.between}) lie from ${ends()}`;
    });
  });
  update();
  return [element("h3", {}, "How much lies in a range?"), form, answer];
}

/**
 * Controls whose button, or the Enter key, keeps an answer.
 * @param {Node[]} controls
 * @param {() => void} keep
 */
function keeping(controls, keep) {
  const form = element("form", { class: "fields controls" }, ...controls, element("button", { type: "submit" }, "Keep this answer"));
  form.addEventListener("submit", (/** @type {Event} */ event) => {
    event.preventDefault();
    keep();
  });
  return form;
}
