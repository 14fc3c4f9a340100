// The fitted density with the table around it: what the pictures ask for.

import { readDensity } from "./density.js";
import { codesOf, isLabelled } from "./kinds.js";
import { levelOf } from "./levels.js";
import { unpack } from "./numbers.js";
import { Random } from "./random.js";

const USUAL = Array.from({ length: 10 }, (_, k) => 0.05 + 0.1 * k); // shares of values that are

export class Answers {
  /** @param {object} data - what Python wrote (discoformer/views/page/payload.py) */
  constructor(data) {
    this.columns = data.columns;
    this.density = data.density && readDensity(data.density);
    this.levels = data.levels && unpack(data.levels);
    this.total = data.rows.total;
    this.numbers = data.rows.numbers;
    this.values = unpack(data.rows.values);
    this.width = data.columns.length;
    this.places = new Map(this.numbers.map((row, k) => [row, k]));
    this.margins = new Map();
    this.error = this.density && data.check ? this.largestError(data.check) : 0;
  }

  /** How far the page is from Python at the rows that Python answered, relative to one. */
  largestError(check) {
    const expected = unpack(check.log_density);
    const found = this.density.logDensity(unpack(check.points));
    return Math.max(...found.map((value, k) => Math.abs(value - expected[k]) / (1 + Math.abs(expected[k]))));
  }

  /** Columns that carry a density. */
  get fitted() {
    return this.density
      ? this.density.support
      : this.columns.map((_, j) => j).filter(j => this.columns[j].fitted);
  }

  /** The values of the row with a number, or null if the page does not have it. */
  row(number) {
    const place = this.places.get(number);
    return place === undefined ? null : this.values.subarray(place * this.width, (place + 1) * this.width);
  }

  /** The density of one column, whatever the others are; made once. */
  margin(column) {
    if (!this.margins.has(column)) this.margins.set(column, this.density.marginal([column]).prune());
    return this.margins.get(column);
  }

  /** The density of `shown` columns, in their order, given the values of others (a Map by column). */
  joint(shown, given) {
    const held = [...given.keys()];
    const part = this.density.marginal([...shown, ...held]);
    if (!held.length) return part;
    return part.conditional(
      held.map((_, k) => shown.length + k),
      [...given.values()],
    );
  }

  /**
   * Rows (count x all columns) drawn from the density, given the values of some columns (a Map); NaN for columns
   * that are not known then.  Columns on a grid are rounded to it.
   */
  draw(count, given, seed) {
    const free = this.fitted.filter(column => !given.has(column));
    const all = !given.size;
    const part = all ? this.density : this.joint(free, given);
    const drawn = part.sample(count, new Random(seed));
    const order = all ? this.columns.map((_, j) => j) : free;
    const out = new Float64Array(count * this.width).fill(NaN);
    for (let p = 0; p < count; p++) {
      order.forEach((column, k) => {
        const { step, origin } = this.columns[column];
        const value = drawn[p * order.length + k];
        out[p * this.width + column] = step > 0 ? origin + step * Math.round((value - origin) / step) : value;
      });
      for (const [column, value] of given) out[p * this.width + column] = value;
    }
    return out;
  }

  /** The share of the fitted density that is at least as likely as a row. */
  level(logDensity) {
    return this.levels ? levelOf(logDensity, this.levels) : null;
  }

  /**
   * What every column of a row should show given the others: [low, median, high] for nine in ten, or the likeliest
   * label and its probability, and how much less likely than the usual value the row's is, in nats.
   */
  explain(values) {
    const columns = this.fitted;
    return columns.map(column => {
      const known = columns.filter(other => other !== column && !Number.isNaN(values[other]));
      const part = this.density.marginal([...known, column]);
      const alone = known.length
        ? part.conditional(
            known.map((_, k) => k),
            known.map(other => values[other]),
          )
        : part;
      return { column, alone, ...expect(this.columns[column], alone, values[column]) };
    });
  }
}

/** What the law of a column suggests, and how surprising a value is; what is missing surprises nobody. */
function expect(column, alone, value) {
  if (isLabelled(column)) {
    const logShares = alone.logDensity(codesOf(column));
    const best = logShares.indexOf(Math.max(...logShares));
    const surprise = Number.isNaN(value) ? 0 : logShares[best] - logShares[value];
    return { expected: null, likely: [best, Math.exp(logShares[best])], surprise };
  }
  const expected = Array.from(alone.quantile([0.05, 0.5, 0.95]));
  if (Number.isNaN(value)) return { expected, likely: null, surprise: 0 };
  const [here] = alone.logDensity(Float64Array.of(value));
  return { expected, likely: null, surprise: usual(column, alone, value, expected[1]) - here };
}

/** The log density of a usual value of the same sort: a mass is compared with masses, a density with densities. */
function usual({ atoms }, alone, value, median) {
  if (!atoms.length) return alone.logDensity(Float64Array.of(median))[0];
  const known = atoms.map(([atom]) => atom);
  const masses = alone.logDensity(Float64Array.from(known));
  const left = 1 - masses.reduce((sum, mass) => sum + Math.exp(mass), 0);
  if (known.includes(value)) return Math.max(...masses, Math.log(Math.max(left, Number.MIN_VALUE)));
  const others = [...alone.quantile(USUAL), value].filter(other => !known.includes(other));
  return Math.max(...alone.logDensity(Float64Array.from(others)));
}
