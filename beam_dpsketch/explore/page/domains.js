// Ordered domains: positions of values that a reader types, and values as text, for each kind of domain.
"use strict";

/**
 * @typedef {object} OrderedDomain
 * @property {bigint} size how many values there are
 * @property {boolean} isNumeric whether values are numbers
 * @property {(text: string) => bigint} parse the position of a typed value, clamped to the ends; or a Refusal
 * @property {(position: bigint) => string} show the value at a position, as text
 * @property {(position: bigint) => number} axis where a value lies on an axis: times in milliseconds since 1970
 */

const TIME = new RegExp(
  "^([0-9]{4})(-?)([0-9]{2})\\2([0-9]{2})" +
    "(?:[Tt ]([0-9]{2})(?::?([0-9]{2})(?::?([0-9]{2})(?:\\.([0-9]{1,6}))?)?)?([Zz]|[-+][0-9]{2}(?::?[0-9]{2})?)?)?$",
);
const PERHAPS_A_DATE = /^([0-9]{4}|[0-9]{8})$/;
const PER_SECOND = 1000000n;
const FIRST_TIME = -62135596800000000n; // the beginning of the year 1, in microseconds since 1970
const LAST_TIME = 253402300799999999n; // the end of the year 9999

/**
 * Return a float, which may be infinite only if it is written so; null for other text.
 * @param {string} text
 * @returns {number | null}
 */
function readReal(text) {
  if (text === "inf" || text === "-inf") {
    return text === "inf" ? Infinity : -Infinity;
  }
  const number = readNumber(text);
  return number === null || !Number.isFinite(Number(number)) ? null : Number(number);
}

/**
 * Return an address as a number; null for other text.
 * @param {string} text
 * @returns {bigint | null}
 */
function readAddress(text) {
  if (/^[0-9]+$/.test(text)) {
    return BigInt(text) < 1n << 32n ? BigInt(text) : null;
  }
  const parts = text.split(".");
  const isByte = parts.every((part) => /^(0|[1-9][0-9]{0,2})$/.test(part) && Number(part) < 256);
  return isByte && parts.length === 4 ? parts.reduce((sum, part) => (sum << 8n) + BigInt(part), 0n) : null;
}

/**
 * Return a time in ISO 8601, without a zone in UTC, or in seconds, as microseconds since 1970; null for other text.
 * @param {string} text
 * @returns {bigint | null}
 */
function readTime(text) {
  if (PERHAPS_A_DATE.test(text)) {
    return null;
  }
  const written = TIME.exec(text);
  const micros = written ? microsOfCalendar(written) : microsOfSeconds(readNumber(text));
  return micros === null || micros < FIRST_TIME || micros > LAST_TIME ? null : micros;
}

/**
 * @param {RegExpExecArray} written what TIME found
 * @returns {bigint | null}
 */
function microsOfCalendar(written) {
  const [year, month, day, hour, minute, second] = [1, 3, 4, 5, 6, 7].map((place) => Number(written[place] || "0"));
  const zone = /^([-+])([0-9]{2}):?([0-9]{2})?$/.exec(written[9] || "");
  const offset = zone ? Number(`${zone[1]}1`) * (Number(zone[2]) * 60 + Number(zone[3] || "0")) : 0;
  const date = new Date(0);
  date.setUTCFullYear(year, month - 1, day);
  const isDay = year > 0 && date.getUTCMonth() === month - 1 && date.getUTCDate() === day;
  if (!isDay || hour > 23 || minute > 59 || second > 59 || Math.abs(offset) >= 24 * 60) {
    return null;
  }
  const seconds = date.getTime() / 1000 + hour * 3600 + (minute - offset) * 60 + second;
  return BigInt(seconds) * PER_SECOND + BigInt((written[8] || "").padEnd(6, "0"));
}

/**
 * Return seconds in microseconds, rounded as Python's `timedelta` rounds them.
 * @param {bigint | number | null} seconds
 * @returns {bigint | null}
 */
function microsOfSeconds(seconds) {
  if (typeof seconds === "number") {
    const whole = Math.trunc(seconds);
    const rest = roundHalfEven((seconds - whole) * 1e6);
    return Number.isFinite(seconds) ? BigInt(whole) * PER_SECOND + BigInt(rest) : null;
  }
  return seconds === null ? null : seconds * PER_SECOND;
}

/**
 * @param {number} number
 * @returns {number}
 */
function roundHalfEven(number) {
  const below = Math.floor(number);
  const rest = number - below;
  return rest > 0.5 || (rest === 0.5 && below % 2 !== 0) ? below + 1 : below;
}

/**
 * Return the shortest text that reads as this float, with a point as Python writes it.
 * @param {number} number
 * @returns {string}
 */
function showReal(number) {
  return Number.isInteger(number) && Math.abs(number) < 1e16 ? number.toFixed(1) : String(number);
}

/**
 * Return a time in UTC as ISO 8601 text, with a fraction of a second only where it has one.
 * @param {bigint} micros since 1970
 * @returns {string}
 */
function showTime(micros) {
  const inSecond = ((micros % PER_SECOND) + PER_SECOND) % PER_SECOND;
  const whole = new Date(Number((micros - inSecond) / 1000n)).toISOString().slice(0, 19);
  return `${whole}${inSecond ? `.${String(inSecond).padStart(6, "0")}` : ""}Z`;
}

/**
 * @template {bigint | number} T
 * @param {T} value
 * @param {T} low
 * @param {T} high
 * @returns {T}
 */
function clamp(value, low, high) {
  return value < low ? low : value > high ? high : value;
}

/**
 * Return all values of a grid of equal ratios, ascending, made of whole numbers as Python makes them.
 * @param {any} reading
 * @returns {number[]}
 */
function logarithmicGrid(reading) {
  const [numerator, denominator] = [BigInt(reading.numerator), BigInt(reading.denominator)];
  const most = 10n ** BigInt(reading.digits);
  const found = [reading.low];
  let exact = BigInt(reading.exact);
  // A value is exact / 2^shift; times 10^power it has the digits that are kept before the point.
  let power = reading.digits - Math.floor(Math.log10(reading.low));
  let [up, down, limit] = [0n, 0n, 0n];
  const scale = () => {
    up = (10n ** BigInt(Math.max(power, 0))) << BigInt(Math.max(-reading.shift, 0));
    down = (10n ** BigInt(Math.max(-power, 0))) << BigInt(Math.max(reading.shift, 0));
    limit = most * down;
  };
  scale();
  for (;;) {
    exact = (exact * numerator) / denominator;
    let scaled = exact * up;
    while (scaled >= limit) {
      power -= 1;
      scale();
      scaled = exact * up;
    }
    const digits = scaled / down;
    const twice = 2n * (scaled - digits * down);
    const rounded = digits + (twice > down || (twice === down && digits % 2n === 1n) ? 1n : 0n);
    const value = Number(`${rounded}e${-power}`);
    if (value >= reading.high) {
      found.push(reading.high);
      return found;
    }
    if (value > found[found.length - 1]) {
      found.push(value);
    }
  }
}

/**
 * @param {(text: string) => any} read
 * @param {any} reading
 * @returns {(text: string) => any}
 */
function orRefuse(read, reading) {
  return (text) => {
    const value = read(text);
    if (value === null) {
      const asked = text.trim() === "" ? "type such a value" : `give such a value in place of "${text}"`;
      throw new Refusal(`This release is about ${reading.parsed}: ${asked}.`);
    }
    return value;
  };
}

/** @type {Record<string, (reading: any, size: bigint) => Omit<OrderedDomain, "size">>} */
const DOMAINS = {
  integer: (reading, size) => {
    const [low, read] = [BigInt(reading.low), orRefuse(readWhole, reading)];
    return {
      isNumeric: true,
      parse: (text) => clamp(read(text) - low, 0n, size - 1n),
      show: (position) => String(low + position),
      axis: (position) => Number(low + position),
    };
  },

  float: (reading) => {
    const { low, high, step, decimals } = reading;
    const read = orRefuse(readReal, reading);
    const unit = 10 ** (decimals || 0);
    /** @param {bigint} position */
    const value = (position) => {
      const exact = low + Number(position) * step;
      return decimals === null ? exact : roundHalfEven(exact * unit) / unit;
    };
    return {
      isNumeric: true,
      parse: (text) => BigInt(roundHalfEven((clamp(read(text), low, high) - low) / step)),
      show: (position) => showReal(value(position)),
      axis: value,
    };
  },

  log: (reading) => {
    const [grid, read] = [Float64Array.from(logarithmicGrid(reading)), orRefuse(readReal, reading)];
    return {
      isNumeric: true,
      parse: (text) => {
        const number = clamp(read(text), reading.low, reading.high);
        const above = clamp(firstPlace(grid, number), 1, grid.length - 1);
        return BigInt(number - grid[above - 1] < grid[above] - number ? above - 1 : above);
      },
      show: (position) => showReal(grid[Number(position)]),
      axis: (position) => grid[Number(position)],
    };
  },

  ipv4: (reading) => ({
    isNumeric: false,
    parse: orRefuse(readAddress, reading),
    show: (position) => [24n, 16n, 8n, 0n].map((bits) => (position >> bits) & 255n).join("."),
    axis: Number,
  }),

  timestamp: (reading) => {
    const [start, end, step] = [reading.start, reading.end, reading.step].map(BigInt);
    const read = orRefuse(readTime, reading);
    return {
      isNumeric: false,
      parse: (text) => (clamp(read(text), start, end) - start) / step,
      show: (position) => showTime(start + position * step),
      axis: (position) => Number(start + position * step) / 1000,
    };
  },
};

/**
 * Return a domain from what Python says of it.
 * @param {any} reading
 * @returns {OrderedDomain}
 */
function makeDomain(reading) {
  const size = BigInt(reading.size);
  return { size, ...DOMAINS[reading.type](reading, size) };
}
