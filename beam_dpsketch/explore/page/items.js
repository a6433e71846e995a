// Answers about items: of a flat sketch, of listed items, and of items that were released with their counts.
"use strict";

/** @typedef {{estimate: number, lower: number, upper: number, item: string, truncated: boolean}} ItemAnswer */

const LEAST_INTEGER = -(2n ** 63n);
const MOST_INTEGER = 2n ** 64n - 1n;
const CUT = 255;

/**
 * The middle of some numbers, or the mean of the two middle ones.
 * @param {number[]} values
 * @returns {number}
 */
function middleOf(values) {
  const ordered = Float64Array.from(values).sort();
  const half = ordered.length >> 1;
  return ordered.length % 2 ? ordered[half] : (ordered[half - 1] + ordered[half]) / 2;
}

/**
 * The median, plus the mean of how far each row is from it, where no row counts for more than the scale.
 * @param {number[]} rows
 * @param {number} scale
 * @returns {number}
 */
function huberMean(rows, scale) {
  const middle = middleOf(rows);
  const sum = rows.reduce((total, row) => total + Math.min(Math.max(row - middle, -scale), scale), 0);
  return middle + sum / rows.length;
}

/** A Count-Min or CountSketch, read by the Huber mean of the rows. */
class FlatReader {
  /** @param {any} reading */
  constructor(reading) {
    this.itemTypes = ["text", "int"];
    /** @type {string[] | null} */
    this.items = null;
    this.counters = decodeArray(reading.counters);
    this.rowKeys = decodeArray(reading.row_keys);
    this.table = { depth: reading.depth, width: reading.width, hasSigns: reading.has_signs };
    const { scale, below, above } = reading;
    this.rule = { scale, below, above };
    const key = Uint8Array.from(readBytes(`0x${reading.item_key}`));
    this.keyed = reading.item_hash === "blake2b" ? new KeyedHash(key) : null;
  }

  /**
   * @param {string} text
   * @param {string} type
   * @returns {ItemAnswer}
   */
  interval(text, type) {
    const item = type === "int" ? this.integer(text) : text;
    const rows = readRows(this.counters, this.rowKeys, this.fingerprint(item), this.table);
    const { scale, below, above } = this.rule;
    const estimate = huberMean(rows, scale);
    return { estimate, lower: estimate - below, upper: estimate + above, item: String(item), truncated: false };
  }

  /**
   * @param {string} text
   * @returns {bigint}
   */
  integer(text) {
    const number = readWhole(text);
    if (number !== null && number >= LEAST_INTEGER && number <= MOST_INTEGER) return number;
    throw new Refusal("Expected a whole number, as 42, of at least -2^63 and less than 2^64.");
  }

  /**
   * @param {string | bigint} item
   * @returns {bigint}
   */
  fingerprint(item) {
    if (this.keyed) return this.keyed.hash(encodeItem(item));
    return typeof item === "string" ? murmur3(encodeItem(item)) : wrapped(item);
  }
}

/** Listed items, each with one counter. Its items are found by their words; by type, where others have the same. */
class ListedReader {
  /** @param {any} reading */
  constructor(reading) {
    /** @type {string[]} */
    this.items = reading.items;
    /** @type {string[]} */
    this.types = reading.item_types;
    this.estimates = decodeArray(reading.estimates);
    this.margin = reading.margin;
    /** @type {Map<string, number>} */
    this.places = new Map();
    this.items.forEach((text, place) => {
      for (const type of ["any", this.types[place]]) {
        const name = this.name(text, type);
        if (!this.places.has(name)) this.places.set(name, place);
      }
    });
    const isTold = new Set(this.items).size === this.items.length;
    this.itemTypes = ["any", ...(isTold ? [] : new Set(this.types))];
  }

  /**
   * @param {string} text
   * @param {string} type
   * @returns {ItemAnswer}
   */
  interval(text, type) {
    const place = this.places.get(this.name(text, type));
    if (place !== undefined) return this.at(place);
    throw new Refusal("This item is not listed. Only listed items were counted, so nothing is known of it.");
  }

  /**
   * The answer about an item by its place in the list.
   * @param {number} place
   * @returns {ItemAnswer}
   */
  at(place) {
    const estimate = this.estimates[place];
    const [lower, upper] = [estimate - this.margin, estimate + this.margin];
    return { estimate, lower, upper, item: this.items[place], truncated: false };
  }

  /**
   * @param {string} text
   * @param {string} type
   * @returns {string}
   */
  name(text, type) {
    return `${type} ${text}`;
  }
}

/** Items that were released with their counts; of others only a limit is known. */
class GroupsReader {
  /** @param {any} reading */
  constructor(reading) {
    /** @type {string[]} */
    this.items = reading.items;
    this.itemTypes = [reading.domain.type];
    this.domain = reading.domain;
    this.ordered = "max_bytes" in reading.domain ? null : makeDomain(reading.domain);
    /** @type {string[]} */
    this.keys = reading.keys;
    this.places = new Map(this.keys.map((key, place) => [key, place]));
    this.estimates = decodeArray(reading.estimates);
    this.margin = reading.margin;
    this.mostUnreleased = reading.most_unreleased ?? Infinity;
  }

  /**
   * @param {string} text
   * @returns {ItemAnswer}
   */
  interval(text) {
    const key = this.ordered ? this.ordered.parse(text).toString(16).padStart(16, "0") : this.keyOf(text);
    const place = this.places.get(key);
    if (place !== undefined) return { ...this.at(place), item: text };
    const truncated = this.isCut(key);
    return { estimate: NaN, lower: 0, upper: this.mostUnreleased, item: text, truncated };
  }

  /**
   * The answer about an item by its place in the list.
   * @param {number} place
   * @returns {ItemAnswer}
   */
  at(place) {
    const estimate = this.estimates[place];
    const [lower, upper] = [estimate - this.margin, estimate + this.margin];
    return { estimate, lower, upper, item: this.items[place], truncated: this.isCut(this.keys[place]) };
  }

  /**
   * The bytes that count, and one that tells how many there are, or that the item is longer.
   * @param {string} text
   * @returns {string}
   */
  keyOf(text) {
    const { data, truncated } = itemBytes(text, this.domain);
    return hexOf([...data, truncated ? CUT : data.length + 1]);
  }

  /**
   * @param {string} key
   * @returns {boolean}
   */
  isCut(key) {
    return this.ordered === null && key.endsWith(hexOf([CUT]));
  }
}
