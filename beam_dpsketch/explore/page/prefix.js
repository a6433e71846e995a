// Answers of a prefix tree: each level counts the first bytes of every item, and its end once it is over.
"use strict";

const END_SYMBOL = 256;

/** A released tree over the bytes of text or byte strings. */
class PrefixReader {
  /** @param {any} reading */
  constructor(reading) {
    /** @type {string[]} */
    this.itemTypes = [reading.domain.type];
    /** @type {string[] | null} */
    this.items = null;
    /** @type {{type: string, max_bytes: number}} */
    this.domain = reading.domain;
    this.table = { depth: reading.depth, width: reading.width, hasSigns: true };
    this.root = decodeArray(reading.root)[0];
    this.extensionKeys = decodeArray(reading.extension_keys);
    this.rowKeys = decodeArray(reading.row_keys);
    this.counters = decodeArray(reading.counters);
    this.margin = reading.margin;
  }

  /**
   * @param {string} text
   * @returns {ItemAnswer}
   */
  interval(text) {
    const { data, truncated } = itemBytes(text, this.domain);
    let [prefix, last, sum] = [this.root, NaN, 0];
    for (let level = 0; level < this.domain.max_bytes; level += 1) {
      const isOver = !truncated && level >= data.length;
      prefix = this.extended(prefix, isOver ? END_SYMBOL : data[level]);
      last = this.read(level, prefix);
      if (isOver) sum += last;
    }
    const averaged = truncated ? 1 : this.domain.max_bytes - data.length;
    const estimate = truncated ? last : sum / averaged;
    const margin = this.margin / Math.sqrt(averaged);
    return { estimate, lower: estimate - margin, upper: estimate + margin, item: text, truncated };
  }

  /**
   * The hash of a prefix and one symbol more.
   * @param {bigint} prefix
   * @param {number} symbol
   * @returns {bigint}
   */
  extended(prefix, symbol) {
    return mix(wrapped(prefix + BigInt(symbol + 1) * ODD), this.extensionKeys[0], this.extensionKeys[1]);
  }

  /**
   * The median over the rows of a level.
   * @param {number} level
   * @param {bigint} prefix
   * @returns {number}
   */
  read(level, prefix) {
    const { depth, width } = this.table;
    const counters = this.counters.subarray(level * depth * width, (level + 1) * depth * width);
    const rowKeys = this.rowKeys.subarray(2 * level * depth, 2 * (level + 1) * depth);
    return middleOf(readRows(counters, rowKeys, prefix, this.table));
  }
}
