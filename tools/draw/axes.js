// Frames of a sample in one or two columns, and the columns' own axes beside them.
//
// The twin of discoformer/core/frames.py.

import { Frame } from "./transforms.js";

const ROWS_PER_COLUMN = 6; // below, a covariance cannot be trusted: columns are standardized instead

/**
 * The frame that a network sees a sample (n x d, d up to 2) in, and the axes in it.
 *
 * @returns {{frame: Frame, axes: {matrix, inverse, logDet}}}
 */
export function placeSample(points, dim) {
  const standard = standardize(points, dim);
  const white = points.length / dim >= ROWS_PER_COLUMN * dim ? whiten(points, dim, standard) : standard;
  const axes = {
    matrix: product(white.inverse, standard.matrix, dim),
    inverse: product(standard.inverse, white.matrix, dim),
    logDet: standard.logDet - white.logDet,
  };
  return { frame: white, axes };
}

function standardize(points, dim) {
  const total = points.length / dim;
  const [center, scale] = [new Float64Array(dim), new Float64Array(dim)];
  for (let k = 0; k < points.length; k++) center[k % dim] += points[k] / total;
  for (let k = 0; k < points.length; k++) scale[k % dim] += (points[k] - center[k % dim]) ** 2 / total;
  if (!scale.every(variance => variance > 0))
    throw new RangeError("all points have one coordinate in common");
  return Frame.scaling(center, scale.map(Math.sqrt));
}

/** Through the inverse root of the correlation, which in two columns is known in closed form. */
function whiten(points, dim, standard) {
  if (dim === 1) return standard;
  const z = standard.normalize(points);
  let correlation = 0;
  for (let k = 0; k < z.length; k += 2) correlation += (z[k] * z[k + 1] * 2) / z.length;
  if (!(Math.abs(correlation) < 1 - 1e-9)) throw new RangeError("all points are on one line");
  const [a, b] = [1 / Math.sqrt(1 + correlation), 1 / Math.sqrt(1 - correlation)];
  const root = [0.5 * (a + b), 0.5 * (a - b), 0.5 * (a - b), 0.5 * (a + b)];
  const back = product([1, correlation, correlation, 1], root, 2);
  const scale = [standard.inverse[0], standard.inverse[3]];
  const matrix = Float64Array.from(root, (value, k) => value / scale[k >> 1]);
  const inverse = Float64Array.from(back, (value, k) => value * scale[k & 1]);
  const logDet = -0.5 * Math.log1p(-correlation * correlation) + standard.logDet;
  return new Frame(standard.center, matrix, inverse, logDet);
}

function product(left, right, dim) {
  const out = new Float64Array(dim * dim);
  for (let i = 0; i < dim; i++) {
    for (let j = 0; j < dim; j++) {
      for (let k = 0; k < dim; k++) out[i * dim + j] += left[i * dim + k] * right[k * dim + j];
    }
  }
  return out;
}

/** Rows (n x d) times the axes' matrix. */
export function alongAxes(rows, axes, dim) {
  return Float64Array.from(rows, (_, k) => {
    const [start, j] = [k - (k % dim), k % dim];
    let sum = 0;
    for (let i = 0; i < dim; i++) sum += rows[start + i] * axes.matrix[i * dim + j];
    return sum;
  });
}

/** Variances (M x d) along the axes of matrices C (M x d x d): the diagonal of K' C K. */
export function axisVariances(matrices, axes, dim) {
  const { matrix } = axes;
  const count = matrices.length / (dim * dim);
  const out = new Float64Array(count * dim);
  for (let m = 0; m < count; m++) {
    for (let c = 0; c < dim; c++) {
      let sum = 0;
      for (let i = 0; i < dim; i++) {
        for (let j = 0; j < dim; j++) {
          sum += matrix[i * dim + c] * matrices[(m * dim + i) * dim + j] * matrix[j * dim + c];
        }
      }
      out[m * dim + c] = Math.max(sum, 0);
    }
  }
  return out;
}

/** Add to matrix m of (M x d x d) the one with variances `variance(c)` along the axes: G' diag(v) G. */
export function addAlongAxes(matrices, m, axes, dim, variance) {
  const { inverse } = axes;
  for (let c = 0; c < dim; c++) {
    const value = variance(c);
    for (let i = 0; i < dim; i++) {
      for (let j = 0; j < dim; j++) {
        matrices[(m * dim + i) * dim + j] += inverse[c * dim + i] * value * inverse[c * dim + j];
      }
    }
  }
}
