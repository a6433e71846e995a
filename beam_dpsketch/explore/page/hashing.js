// Hashes of items and the cells they have in each row, to the bit as `beam_dpsketch.hashing` has them.
"use strict";

const ODD = 0x9e3779b97f4a7c15n;
const AVALANCHE = [0xbf58476d1ce4e5b9n, 0x94d049bb133111ebn];
const MURMUR = [0x87c37b91114253d5n, 0x4cf5ad432745937fn];
const MURMUR_ADD = [0x52dce729n, 0x38495ab5n];
const MURMUR_FINISH = [0xff51afd7ed558ccdn, 0xc4ceb9fe1a85ec53n];
const MURMUR_BLOCK = 16;
const BLAKE_BLOCK = 128;
const BLAKE_DIGEST = 8;
const BLAKE_START = [
  0x6a09e667f3bcc908n,
  0xbb67ae8584caa73bn,
  0x3c6ef372fe94f82bn,
  0xa54ff53a5f1d36f1n,
  0x510e527fade682d1n,
  0x9b05688c2b3e6c1fn,
  0x1f83d9abfb41bd6bn,
  0x5be0cd19137e2179n,
];
const BLAKE_ORDER = [
  [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15],
  [14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3],
  [11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4],
  [7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8],
  [9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13],
  [2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9],
  [12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11],
  [13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10],
  [6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5],
  [10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0],
];
const BLAKE_ROUNDS = 12;
const BLAKE_MIXED = [
  [0, 4, 8, 12],
  [1, 5, 9, 13],
  [2, 6, 10, 14],
  [3, 7, 11, 15],
  [0, 5, 10, 15],
  [1, 6, 11, 12],
  [2, 7, 8, 13],
  [3, 4, 9, 14],
];

/**
 * A whole number modulo 2**64.
 * @param {bigint} value
 * @returns {bigint}
 */
function wrapped(value) {
  return BigInt.asUintN(64, value);
}

/**
 * The bytes of text in UTF-8; half of a surrogate pair has the three bytes that Python gives it too.
 * @param {string} text
 * @returns {number[]}
 */
function utf8(text) {
  /** @type {number[]} */
  const bytes = [];
  for (const character of text) {
    const code = /** @type {number} */ (character.codePointAt(0));
    if (code < 0x80) bytes.push(code);
    else if (code < 0x800) bytes.push(0xc0 | (code >> 6), 0x80 | (code & 63));
    else if (code < 0x10000) bytes.push(0xe0 | (code >> 12), 0x80 | ((code >> 6) & 63), 0x80 | (code & 63));
    else {
      bytes.push(0xf0 | (code >> 18), 0x80 | ((code >> 12) & 63), 0x80 | ((code >> 6) & 63), 0x80 | (code & 63));
    }
  }
  return bytes;
}

/**
 * The canonical bytes of text, or of a whole number of 64 bits.
 * @param {string | bigint} item
 * @returns {Uint8Array}
 */
function encodeItem(item) {
  if (typeof item === "string") return Uint8Array.from([0x73, ...utf8(item)]);
  const bytes = new Uint8Array(9);
  bytes[0] = item < 0n ? 0x6e : 0x75;
  new DataView(bytes.buffer).setBigUint64(1, wrapped(item), true);
  return bytes;
}

/**
 * Bytes as 64-bit words, filled up with zeros to blocks of a size.
 * @param {Uint8Array} bytes
 * @param {number} block
 * @returns {BigUint64Array}
 */
function wordsOf(bytes, block) {
  const padded = new Uint8Array(Math.ceil(bytes.length / block) * block);
  padded.set(bytes);
  return new BigUint64Array(padded.buffer);
}

/**
 * @param {bigint} word
 * @param {bigint} bits
 * @returns {bigint}
 */
function rotateLeft(word, bits) {
  return wrapped((word << bits) | (word >> (64n - bits)));
}

/**
 * The first 64 bits of MurmurHash3 (x64, 128-bit variant, seed 0).
 * @param {Uint8Array} bytes
 * @returns {bigint}
 */
function murmur3(bytes) {
  const words = wordsOf(bytes, MURMUR_BLOCK);
  const whole = Math.floor(bytes.length / MURMUR_BLOCK);
  const rest = bytes.length % MURMUR_BLOCK;
  let [first, second] = [0n, 0n];
  const scrambledFirst = (/** @type {bigint} */ word) =>
    wrapped(rotateLeft(wrapped(word * MURMUR[0]), 31n) * MURMUR[1]);
  const scrambledSecond = (/** @type {bigint} */ word) =>
    wrapped(rotateLeft(wrapped(word * MURMUR[1]), 33n) * MURMUR[0]);
  for (let block = 0; block < whole; block += 1) {
    first = rotateLeft(first ^ scrambledFirst(words[2 * block]), 27n);
    first = wrapped((first + second) * 5n + MURMUR_ADD[0]);
    second = rotateLeft(second ^ scrambledSecond(words[2 * block + 1]), 31n);
    second = wrapped((second + first) * 5n + MURMUR_ADD[1]);
  }
  if (rest > MURMUR_BLOCK / 2) second ^= scrambledSecond(words[2 * whole + 1]);
  if (rest) first ^= scrambledFirst(words[2 * whole]);
  const size = BigInt(bytes.length);
  first = wrapped((first ^ size) + (second ^ size));
  second = wrapped((second ^ size) + first);
  return wrapped(finished(first) + finished(second));
}

/**
 * @param {bigint} word
 * @returns {bigint}
 */
function finished(word) {
  for (const factor of MURMUR_FINISH) word = wrapped((word ^ (word >> 33n)) * factor);
  return word ^ (word >> 33n);
}

/** BLAKE2b of 8 bytes under one key (RFC 7693); the block of the key is taken in once, for all items. */
class KeyedHash {
  /** @param {Uint8Array} key */
  constructor(key) {
    const start = BigUint64Array.from(BLAKE_START);
    start[0] ^= BigInt(0x01010000 ^ (key.length << 8) ^ BLAKE_DIGEST);
    this.afterKey = compressed(start, wordsOf(key, BLAKE_BLOCK), BLAKE_BLOCK, false);
  }

  /**
   * The digest of one byte or more, as a whole number, the first byte lowest.
   * @param {Uint8Array} bytes
   * @returns {bigint}
   */
  hash(bytes) {
    const words = wordsOf(bytes, BLAKE_BLOCK);
    let state = this.afterKey;
    for (let start = 0; start < bytes.length; start += BLAKE_BLOCK) {
      const end = Math.min(bytes.length, start + BLAKE_BLOCK);
      const block = words.subarray(start / 8, (start + BLAKE_BLOCK) / 8);
      state = compressed(state, block, BLAKE_BLOCK + end, end === bytes.length);
    }
    return state[0];
  }
}

/**
 * The state of BLAKE2b after a block of 16 words; `taken` counts the bytes up to its end.
 * @param {BigUint64Array} state
 * @param {BigUint64Array} block
 * @param {number} taken
 * @param {boolean} isLast
 * @returns {BigUint64Array}
 */
function compressed(state, block, taken, isLast) {
  const mixed = BigUint64Array.from([...state, ...BLAKE_START]);
  mixed[12] ^= BigInt(taken);
  if (isLast) mixed[14] = ~mixed[14];
  for (let round = 0; round < BLAKE_ROUNDS; round += 1) {
    const order = BLAKE_ORDER[round % BLAKE_ORDER.length];
    BLAKE_MIXED.forEach((places, number) => {
      stirInto(mixed, places, block[order[2 * number]], block[order[2 * number + 1]]);
    });
  }
  return state.map((word, place) => word ^ mixed[place] ^ mixed[place + 8]);
}

/**
 * The function G of BLAKE2b: change four words by two of the block.
 * @param {BigUint64Array} mixed
 * @param {number[]} places
 * @param {bigint} first
 * @param {bigint} second
 */
function stirInto(mixed, [a, b, c, d], first, second) {
  for (const [word, turnD, turnB] of [
    [first, 32n, 40n],
    [second, 48n, 1n],
  ]) {
    mixed[a] += mixed[b] + word;
    mixed[d] = rotateLeft(mixed[d] ^ mixed[a], turnD);
    mixed[c] += mixed[d];
    mixed[b] = rotateLeft(mixed[b] ^ mixed[c], turnB);
  }
}

/**
 * A random-looking word for a fingerprint, by the two keys of a row.
 * @param {bigint} fingerprint
 * @param {bigint} first
 * @param {bigint} second
 * @returns {bigint}
 */
function mix(fingerprint, first, second) {
  return avalanche(wrapped(avalanche(wrapped(fingerprint * ODD + first)) + second));
}

/**
 * @param {bigint} word
 * @returns {bigint}
 */
function avalanche(word) {
  word = wrapped((word ^ (word >> 30n)) * AVALANCHE[0]);
  word = wrapped((word ^ (word >> 27n)) * AVALANCHE[1]);
  return word ^ (word >> 31n);
}

/**
 * What a table of `depth` rows says of a fingerprint: its counter in each row, times its sign if there are signs.
 * @param {Float64Array} counters row after row
 * @param {BigUint64Array} rowKeys two for each row
 * @param {bigint} fingerprint
 * @param {{depth: number, width: number, hasSigns: boolean}} table
 * @returns {number[]}
 */
function readRows(counters, rowKeys, fingerprint, { depth, width, hasSigns }) {
  const columns = BigInt(width);
  return Array.from({ length: depth }, (_, row) => {
    const mixed = mix(fingerprint, rowKeys[2 * row], rowKeys[2 * row + 1]);
    const counter = counters[row * width + Number(((mixed >> 32n) * columns) >> 32n)];
    return hasSigns && !(mixed & 1n) ? -counter : counter;
  });
}
