// The fitted nodes of a tree of sketches, and the way from a position to its root.
"use strict";

/** The fitted nodes of one level; all children of a node are next to each other. */
class TreeLevel {
  /**
   * @param {any} reading
   * @param {boolean} isTop whether all nodes are children of the root
   */
  constructor(reading, isTop) {
    /** @type {Float64Array} */
    this.weights = decodeArray(reading.weights);
    /** @type {number} */
    this.shift = reading.shift;
    this.siblings = isTop ? this.weights.length : 2 ** reading.bits;
    this.mask = (1n << BigInt(reading.bits)) - 1n;
    /** @type {number} */
    this.ownVariance = reading.variance;
    this.variances = new Float64Array(this.weights.length).fill(this.ownVariance);
    /** @type {Int32Array} */
    this.expanded = decodeArray(reading.expanded);
    /** The place of each node among those that were expanded, or -1. */
    this.order = new Int32Array(this.weights.length).fill(-1);
    this.expanded.forEach((node, place) => {
      this.order[node] = place;
    });
    /** @type {Float64Array} */
    this.cumulated = new Float64Array(0);
  }

  /**
   * Take the variances of expanded nodes from those of their children, and add all of them up.
   * @param {TreeLevel | undefined} below
   */
  fit(below) {
    this.expanded.forEach((node, place) => {
      if (below !== undefined) {
        const start = place * below.siblings;
        const ofChildren = below.variances.subarray(start, start + below.siblings).reduce((sum, each) => sum + each, 0);
        this.variances[node] = 1 / (1 / this.ownVariance + 1 / ofChildren);
      }
    });
    this.cumulated = cumulated(this.variances);
  }

  /**
   * The first of the nodes that share a parent with a node.
   * @param {number} node
   * @returns {number}
   */
  groupStart(node) {
    return node - (node % this.siblings);
  }

  /**
   * The variance of the sum of a node and its siblings.
   * @param {number} node
   * @returns {number}
   */
  group(node) {
    const start = this.groupStart(node);
    return this.cumulated[Math.min(start + this.siblings, this.weights.length)] - this.cumulated[start];
  }
}

/** The way from a position to the root, and how much of each node on it is counted. */
class TreePath {
  /**
   * @param {TreeLevel[]} levels
   * @param {bigint} position
   * @param {bigint} last the last position of the domain, where a node may be cut off
   */
  constructor(levels, position, last) {
    let node = Number(position >> BigInt(levels[0].shift));
    this.nodes = [node];
    for (let depth = 0; levels[depth].order[node] >= 0; depth += 1) {
      const below = levels[depth + 1];
      const among = Number((position >> BigInt(below.shift)) & below.mask);
      node = levels[depth].order[node] * below.siblings + among;
      this.nodes.push(node);
    }
    /** The number of the level where the path begins. */
    this.depth = this.nodes.length - 1;
    const inside = (1n << BigInt(levels[this.depth].shift)) - 1n;
    const start = position - (position & inside);
    this.part = (Number(position - start) + 1) / (Number(last - start < inside ? last - start : inside) + 1);
  }

  /**
   * The sums of coefficient * variance and coefficient^2 * variance over the siblings of a level.
   * @param {TreeLevel} level
   * @param {number} depth
   * @returns {[number, number]}
   */
  sums(level, depth) {
    const node = this.nodes[depth];
    const left = level.cumulated[node] - level.cumulated[level.groupStart(node)];
    return [left + this.part * level.variances[node], left + this.part ** 2 * level.variances[node]];
  }

  /**
   * Move up from a level; return the variance of the deviations there. The parent counts with the mean coefficient.
   * @param {TreeLevel} level
   * @param {number} depth
   * @returns {number}
   */
  climb(level, depth) {
    if (depth > this.depth) {
      return 0;
    }
    const [[first, second], group] = [this.sums(level, depth), level.group(this.nodes[depth])];
    this.part = first / group;
    return second - first ** 2 / group;
  }
}

/** What the finest level says of single values. */
class TreeLeaves {
  /** @param {any} reading */
  constructor(reading) {
    this.isExact = reading.is_exact;
    this.averages = reading.averages;
    this.table = { depth: reading.depth, width: reading.width, hasSigns: reading.has_signs };
    /** @type {number} */
    this.variance = reading.variance;
    this.rowKeys = decodeArray(reading.row_keys);
    this.counters = decodeArray(reading.counters);
    this.known = decodeArray(reading.known_nodes);
    this.knownWeights = decodeArray(reading.known_weights);
  }

  /** @param {bigint} position @returns {number} */
  weight(position) {
    if (this.isExact) return this.counters[Number(position)];
    const rows = readRows(this.counters, this.rowKeys, position, this.table);
    const read = this.averages ? rows.reduce((sum, row) => sum + row, 0) / rows.length : middleOf(rows);
    const place = firstPlace(this.known, position);
    return read + (this.known[place] === position ? this.knownWeights[place] : 0);
  }
}
