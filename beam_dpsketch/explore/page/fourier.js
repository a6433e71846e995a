// Products of power series, by Fourier transforms.
"use strict";

/** @type {Map<number, {cosines: Float64Array, sines: Float64Array}>} */
const TURNS = new Map();

/**
 * @param {number} size
 * @returns {{cosines: Float64Array, sines: Float64Array}}
 */
function turnsOf(size) {
  let turns = TURNS.get(size);
  if (turns === undefined) {
    const angle = (2 * Math.PI) / size;
    turns = {
      cosines: Float64Array.from({ length: size / 2 }, (_, place) => Math.cos(angle * place)),
      sines: Float64Array.from({ length: size / 2 }, (_, place) => -Math.sin(angle * place)),
    };
    TURNS.set(size, turns);
  }
  return turns;
}

/**
 * Transform complex numbers in place; the size is a power of two.
 * @param {Float64Array} real
 * @param {Float64Array} imaginary
 */
function transform(real, imaginary) {
  const size = real.length;
  for (let place = 1, mirrored = 0; place < size; place += 1) {
    let bit = size >> 1;
    for (; mirrored & bit; bit >>= 1) {
      mirrored ^= bit;
    }
    mirrored ^= bit;
    if (place < mirrored) {
      [real[place], real[mirrored]] = [real[mirrored], real[place]];
      [imaginary[place], imaginary[mirrored]] = [imaginary[mirrored], imaginary[place]];
    }
  }
  for (let half = 1; half < size; half *= 2) {
    const { cosines, sines } = turnsOf(2 * half);
    for (let block = 0; block < size; block += 2 * half) {
      for (let turn = 0; turn < half; turn += 1) {
        const [first, second] = [block + turn, block + turn + half];
        const re = real[second] * cosines[turn] - imaginary[second] * sines[turn];
        const im = real[second] * sines[turn] + imaginary[second] * cosines[turn];
        real[second] = real[first] - re;
        imaginary[second] = imaginary[first] - im;
        real[first] += re;
        imaginary[first] += im;
      }
    }
  }
}

/**
 * Return the first terms of the product of two power series, as many as the second one has.
 *
 * Both are transformed at once, as real and imaginary parts, made equally large so that neither loses digits.
 * @param {Float64Array} first not longer than the second
 * @param {Float64Array} second
 * @returns {Float64Array}
 */
function multiply(first, second) {
  const count = second.length;
  const size = 1 << (32 - Math.clz32(2 * count - 1));
  const scale = Math.sqrt(sumOfSquares(first) / sumOfSquares(second));
  const [real, imaginary] = [new Float64Array(size), new Float64Array(size)];
  real.set(first);
  imaginary.set(second.map((each) => each * scale));
  transform(real, imaginary);
  const [re, im] = [new Float64Array(size), new Float64Array(size)];
  for (let place = 0; place < size; place += 1) {
    const other = (size - place) & (size - 1);
    const [sumRe, differenceRe] = [real[place] + real[other], real[place] - real[other]];
    const [sumIm, differenceIm] = [imaginary[place] + imaginary[other], imaginary[place] - imaginary[other]];
    // Spectra are (sumRe, differenceIm) / 2 and (sumIm, -differenceRe) / 2; conjugated, a transform goes back.
    re[place] = (sumRe * sumIm + differenceIm * differenceRe) / 4;
    im[place] = (sumRe * differenceRe - differenceIm * sumIm) / 4;
  }
  transform(re, im);
  return re.subarray(0, count).map((each) => each / (size * scale));
}

/**
 * @param {Float64Array} numbers
 * @returns {number}
 */
function sumOfSquares(numbers) {
  return numbers.reduce((sum, each) => sum + each * each, 0);
}
