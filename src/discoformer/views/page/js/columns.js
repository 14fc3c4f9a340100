// Smooth increasing maps u(x) of single columns to the line: bounds, and margins made normal.
//
// The twins of discoformer/columns/bounds.py and margins.py.  A new kind of column adds one class here and one
// entry in `COLUMN_MAPS`.  Every map has `low`, `high`, `forward(x)`, `inverse(u)`, `readCdf(x, inside)` and
// `slope(x)`, which gives log u'(x) and its own derivative by x.

import { erfc, logNdtr, logNdtrInverse, ndtri } from "./special.js";
import { logSumExp } from "./linalg.js";
import { unpack } from "./numbers.js";

/** On a bound, or so near that the slopes would overflow. */
function atBound(distance, nudge) {
  return distance <= 1e-140 * Math.min(nudge, 1);
}

class ColumnMap {
  constructor(numbers) {
    this.low = numbers.low ?? -Infinity;
    this.high = numbers.high ?? Infinity;
  }

  /** A distribution function inside, outside at x: no mass is below the bounds, none above. */
  readCdf(x, inside) {
    if (x <= this.low) return 0;
    return x >= this.high ? 1 : inside;
  }
}

/** u = log(exp(z) - 1) of the distance z to one bound, in units of a scale. */
export class HalfLine extends ColumnMap {
  constructor(numbers) {
    super(numbers);
    this.scale = numbers.scale;
    this.nudge = numbers.nudge;
    this.rising = numbers.rising;
  }

  forward(x) {
    const z = this.distance(x);
    const u = z + Math.log(-Math.expm1(-z));
    return this.rising ? u : -u;
  }

  inverse(u) {
    const v = this.rising ? u : -u;
    const distance = this.scale * (Math.max(v, 0) + Math.log1p(Math.exp(-Math.abs(v))));
    return this.rising ? this.low + distance : this.high - distance;
  }

  slope(x) {
    const z = this.distance(x);
    const rise = -Math.expm1(-z);
    const bend = Math.exp(-z) / (rise * this.scale);
    return [-Math.log(rise) - Math.log(this.scale), this.rising ? -bend : bend];
  }

  readCdf(x, inside) {
    const distance = this.rising ? x - this.low : this.high - x;
    return atBound(distance, this.nudge) ? (this.rising ? 0 : 1) : inside;
  }

  distance(x) {
    const distance = this.rising ? x - this.low : this.high - x;
    return (atBound(distance, this.nudge) ? this.nudge : distance) / this.scale;
  }
}

/** u = log((x - low) / (high - x)). */
export class Interval extends ColumnMap {
  constructor(numbers) {
    super(numbers);
    this.nudgeLow = numbers.nudge_low;
    this.nudgeHigh = numbers.nudge_high;
  }

  forward(x) {
    const [above, below] = this.distances(x);
    return Math.log(above) - Math.log(below);
  }

  inverse(u) {
    const inside = this.low + (this.high - this.low) / (1 + Math.exp(-u));
    return Math.min(Math.max(inside, this.low), this.high);
  }

  slope(x) {
    const [above, below] = this.distances(x);
    return [Math.log(this.high - this.low) - Math.log(above) - Math.log(below), 1 / below - 1 / above];
  }

  readCdf(x, inside) {
    if (atBound(x - this.low, this.nudgeLow)) return 0;
    return atBound(this.high - x, this.nudgeHigh) ? 1 : inside;
  }

  /** From the low bound and from the high one. */
  distances(x) {
    const width = this.high - this.low;
    const [above, below] = [x - this.low, this.high - x];
    if (atBound(above, this.nudgeLow)) return [this.nudgeLow, width - this.nudgeLow];
    if (atBound(below, this.nudgeHigh)) return [width - this.nudgeHigh, this.nudgeHigh];
    return [above, below];
  }
}

/** u = (x - center) / scale. */
export class Scaling extends ColumnMap {
  constructor(numbers) {
    super(numbers);
    this.center = numbers.center;
    this.scale = numbers.scale;
  }

  forward(x) {
    return (x - this.center) / this.scale;
  }

  inverse(u) {
    return this.center + this.scale * u;
  }

  slope() {
    return [-Math.log(this.scale), 0];
  }
}

const SERIES = 1e-4; // squared distances over nu below which the transform is read off its series
const LEAST = 1e-290; // probabilities below this are told by their logarithms
const MOST_KEPT = 4096; // places of a map
const ROUNDS = 80; // of safeguarded Newton steps; a handful are needed

/** The normal scores Phi^-1(F(x)) of a column under a mixture of Wallace's twins of Student's t. */
export class NormalScores extends ColumnMap {
  constructor(numbers) {
    super(numbers);
    for (const name of ["mean", "scale", "nu"]) this[name] = unpack(numbers[name]);
    this.logWeight = unpack(numbers.log_weight);
    this.count = this.logWeight.length;
    this.factor = this.nu.map(nu => ((8 * nu + 1) / (8 * nu + 3)) ** 2);
    this.z = new Float64Array(this.count);
    this.logSlope = new Float64Array(this.count);
    this.bend = new Float64Array(this.count);
    this.terms = new Float64Array(this.count);
    this.kept = new Map();
  }

  forward(x) {
    return this.read(x)[0];
  }

  slope(x) {
    const [, logSlope, bend] = this.read(x);
    return [logSlope, bend];
  }

  /** `look`, kept: pictures ask for the same places in every frame. */
  read(x) {
    if (Number.isNaN(x)) return [x, 0, 0]; // a gap
    let found = this.kept.get(x);
    if (!found) {
      found = this.look(x);
      if (this.kept.size >= MOST_KEPT) this.kept.clear();
      this.kept.set(x, found);
    }
    return found;
  }

  /** u(x), log u'(x), and the derivative of that. */
  look(x) {
    this.standardize(x);
    const u = this.score();
    const { z, logSlope, bend, terms } = this;
    for (let m = 0; m < this.count; m++) terms[m] = this.logWeight[m] - 0.5 * z[m] * z[m] + logSlope[m];
    const logDensity = logSumExp(terms);
    let score = 0;
    for (let m = 0; m < this.count; m++) {
      score += Math.exp(terms[m] - logDensity) * (bend[m] - z[m] * Math.exp(logSlope[m]));
    }
    const logDerivative = logDensity + 0.5 * u * u;
    return [u, logDerivative, score + u * Math.exp(logDerivative)];
  }

  /** By Newton steps kept inside a bracket: the same quantile of every component holds that of all. */
  inverse(u) {
    let low = Infinity;
    let high = -Infinity;
    for (let m = 0; m < this.count; m++) {
      const q = Math.expm1((u * u) / (this.nu[m] * this.factor[m]));
      const x = this.mean[m] + this.scale[m] * Math.sign(u) * Math.sqrt(this.nu[m] * q);
      low = Math.min(low, x);
      high = Math.max(high, x);
    }
    let x = 0.5 * (low + high);
    for (let k = 0; k < ROUNDS; k++) {
      const [value, logSlope] = this.look(x);
      if (Math.abs(value - u) <= 4 * Number.EPSILON * (1 + Math.abs(u))) break; // what is left is rounding
      if (value < u) low = x;
      else high = x;
      const step = x - (value - u) / Math.exp(logSlope);
      const next = step > low && step < high ? step : 0.5 * (low + high);
      const moved = Math.abs(next - x) > 4 * Number.EPSILON * Math.abs(x);
      x = next;
      if (!moved) break;
    }
    return x;
  }

  /** z of every component, the logarithm of its slope in x, and the derivative of that, into scratch arrays. */
  standardize(x) {
    for (let m = 0; m < this.count; m++) {
      const nu = this.nu[m];
      const t = (x - this.mean[m]) / this.scale[m];
      const q = (t * t) / nu;
      const logQ = Math.log1p(q);
      // log(1 + q) / q and its derivative by q, which lose their digits near zero
      const ratio = q < SERIES ? 1 - q / 2 + (q * q) / 3 - q ** 3 / 4 : logQ / q;
      const change = q < SERIES ? -0.5 + (2 * q) / 3 - 0.75 * q * q : (1 / (1 + q) - ratio) / q;
      this.z[m] = t * Math.sqrt(this.factor[m] * ratio);
      this.logSlope[m] = 0.5 * Math.log(this.factor[m] / ratio) - logQ - Math.log(this.scale[m]);
      this.bend[m] = (-(change / ratio + 2 / (1 + q)) * t) / (nu * this.scale[m]);
    }
  }

  /** Phi^-1 of the mean of Phi(z), from the tail that is the smaller. */
  score() {
    let lower = 0;
    let upper = 0;
    for (let m = 0; m < this.count; m++) {
      const half = 0.5 * Math.exp(this.logWeight[m]);
      lower += half * erfc(-this.z[m] * Math.SQRT1_2);
      upper += half * erfc(this.z[m] * Math.SQRT1_2);
    }
    const left = lower < upper;
    const tail = left ? lower : upper;
    const score = tail < LEAST ? this.farScore(left) : ndtri(tail);
    return left ? score : -score;
  }

  farScore(left) {
    for (let m = 0; m < this.count; m++) {
      this.terms[m] = this.logWeight[m] + logNdtr(left ? this.z[m] : -this.z[m]);
    }
    return logNdtrInverse(logSumExp(this.terms));
  }
}

export const COLUMN_MAPS = {
  ...{ "half-line": HalfLine, interval: Interval, scaling: Scaling },
  "normal-scores": NormalScores,
};
