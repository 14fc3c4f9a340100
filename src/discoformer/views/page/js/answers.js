// The fitted density with the table around it: what the pictures ask for.

import { readDensity } from "./density.js";
import { levelOf } from "./levels.js";
import { unpack } from "./numbers.js";
import { Random } from "./random.js";

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
   * What every column of a row should show given the others: [low, median, high] for nine in ten, and how much
   * less likely than the median the value is, in nats.
   */
  explain(values) {
    const columns = this.fitted;
    const whole = this.density.marginal(columns);
    return columns.map((column, place) => {
      const others = columns.map((_, k) => k).filter(k => k !== place);
      const alone = others.length
        ? whole.conditional(
            others,
            others.map(k => values[columns[k]]),
          )
        : whole;
      const expected = Array.from(alone.quantile([0.05, 0.5, 0.95]));
      const [here, middle] = alone.logDensity(Float64Array.of(values[column], expected[1]));
      return { column, expected, surprise: middle - here, alone };
    });
  }
}
