// Invertible maps that compose: from the coordinates of the data to those a density was estimated in.
//
// The twin of discoformer/core/transforms.py.  Points are flat arrays, row by row; `support` is an array of
// booleans that marks the columns that count.

import { COLUMN_MAPS } from "./columns.js";
import { unpack } from "./numbers.js";
import { SplitColumns } from "./split.js";

/** A map that increases: what a distribution function and quantiles of one column inside read outside. */
class Increasing {
  cdf(inside, points) {
    return inside.cdf(this.normalize(points));
  }

  quantile(inside, shares) {
    return this.denormalize(inside.quantile(shares));
  }
}

/** The affine map x -> (x - center) matrix. */
export class Frame extends Increasing {
  constructor(center, matrix, inverse, logDet) {
    super();
    Object.assign(this, { center, matrix, inverse, logDet });
    this.dim = center.length;
  }

  static read(numbers) {
    const [center, matrix, inverse, logDet] = ["center", "matrix", "inverse", "log_det"].map(name =>
      unpack(numbers[name]),
    );
    return new Frame(center, matrix, inverse, logDet[0]);
  }

  /** The frame x -> (x - center) / scale. */
  static scaling(center, scale) {
    const dim = center.length;
    const matrix = new Float64Array(dim * dim);
    const inverse = new Float64Array(dim * dim);
    let logDet = 0;
    for (let j = 0; j < dim; j++) {
      matrix[j * dim + j] = 1 / scale[j];
      inverse[j * dim + j] = scale[j];
      logDet -= Math.log(scale[j]);
    }
    return new Frame(center, matrix, inverse, logDet);
  }

  normalize(points) {
    const { dim, center, matrix } = this;
    const out = new Float64Array(points.length);
    for (let at = 0; at < points.length; at += dim) {
      for (let j = 0; j < dim; j++) {
        let sum = 0;
        for (let k = 0; k < dim; k++) sum += (points[at + k] - center[k]) * matrix[k * dim + j];
        out[at + j] = sum;
      }
    }
    return out;
  }

  denormalize(points) {
    const { dim, center, inverse } = this;
    const out = new Float64Array(points.length);
    for (let at = 0; at < points.length; at += dim) {
      for (let j = 0; j < dim; j++) {
        let sum = center[j];
        for (let k = 0; k < dim; k++) sum += points[at + k] * inverse[k * dim + j];
        out[at + j] = sum;
      }
    }
    return out;
  }

  /** What an estimate inside reads outside: changes `logDensity`, gives the score if there is one. */
  outside(points, logDensity, score) {
    const { dim, matrix } = this;
    for (let p = 0; p < logDensity.length; p++) logDensity[p] += this.logDet;
    if (!score) return null;
    const out = new Float64Array(score.length);
    for (let at = 0; at < score.length; at += dim) {
      for (let j = 0; j < dim; j++) {
        let sum = 0;
        for (let k = 0; k < dim; k++) sum += score[at + k] * matrix[j * dim + k];
        out[at + j] = sum;
      }
    }
    return out;
  }

  /** The map of some columns alone, and the columns inside they become; of a frame that scales columns. */
  select(columns) {
    const center = Float64Array.from(columns, c => this.center[c]);
    const scale = Float64Array.from(columns, c => this.inverse[c * this.dim + c]);
    return [Frame.scaling(center, scale), columns];
  }

  /** Values of one column inside, and log slopes there; of a frame that scales columns. */
  axis(column, values) {
    const slope = this.matrix[column * this.dim + column];
    const log = Math.log(slope);
    return [values.map(x => (x - this.center[column]) * slope), values.map(() => log)];
  }

  outerSupport(support) {
    return support;
  }

  checkGiven() {}
}

/** Maps of some of the columns; beyond their bounds there is no mass and the score is zero.  A gap stays one. */
export class ColumnMaps extends Increasing {
  constructor(maps, dim) {
    super();
    Object.assign(this, { maps, dim });
  }

  static read(numbers) {
    const maps = new Map();
    for (const [column, part] of Object.entries(numbers.maps)) {
      maps.set(Number(column), new COLUMN_MAPS[part.kind](part));
    }
    return new ColumnMaps(maps, numbers.dim);
  }

  normalize(points) {
    const out = Float64Array.from(points);
    for (const [j, map] of this.maps) {
      for (let k = j; k < out.length; k += this.dim) out[k] = map.forward(clamp(out[k], map));
    }
    return out;
  }

  denormalize(points) {
    const out = Float64Array.from(points);
    for (const [j, map] of this.maps) {
      for (let k = j; k < out.length; k += this.dim) out[k] = map.inverse(out[k]);
    }
    return out;
  }

  cdf(inside, points) {
    const below = super.cdf(inside, points);
    const map = this.maps.get(0);
    return map ? below.map((value, p) => map.readCdf(points[p], value)) : below;
  }

  outside(points, logDensity, score, support) {
    const { dim } = this;
    for (const [j, map] of this.maps) {
      for (let p = 0, k = j; p < logDensity.length; p++, k += dim) {
        const x = points[k];
        if (x < map.low || x > map.high) logDensity[p] = -Infinity;
        if (!support[j] || Number.isNaN(x)) continue;
        const [logSlope, bend] = map.slope(clamp(x, map));
        logDensity[p] += logSlope;
        if (score) score[k] = score[k] * Math.exp(logSlope) + bend;
      }
    }
    if (!score) return null;
    for (let p = 0; p < logDensity.length; p++) {
      if (logDensity[p] === -Infinity) score.fill(0, p * dim, (p + 1) * dim);
    }
    return score;
  }

  select(columns) {
    const chosen = new Map();
    columns.forEach((c, j) => {
      if (this.maps.has(c)) chosen.set(j, this.maps.get(c));
    });
    return [chosen.size ? new ColumnMaps(chosen, columns.length) : null, columns];
  }

  axis(column, values) {
    const map = this.maps.get(column);
    if (!map) return [values, values.map(() => 0)];
    const beyond = x => x < map.low || x > map.high;
    return [
      values.map(x => map.forward(clamp(x, map))),
      values.map(x => (beyond(x) ? -Infinity : map.slope(x)[0])),
    ];
  }

  outerSupport(support) {
    return support;
  }

  checkGiven(values, columns) {
    for (const [j, map] of this.maps) {
      if (values[j] < map.low || values[j] > map.high) {
        throw new RangeError(`column ${columns[j]} cannot be given outside its bounds`);
      }
    }
  }
}

/** Some of the columns; the others follow from them by a relation found in the sample. */
export class KeptColumns extends Increasing {
  constructor(kept, dropped, relation, ends) {
    super();
    Object.assign(this, { kept, dropped, relation, ends });
    this.dim = kept.length + dropped.length;
    this.inside = kept.length;
  }

  static read(numbers) {
    const ends = numbers.ends && { low: unpack(numbers.ends.low), high: unpack(numbers.ends.high) };
    return new KeptColumns(numbers.kept, numbers.dropped, readRelation(numbers.relation), ends);
  }

  normalize(points) {
    const size = this.kept.length;
    const rows = points.length / this.dim;
    const out = new Float64Array(rows * size);
    for (let p = 0; p < rows; p++) {
      for (let j = 0; j < size; j++) out[p * size + j] = points[p * this.dim + this.kept[j]];
    }
    return out;
  }

  denormalize(points) {
    const { kept, dropped, dim, ends } = this;
    const rows = points.length / kept.length;
    const out = new Float64Array(rows * dim);
    for (let p = 0; p < rows; p++) {
      kept.forEach((c, j) => {
        out[p * dim + c] = points[p * kept.length + j];
      });
      dropped.forEach((c, e) => {
        const value = complete(this.relation, points, p, e);
        out[p * dim + c] = ends ? clamp(value, { low: ends.low[e], high: ends.high[e] }) : value;
      });
    }
    return out;
  }

  /** Rows whose left-out columns lie within their bounds: the others are drawn again, a hundred times at most. */
  draw(draw, count) {
    const { kept, dropped, relation, ends } = this;
    if (!ends) return this.denormalize(draw(count));
    const size = kept.length;
    const within = (points, p) =>
      dropped.every((_, e) => {
        const value = complete(relation, points, p, e);
        return value >= ends.low[e] && value <= ends.high[e];
      });
    const found = [];
    for (let round = 0; round < 100 && found.length < count * size; round++) {
      const points = draw(count);
      for (let p = 0; p < count && found.length < count * size; p++) {
        if (within(points, p)) found.push(...points.subarray(p * size, (p + 1) * size));
      }
    }
    return this.denormalize(Float64Array.from(found));
  }

  outside(points, logDensity, score) {
    const { dim, ends } = this;
    const beyond = (p, c, e) => points[p * dim + c] < ends.low[e] || points[p * dim + c] > ends.high[e];
    const size = this.kept.length;
    const out = score && new Float64Array(logDensity.length * dim);
    for (let p = 0; p < logDensity.length; p++) {
      if (ends && this.dropped.some((c, e) => beyond(p, c, e))) logDensity[p] = -Infinity;
      else if (out) for (let j = 0; j < size; j++) out[p * dim + this.kept[j]] = score[p * size + j];
    }
    return out;
  }

  select(columns) {
    const lost = columns.find(c => this.dropped.includes(c));
    if (lost !== undefined) throw new RangeError(`column ${lost} was left out of the fit: it has no density`);
    return [null, columns.map(c => this.kept.indexOf(c))];
  }

  axis() {
    throw new RangeError("take a marginal before a picture: some columns were left out of the fit");
  }

  outerSupport(support) {
    return support.map(j => this.kept[j]);
  }

  checkGiven() {}
}

/** No mass where columns that follow from these would leave their bounds; the twin of columns/left_out.py. */
export class Restriction extends Increasing {
  constructor(relation, low, high, logMass) {
    super();
    Object.assign(this, { relation, low, high, logMass });
    this.dim = relation.center.length;
  }

  static read(numbers) {
    const [low, high, logMass] = ["low", "high", "log_mass"].map(name => unpack(numbers[name]));
    return new Restriction(readRelation(numbers.relation), low, high, logMass[0]);
  }

  normalize(points) {
    return points;
  }

  denormalize(points) {
    return points;
  }

  outside(points, logDensity, score) {
    for (let p = 0; p < logDensity.length; p++) {
      const beyond = this.low.some((low, e) => {
        const value = complete(this.relation, points, p, e);
        const slack = OFF_SUPPORT * this.relation.scale[e];
        return value < low - slack || value > this.high[e] + slack;
      });
      logDensity[p] = beyond ? -Infinity : logDensity[p] - this.logMass;
      if (beyond && score) score.fill(0, p * this.dim, (p + 1) * this.dim);
    }
    return score;
  }

  select(columns) {
    return [null, columns];
  }

  axis() {
    throw new RangeError("take a marginal before a picture: bounds of other columns cut it off");
  }

  outerSupport(support) {
    return support;
  }

  checkGiven() {}
}

const OFF_SUPPORT = 1e-6; // of core/transforms.py

function readRelation(numbers) {
  return Object.fromEntries(Object.entries(numbers).map(([name, part]) => [name, unpack(part)]));
}

/** Left-out column e at row p of the kept columns. */
function complete({ center, slopes, offset }, points, p, e) {
  let sum = offset[e];
  for (let j = 0; j < center.length; j++) {
    sum += (points[p * center.length + j] - center[j]) * slopes[j * offset.length + e];
  }
  return sum;
}

/** Moved onto the bound where it is beyond: a harmless value, for no mass. */
function clamp(x, map) {
  return Math.min(Math.max(x, map.low), map.high);
}

export const TRANSFORMS = {
  ...{ frame: Frame, maps: ColumnMaps, kept: KeptColumns, restriction: Restriction },
  split: SplitColumns,
};
