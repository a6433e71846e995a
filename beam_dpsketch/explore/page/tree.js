// Releases of ranks by a tree of sketches: the pieces of their ranks, and the variances of sums of node weights.
"use strict";

/** Variances of sums of node weights, which are independent, but for those of a factor as the coarsest level. */
class TreeVariances {
  /**
   * @param {TreeLevel[]} levels
   * @param {PartialRanks | null} joint
   * @param {boolean} knownTotal
   * @param {bigint} last the last position of the domain
   */
  constructor(levels, joint, knownTotal, last) {
    this.levels = levels;
    this.joint = joint;
    this.last = last;
    this.knownTotal = knownTotal;
  }

  /**
   * @param {bigint} position
   * @param {number} totalShare
   * @returns {number}
   */
  rankVariance(position, totalShare) {
    const path = new TreePath(this.levels, position, this.last);
    let variance = 0;
    for (let depth = path.depth; depth > 0; depth -= 1) {
      variance += path.climb(this.levels[depth], depth);
    }
    if (this.joint !== null) {
      return variance + this.joint.rankVariance(path.nodes[0], path.part, totalShare);
    }
    return variance + this.topVariance(...path.sums(this.levels[0], 0), totalShare);
  }

  /**
   * @param {bigint} low
   * @param {bigint} high
   * @returns {number}
   */
  rangeVariance(low, high) {
    const [lower, upper] = [low, high].map((position) => new TreePath(this.levels, position, this.last));
    let variance = 0;
    for (let depth = Math.max(lower.depth, upper.depth); depth > 0; depth -= 1) {
      const level = this.levels[depth];
      if (meets(level, depth, lower, upper)) {
        const [first, second] = sumsBetween(level, depth, lower, upper);
        const group = level.group(upper.nodes[depth]);
        variance += second - first ** 2 / group;
        [lower.part, upper.part] = [0, first / group];
      } else {
        variance += lower.climb(level, depth) + upper.climb(level, depth);
      }
    }
    if (this.joint !== null) {
      return variance + this.joint.rangeVariance(lower.nodes[0], lower.part, upper.nodes[0], upper.part);
    }
    return variance + this.topVariance(...sumsBetween(this.levels[0], 0, lower, upper), 0);
  }

  /**
   * The part of the coarsest level, whose nodes sum to the total.
   * @param {number} first
   * @param {number} second
   * @param {number} totalShare
   * @returns {number}
   */
  topVariance(first, second, totalShare) {
    const { cumulated: sums } = this.levels[0];
    const everything = sums[sums.length - 1];
    if (this.knownTotal) {
      return second - first ** 2 / everything;
    }
    return second - 2 * totalShare * first + totalShare ** 2 * everything;
  }
}

/**
 * Return whether two paths have nodes with the same parent on a level.
 * @param {TreeLevel} level
 * @param {number} depth
 * @param {TreePath} lower
 * @param {TreePath} upper
 * @returns {boolean}
 */
function meets(level, depth, lower, upper) {
  const [low, high] = [lower, upper].map((path) => (depth > path.depth ? NaN : level.groupStart(path.nodes[depth])));
  return low === high;
}

/**
 * Return the sums of coefficient * variance and coefficient^2 * variance over the nodes between two paths that meet.
 * @param {TreeLevel} level
 * @param {number} depth
 * @param {TreePath} lower
 * @param {TreePath} upper
 * @returns {[number, number]}
 */
function sumsBetween(level, depth, lower, upper) {
  const [low, high] = [lower.nodes[depth], upper.nodes[depth]];
  if (low === high) {
    const difference = upper.part - lower.part;
    return [difference * level.variances[high], difference ** 2 * level.variances[high]];
  }
  const between = level.cumulated[high] - level.cumulated[low + 1];
  const rest = 1 - lower.part;
  return [
    rest * level.variances[low] + between + upper.part * level.variances[high],
    rest ** 2 * level.variances[low] + between + upper.part ** 2 * level.variances[high],
  ];
}

/**
 * Return the nodes without children, in order, and their variances.
 * @param {TreeLevel[]} levels
 * @param {bigint} size of the domain
 * @returns {Pieces & {variances: Float64Array}}
 */
function piecesOf(levels, size) {
  const count = levels.reduce((sum, level) => sum + level.weights.length - level.expanded.length, 0);
  const [lengths, weights, variances] = [1, 2, 3].map(() => new Float64Array(count));
  const starts = new BigUint64Array(count);
  let piece = 0;
  /** @type {(depth: number, node: number, id: bigint) => void} */
  const visit = (depth, node, id) => {
    const { order, shift, weights: own } = levels[depth];
    if (order[node] >= 0) {
      const { siblings, mask, weights: all } = levels[depth + 1];
      const first = order[node] * siblings;
      for (let child = 0; child < Math.min(siblings, all.length - first); child += 1) {
        visit(depth + 1, first + child, id * (mask + 1n) + BigInt(child));
      }
      return;
    }
    const [start, most] = [id << BigInt(shift), 1n << BigInt(shift)];
    starts[piece] = start;
    lengths[piece] = Number(start + most > size ? size - start - 1n : most - 1n) + 1;
    weights[piece] = own[node];
    variances[piece] = levels[depth].variances[node];
    piece += 1;
  };
  levels[0].weights.forEach((_, node) => visit(0, node, BigInt(node)));
  return { starts, lengths, weights, variances };
}

/** A release of ranks by a tree of sketches. */
class TreeReader extends Ranks {
  /** @param {any} reading */
  constructor(reading) {
    const levels = reading.levels.map((/** @type {any} */ level, /** @type {number} */ depth) => {
      return new TreeLevel(level, depth === 0);
    });
    for (let depth = levels.length - 1; depth >= 0; depth -= 1) {
      levels[depth].fit(levels[depth + 1]);
    }
    const [isKnown, size] = [reading.known_total !== null, BigInt(reading.domain.size)];
    const joint = reading.factor && new PartialRanks(new FactorVariances(reading.factor, isKnown));
    const pieces = piecesOf(levels, size);
    super(reading, pieces, new TreeVariances(levels, joint, isKnown, size - 1n));
    this.nodeVariances = pieces.variances;
    this.leaves = new TreeLeaves(reading.leaves);
  }

  /** A value inside a node that was not expanded has what its leaf says. @param {bigint} low @param {bigint} high */
  range(low, high) {
    const [found, node] = [super.range(low, high), this.piece(low)];
    const margin = this.deviations.two_sided * Math.sqrt(this.leaves.variance);
    const most = Math.max(this.weights[node], 0) + this.deviations.inside * Math.sqrt(this.nodeVariances[node]);
    if (low !== high || this.lengths[node] === 1 || margin >= most) return found;
    const own = this.leaves.weight(low);
    return this.within(found.estimate, [own - margin, own + margin]);
  }

  /** @param {bigint} position */
  fittedWeight(position) {
    const node = this.piece(position);
    if (this.lengths[node] === 1) return super.fittedWeight(position);
    const [own, around] = [this.leaves.weight(position), Math.max(this.weights[node], 0)];
    const [variance, ofNode] = [this.leaves.variance, this.nodeVariances[node]];
    return Math.max(own > around ? (around * variance + own * ofNode) / (variance + ofNode) : own, 0);
  }
}
