// A question: its controls, an answer that follows them, and a button that keeps it.
"use strict";

/**
 * @typedef {object} Found
 * @property {string} question in a few words, for the table of answers
 * @property {{estimate: any, lower: any, upper: any}} answer
 * @property {{estimate: string, between: string}} shown
 * @property {string} sentence
 */

/** What was typed last, by the id of its control: it stays when another release is chosen. @type {Map<string, string>} */
const typed = new Map();

/**
 * The nodes of a question, and what answers it anew. The Enter key keeps an answer, as the button does.
 * @param {any} release
 * @param {string} title
 * @param {string} id
 * @param {(Node | null)[]} controls
 * @param {() => Found} find or a `Refusal`
 * @param {() => void} [kept]
 */
function questionOf(release, title, id, controls, find, kept) {
  const answer = element("output", { class: "answer", id: `${id}-answer` });
  const keep = element("button", { type: "submit" }, "Keep this answer");
  const form = element("form", { class: "fields controls" }, ...controls, keep);
  form.addEventListener("submit", (/** @type {Event} */ event) => {
    event.preventDefault();
    const found = update();
    if (found === null) return;
    keepAnswer(release, found);
    if (kept) kept();
  });
  /** @returns {Found | null} */
  function update() {
    try {
      const found = find();
      answer.classList.remove("refused");
      answer.textContent = plainly(found.sentence);
      return found;
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      answer.classList.add("refused");
      answer.textContent = plainly(error.message);
      return null;
    }
  }
  return { nodes: [element("h3", {}, title), form, answer], update };
}

/**
 * A box whose text is remembered; `moved` hears of it.
 * @param {string} id
 * @param {Record<string, string | number | boolean>} attributes
 * @param {string} start
 * @param {() => void} moved
 */
function textBox(id, attributes, start, moved) {
  const box = element("input", { autocomplete: "off", spellcheck: "false", ...attributes });
  box.value = typed.get(id) ?? start;
  box.addEventListener("input", () => {
    typed.set(id, box.value);
    moved();
  });
  return box;
}
