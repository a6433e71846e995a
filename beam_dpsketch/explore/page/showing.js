// What the page is made of: elements whose text is text alone, and numbers with the digits that their intervals allow.
"use strict";

const UNTOLD = "cannot tell";
const MANY = 1000;
// Signs that nobody sees, that turn the direction of others, or that look like a space; not those that change an emoji.
const JOINED =
  "(?<=\\p{Extended_Pictographic}[\\ufe0f\\p{Emoji_Modifier}]?)(?:[\\ufe0e\\ufe0f]|\\u200d\\p{Extended_Pictographic})";
const UNSEEN = new RegExp(
  `(?! |${JOINED})[\\p{Cc}\\p{Cf}\\p{Cs}\\p{Co}\\p{Z}\\p{Default_Ignorable_Code_Point}\\u2800]`,
  "gu",
);

/**
 * An element. Attributes whose value is null are left out; nothing that is given here is ever read as HTML.
 * @param {string} tag
 * @param {Record<string, string | number | bigint | boolean | null>} [attributes]
 * @param {...(Node | string | null)} children
 * @returns {any}
 */
function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === true) made.setAttribute(name, "");
    else if (value !== null && value !== false) made.setAttribute(name, String(value));
  }
  made.append(
    ...children.filter((child) => child !== null).map((child) => (typeof child === "string" ? plainly(child) : child)),
  );
  return made;
}

/** Text with escapes in place of what nobody sees, and of what turns the direction of others. @param {string} text */
function plainly(text) {
  return text.replace(UNSEEN, (each) => {
    const code = Number(each.codePointAt(0)).toString(16);
    return code.length > 4 ? `\\U${code.padStart(8, "0")}` : `\\u${code.padStart(4, "0")}`;
  });
}

/** An item or a key, so that two that differ also look different: without text, or with spaces that HTML leaves out. @param {string} text */
function named(text) {
  return text === "" ? "(empty)" : plainly(text).replace(/^ | $|(?<= ) /g, "\\u0020");
}

/** Whether two lists have the same parts. @param {any[]} one @param {any[]} other */
function isSame(one, other) {
  return one.length === other.length && one.every((each, place) => each === other[place]);
}

/** @param {string} id @returns {any} */
function byId(id) {
  return document.getElementById(id);
}

/**
 * A control with its label above it.
 * @param {string} id
 * @param {string} words
 * @param {HTMLElement} control
 */
function labelled(id, words, control) {
  control.id = id;
  return element("div", {}, element("label", { for: id }, words), control);
}

/** @param {string} id @param {string} words @param {string[]} options @param {(place: number) => void} choose */
function selection(id, words, options, choose) {
  const made = element("select", {}, ...options.map((each, place) => element("option", { value: place }, each)));
  made.addEventListener("change", () => choose(Number(made.value)));
  return labelled(id, words, made);
}

/**
 * A number in a few digits, or in as many as its interval leaves certain: half of it has two digits.
 * @param {number | null} value
 * @param {number | null} lower
 * @param {number | null} upper
 */
function rounded(value, lower, upper) {
  if (value === null || Number.isNaN(value)) return UNTOLD;
  const half = reachOf(value, lower, upper);
  const isKnown = half > 0 && Number.isFinite(half);
  const digits = isKnown ? Math.min(Math.max(1 - Math.floor(Math.log10(half)), 0), 12) : Math.abs(value) < MANY ? 2 : 0;
  const shown = value.toLocaleString("en-US", {
    minimumFractionDigits: isKnown ? digits : 0,
    maximumFractionDigits: digits,
  });
  return /^-0(\.0*)?$/.test(shown) ? shown.slice(1) : shown;
}

/** How far an interval reaches: half of it, or to the end that it has. @param {number} value @param {number | null} lower @param {number | null} upper */
function reachOf(value, lower, upper) {
  if (lower === null || !Number.isFinite(lower)) return upper === null ? 0 : upper - value;
  return upper === null || !Number.isFinite(upper) ? value - lower : (upper - lower) / 2;
}

/** @param {Estimate} answer @param {(value: number | null) => string} [show] */
function interval(answer, show) {
  const { estimate, lower, upper } = answer;
  const spell = show || ((/** @type {number | null} */ value) => rounded(value, lower, upper));
  const low = isOpen(lower) ? null : spell(lower);
  const high = isOpen(upper) ? null : spell(upper);
  let between = "any value";
  if (low !== null && high !== null) between = `${low} to ${high}`;
  else if (low !== null) between = lower > 0 ? `at least ${low}` : "not distinguishable from 0";
  else if (high !== null) between = `at most ${high}`;
  return { estimate: spell(estimate), between };
}

/** @param {number | null} end */
function isOpen(end) {
  return end === null || !Number.isFinite(end);
}

/** @param {number} share @param {Estimate} answer */
function percent(share, answer) {
  return `${rounded(100 * share, 100 * answer.lower, 100 * answer.upper)} %`;
}

/**
 * A table of texts; columns whose name ends with a space hold numbers.
 * @param {string} caption
 * @param {string[]} names
 * @param {string[][]} rows
 */
function table(caption, names, rows) {
  const isNumber = names.map((name) => name.endsWith(" "));
  const head = names.map((name, place) =>
    element("th", { scope: "col", class: isNumber[place] ? "number" : null }, name.trim()),
  );
  const body = rows.map((row) =>
    element("tr", {}, ...row.map((cell, place) => element("td", { class: isNumber[place] ? "number" : "text" }, cell))),
  );
  const made = element(
    "table",
    {},
    element("caption", {}, caption),
    element("thead", {}, element("tr", {}, ...head)),
    element("tbody", {}, ...body),
  );
  return element("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": caption }, made);
}
