// Slots and what they see of the points.
//
// The twin of discoformer/models/mixture/slots.py and sample.py for one sample in a few columns.  Arrays are
// flat, row by row: means (M x d), matrices (M x d x d).

import { inverseRoots } from "./linalg.js";
import { HALF_LOG_TWO_PI, lgammaGain } from "./special.js";

const TINY_SHARE = 1e-8; // a smaller share is that of a slot without points

/** Student-t components with all that follows from their parameters. */
export function makeSlots(dim, logWeight, mean, scale, nu, temperature) {
  const count = logWeight.length;
  const { root, logDet } = inverseRoots(scale, count, dim);
  const precision = new Float64Array(scale.length);
  const [logPeak, peak, offset, power] = Array.from({ length: 4 }, () => new Float64Array(count));
  for (let m = 0; m < count; m++) {
    const at = m * dim * dim;
    for (let i = 0; i < dim; i++) {
      for (let j = 0; j < dim; j++) {
        let sum = 0;
        for (let k = Math.max(i, j); k < dim; k++) sum += root[at + k * dim + i] * root[at + k * dim + j];
        precision[at + i * dim + j] = sum;
      }
    }
    logPeak[m] = -dim * HALF_LOG_TWO_PI - logDet[m];
    peak[m] = lgammaGain(0.5 * nu[m], 0.5 * dim) + logPeak[m];
    offset[m] = logWeight[m] + temperature[m] * peak[m];
    power[m] = temperature[m] * 0.5 * (nu[m] + dim);
  }
  return { dim, count, logWeight, mean, scale, nu, root, precision, logPeak, peak, offset, power };
}

/** Squared Mahalanobis distance of the point that starts at `at` from slot m. */
export function slotDistance(slots, m, points, at) {
  const { dim, mean, root } = slots;
  let distance = 0;
  for (let i = 0; i < dim; i++) {
    let z = 0;
    for (let j = 0; j <= i; j++) {
      z += root[(m * dim + i) * dim + j] * (points[at + j] - mean[m * dim + j]);
    }
    distance += z * z;
  }
  return distance;
}

/**
 * One pass over the points (n x d): every point attends to the slots, every slot sums up what it got.
 *
 * Gives per slot: `share` of the sample; Student-weighted moments `first` (M x d) and `second` (M x d x d), over
 * `zeroth`, which is one unless the slot is empty; `tail`, the mean Student weight; mean and covariance; means of
 * the log mixture, of the entropy, and of log w and its square, with w = 1 + distance / nu.
 */
export function seePoints(points, slots) {
  const { dim, count, nu, offset, power } = slots;
  const total = points.length / dim;
  const make = size => new Float64Array(size);
  const [share, mass, mixture, entropy, logs, squares] = Array.from({ length: 6 }, () => make(count));
  const first = make(count * dim);
  const second = make(count * dim * dim);
  const [r, w, g] = [make(count), make(count), make(count)];
  for (let at = 0; at < points.length; at += dim) {
    let top = -Infinity;
    for (let m = 0; m < count; m++) {
      w[m] = 1 + slotDistance(slots, m, points, at) / nu[m];
      g[m] = Math.log(w[m]);
      r[m] = offset[m] - power[m] * g[m];
      if (r[m] > top) top = r[m];
    }
    let sum = 0;
    for (let m = 0; m < count; m++) {
      r[m] = Math.exp(r[m] - top);
      sum += r[m];
    }
    const logMixture = Math.log(sum) + top;
    let spread = logMixture;
    for (let m = 0; m < count; m++) {
      r[m] /= sum;
      spread -= r[m] * (offset[m] - power[m] * g[m]);
    }
    for (let m = 0; m < count; m++) {
      const heavy = r[m] / w[m];
      share[m] += r[m];
      mixture[m] += r[m] * logMixture;
      entropy[m] += r[m] * spread;
      logs[m] += r[m] * g[m];
      squares[m] += r[m] * g[m] * g[m];
      mass[m] += heavy;
      for (let i = 0; i < dim; i++) {
        const x = points[at + i];
        first[m * dim + i] += heavy * x;
        for (let j = 0; j < dim; j++) second[(m * dim + i) * dim + j] += heavy * x * points[at + j];
      }
    }
  }
  const zeroth = make(count);
  const tail = make(count);
  for (let m = 0; m < count; m++) {
    const factor = (1 + dim / nu[m]) / total;
    share[m] /= total;
    const per = 1 / Math.max(share[m], TINY_SHARE);
    const weighted = mass[m] * factor;
    const unit = factor / Math.max(weighted, TINY_SHARE);
    zeroth[m] = mass[m] * unit;
    tail[m] = weighted * per;
    for (let i = 0; i < dim; i++) first[m * dim + i] *= unit;
    for (let i = m * dim * dim; i < (m + 1) * dim * dim; i++) second[i] *= unit;
    for (const sums of [mixture, entropy, logs, squares]) sums[m] *= per / total;
  }
  const covariance = centered(first, second, tail, dim);
  return { total, share, zeroth, first, second, tail, covariance, mixture, entropy, logs, squares };
}

/** Covariances (M x d x d) from first and second moments, times the tail weight. */
export function centered(first, second, tail, dim) {
  return second.map((value, k) => {
    const [m, i, j] = [Math.floor(k / (dim * dim)), Math.floor(k / dim) % dim, k % dim];
    return (value - first[m * dim + i] * first[m * dim + j]) * tail[m];
  });
}

/** Mean of the diagonal of the matrix m of (M x d x d), each entry at least `least`. */
export function meanDiagonal(matrices, m, dim, least = -Infinity) {
  let sum = 0;
  for (let j = 0; j < dim; j++) sum += Math.max(matrices[(m * dim + j) * dim + j], least);
  return sum / dim;
}

/** Mean square of the entries of row m of (M x d). */
export function meanSquare(rows, m, dim) {
  let sum = 0;
  for (let j = 0; j < dim; j++) sum += rows[m * dim + j] ** 2;
  return sum / dim;
}
