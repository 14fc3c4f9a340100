// One layer of the network: what slots have seen becomes invariants, slots talk, and decide the next slots.
//
// The twin of `SlotBlock` (discoformer/models/mixture/layer.py) and `UnifiedLayer` (unified.py), with axes.

import { axisVariances } from "./axes.js";
import { cholesky } from "./linalg.js";
import { meanDiagonal, meanSquare } from "./slots.js";
import { HALF_LOG_TWO_PI, ndtr } from "./special.js";

const SCALARS = 7;
const TARGETS = 7;
const FEATURES = 16;
const EPSILON = Number.EPSILON;

/** rows x outs: the rows (rows x ins) times the weight (outs x ins), plus the bias. */
function linear(input, rows, weight, bias) {
  const outs = bias.length;
  const ins = weight.length / outs;
  const out = new Float64Array(rows * outs);
  for (let row = 0; row < rows; row += 4) {
    // four rows share what is read of the weight; where fewer are left, the last one is done again
    const last = rows - 1;
    const [r0, r1, r2, r3] = [row, Math.min(row + 1, last), Math.min(row + 2, last), Math.min(row + 3, last)];
    const [s0, s1, s2, s3] = [r0 * ins, r1 * ins, r2 * ins, r3 * ins];
    for (let o = 0, at = 0; o < outs; o++, at += ins) {
      let a = bias[o];
      let b = a;
      let c = a;
      let d = a;
      for (let k = 0; k < ins; k++) {
        const w = weight[at + k];
        a += input[s0 + k] * w;
        b += input[s1 + k] * w;
        c += input[s2 + k] * w;
        d += input[s3 + k] * w;
      }
      out[r0 * outs + o] = a;
      out[r1 * outs + o] = b;
      out[r2 * outs + o] = c;
      out[r3 * outs + o] = d;
    }
  }
  return out;
}

function rootMeanSquareNorm(input, rows, weight) {
  const width = weight.length;
  const out = new Float64Array(input.length);
  for (let row = 0; row < rows; row++) {
    let sum = 0;
    for (let k = row * width; k < (row + 1) * width; k++) sum += input[k] * input[k];
    const factor = 1 / Math.sqrt(sum / width + EPSILON);
    for (let k = 0; k < width; k++) out[row * width + k] = input[row * width + k] * factor * weight[k];
  }
  return out;
}

const REACH = 9; // beyond, the activation is zero or the identity to the last digit
const PER_UNIT = 256;
const ACTIVATION = Float64Array.from({ length: 2 * REACH * PER_UNIT + 2 }, (_, k) => activate(k)[0]);
const SLOPE = ACTIVATION.map((_, k) => activate(k)[1] / PER_UNIT);

/** x Phi(x) and its derivative at place k of the table. */
function activate(k) {
  const x = k / PER_UNIT - REACH;
  const below = ndtr(x);
  return [x * below, below + x * Math.exp(-0.5 * x * x - HALF_LOG_TWO_PI)];
}

/** x Phi(x), in place: cubic between the places of the table, which is good to 1e-11. */
function gelu(values) {
  for (let i = 0; i < values.length; i++) {
    const x = values[i];
    if (!(x > -REACH && x < REACH)) {
      values[i] = Math.max(x, 0);
      continue;
    }
    const at = (x + REACH) * PER_UNIT;
    const k = Math.floor(at);
    const t = at - k;
    const rise = ACTIVATION[k + 1] - ACTIVATION[k];
    const [early, late] = [SLOPE[k] - rise, SLOPE[k + 1] - rise];
    values[i] = ACTIVATION[k] + t * (rise + (1 - t) * ((1 - t) * early - t * late));
  }
  return values;
}

const symlog = x => Math.sign(x) * Math.log1p(Math.abs(x));
const sigmoid = x => 1 / (1 + Math.exp(-x));
const clampTo = (x, low, high) => Math.min(Math.max(x, low), high);

function add(values, more) {
  for (let k = 0; k < values.length; k++) values[k] += more[k];
}

/** What does not change when the points are turned, per slot (M x FEATURES). */
function invariants(seen, slots, axes) {
  const { dim, count, nu, peak } = slots;
  const { total, share } = seen;
  const ridged = Float64Array.from(seen.covariance);
  const logDet = new Float64Array(count);
  const spreads = new Float64Array(count);
  for (let m = 0; m < count; m++) {
    const trace = meanDiagonal(seen.covariance, m, dim, 0);
    const ridge = 1e-5 + 1e-3 * trace + 1e-5 * meanSquare(seen.first, m, dim);
    for (let j = 0; j < dim; j++) ridged[(m * dim + j) * dim + j] += ridge;
    const factor = ridged.slice(m * dim * dim, (m + 1) * dim * dim);
    cholesky(factor, dim);
    for (let j = 0; j < dim; j++) logDet[m] += (2 * Math.log(factor[j * dim + j])) / dim;
    spreads[m] = trace;
  }
  const diagonal = axisVariances(ridged, axes, dim);
  const excess = logDet.map((value, m) => {
    let sum = 0;
    for (let j = 0; j < dim; j++) sum += Math.log(Math.max(diagonal[m * dim + j], 1e-12));
    return sum / dim - value - (2 / dim) * axes.logDet;
  });
  const aligned = alignment(excess, share, total, dim);
  const out = new Float64Array(count * FEATURES);
  for (let m = 0; m < count; m++) {
    const size = share[m] * total;
    const half = 0.5 * (nu[m] + dim);
    const drop = half * seen.logs[m];
    const there = share[m] / Math.max(share[m], 1e-8);
    const density = peak[m] * there - drop;
    const square = peak[m] * (density - drop) + half * half * seen.squares[m];
    const spread = Math.max(square - density * density, 0);
    out.set(
      [
        Math.log(share[m] + 1e-6),
        Math.log(size / dim + 1e-3),
        Math.log((2 * size) / (dim * (dim + 3)) + 1e-3),
        logDet[m],
        Math.log(spreads[m] + 1e-5) - logDet[m],
        seen.mixture[m] / dim,
        seen.entropy[m],
        density / dim,
        Math.sqrt(spread / dim + 1e-6),
        (Math.log(total) - 6) / 2,
        Math.log(dim),
        Math.log(nu[m]),
        Math.log1p(meanSquare(seen.first, m, dim)),
        excess[m],
        aligned,
        1,
      ].map(value => clampTo(value, -20, 20)),
      m * FEATURES,
    );
  }
  return out;
}

/** Pooled likelihood ratio against covariances along the axes, standardized, compressed. */
function alignment(excess, share, total, dim) {
  let [ratio, usable] = [0, 0];
  for (let m = 0; m < excess.length; m++) {
    const size = share[m] * total;
    if (size <= 2 * dim) continue;
    ratio += size * excess[m] * dim - 0.5 * dim * (dim - 1);
    usable += 1;
  }
  return symlog(ratio / Math.sqrt(1 + dim * usable) / Math.max(1, dim - 1));
}

/** How well slot l explains the points of slot m, and how many both have, as a bias (heads x M x M). */
function pairBias(seen, slots, weights, heads) {
  const { dim, count, mean, precision, logPeak } = slots;
  const explained = new Float64Array(count * count);
  for (let m = 0; m < count; m++) {
    for (let l = 0; l < count; l++) {
      let distance = 0;
      for (let i = 0; i < dim; i++) {
        for (let j = 0; j < dim; j++) {
          const [a, b] = [mean[l * dim + i], mean[l * dim + j]];
          const second = seen.second[(m * dim + i) * dim + j];
          const cross = a * seen.first[m * dim + j] + b * seen.first[m * dim + i];
          distance += precision[(l * dim + i) * dim + j] * (second - cross + a * b * seen.zeroth[m]);
        }
      }
      explained[m * count + l] = logPeak[l] * seen.zeroth[m] - 0.5 * distance;
    }
  }
  const gain = (m, l) => symlog((explained[m * count + m] - explained[m * count + l]) / dim);
  const logCount = seen.share.map(share => Math.log(share * seen.total + 1e-2) / 3);
  const pairs = new Float64Array(4 * count * count);
  for (let m = 0, k = 0; m < count; m++) {
    for (let l = 0; l < count; l++, k += 4) {
      pairs[k] = gain(m, l);
      pairs[k + 1] = gain(l, m);
      pairs[k + 2] = logCount[m];
      pairs[k + 3] = logCount[l];
    }
  }
  const hidden = gelu(
    linear(pairs, count * count, weights["pair_bias.0.weight"], weights["pair_bias.0.bias"]),
  );
  const found = linear(hidden, count * count, weights["pair_bias.2.weight"], weights["pair_bias.2.bias"]);
  const out = new Float64Array(heads * count * count);
  for (let h = 0; h < heads; h++) {
    for (let k = 0; k < count * count; k++) {
      out[h * count * count + k] = found[k * heads + h] + Math.log(seen.share[k % count] + 1e-6);
    }
  }
  return out;
}

/** Slots attend to one another: changes `latent`, gives the attention (heads x M x M). */
function attend(latent, seen, slots, weights, heads) {
  const { count } = slots;
  const width = latent.length / count;
  const size = width / heads;
  const normal = rootMeanSquareNorm(latent, count, weights["norm_attention.weight"]);
  const all = linear(normal, count, weights["project.weight"], weights["project.bias"]);
  const attention = pairBias(seen, slots, weights, heads);
  const mixed = new Float64Array(count * width);
  for (let h = 0; h < heads; h++) {
    for (let m = 0; m < count; m++) {
      const row = attention.subarray((h * count + m) * count, (h * count + m + 1) * count);
      for (let l = 0; l < count; l++) {
        let sum = 0;
        for (let k = 0; k < size; k++) {
          sum += all[m * 3 * width + h * size + k] * all[l * 3 * width + width + h * size + k];
        }
        row[l] += sum / Math.sqrt(size);
      }
      let top = row[0];
      for (let l = 1; l < count; l++) if (row[l] > top) top = row[l];
      let total = 0;
      for (let l = 0; l < count; l++) {
        row[l] = Math.exp(row[l] - top);
        total += row[l];
      }
      for (let l = 0; l < count; l++) {
        row[l] /= total;
        for (let k = 0; k < size; k++) {
          mixed[m * width + h * size + k] += row[l] * all[l * 3 * width + 2 * width + h * size + k];
        }
      }
    }
  }
  add(latent, linear(mixed, count, weights["attend.weight"], weights["attend.bias"]));
  return attention;
}

/**
 * New latents (M x width), and how the next slots are to be formed.
 *
 * @param {object} weights - of the layer, by name
 */
export function runLayer(weights, heads, before, seen, slots, axes) {
  const { count, dim } = slots;
  const width = before.length / count;
  const features = invariants(seen, slots, axes);
  const input = new Float64Array(count * (width + FEATURES));
  for (let m = 0; m < count; m++) {
    input.set(before.subarray(m * width, (m + 1) * width), m * (width + FEATURES));
    input.set(features.subarray(m * FEATURES, (m + 1) * FEATURES), m * (width + FEATURES) + width);
  }
  const latent = Float64Array.from(before);
  add(latent, linear(input, count, weights["see.weight"], weights["see.bias"]));
  const attention = attend(latent, seen, slots, weights, heads);
  const normal = rootMeanSquareNorm(latent, count, weights["norm_feedforward.weight"]);
  const hidden = gelu(linear(normal, count, weights["feedforward.0.weight"], weights["feedforward.0.bias"]));
  add(latent, linear(hidden, count, weights["feedforward.2.weight"], weights["feedforward.2.bias"]));
  const ready = rootMeanSquareNorm(latent, count, weights["norm_decide.weight"]);
  const output = linear(ready, count, weights["decide.weight"], weights["decide.bias"]);
  const growth = (Math.log(seen.total) - 6) / 2;
  const outs = weights.growth.length;
  for (let k = 0; k < output.length; k++) output[k] += weights.growth[k % outs] * growth;
  return { latent, decision: decide(output, attention, count, heads, dim) };
}

function decide(output, attention, count, heads, dim) {
  const outs = output.length / count;
  const column = (place, change) =>
    Float64Array.from({ length: count }, (_, m) => change(output[m * outs + place]));
  const shrink = SCALARS + heads;
  const merge = new Float64Array(count * count);
  for (let m = 0; m < count; m++) {
    let given = 0;
    for (let l = 0; l < count; l++) {
      for (let h = 0; h < heads; h++) {
        const gate = sigmoid(output[m * outs + SCALARS + h]) / heads;
        merge[m * count + l] += gate * attention[(h * count + m) * count + l];
      }
      given += merge[m * count + l];
    }
    merge[m * count + m] += 1 - given;
  }
  const pseudo = Array.from({ length: TARGETS }, (_, t) =>
    column(shrink + t, x => Math.exp(clampTo(x, -10, 12)) * Math.sqrt(dim)),
  );
  return {
    merge,
    pseudo,
    inflation: column(0, x => Math.exp(clampTo(x, -3, 3))),
    logShare: column(1, x => x),
    temperature: column(2, x => Math.log1p(Math.exp(-Math.abs(x + 0.5413))) + Math.max(x + 0.5413, 0)),
    ridge: column(3, x => Math.exp(x - 2)),
    nu: column(4, x => 2 + Math.exp(clampTo(2 * x + 3.5, -3, 9))),
    gate: column(5, x => sigmoid(3 * x + 2)),
    step: column(6, x => 2 * sigmoid(x)),
    axisRidge: column(outs - 1, x => Math.exp(x - 2)),
  };
}
