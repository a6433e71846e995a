// Releases of ranks by a square-root factorization: their weights, and how certain ranks and ranges are.
"use strict";

const CHILD_BITS = 2;
const OPENED_DEVIATIONS = 2;

/** Variances of ranks and ranges of a factor; positions are whole numbers, or bigint. */
class FactorVariances {
  /**
   * @param {any} reading
   * @param {boolean} knownTotal
   */
  constructor(reading, knownTotal) {
    this.factor = factorOf(reading);
    /** @type {number} */
    this.rowVariance = reading.row_variance;
    this.knownTotal = knownTotal;
  }

  /**
   * @param {bigint | number} position
   * @param {number} totalShare
   * @returns {number}
   */
  rankVariance(position, totalShare) {
    const [value, covariances] = [Number(position), this.factor.totalCovariances];
    const [shared, total] = [covariances[value], covariances[this.factor.size - 1]];
    const own = value === this.factor.size - 1 ? total : this.factor.rankVariance(value);
    if (this.knownTotal) {
      return (own - shared * (shared / total)) * this.rowVariance;
    }
    return (own - 2 * totalShare * shared + totalShare ** 2 * total) * this.rowVariance;
  }

  /**
   * @param {bigint | number} lowPosition
   * @param {bigint | number} highPosition
   * @returns {number}
   */
  rangeVariance(lowPosition, highPosition) {
    const [low, high, covariances] = [Number(lowPosition), Number(highPosition), this.factor.totalCovariances];
    if (low === high) {
      return 0;
    }
    const isSingle = high === low + 1;
    const own = isSingle ? this.factor.valueVariance(high) : this.factor.rangeVariance(low + 1, high);
    const shared = this.knownTotal ? (covariances[high] - covariances[low]) ** 2 : 0;
    return (own - shared / covariances[this.factor.size - 1]) * this.rowVariance;
  }
}

/** Variances of ranks in the middle of a value of a factor: of the weight before it, and a part of its own. */
class PartialRanks {
  /** @param {FactorVariances} variances */
  constructor(variances) {
    this.variances = variances;
  }

  /**
   * @param {number} value
   * @param {number} part
   * @param {number} totalShare
   * @returns {number}
   */
  rankVariance(value, part, totalShare) {
    const last = this.variances.factor.size - 1;
    const before = value
      ? this.variances.rankVariance(value - 1, totalShare)
      : totalShare ** 2 * this.variances.rankVariance(last, 0);
    const own = part * (1 - part) ? part * (1 - part) * this.between(value - 1, value) : 0;
    return (1 - part) * before + part * this.variances.rankVariance(value, totalShare) - own;
  }

  /**
   * @param {number} low
   * @param {number} lowPart
   * @param {number} high
   * @param {number} highPart
   * @returns {number}
   */
  rangeVariance(low, lowPart, high, highPart) {
    const first = this.between(low - 1, low);
    if (low === high) {
      return (highPart - lowPart) ** 2 * first;
    }
    const [part, middle, last] = [1 - lowPart, this.between(low, high - 1), this.between(high - 1, high)];
    const [withFirst, withLast] = [this.between(low - 1, high - 1), this.between(low, high)];
    const squares = part ** 2 * first + middle + highPart ** 2 * last;
    const shared = part * (withFirst - first - middle) + highPart * (withLast - middle - last);
    return squares + shared + part * highPart * (this.between(low - 1, high) - withFirst - withLast + middle);
  }

  /**
   * The variance of the difference of the ranks of values; -1 is before the first, and its rank is 0.
   * @param {number} low
   * @param {number} high
   * @returns {number}
   */
  between(low, high) {
    if (low === high) {
      return 0;
    }
    return low < 0 ? this.variances.rankVariance(high, 0) : this.variances.rangeVariance(low, high);
  }
}

/** A release of ranks by a square-root factorization. */
class FactorReader extends Ranks {
  /** @param {any} reading */
  constructor(reading) {
    const weights = decodeArray(reading.weights);
    const starts = new BigUint64Array(weights.length).map((_, place) => BigInt(place));
    const variances = new FactorVariances(reading.factor, reading.known_total !== null);
    super(reading, { starts, lengths: new Float64Array(weights.length).fill(1), weights }, variances);
    /** @type {{bits: number, variance: number}[]} */
    this.blocks = reading.blocks;
    this.rowVariance = variances.rowVariance;
    /** @type {Float64Array | null} */
    this.likely = null;
  }

  /**
   * @param {bigint} position
   * @returns {number}
   */
  fittedWeight(position) {
    this.likely = this.likely || this.likelyWeights();
    return this.likely[Number(position)];
  }

  /**
   * The likely weight of each value: steps of monotone ranks, but even weights in blocks that are not above noise.
   * @returns {Float64Array}
   */
  likelyWeights() {
    const size = this.starts.length;
    const ranks = this.cumulated.map((rank, place) => {
      const below = place ? this.cumulated[place - 1] : 0;
      return below + (rank - below);
    });
    const found = ranks.slice(1).map((rank, value) => Math.max(rank - ranks[value], 0));
    let opened = [0];
    for (const { bits, variance } of this.blocks) {
      const limit = OPENED_DEVIATIONS * Math.sqrt(variance * this.rowVariance);
      const blocks = opened.flatMap((block) => [0, 1, 2, 3].map((child) => block * 2 ** CHILD_BITS + child));
      opened = blocks.filter((block) => {
        const start = block * 2 ** bits;
        const end = Math.min(start + 2 ** bits, size);
        if (start >= size) {
          return false;
        }
        const weighs = this.fitted[end] - this.fitted[start];
        if (!(weighs > limit)) {
          found.fill(Math.max(weighs, 0) / (end - start), start, end);
        }
        return weighs > limit;
      });
    }
    return found;
  }
}
