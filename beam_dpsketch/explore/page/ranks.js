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
    this.weights = weights;
    this.variances = variances;
    /** @type {{two_sided: number, one_sided: number, inside: number, step: number}} */
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
    return this.range(0n, position);
  }

  /**
   * The share of the weight at or below a position; 1 where the total is 0.
   * @param {bigint} position
   * @returns {Estimate}
   */
  cdf(position) {
    const estimate = this.total > 0 ? clamp(this.rankAt(position) / this.total, 0, 1) : 1;
    const [piece, here] = [this.piece(position), this.interpolated(this.fitted, position)];
    const beside = [here - this.fitted[piece], this.fitted[piece + 1] - here];
    const [below, above] = beside.map((each) => (position === this.end(piece) ? 0 : Math.max(each, 0)));
    const margin = this.reach(below + above, this.variances.rankVariance(position, estimate));
    const ends = [-below - margin, above + margin].map((each) => each / Math.max(this.total, 1));
    const [lower, upper] = ends.map((each) => clamp(estimate + each, 0, 1));
    return { estimate, lower, upper };
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
    const [first, last] = [this.piece(low), this.piece(high)];
    const wholeFirst = first + Number(low > this.starts[first]);
    const wholeLast = last - Number(high < this.end(last));
    const [[most, variance], [least, other]] = [this.ofPieces(first, last), this.ofPieces(wholeFirst, wholeLast)];
    const isInside = first === last && wholeFirst > wholeLast;
    const reach = this.reach(most - least, Math.max(variance, other));
    const margin = isInside ? this.deviations.inside * Math.sqrt(variance) : reach;
    const middle = this.between(this.cumulated, low, high);
    return this.within(middle, [Math.min(least - margin, middle), Math.max(most + margin, middle)]);
  }

  /** The fitted weight of some pieces, and its variance; 0 of none. @param {number} first @param {number} last */
  ofPieces(first, last) {
    if (first > last) return [0, 0];
    const [before, end] = [this.end(first - 1), this.end(last)];
    const variance = first ? this.variances.rangeVariance(before, end) : this.variances.rankVariance(end, 0);
    return [this.fitted[last + 1] - this.fitted[first], Math.max(variance, 0)];
  }

  /** How far an interval reaches beyond two estimates, as in Python. @param {number} distance @param {number} variance */
  reach(distance, variance) {
    if (variance <= 0) return 0;
    const [{ two_sided: two, one_sided: one, step }, deviation] = [this.deviations, Math.sqrt(variance)];
    const fall = Math.exp(-Math.max(distance, 0) / deviation / (2 * (two - one)));
    return (one + (two - one) * fall) * deviation + step / 2;
  }

  /** @param {number} middle @param {number[]} ends @returns {Estimate} */
  within(middle, ends) {
    const top = this.knownTotal === null ? Infinity : this.knownTotal;
    const [lower, upper] = ends.map((end) => clamp(end, 0, top));
    return { estimate: clamp(middle, lower, upper), lower, upper };
  }

  /** The number of the piece that a position is in. @param {bigint} position */
  piece(position) {
    return firstPlace(this.starts, position + 1n) - 1;
  }

  /** The last position of a piece. @param {number} piece */
  end(piece) {
    return (piece + 1 < this.starts.length ? this.starts[piece + 1] : this.domain.size) - 1n;
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
    const node = this.piece(position);
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
   * How far a rank may be from a share of the total, if weight is anywhere in a piece by chance.
   * @param {bigint} position
   * @param {number} totalShare
   * @returns {number}
   */
  margin(position, totalShare) {
    const piece = this.piece(position);
    const part = (Number(position - this.starts[piece]) + 1) / this.lengths[piece];
    const spread = Math.max(part * (1 - part), 0) * Math.max(this.weights[piece], 0) ** 2;
    const variance = this.variances.rankVariance(position, totalShare) + spread;
    return this.deviations.two_sided * Math.sqrt(Math.max(variance, 0)) + this.deviations.step / 2;
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
