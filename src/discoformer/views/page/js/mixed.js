// A mixture over numbers and categories, of rows that may have gaps: everything about it in closed form.
//
// The twin of discoformer/models/mixture/mixed.py.  Numbers come first, then categories as codes 0, 1, ...  NaN is
// a gap: the density is that of what is there.  Along a circular column copies add up, whole turns apart.

import { logSumExp } from "./linalg.js";
import { bisectQuantile } from "./quantiles.js";
import { StudentMixture, pickSlots } from "./student.js";

const TURNS = 3; // copies of a circular law on either side: what is beyond does not count

export class MixedMixture {
  /**
   * @param {StudentMixture} student - weights of the slots, and their laws of the numbers
   * @param {Float64Array[]} tables - log probabilities (M x levels) of every category
   * @param {number[]} periods - of every column of numbers, zero if it is not circular
   */
  constructor(student, tables, periods) {
    Object.assign(this, { student, tables, periods });
    this.count = student.count;
    this.numbers = periods.length;
    this.dim = this.numbers + tables.length;
    this.support = Array.from({ length: this.dim }, (_, j) => j);
    this.patterns = new Map();
    this.known = new Float64Array(this.count);
  }

  logDensity(points) {
    const out = new Float64Array(points.length / this.dim);
    for (let p = 0; p < out.length; p++) out[p] = logSumExp(this.terms(points, p * this.dim).terms);
    return out;
  }

  /** The score is zero at gaps and along categories. */
  estimate(points) {
    const logDensity = new Float64Array(points.length / this.dim);
    const score = new Float64Array(points.length);
    for (let p = 0; p < logDensity.length; p++) {
      const { part, places, terms } = this.terms(points, p * this.dim);
      logDensity[p] = logSumExp(terms);
      const slope = new Float64Array(part.columns.length);
      places.forEach((place, turn) => {
        for (let m = 0; m < this.count; m++) {
          const share = Math.exp(terms[turn * this.count + m] - logDensity[p]);
          if (share > 0) part.student.addSlope(m, place, 0, share, slope, 0);
        }
      });
      part.columns.forEach((column, j) => {
        score[p * this.dim + column] = slope[j];
      });
    }
    return { logDensity, score };
  }

  /**
   * Logarithms of all terms of the sum at the row that starts at `at`, turn by turn.
   *
   * @returns {{part: object, places: Float64Array[], terms: Float64Array}} the law of the numbers that are there,
   *   where it is asked, and what it says
   */
  terms(points, at) {
    const { count, known } = this;
    const part = this.pattern(points, at);
    this.share(points, at, known);
    const places = part.turns.map(turn => part.columns.map((c, j) => points[at + c] + turn[j]));
    const terms = new Float64Array(count * places.length);
    places.forEach((place, turn) => {
      const own = terms.subarray(turn * count, (turn + 1) * count);
      part.student.terms(place, 0, own);
      for (let m = 0; m < count; m++) own[m] += known[m];
    });
    return { part, places, terms };
  }

  /** What every slot says of the categories of a row: logarithms into `out`. */
  share(points, at, out) {
    out.fill(0);
    this.tables.forEach((table, c) => {
      const code = points[at + this.numbers + c];
      if (Number.isNaN(code)) return;
      const levels = table.length / this.count;
      const possible = Number.isInteger(code) && code >= 0 && code < levels;
      for (let m = 0; m < this.count; m++) out[m] += possible ? table[m * levels + code] : -Infinity;
    });
  }

  /** The law of the numbers that a row has, and whole turns of those that are circular. */
  pattern(points, at) {
    const columns = [];
    for (let j = 0; j < this.numbers; j++) if (!Number.isNaN(points[at + j])) columns.push(j);
    const key = columns.join();
    if (!this.patterns.has(key)) {
      const student = this.student.marginal(columns);
      const turns = wholeTurns(columns.map(c => this.periods[c]));
      this.patterns.set(key, { columns, student, turns });
    }
    return this.patterns.get(key);
  }

  /** The part of the density where all categories have these codes: of the numbers, its mass less than one. */
  at(codes) {
    const row = new Float64Array(this.dim).fill(NaN);
    row.set(codes, this.numbers);
    const logWeight = new Float64Array(this.count);
    this.share(row, 0, logWeight);
    for (let m = 0; m < this.count; m++) logWeight[m] += this.student.logWeight[m];
    return new MixedMixture(this.student.reweigh(logWeight), [], this.periods);
  }

  marginal(columns) {
    const [numbers, categories] = this.divide(columns);
    return new MixedMixture(
      this.student.marginal(numbers),
      categories.map(c => this.tables[c]),
      numbers.map(c => this.periods[c]),
    );
  }

  /** What is NaN among the values is not known, and not asked for either. */
  conditional(columns, values) {
    const row = new Float64Array(this.dim).fill(NaN);
    columns.forEach((c, k) => {
      row[c] = values[k];
    });
    const rest = this.support.filter(c => !columns.includes(c));
    const [numbers, categories] = this.divide(rest);
    const known = Array.from({ length: this.numbers }, (_, j) => j).filter(j => !Number.isNaN(row[j]));
    const part = this.student.marginal([...known, ...numbers]); // what is a gap is not asked for either
    const given = known.map((_, k) => k); // their places in that
    const beside = new Float64Array(this.count);
    this.share(row, 0, beside);
    const copies = wholeTurns(known.map(c => this.periods[c])).map(turn => {
      const copy = part.given(
        given,
        known.map((c, k) => row[c] + turn[k]),
      );
      return copy.reweigh(copy.logWeight.map((weight, m) => weight + beside[m]));
    });
    const tables = categories.map(c => repeated(this.tables[c], copies.length));
    const joined = StudentMixture.join(copies).normalize();
    return new MixedMixture(
      joined,
      tables,
      numbers.map(c => this.periods[c]),
    );
  }

  cdf(points) {
    const [period] = this.periods;
    if (!period) return this.student.cdf(points);
    const out = new Float64Array(points.length);
    for (let turn = -TURNS; turn <= TURNS; turn++) {
      const shift = turn * period;
      const below = this.student.cdf(points.map(x => Math.min(Math.max(x, 0), period) + shift));
      const [start] = this.student.cdf(Float64Array.of(shift));
      below.forEach((value, p) => {
        out[p] += value - start;
      });
    }
    return out;
  }

  quantile(shares) {
    const [period] = this.periods;
    if (!period) return this.student.quantile(shares);
    return bisectQuantile(points => this.cdf(points), shares, 0, period);
  }

  /** Rows drawn at random; circular columns are not brought back to their circle. */
  sample(count, random) {
    const { rows, slots } = this.student.draw(count, random);
    const shares = this.tables.map(table => table.map(Math.exp));
    const out = new Float64Array(count * this.dim);
    for (let p = 0; p < count; p++) {
      for (let j = 0; j < this.numbers; j++) out[p * this.dim + j] = rows[p * this.numbers + j];
      shares.forEach((share, c) => {
        const levels = share.length / this.count;
        const own = share.subarray(slots[p] * levels, (slots[p] + 1) * levels);
        out[p * this.dim + this.numbers + c] = random.choose(own);
      });
    }
    return out;
  }

  prune() {
    const kept = this.student.visible();
    if (kept.length === this.count) return this;
    const tables = this.tables.map(table => pickSlots(table, kept, table.length / this.count));
    return new MixedMixture(this.student.pick(kept), tables, this.periods);
  }

  addToGrid(xs, ys, weight, out) {
    const turns = wholeTurns(this.periods);
    if (turns.length === 1) {
      this.student.addToGrid(xs, ys, weight, out);
      return;
    }
    const orders = [xs, ys].map(axis => [...axis.keys()].sort((a, b) => axis[a] - axis[b])); // a circle was cut
    const [across, up] = [xs, ys].map((axis, j) => Float64Array.from(orders[j], k => axis[k]));
    const sorted = new Float64Array(out.length);
    for (const [dx, dy] of turns) {
      const places = [across.map(x => x + dx), up.map(y => y + dy)];
      this.student.addToGrid(...places, weight, sorted);
    }
    orders[1].forEach((row, iy) => {
      orders[0].forEach((column, ix) => {
        out[row * xs.length + column] += sorted[iy * xs.length + ix];
      });
    });
  }

  /** Columns of numbers, and the places of categories, which must follow them. */
  divide(columns) {
    const numbers = columns.filter(c => c < this.numbers);
    const categories = columns.filter(c => c >= this.numbers).map(c => c - this.numbers);
    return [numbers, categories];
  }
}

/** Every combination of whole turns of some columns; nothing but zeros if none is circular. */
function wholeTurns(periods) {
  let turns = [[]];
  for (const period of periods) {
    const steps = period ? Array.from({ length: 2 * TURNS + 1 }, (_, k) => (k - TURNS) * period) : [0];
    turns = turns.flatMap(turn => steps.map(step => [...turn, step]));
  }
  return turns;
}

function repeated(values, times) {
  const out = new Float64Array(values.length * times);
  for (let k = 0; k < times; k++) out.set(values, k * values.length);
  return out;
}
