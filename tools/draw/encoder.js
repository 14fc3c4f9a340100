// The network as a whole: a sample in, a mixture of Student-t distributions out.
//
// The twin of `UnifiedCore.study` (discoformer/models/mixture/unified.py) and landmarks.py.

import { addAlongAxes, alongAxes, axisVariances, placeSample } from "./axes.js";
import { Pushforward } from "./density.js";
import { runLayer } from "./layer.js";
import { logSumExp } from "./linalg.js";
import { centered, makeSlots, meanDiagonal, meanSquare, seePoints } from "./slots.js";
import { StudentMixture } from "./student.js";
import { readWeights } from "./weights.js";

const START_NU = 30;
const ROUNDING = 8 * Number.EPSILON;

export class Network {
  /** @param {object} numbers - what tools/draw_page.py wrote: {config, tensors, f16} */
  constructor(numbers) {
    const weights = readWeights(numbers);
    this.config = numbers.config;
    this.start = weights.start;
    this.spread = Math.exp(weights.start_log_spread[0]);
    this.layers = Array.from({ length: this.config.layers }, (_, k) => {
      const prefix = `layers.${k}.`;
      const own = Object.keys(weights).filter(name => name.startsWith(prefix));
      return Object.fromEntries(own.map(name => [name.slice(prefix.length), weights[name]]));
    });
  }

  /** The density of a sample (n x d, d up to 2). */
  fit(points, dim) {
    const { frame, axes } = placeSample(points, dim);
    return new Pushforward(this.study(frame.normalize(points), dim, axes), [frame]);
  }

  /** The mixture of normalized points (n x d). */
  study(points, dim, axes) {
    const { heads, loops } = this.config;
    const count = Math.max(1, Math.min(this.config.slots, Math.floor(points.length / dim / 2)));
    let slots = firstSlots(points, dim, axes, count, this.spread);
    let latent = new Float64Array(count * this.start.length);
    for (let m = 0; m < count; m++) latent.set(this.start, m * this.start.length);
    const rounds = [...this.layers, ...Array(loops).fill(this.layers.at(-1))];
    for (const weights of rounds) {
      const seen = seePoints(points, slots);
      const found = runLayer(weights, heads, latent, seen, slots, axes);
      latent = found.latent;
      slots = nextSlots(seen, found.decision, slots, axes);
    }
    return new StudentMixture(slots.logWeight, slots.mean, slots.scale, slots.nu);
  }
}

/** Slots at landmarks, half of them sought along the axes. */
function firstSlots(points, dim, axes, count, spread) {
  const both = count > 1;
  const views = both ? [points, alongAxes(points, axes, dim)] : [points];
  const counts = both ? [(count + 1) >> 1, count >> 1] : [count];
  const chosen = landmarks(views, counts, dim);
  const mean = new Float64Array(count * dim);
  chosen.forEach((row, m) => mean.set(points.subarray(row * dim, (row + 1) * dim), m * dim));
  const shrink = spread / Math.sqrt(2 * dim);
  const ball = (spacing(mean, dim) * shrink) ** 2 + 1e-5;
  const along = both ? (spacing(alongAxes(mean, axes, dim), dim) * shrink) ** 2 + 1e-5 : 0;
  const scale = new Float64Array(count * dim * dim);
  for (let m = 0; m < count; m++) {
    if (m >= counts[0]) addAlongAxes(scale, m, axes, dim, () => along);
    else for (let j = 0; j < dim; j++) scale[(m * dim + j) * dim + j] = ball;
  }
  const flat = value => new Float64Array(count).fill(value);
  return makeSlots(dim, flat(-Math.log(count)), mean, scale, flat(START_NU), flat(1));
}

/** Numbers of points, each farthest from those before in its view, radii compressed. */
function landmarks(views, counts, dim) {
  const total = views[0].length / dim;
  const chosen = [];
  views.forEach((view, v) => {
    const radius = new Float64Array(total);
    const near = new Float64Array(view.length);
    for (let p = 0; p < total; p++) {
      radius[p] = Math.sqrt(meanSquare(view, p, dim));
      const factor = Math.log1p(radius[p]) / Math.max(radius[p], 1e-6);
      for (let j = p * dim; j < (p + 1) * dim; j++) near[j] = view[j] * factor;
    }
    const distance = new Float64Array(total).fill(Infinity);
    const measure = row => {
      for (let p = 0; p < total; p++) distance[p] = Math.min(distance[p], squareDistance(near, p, row, dim));
    };
    chosen.forEach(measure);
    for (let k = counts[v]; k > 0; k--) {
      const row = chosen.length ? extreme(distance, (a, b) => a > b) : extreme(radius, (a, b) => a < b);
      chosen.push(row);
      measure(row);
    }
  });
  return chosen;
}

function squareDistance(points, p, q, dim) {
  let sum = 0;
  for (let j = 0; j < dim; j++) sum += (points[p * dim + j] - points[q * dim + j]) ** 2;
  return sum;
}

/** Place of the first value that no other beats. */
function extreme(values, beats) {
  let best = 0;
  for (let k = 1; k < values.length; k++) if (beats(values[k], values[best])) best = k;
  return best;
}

/** Mean distance of rows (M x d) to their nearest neighbours. */
function spacing(rows, dim) {
  const count = rows.length / dim;
  if (count === 1) return Math.sqrt(dim);
  let sum = 0;
  for (let p = 0; p < count; p++) {
    let least = Infinity;
    for (let q = 0; q < count; q++) if (q !== p) least = Math.min(least, squareDistance(rows, p, q, dim));
    sum += Math.sqrt(least);
  }
  return sum / count;
}

/** The M-step with learned decisions. */
function nextSlots(seen, decision, before, axes) {
  const { dim, count } = before;
  const { share, total, tail } = seen;
  const [first, second] = [seen.first, seen.second].map(moments => mixRows(decision.merge, moments, count));
  const covariance = centered(first, second, tail, dim);
  const pooled = new Float64Array(dim * dim);
  seen.covariance.forEach((value, k) => {
    pooled[k % (dim * dim)] += share[Math.floor(k / (dim * dim))] * value;
  });
  const own = axisVariances(covariance, axes, dim);
  const common = axisVariances(pooled, axes, dim);
  const commonBall = meanDiagonal(pooled, 0, dim);
  const scale = new Float64Array(count * dim * dim);
  const logWeight = new Float64Array(count);
  const mean = new Float64Array(count * dim);
  for (let m = 0; m < count; m++) {
    const [toPooled, toBall, toCommonBall, toRidge, toOwn, toCommon, toAxisBall] = decision.pseudo.map(
      t => t[m],
    );
    const size = share[m] * total;
    const gate = decision.gate[m];
    const rounding = ROUNDING * meanSquare(first, m, dim);
    const ball = meanDiagonal(covariance, m, dim) + rounding;
    const sum = toPooled + toBall + toCommonBall + toRidge + toOwn + toCommon + toAxisBall;
    const factor = decision.inflation[m] / (size + sum);
    const round = toBall * ball + toCommonBall * commonBall + size * rounding + toRidge * decision.ridge[m];
    const at = m * dim * dim;
    for (let k = 0; k < dim * dim; k++)
      scale[at + k] = gate * (size * covariance[at + k] + toPooled * pooled[k]);
    addAlongAxes(scale, m, axes, dim, c => {
      const along = (1 - gate) * (size * own[m * dim + c] + toPooled * common[c]);
      return along + toOwn * own[m * dim + c] + toCommon * common[c] + toAxisBall * decision.axisRidge[m];
    });
    for (let k = 0; k < dim * dim; k++) scale[at + k] *= factor;
    for (let j = 0; j < dim; j++) scale[at + j * dim + j] += factor * round + ROUNDING;
    logWeight[m] = Math.log(share[m] + 1e-8) + decision.logShare[m];
    for (let j = m * dim; j < (m + 1) * dim; j++) {
      mean[j] = before.mean[j] + decision.step[m] * (first[j] - before.mean[j]);
    }
  }
  const all = logSumExp(logWeight);
  for (let m = 0; m < count; m++) logWeight[m] -= all;
  return makeSlots(dim, logWeight, mean, scale, decision.nu, decision.temperature);
}

/** The matrix (M x M) times rows (M x k). */
function mixRows(matrix, rows, count) {
  const width = rows.length / count;
  const out = new Float64Array(rows.length);
  for (let m = 0; m < count; m++) {
    for (let l = 0; l < count; l++) {
      for (let k = 0; k < width; k++) out[m * width + k] += matrix[m * count + l] * rows[l * width + k];
    }
  }
  return out;
}
