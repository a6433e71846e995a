// The square-root factor over the values of a domain, and the variances of ranks, values and ranges of its rows.
"use strict";

const KNOTS = 32;

/** @type {Map<number, Toeplitz>} */
const FACTORS = new Map();

/**
 * Return the factor over as many values, which is worked out once.
 * @param {any} reading
 * @returns {Toeplitz}
 */
function factorOf(reading) {
  let factor = FACTORS.get(reading.size);
  if (factor === undefined) {
    factor = new Toeplitz(reading);
    FACTORS.set(reading.size, factor);
  }
  return factor;
}

/**
 * Rows are y = L diag(g) h + z, so h = diag(1 / g) L^-1 y. Variances here are those where z has a variance of 1.
 *
 * Row j counts p_(i-j) / g_i in rank i, where p are the sums of the first coefficients of L^-1. For each step s of the
 * gains up to i, it counts p_(s-1-j) (1 / g_(s-1) - 1 / g_s) more; p_k is 0 for k below 0.
 */
class Toeplitz {
  /** @param {any} reading */
  constructor(reading) {
    /** @type {number} */
    this.size = reading.size;
    const [values, lengths] = [decodeArray(reading.gains.values), decodeArray(reading.gains.lengths)];
    /** The first value of each run of equal gains. */
    this.starts = cumulated(lengths).subarray(0, lengths.length);
    /** What a value of each run counts: 1 / g. */
    this.parts = Float64Array.from(values, (gain) => 1 / gain);
    this.inverse = inverseSeries(spreadRuns(reading.coefficients, reading.size));
    this.sums = cumulated(this.inverse).subarray(1);
    this.squaredSums = cumulated(this.sums.map((sum) => sum * sum)).subarray(1);
    this.squaredInverse = cumulated(this.inverse.map((each) => each * each)).subarray(1);
    this.totalCovariances = this.covariancesWithTotal();
    /** @type {{places: number[], shared: number[], squared: number}[]} */
    this.knots = [];
    /** What rows count at the steps up to a run, which the knots of later runs begin with. */
    this.before = { run: 0, weights: new Float64Array(this.size) };
  }

  /**
   * The run of equal gains that a value is in.
   * @param {number} value
   * @returns {number}
   */
  runOf(value) {
    return firstPlace(this.starts, value + 1) - 1;
  }

  /**
   * The variance of the weight of a value.
   * @param {number} value
   * @returns {number}
   */
  valueVariance(value) {
    return this.squaredInverse[value] * this.parts[this.runOf(value)] ** 2;
  }

  /**
   * The variance of a rank, whose share with the steps before is interpolated as in Python.
   * @param {number} value
   * @returns {number}
   */
  rankVariance(value) {
    const run = this.runOf(value);
    const [start, part] = [this.starts[run], this.parts[run]];
    const { places, shared, squared } = (this.knots[run] = this.knots[run] || this.knotsOf(run));
    const place = firstPlace(places, value);
    return this.squaredSums[value] * part ** 2 + 2 * part * interpolate(places, shared, place, value, start) + squared;
  }

  /**
   * The variance of the weight from a first to a last value, both included.
   * @param {number} first
   * @param {number} last
   * @returns {number}
   */
  rangeVariance(first, last) {
    return sumOfSquares(this.rowWeights(first, last));
  }

  /**
   * How much each row counts in the weight from a first to a last value.
   * @param {number} first
   * @param {number} last
   * @returns {Float64Array}
   */
  rowWeights(first, last) {
    const weights = new Float64Array(last + 1);
    const [run, lastRun] = [this.runOf(first), this.runOf(last)];
    this.addSums(weights, last, this.parts[lastRun]);
    this.addSums(weights, first - 1, -this.parts[run]);
    this.addSteps(weights, run + 1, lastRun);
    return weights;
  }

  /**
   * Add what rows count at the steps from a first to a last run.
   * @param {Float64Array} weights
   * @param {number} firstRun
   * @param {number} lastRun
   */
  addSteps(weights, firstRun, lastRun) {
    for (let run = firstRun; run <= lastRun; run += 1) {
      this.addSums(weights, this.starts[run] - 1, this.parts[run - 1] - this.parts[run]);
    }
  }

  /**
   * Add the sums of L^-1 that end at a value.
   * @param {Float64Array} weights
   * @param {number} end
   * @param {number} part
   */
  addSums(weights, end, part) {
    const sums = this.sums;
    for (let row = 0; row <= end; row += 1) {
      weights[row] += sums[end - row] * part;
    }
  }

  /**
   * What variances of ranks in a run share with the steps before it, at places at growing distances.
   * @param {number} run
   * @returns {{places: number[], shared: number[], squared: number}}
   */
  knotsOf(run) {
    const start = this.starts[run];
    const length = (run + 1 < this.starts.length ? this.starts[run + 1] : this.size) - start;
    if (run < this.before.run) {
      this.before = { run: 0, weights: new Float64Array(this.size) };
    }
    const before = this.before.weights;
    this.addSteps(before, this.before.run + 1, run);
    this.before.run = run;
    const scales = Array.from({ length: KNOTS }, (_, knot) => length ** (knot / (KNOTS - 1)));
    const places = [...new Set(scales.map((scale) => roundHalfEven(scale) - 1 + start))];
    const shared = places.map((place) => {
      let sum = 0;
      for (let row = 0; row < start; row += 1) {
        sum += before[row] * this.sums[place - row];
      }
      return sum;
    });
    return { places, shared, squared: sumOfSquares(before) };
  }

  /**
   * The covariance of each rank with the total, which is the last rank.
   * @returns {Float64Array}
   */
  covariancesWithTotal() {
    const found = multiply(this.inverse, this.rowWeights(0, this.size - 1));
    let [run, sum] = [0, 0];
    return found.map((covariance, value) => {
      run += Number(value === this.starts[run + 1]);
      sum += covariance * this.parts[run];
      return sum;
    });
  }
}

/**
 * Return the number between two places, over the logarithm of the distance from a start.
 * @param {number[]} places
 * @param {number[]} numbers
 * @param {number} place the one that is not before
 * @param {number} at
 * @param {number} start
 * @returns {number}
 */
function interpolate(places, numbers, place, at, start) {
  if (place >= places.length || at === places[place]) {
    return numbers[Math.min(place, places.length - 1)];
  }
  const [low, high, here] = [places[place - 1], places[place], at].map((each) => Math.log(each - start + 1));
  return numbers[place - 1] + ((numbers[place] - numbers[place - 1]) / (high - low)) * (here - low);
}

/**
 * @param {{values: any, lengths: any}} runs
 * @param {number} size
 * @returns {Float64Array}
 */
function spreadRuns(runs, size) {
  const [values, lengths, found] = [decodeArray(runs.values), decodeArray(runs.lengths), new Float64Array(size)];
  for (let run = 0, place = 0; run < values.length; place += lengths[run], run += 1) {
    found.fill(values[run], place, place + lengths[run]);
  }
  return found;
}

/**
 * Return the inverse of a power series, by Newton's iteration.
 * @param {Float64Array} series
 * @returns {Float64Array}
 */
function inverseSeries(series) {
  /** @type {Float64Array} */
  let found = Float64Array.of(1 / series[0]);
  while (found.length < series.length) {
    const size = Math.min(2 * found.length, series.length);
    const error = multiply(found, series.subarray(0, size)).map((each) => -each);
    error[0] += 2;
    found = multiply(found, error);
  }
  return found;
}
