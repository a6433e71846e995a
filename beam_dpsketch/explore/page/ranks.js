// Ranks from the weights of pieces of a domain: monotone, between 0 and the total, with bounds.
"use strict";

/** @typedef {{estimate: bigint, lower: bigint, upper: bigint}} PositionEstimate */

/**
 * How certain ranks are before they are made monotone.
 * @typedef {object} RankVariances
 * @property {(position: bigint, totalShare: number) => number} rankVariance of rank(position) - totalShare * total
 * @property {(low: bigint, high: bigint) => number} rangeVariance of rank(high) - rank(low), for low <= high
 */

/** @typedef {{starts: BigUint64Array, lengths: Float64Array, weights: Float64Array}} Pieces */

/** What all releases of ranks answer, by positions in their domain. */
class Ranks {
  /**
   * @param {any} reading
   * @param {Pieces} pieces in order
   * @param {RankVariances} variances
   */
  constructor(reading, { starts, lengths, weights }, variances) {
    this.domain = makeDomain(reading.domain);
    this.starts = starts;
    this.lengths = lengths;
    this.variances = variances;
    /** @type {number} */
    this.deviations = reading.deviations;
    /** @type {number | null} */
    this.knownTotal = reading.known_total;
    this.fitted = cumulated(weights);
    const count = weights.length;
    this.total = this.knownTotal === null ? Math.max(0, this.fitted[count]) : this.knownTotal;
    this.cumulated = isotonic(this.fitted).map((rank) => clamp(rank, 0, this.total));
    this.cumulated[0] = 0;
    this.cumulated[count] = this.total;
  }

  /**
   * How much weight is at or below a position.
   * @param {bigint} position
   * @returns {Estimate}
   */
  rank(position) {
    const top = this.knownTotal === null ? Infinity : this.knownTotal;
    const centre = this.interpolated(this.fitted, position);
    return clipped(this.rankAt(position), this.margin(position, 0), top, centre);
  }

  /**
   * The share of the weight at or below a position; 1 where the total is 0.
   * @param {bigint} position
   * @returns {Estimate}
   */
  cdf(position) {
    const share = this.total > 0 ? clamp(this.rankAt(position) / this.total, 0, 1) : 1;
    return clipped(share, this.margin(position, share) / Math.max(this.total, 1), 1, share);
  }

  /**
   * The first position whose rank is at least a share of the total.
   * @param {number} share
   * @returns {PositionEstimate}
   */
  quantile(share) {
    if (!(share >= 0 && share <= 1)) {
      throw new Refusal(`A share is from 0 to 1, as 0.95 for 95 %, and not ${share}.`);
    }
    const rank = share * this.total;
    const middle = this.positionAt(rank);
    // A lower value is the quantile if its rank is high enough, a higher one if the rank before it is too low.
    let below = this.margin(positionBefore(middle), share);
    let above = this.margin(middle, share);
    // Ranks may be less certain where the bounds came to lie, as in a long flat tail, than at the estimate.
    below = Math.max(below, this.margin(positionBefore(this.positionAt(Math.max(rank - below, 0))), share));
    above = Math.max(above, this.margin(this.positionAt(rank + above), share));
    const lower = this.positionAt(Math.max(rank - below, 0));
    return { estimate: middle, lower, upper: this.positionAt(rank + above) };
  }

  /**
   * How much weight lies from a position to another one, both included.
   * @param {bigint} low
   * @param {bigint} high
   * @returns {Estimate}
   */
  range(low, high) {
    if (low > high) {
      const [first, second] = [low, high].map((position) => this.domain.show(position));
      throw new Refusal(`A range begins with its lower end, and ${first} is above ${second}: swap them.`);
    }
    const margin =
      low === 0n ? this.margin(high, 0) : this.toMargin(this.variances.rangeVariance(positionBefore(low), high));
    const centre = this.between(this.fitted, low, high);
    return clipped(this.between(this.cumulated, low, high), margin, Infinity, centre);
  }

  /**
   * The weight of a single position.
   * @param {bigint} position
   * @returns {Estimate}
   */
  weight(position) {
    const { lower, upper } = this.range(position, position);
    return { estimate: clamp(this.fittedWeight(position), lower, upper), lower, upper };
  }

  /**
   * The fitted weight of a position, which is closer for heavy values than differences of monotone ranks.
   * @param {bigint} position
   * @returns {number}
   */
  fittedWeight(position) {
    return Math.max(this.between(this.fitted, position, position), 0);
  }

  /**
   * @param {bigint} position
   * @returns {number}
   */
  rankAt(position) {
    return this.interpolated(this.cumulated, position);
  }

  /**
   * The first position whose rank is at least this.
   * @param {number} rank
   * @returns {bigint}
   */
  positionAt(rank) {
    const node = Math.min(firstPlace(this.cumulated.subarray(1), rank), this.starts.length - 1);
    const length = this.lengths[node];
    const above = rank - this.cumulated[node];
    const weight = this.cumulated[node + 1] - this.cumulated[node];
    const share = weight > 0 ? clamp(above / weight, 0, 1) : Number(above > 0);
    const steps = clamp(Math.ceil(share * length) - 1, 0, length - 1);
    const last = this.domain.size - 1n - this.starts[node];
    return this.starts[node] + clamp(BigInt(steps), 0n, last);
  }

  /**
   * @param {Float64Array} ranks at the ends of pieces
   * @param {bigint} position
   * @returns {number}
   */
  interpolated(ranks, position) {
    const node = firstPlace(this.starts, position + 1n) - 1;
    const share = (Number(position - this.starts[node]) + 1) / this.lengths[node];
    return ranks[node] + share * (ranks[node + 1] - ranks[node]);
  }

  /**
   * @param {Float64Array} ranks
   * @param {bigint} low
   * @param {bigint} high
   * @returns {number}
   */
  between(ranks, low, high) {
    return this.interpolated(ranks, high) - (low === 0n ? 0 : this.interpolated(ranks, low - 1n));
  }

  /**
   * @param {bigint} position
   * @param {number} totalShare
   * @returns {number}
   */
  margin(position, totalShare) {
    return this.toMargin(this.variances.rankVariance(position, totalShare));
  }

  /**
   * @param {number} variance
   * @returns {number}
   */
  toMargin(variance) {
    return this.deviations * Math.sqrt(Math.max(variance, 0));
  }
}

/**
 * @param {bigint} position
 * @returns {bigint}
 */
function positionBefore(position) {
  return position > 0n ? position - 1n : 0n;
}

/**
 * Return an estimate with bounds in [0, top], around a better centre, between which the estimate lies.
 * @param {number} middle
 * @param {number} margin
 * @param {number} top
 * @param {number} centre
 * @returns {Estimate}
 */
function clipped(middle, margin, top, centre) {
  const [lower, upper] = [Math.min(centre - margin, middle), Math.max(centre + margin, middle)];
  return { estimate: middle, lower: clamp(lower, 0, top), upper: clamp(upper, 0, top) };
}

/**
 * Return the first place of an ascending array whose number is at least this; its length if there is none.
 * @template {bigint | number} T
 * @param {{readonly length: number, readonly [place: number]: T}} ascending
 * @param {T} wanted
 * @returns {number}
 */
function firstPlace(ascending, wanted) {
  let [low, high] = [0, ascending.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (ascending[middle] < wanted) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

/**
 * Return 0 and the sums of the first numbers.
 * @param {Float64Array} numbers
 * @returns {Float64Array}
 */
function cumulated(numbers) {
  const sums = new Float64Array(numbers.length + 1);
  for (let place = 0; place < numbers.length; place += 1) {
    sums[place + 1] = sums[place] + numbers[place];
  }
  return sums;
}

/**
 * Return the non-decreasing sequence nearest in squares (pool adjacent violators).
 * @param {Float64Array} values
 * @returns {Float64Array}
 */
function isotonic(values) {
  const [sums, sizes] = [new Float64Array(values.length), new Int32Array(values.length)];
  let pools = 0;
  for (const value of values) {
    let [sum, size] = [value, 1];
    while (pools > 0 && sums[pools - 1] * size >= sum * sizes[pools - 1]) {
      pools -= 1;
      sum += sums[pools];
      size += sizes[pools];
    }
    sums[pools] = sum;
    sizes[pools] = size;
    pools += 1;
  }
  const found = new Float64Array(values.length);
  for (let pool = 0, place = 0; pool < pools; place += sizes[pool], pool += 1) {
    found.fill(sums[pool] / sizes[pool], place, place + sizes[pool]);
  }
  return found;
}
