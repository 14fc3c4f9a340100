// Densities that a page carries: a mixture through transforms, or a blend of such, with every verb of Python's.
//
// The twin of discoformer/core/composed.py.  `readDensity` turns what Python wrote
// (discoformer/views/page/numbers.py) into an object with
//
//   dim, support                 number of columns, and which of them count
//   logDensity(points)           (m) at points (m x d), flat arrays row by row
//   estimate(points)             {logDensity, score}
//   marginal(columns)            the density of some columns, in the order given
//   conditional(columns, values) the density of the others, given values
//   cdf(points), quantile(shares)       of one column
//   sample(count, random)        rows drawn by a `Random`
//   slice(codes)                 the part of it where columns have given codes, of the numbers of the others
//   densityGrid(xs, ys)          densities (ys x xs) of two columns of numbers, for pictures
//   prune()                      the same density without what cannot be seen in pictures
//
// Adding a base or a transform: a class, and an entry in `BASES` or in `TRANSFORMS` (transforms.js).

import { logSumExp } from "./linalg.js";
import { MixedMixture } from "./mixed.js";
import { unpack, unpackSymmetric } from "./numbers.js";
import { bisectQuantile } from "./quantiles.js";
import { SplitColumns } from "./split.js";
import { StudentMixture } from "./student.js";
import { Frame, TRANSFORMS } from "./transforms.js";

const BASES = {
  student: readStudent,
  mixed: numbers =>
    new MixedMixture(readStudent(numbers.student), numbers.tables.map(unpack), numbers.periods),
  blend: numbers => new Blend(numbers.parts.map(readDensity), unpack(numbers.log_weight)),
  pushed: numbers =>
    new Pushforward(
      readDensity(numbers.base),
      numbers.transforms.map(part => TRANSFORMS[part.kind].read(part)),
    ),
};

/** The density of what `density_numbers` wrote. */
export function readDensity(numbers) {
  const read = BASES[numbers.kind];
  if (!read) throw new TypeError(`the page does not know densities of kind ${numbers.kind}`);
  return read(numbers);
}

function readStudent(numbers) {
  const [, dim] = numbers.mean.shape;
  const scale = unpackSymmetric(numbers.scale, dim);
  return new StudentMixture(unpack(numbers.log_weight), unpack(numbers.mean), scale, unpack(numbers.nu));
}

/** A density through transforms, which stand in the order in which a query meets them. */
export class Pushforward {
  constructor(base, transforms) {
    this.base = base;
    this.transforms = transforms;
    this.dim = transforms[0].dim;
    let support = base.support;
    this.masks = []; // the columns that count inside of every transform
    for (const transform of [...transforms].reverse()) {
      const inside = transform.inside ?? transform.dim;
      const counted = support;
      this.masks.unshift(Array.from({ length: inside }, (_, j) => counted.includes(j)));
      support = transform.outerSupport(support);
    }
    this.support = support;
    this.single = null;
  }

  /** The density through the transforms; transforms of transforms become one row of them. */
  static push(base, transforms) {
    if (base instanceof Pushforward) return Pushforward.push(base.base, [...transforms, ...base.transforms]);
    return transforms.length ? new Pushforward(base, transforms) : base;
  }

  logDensity(points) {
    const places = this.places(points);
    const logDensity = this.base.logDensity(places.pop());
    this.carryOut(places, logDensity, null);
    return logDensity;
  }

  estimate(points) {
    const places = this.places(points);
    const { logDensity, score } = this.base.estimate(places.pop());
    return { logDensity, score: this.carryOut(places, logDensity, score) };
  }

  marginal(columns) {
    const whole = this.byColumn();
    const kept = [];
    for (const transform of whole.transforms) {
      const [part, inside] = transform.select(columns);
      if (part) kept.push(part);
      columns = inside;
    }
    return Pushforward.push(whole.base.marginal(columns), kept);
  }

  conditional(columns, values) {
    const whole = this.byColumn();
    let rest = this.support.filter(c => !columns.includes(c));
    if (!rest.length) throw new RangeError("every column is given, none is left");
    let inner = columns;
    let row = Float64Array.from(values);
    const kept = [];
    for (const transform of whole.transforms) {
      const [given, within] = transform.select(inner);
      if (given) {
        given.checkGiven(row, columns);
        row = given.normalize(row);
      }
      const [part, left] = transform.select(rest);
      if (part) kept.push(part);
      [inner, rest] = [within, left];
    }
    return Pushforward.push(whole.base.conditional(inner, row), kept);
  }

  cdf(points) {
    const [first, inside] = this.byColumn().apart();
    return first.cdf(inside, points);
  }

  quantile(shares) {
    const [first, inside] = this.byColumn().apart();
    return first.quantile(inside, shares);
  }

  /** The outermost transform, and the density inside of it. */
  apart() {
    return [this.transforms[0], Pushforward.push(this.base, this.transforms.slice(1))];
  }

  /**
   * The part of the density where columns have given codes, of the numbers of the others.  Its mass is below one.
   *
   * @param {(number|null)[]} codes - of every column: a category's, an atom's, or null for the numbers
   */
  slice(codes) {
    const [split, inside] = this.byColumn().apart();
    if (!(split instanceof SplitColumns)) return this;
    const { part, numbers, categories, codes: chosen } = split.slice(codes);
    const left = inside.marginal([...numbers, ...categories]).at(chosen);
    return Pushforward.push(left, part ? [part] : []);
  }

  /** The part where the last columns, categories, have these codes. */
  at(codes) {
    if (!codes.length) return this;
    const { transforms, base } = this.byColumn();
    let numbers = Array.from({ length: this.dim - codes.length }, (_, j) => j);
    const kept = [];
    for (const transform of transforms) {
      const [part, inner] = transform.select(numbers);
      if (part) kept.push(part);
      numbers = inner;
    }
    return Pushforward.push(base.at(codes), kept);
  }

  sample(count, random) {
    const outward = (draw, transform) => rows =>
      transform.draw ? transform.draw(draw, rows) : transform.denormalize(draw(rows));
    return this.transforms.reduceRight(outward, rows => this.base.sample(rows, random))(count);
  }

  /** The law of x matrix + shift; only through a frame, as in Python. */
  transform(matrix, shift) {
    const [frame] = this.transforms;
    if (this.transforms.length > 1 || !(frame instanceof Frame)) {
      throw new RangeError("a density with bounds or left-out columns has no linear images in closed form");
    }
    const size = shift.length;
    const inner = multiply(frame.inverse, matrix, frame.dim, frame.dim, size);
    const moved = multiply(frame.center, matrix, 1, frame.dim, size).map((value, j) => value + shift[j]);
    return this.base.transform(inner, moved);
  }

  /** The same without what cannot be seen in a picture. */
  prune() {
    return new Pushforward(this.base.prune(), this.transforms);
  }

  densityGrid(xs, ys) {
    const out = new Float64Array(xs.length * ys.length);
    this.addToGrid(xs, ys, 1, out);
    return out;
  }

  /** Add `weight` times the density to a grid: column maps are read once per line of it, not at every point. */
  addToGrid(xs, ys, weight, out) {
    const whole = this.byColumn();
    let axes = [Float64Array.from(xs), Float64Array.from(ys)];
    const slopes = axes.map(axis => new Float64Array(axis.length));
    for (const transform of whole.transforms) {
      axes = axes.map((axis, j) => {
        const [inside, logSlope] = transform.axis(j, axis);
        logSlope.forEach((value, k) => {
          slopes[j][k] += value;
        });
        return inside;
      });
    }
    const inside = new Float64Array(out.length);
    whole.base.addToGrid(axes[0], axes[1], weight, inside);
    const [sx, sy] = slopes.map(slope => slope.map(Math.exp));
    for (let iy = 0, k = 0; iy < sy.length; iy++) {
      for (let ix = 0; ix < sx.length; ix++, k++) {
        const slope = sx[ix] * sy[iy];
        if (slope > 0) out[k] += inside[k] * slope; // beyond a bound there is none
      }
    }
  }

  /** The same density by maps of single columns: the base takes over what the last frame mixes. */
  byColumn() {
    if (this.single) return this.single;
    const frame = this.transforms.at(-1);
    if (!(frame instanceof Frame)) {
      this.single = this;
      return this;
    }
    const { dim, inverse } = frame;
    const unit = new Float64Array(dim);
    for (let k = 0; k < dim * dim; k++) unit[k % dim] += inverse[k] * inverse[k];
    unit.forEach((square, j) => {
      unit[j] = Math.sqrt(square);
    });
    const matrix = inverse.map((value, k) => value / unit[k % dim]);
    const base = this.base.transform(matrix, new Float64Array(dim));
    const scaling = Frame.scaling(frame.center, unit);
    this.single = new Pushforward(base, [...this.transforms.slice(0, -1), scaling]);
    this.single.single = this.single;
    return this.single;
  }

  /** The points before each transform, and behind the last. */
  places(points) {
    const places = [points];
    for (const transform of this.transforms) places.push(transform.normalize(places.at(-1)));
    return places;
  }

  /** From the base out to the data: changes `logDensity`, gives the score. */
  carryOut(places, logDensity, score) {
    for (let k = this.transforms.length - 1; k >= 0; k--) {
      score = this.transforms[k].outside(places[k], logDensity, score, this.masks[k]);
    }
    return score;
  }
}

/** The mixture of several densities of the same columns. */
export class Blend {
  constructor(parts, logWeight) {
    this.parts = parts;
    this.logWeight = logWeight;
    this.dim = parts[0].dim;
    this.support = parts[0].support;
  }

  logDensity(points) {
    return this.combine(this.parts.map(part => part.logDensity(points)));
  }

  estimate(points) {
    const answers = this.parts.map(part => part.estimate(points));
    const logDensity = this.combine(answers.map(answer => answer.logDensity));
    const score = new Float64Array(points.length);
    answers.forEach((answer, k) => {
      for (let p = 0; p < logDensity.length; p++) {
        const share = Math.exp(answer.logDensity[p] + this.logWeight[k] - logDensity[p]);
        if (!(share > 0)) continue; // where no part has mass, the score is zero
        for (let j = p * this.dim; j < (p + 1) * this.dim; j++) score[j] += share * answer.score[j];
      }
    });
    return { logDensity, score };
  }

  /** Log of the weighted sum of the parts' densities (m each). */
  combine(terms) {
    const scratch = new Float64Array(terms.length);
    return terms[0].map((_, p) => {
      for (let k = 0; k < terms.length; k++) scratch[k] = terms[k][p] + this.logWeight[k];
      return logSumExp(scratch);
    });
  }

  marginal(columns) {
    return new Blend(
      this.parts.map(part => part.marginal(columns)),
      this.logWeight,
    );
  }

  /** The weights move to the parts that explain the values. */
  conditional(columns, values) {
    const row = Float64Array.from(values);
    const rest = this.parts.map(part => part.conditional(columns, row));
    const logWeight = this.logWeight.map((weight, k) => {
      return weight + this.parts[k].marginal(columns).logDensity(row)[0];
    });
    const total = logSumExp(logWeight);
    if (!Number.isFinite(total)) throw new RangeError("no part of the fit can explain the values given");
    return new Blend(
      rest,
      logWeight.map(weight => weight - total),
    );
  }

  slice(codes) {
    return new Blend(
      this.parts.map(part => part.slice(codes)),
      this.logWeight,
    );
  }

  at(codes) {
    return new Blend(
      this.parts.map(part => part.at(codes)),
      this.logWeight,
    );
  }

  cdf(points) {
    const below = this.parts.map(part => part.cdf(points));
    return points.map((_, p) =>
      below.reduce((sum, part, k) => sum + Math.exp(this.logWeight[k]) * part[p], 0),
    );
  }

  quantile(shares) {
    const cdf = points => this.cdf(points);
    return Float64Array.from(shares, share => {
      const ends = this.parts.map(part => part.quantile([share])[0]);
      return bisectQuantile(cdf, [share], Math.min(...ends), Math.max(...ends))[0];
    });
  }

  sample(count, random) {
    const weights = this.logWeight.map(Math.exp);
    const chosen = Array.from({ length: count }, () => random.choose(weights));
    const drawn = this.parts.map((part, k) => {
      return { rows: part.sample(chosen.filter(which => which === k).length, random), used: 0 };
    });
    const out = new Float64Array(count * this.dim);
    chosen.forEach((which, p) => {
      const { rows, used } = drawn[which];
      out.set(rows.subarray(used, used + this.dim), p * this.dim);
      drawn[which].used += this.dim;
    });
    return out;
  }

  prune() {
    return new Blend(
      this.parts.map(part => part.prune()),
      this.logWeight,
    );
  }

  transform(matrix, shift) {
    return new Blend(
      this.parts.map(part => part.transform(matrix, shift)),
      this.logWeight,
    );
  }

  densityGrid(xs, ys) {
    const out = new Float64Array(xs.length * ys.length);
    this.addToGrid(xs, ys, 1, out);
    return out;
  }

  addToGrid(xs, ys, weight, out) {
    this.parts.forEach((part, k) => {
      const share = weight * Math.exp(this.logWeight[k]);
      if (share > 1e-12) part.addToGrid(xs, ys, share, out);
    });
  }
}

/** left (a x b) times right (b x c). */
function multiply(left, right, a, b, c) {
  const out = new Float64Array(a * c);
  for (let i = 0; i < a; i++) {
    for (let j = 0; j < c; j++) {
      let sum = 0;
      for (let k = 0; k < b; k++) sum += left[i * b + k] * right[k * c + j];
      out[i * c + j] = sum;
    }
  }
  return out;
}
