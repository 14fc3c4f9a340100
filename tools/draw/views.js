// Two views of a sample, as it is and with its margins made normal, weighed by leave-one-out likelihood.
//
// The twin of discoformer/models/mixture/views.py and leave_one_out.py.

import { alongAxes, placeSample } from "./axes.js";
import { NormalScores } from "./columns.js";
import { Blend, Pushforward } from "./density.js";
import { logSumExp } from "./linalg.js";
import { makeSlots } from "./slots.js";
import { HALF_LOG_TWO_PI } from "./special.js";
import { ColumnMaps } from "./transforms.js";

const LEAST_LEFT = 1e-6; // of a slot without one of its points
const MARGIN_SLOTS = 64;
const WEIGHT_ROUNDS = 100;

/** The density of a sample (n x 2) as the default model fits it. */
export function fitViews(network, points, dim) {
  const plain = fitAndLeaveOut(network, points, dim);
  const total = points.length / dim;
  const maps = new Map();
  const gained = new Float64Array(total);
  for (let j = 0; j < dim; j++) {
    const column = Float64Array.from({ length: total }, (_, p) => points[p * dim + j]);
    const own = fitAndLeaveOut(network, column, 1, MARGIN_SLOTS);
    const map = normalScores(own.density);
    maps.set(j, map);
    column.forEach((x, p) => {
      gained[p] += own.leftOut[p] + 0.5 * map.forward(x) ** 2 + HALF_LOG_TWO_PI;
    });
  }
  const transform = new ColumnMaps(maps, dim);
  const inner = fitAndLeaveOut(network, transform.normalize(points), dim);
  const mapped = inner.leftOut.map((value, p) => value + gained[p]);
  const density = Pushforward.push(inner.density, [transform]);
  return new Blend([plain.density, density], viewLogWeights([plain.leftOut, mapped]));
}

function fitAndLeaveOut(network, points, dim, slots) {
  const { frame, axes } = placeSample(points, dim);
  const inside = frame.normalize(points);
  const { mixture, evidence } = network.study(inside, dim, axes, slots);
  const leftOut = leaveOneOut(mixture, evidence, inside, axes).map(value => value + frame.logDet);
  return { density: new Pushforward(mixture, [frame]), leftOut };
}

/** The map of a column to its normal scores under its own density. */
function normalScores({ base, transforms: [frame] }) {
  return new NormalScores({
    log_weight: base.logWeight,
    mean: frame.denormalize(base.mean),
    scale: base.scale.map(value => Math.sqrt(value) * Math.abs(frame.inverse[0])),
    nu: base.nu,
  });
}

/** Logarithms of the two weights that maximize the mean log density of what was left out. */
function viewLogWeights(leftOut) {
  const total = leftOut[0].length;
  let share = 0.5; // of the second view
  for (let k = 0; k < WEIGHT_ROUNDS; k++) {
    let sum = 0;
    for (let p = 0; p < total; p++) {
      const top = Math.max(leftOut[0][p], leftOut[1][p]);
      const [a, b] = [(1 - share) * Math.exp(leftOut[0][p] - top), share * Math.exp(leftOut[1][p] - top)];
      sum += b / (a + b);
    }
    share = sum / total;
  }
  return Float64Array.of(Math.log(1 - share), Math.log(share));
}

/** Log density of every point (n x d) under the mixture fitted without it, in closed form. */
function leaveOneOut(mixture, evidence, points, axes) {
  const { dim, count, nu } = mixture;
  const slots = makeSlots(
    dim,
    mixture.logWeight,
    mixture.mean,
    mixture.scale,
    nu,
    nu.map(() => 1),
  );
  const total = points.length / dim;
  const seen = { slots, axes, points, along: alongAxes(points, axes, dim) };
  seen.center = alongAxes(mixture.mean, axes, dim);
  seen.precision = axisPrecision(slots, axes);
  const [size, mass] = [new Float64Array(count), new Float64Array(count)];
  const looked = Array.from({ length: total }, (_, p) => look(seen, p));
  for (const { responsibility, heavy } of looked) {
    for (let m = 0; m < count; m++) {
      size[m] += responsibility[m];
      mass[m] += responsibility[m] * heavy[m];
    }
  }
  const all = { size: size.map(positive), mass: mass.map(positive) };
  return Float64Array.from(looked, one => without(one, slots, seen.precision, evidence, all));
}

const positive = value => Math.max(value, LEAST_LEFT);

/** Precisions (M x d x d) in the coordinates of the axes: G P G'. */
function axisPrecision({ dim, count, precision }, { inverse }) {
  const out = new Float64Array(precision.length);
  for (let m = 0; m < count; m++) {
    for (let a = 0; a < dim; a++) {
      for (let b = 0; b < dim; b++) {
        let sum = 0;
        for (let i = 0; i < dim; i++) {
          for (let j = 0; j < dim; j++) {
            sum += inverse[a * dim + i] * precision[(m * dim + i) * dim + j] * inverse[b * dim + j];
          }
        }
        out[(m * dim + a) * dim + b] = sum;
      }
    }
  }
  return out;
}

/** A point as all slots see it: responsibilities, Student weights, distances, offsets and pulls along the axes. */
function look({ slots, along, center, precision }, p) {
  const { dim, count, nu, offset, power } = slots;
  const [responsibility, heavy, distance] = Array.from({ length: 3 }, () => new Float64Array(count));
  const [shift, pull] = [new Float64Array(count * dim), new Float64Array(count * dim)];
  let top = -Infinity;
  for (let m = 0; m < count; m++) {
    for (let j = 0; j < dim; j++) shift[m * dim + j] = along[p * dim + j] - center[m * dim + j];
    for (let j = 0; j < dim; j++) {
      for (let i = 0; i < dim; i++)
        pull[m * dim + j] += shift[m * dim + i] * precision[(m * dim + i) * dim + j];
      distance[m] += shift[m * dim + j] * pull[m * dim + j];
    }
    heavy[m] = (nu[m] + dim) / (nu[m] + distance[m]);
    responsibility[m] = offset[m] - power[m] * Math.log1p(distance[m] / nu[m]);
    if (responsibility[m] > top) top = responsibility[m];
  }
  let sum = 0;
  for (let m = 0; m < count; m++) sum += responsibility[m] = Math.exp(responsibility[m] - top);
  for (let m = 0; m < count; m++) responsibility[m] /= sum;
  return { responsibility, heavy, distance, shift, pull };
}

/** Log density of a point under the fit without it; `all` holds the size and mass of every slot with it. */
function without({ responsibility, heavy, distance, shift, pull }, slots, precision, evidence, all) {
  const { dim, count, nu, logWeight, peak, power } = slots;
  const [weights, terms] = [new Float64Array(count), new Float64Array(count)];
  for (let m = 0; m < count; m++) {
    const weight = responsibility[m] * heavy[m];
    const left = positive(1 - weight / all.mass[m]);
    const step = (evidence.inflation[m] * weight) / left / (all.size[m] + evidence.pseudo[m]);
    let reach = distance[m];
    let logDet = 0;
    for (let j = 0; j < dim; j++) {
      const lost = step * evidence.along[m] * shift[m * dim + j] ** 2;
      const kept = positive(1 - lost * precision[(m * dim + j) * dim + j]);
      reach += (lost * pull[m * dim + j] ** 2) / kept;
      logDet += Math.log(kept);
    }
    const round = positive(1 - (step * evidence.ball[m] * reach) / dim);
    reach /= round;
    const one = positive(1 - evidence.whole[m] * step * reach);
    const fewer = Math.max(all.size[m] - responsibility[m], 0);
    const ratio = (all.size[m] + evidence.pseudo[m]) / positive(fewer + evidence.pseudo[m]);
    reach /= left * left * one * ratio;
    logDet += Math.log(one) + dim * (Math.log(round) + Math.log(ratio));
    weights[m] = Math.log(fewer / all.size[m]) + logWeight[m];
    terms[m] = weights[m] + peak[m] - 0.5 * logDet - power[m] * Math.log1p(reach / nu[m]);
  }
  return logSumExp(terms) - logSumExp(weights);
}
