// Arrays and errors: what Python embedded as base64, and what is said to whoever asked.
"use strict";

/** @typedef {{dtype: "float64" | "int64" | "uint64" | "int32", data: string}} Encoded */
/** @typedef {Float64Array | BigInt64Array | BigUint64Array | Int32Array} Numbers */
/** @typedef {{estimate: number, lower: number, upper: number}} Estimate */

/** What cannot be answered, in words for the reader of the page. */
class Refusal extends Error {}

const ARRAYS = { float64: Float64Array, int64: BigInt64Array, uint64: BigUint64Array, int32: Int32Array };

/**
 * The numbers of an array; all browsers that have typed arrays today are little-endian, as the data are.
 * @param {Encoded} encoded
 * @returns {any}
 */
function decodeArray(encoded) {
  const text = atob(encoded.data);
  const bytes = new Uint8Array(text.length);
  for (let place = 0; place < text.length; place += 1) bytes[place] = text.charCodeAt(place);
  return new ARRAYS[encoded.dtype](bytes.buffer);
}
