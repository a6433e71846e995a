// Typed text as numbers and bytes, in the grammar that commands and settings have too.
"use strict";

const SPACES = "[\\t-\\r\\x1c-\\x20\\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000]*";
const INTEGER = new RegExp(`^${SPACES}([-+]?[0-9]+)${SPACES}$`);
const DECIMAL = new RegExp(`^${SPACES}([-+]?(?:[0-9]+\\.?[0-9]*|\\.[0-9]+)(?:[eE][-+]?[0-9]+)?)${SPACES}$`);
const HEXADECIMAL = /^0x[ \t-\r]*(?:[0-9a-fA-F]{2}[ \t-\r]*)*$/;
const PAIR = /[0-9a-fA-F]{2}/g;
const SURROGATE = /^[\ud800-\udfff]$/;
const ESCAPED = /^[\udc80-\udcff]$/;
const MOST_DIGITS = 64;
const MOST_EXACT = 2 ** 53;

/**
 * A number as text has it: a whole one as bigint; null if it is none.
 * @param {string} text
 * @returns {bigint | number | null}
 */
function readNumber(text) {
  const isShort = text.length <= MOST_DIGITS;
  const integer = isShort && INTEGER.exec(text);
  if (integer) return BigInt(integer[1]);
  const decimal = isShort && DECIMAL.exec(text);
  return decimal ? Number(decimal[1]) : null;
}

/**
 * A whole number, 10.0 and 1e6 too; null if it is none.
 * @param {string} text
 * @returns {bigint | null}
 */
function readWhole(text) {
  const number = readNumber(text);
  if (typeof number !== "number") return number;
  return Number.isInteger(number) && Math.abs(number) <= MOST_EXACT ? BigInt(number) : null;
}

/**
 * Bytes, in hexadecimal digits after 0x or as text. Python has a byte that is not of UTF-8 as U+DC80 to U+DCFF.
 * @param {string} text
 * @returns {number[]}
 */
function readBytes(text) {
  if (text.startsWith("0x")) {
    if (HEXADECIMAL.test(text)) return (text.slice(2).match(PAIR) || []).map((pair) => parseInt(pair, 16));
    throw new Refusal("Expected hexadecimal digits after 0x, two for each byte, as 0x00ff.");
  }
  return Array.from(text).flatMap((character) => {
    if (!SURROGATE.test(character)) return utf8(character);
    if (ESCAPED.test(character)) return [character.charCodeAt(0) & 0xff];
    throw new Refusal("Expected bytes, as text or in hexadecimal digits after 0x: this text has half a character.");
  });
}

/**
 * A typed text as the bytes of an item of a domain of text or bytes, which counts the first `max_bytes`.
 * @param {string} text
 * @param {{type: string, max_bytes: number}} domain
 * @returns {{data: number[], truncated: boolean}}
 */
function itemBytes(text, domain) {
  const data = domain.type === "bytes" ? readBytes(text) : utf8(text);
  return { data: data.slice(0, domain.max_bytes), truncated: data.length >= domain.max_bytes };
}

/**
 * @param {ArrayLike<number>} bytes
 * @returns {string}
 */
function hexOf(bytes) {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
