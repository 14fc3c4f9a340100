// A mixture of Student-t distributions in closed form: density, score, margins, conditionals, quantiles.
//
// The twin of discoformer/models/mixture/student.py.  Points are flat arrays, row by row.

import { cholesky, congruence, inverseRoots, logSumExp, solveLower } from "./linalg.js";
import { lgammaGain, studentCdf } from "./special.js";
import { bisectQuantile } from "./quantiles.js";

const LOG_TWO_PI = 1.8378770664093453;
const UNSEEN = 18; // nats: what is less than a fifty-millionth cannot be seen in a picture

export class StudentMixture {
  /**
   * @param {Float64Array} logWeight - of the M components
   * @param {Float64Array} mean - M x d
   * @param {Float64Array} scale - M x d x d
   * @param {Float64Array} nu - degrees of freedom, M
   * @param {number} dim - number of columns d
   */
  constructor(logWeight, mean, scale, nu, dim = mean.length / logWeight.length) {
    Object.assign(this, { logWeight, mean, scale, nu, dim });
    this.count = logWeight.length;
    this.support = Array.from({ length: this.dim }, (_, j) => j);
    this.kept = null;
  }

  /**
   * What the density needs of every component: the inverse Cholesky factor of its scale (`root`), and the peak
   * and power of its logarithm, peak - power log(1 + |root (x - mean)|^2 / nu).
   */
  get readout() {
    if (this.kept) return this.kept;
    const { count, dim } = this;
    const { root, logDet } = inverseRoots(this.scale, count, dim);
    const peak = logDet.map((half, m) => this.logWeight[m] + studentPeak(half, this.nu[m], dim));
    const power = this.nu.map(nu => 0.5 * (nu + dim));
    this.kept = { root, peak, power, logits: new Float64Array(count), z: new Float64Array(dim) };
    return this.kept;
  }

  /** Logarithms of all components, with their weights, at the point that starts at `at`, into `out`. */
  terms(points, at, out) {
    const { count, dim, mean, nu } = this;
    const { root, peak, power } = this.readout;
    for (let m = 0; m < count; m++) {
      const center = m * dim;
      let row = m * dim * dim;
      let distance = 0;
      for (let i = 0; i < dim; i++, row += dim) {
        let z = 0;
        for (let j = 0; j <= i; j++) z += root[row + j] * (points[at + j] - mean[center + j]);
        distance += z * z;
      }
      out[m] = peak[m] - power[m] * Math.log1p(distance / nu[m]);
    }
  }

  /** Add the gradient of the logarithm of a component at a point, times a share, to `out` from `start` on. */
  addSlope(m, points, at, share, out, start) {
    const { dim, mean, nu } = this;
    const { root, z } = this.readout;
    const first = m * dim * dim;
    let distance = 0;
    for (let i = 0; i < dim; i++) {
      z[i] = 0;
      for (let j = 0; j <= i; j++) z[i] += root[first + i * dim + j] * (points[at + j] - mean[m * dim + j]);
      distance += z[i] * z[i];
    }
    const pull = (-share * (nu[m] + dim)) / (nu[m] + distance);
    for (let j = 0; j < dim; j++) {
      let sum = 0;
      for (let i = j; i < dim; i++) sum += root[first + i * dim + j] * z[i];
      out[start + j] += pull * sum;
    }
  }

  /** Log density (m) at points (m x d). */
  logDensity(points) {
    const { logits } = this.readout;
    const out = new Float64Array(points.length / this.dim);
    for (let p = 0; p < out.length; p++) {
      this.terms(points, p * this.dim, logits);
      out[p] = logSumExp(logits);
    }
    return out;
  }

  /** Log density (m) and score, its gradient (m x d), at points (m x d). */
  estimate(points) {
    const { dim } = this;
    const { logits } = this.readout;
    const logDensity = new Float64Array(points.length / dim);
    const score = new Float64Array(points.length);
    for (let p = 0; p < logDensity.length; p++) {
      this.terms(points, p * dim, logits);
      logDensity[p] = logSumExp(logits);
      for (let m = 0; m < this.count; m++) {
        const share = Math.exp(logits[m] - logDensity[p]);
        if (share > 0) this.addSlope(m, points, p * dim, share, score, p * dim);
      }
    }
    return { logDensity, score };
  }

  /**
   * Add `weight` times the density to a grid (ys x xs) of two columns: for pictures, so not in logarithms.
   *
   * Components without weight are left out, and every other one beyond the ellipse where its density is
   * exp(-UNSEEN) of its own peak: most of the work, and none of the picture.
   */
  addToGrid(xs, ys, weight, out) {
    const { count, mean, nu, logWeight } = this;
    const { root, peak, power } = this.readout;
    const lead = Math.log(weight);
    for (let m = 0; m < count; m++) {
      if (logWeight[m] < -UNSEEN) continue;
      const a = root[4 * m];
      const b = root[4 * m + 2];
      const c = root[4 * m + 3];
      const rate = 1 / nu[m];
      const start = peak[m] + lead;
      const slope = power[m];
      const mx = mean[2 * m];
      const my = mean[2 * m + 1];
      const most = nu[m] * Math.expm1(UNSEEN / slope);
      const square = a * a + b * b;
      for (let iy = 0; iy < ys.length; iy++) {
        const up = c * (ys[iy] - my);
        const bent = b * up;
        const room = bent * bent - square * (up * up - most);
        if (!(room > 0)) continue;
        const reach = Math.sqrt(room) / square;
        const middle = mx - bent / square;
        const last = firstAbove(xs, middle + reach);
        for (let ix = firstAbove(xs, middle - reach), k = iy * xs.length + ix; ix < last; ix++, k++) {
          const dx = xs[ix] - mx;
          const z0 = a * dx;
          const z1 = b * dx + up;
          out[k] += Math.exp(start - slope * Math.log(1 + (z0 * z0 + z1 * z1) * rate));
        }
      }
    }
  }

  densityGrid(xs, ys) {
    const out = new Float64Array(xs.length * ys.length);
    this.addToGrid(xs, ys, 1, out);
    return out;
  }

  /** Rows (count x d) drawn at random. */
  sample(count, random) {
    return this.draw(count, random).rows;
  }

  /** Rows drawn at random, and the components they come from. */
  draw(count, random) {
    const { dim, mean, nu } = this;
    const root = Float64Array.from(this.scale);
    for (let m = 0; m < this.count; m++) cholesky(root, dim, m * dim * dim);
    const weights = this.logWeight.map(Math.exp);
    const noise = new Float64Array(dim);
    const rows = new Float64Array(count * dim);
    const slots = Array.from({ length: count }, () => random.choose(weights));
    for (let p = 0; p < count; p++) {
      const m = slots[p];
      const stretch = Math.sqrt(nu[m] / 2 / random.gamma(nu[m] / 2));
      for (let j = 0; j < dim; j++) noise[j] = random.normal() * stretch;
      for (let i = 0; i < dim; i++) {
        rows[p * dim + i] = mean[m * dim + i];
        for (let j = 0; j <= i; j++) rows[p * dim + i] += root[(m * dim + i) * dim + j] * noise[j];
      }
    }
    return { rows, slots };
  }

  /** The law of some of the columns, in the order given. */
  marginal(columns) {
    const { count, dim } = this;
    const size = columns.length;
    const mean = new Float64Array(count * size);
    const scale = new Float64Array(count * size * size);
    for (let m = 0; m < count; m++) {
      for (let a = 0; a < size; a++) {
        mean[m * size + a] = this.mean[m * dim + columns[a]];
        for (let b = 0; b < size; b++) {
          scale[(m * size + a) * size + b] = this.scale[(m * dim + columns[a]) * dim + columns[b]];
        }
      }
    }
    return new StudentMixture(this.logWeight, mean, scale, this.nu, size);
  }

  /**
   * The law of the other columns, in their order, given the values of `columns`.
   *
   * Each component stays a Student-t, with nu + k degrees of freedom and a scale that grows with the distance
   * of the values; the weights move to the components that explain the values.
   */
  conditional(columns, values) {
    return this.given(columns, values).normalize();
  }

  /** The same with weights that hold the density of the values, too. */
  given(columns, values) {
    const { count, dim, nu } = this;
    const given = columns.length;
    const rest = this.support.filter(c => !columns.includes(c));
    const left = rest.length;
    const logWeight = new Float64Array(count);
    const mean = new Float64Array(count * left);
    const scale = new Float64Array(count * left * left);
    const factor = new Float64Array(given * given);
    const wide = 1 + left;
    const solved = new Float64Array(given * wide); // L^-1 [values - mean, cross']
    for (let m = 0; m < count; m++) {
      const whole = m * dim * dim;
      for (let a = 0; a < given; a++) {
        const row = whole + columns[a] * dim;
        solved[a * wide] = values[a] - this.mean[m * dim + columns[a]];
        for (let b = 0; b < left; b++) solved[a * wide + 1 + b] = this.scale[row + rest[b]];
        for (let b = 0; b < given; b++) factor[a * given + b] = this.scale[row + columns[b]];
      }
      cholesky(factor, given);
      solveLower(factor, given, 0, solved, wide);
      let distance = 0;
      let logDet = 0;
      for (let a = 0; a < given; a++) {
        distance += solved[a * wide] * solved[a * wide];
        logDet += Math.log(factor[a * given + a]);
      }
      const growth = (nu[m] + distance) / (nu[m] + given);
      logWeight[m] =
        this.logWeight[m] +
        studentPeak(logDet, nu[m], given) -
        0.5 * (nu[m] + given) * Math.log1p(distance / nu[m]);
      for (let a = 0; a < left; a++) {
        let shift = 0;
        for (let k = 0; k < given; k++) shift += solved[k * wide + 1 + a] * solved[k * wide];
        mean[m * left + a] = this.mean[m * dim + rest[a]] + shift;
        for (let b = 0; b <= a; b++) {
          let known = 0;
          for (let k = 0; k < given; k++) known += solved[k * wide + 1 + a] * solved[k * wide + 1 + b];
          const value = growth * (this.scale[whole + rest[a] * dim + rest[b]] - known);
          scale[(m * left + a) * left + b] = value;
          scale[(m * left + b) * left + a] = value;
        }
      }
    }
    return new StudentMixture(
      logWeight,
      mean,
      scale,
      nu.map(value => value + given),
    );
  }

  /** The same components with other weights. */
  reweigh(logWeight) {
    return new StudentMixture(logWeight, this.mean, this.scale, this.nu, this.dim);
  }

  /** With weights that sum to one. */
  normalize() {
    const total = logSumExp(this.logWeight);
    if (!Number.isFinite(total)) throw new RangeError("the values given have no density");
    return this.reweigh(this.logWeight.map(weight => weight - total));
  }

  /** The components of several mixtures as one. */
  static join(parts) {
    const [first] = parts;
    if (parts.length === 1) return first;
    const together = name => {
      const size = first[name].length;
      const out = new Float64Array(size * parts.length);
      parts.forEach((part, k) => out.set(part[name], k * size));
      return out;
    };
    const names = ["logWeight", "mean", "scale", "nu"];
    return new StudentMixture(...names.map(together), first.dim);
  }

  /** There are no codes here: the whole of it. */
  slice() {
    return this;
  }

  at() {
    return this;
  }

  /** Distribution function at points of one column. */
  cdf(points) {
    return points.map(x => {
      let below = 0;
      for (let m = 0; m < this.count; m++) {
        if (this.logWeight[m] < -50) continue; // less than the last digit
        const t = (x - this.mean[m]) / Math.sqrt(this.scale[m]);
        below += Math.exp(this.logWeight[m]) * studentCdf(t, this.nu[m]);
      }
      return below;
    });
  }

  /** Where the distribution function of one column has the values `shares`. */
  quantile(shares) {
    let low = Infinity;
    let high = -Infinity;
    for (let m = 0; m < this.count; m++) {
      const spread = Math.sqrt(this.scale[m]);
      low = Math.min(low, this.mean[m] - spread);
      high = Math.max(high, this.mean[m] + spread);
    }
    return bisectQuantile(points => this.cdf(points), shares, low, high);
  }

  /** Components that hold more than exp(-UNSEEN) of the mass. */
  visible() {
    return [...this.logWeight.keys()].filter(m => this.logWeight[m] > -UNSEEN);
  }

  /** The same without the others: for pictures. */
  prune() {
    const kept = this.visible();
    return kept.length === this.count ? this : this.pick(kept);
  }

  /** Some of the components. */
  pick(slots) {
    const { dim } = this;
    return new StudentMixture(
      pickSlots(this.logWeight, slots, 1),
      pickSlots(this.mean, slots, dim),
      pickSlots(this.scale, slots, dim * dim),
      pickSlots(this.nu, slots, 1),
      dim,
    );
  }

  /** The law of x matrix + shift, matrix (d x e) and shift (e). */
  transform(matrix, shift) {
    const { count, dim } = this;
    const out = shift.length;
    const mean = new Float64Array(count * out);
    const scale = new Float64Array(count * out * out);
    const scratch = new Float64Array(dim * out);
    for (let m = 0; m < count; m++) {
      for (let b = 0; b < out; b++) {
        let sum = shift[b];
        for (let k = 0; k < dim; k++) sum += this.mean[m * dim + k] * matrix[k * out + b];
        mean[m * out + b] = sum;
      }
      congruence(matrix, dim, out, this.scale, m * dim * dim, scale, m * out * out, scratch);
    }
    return new StudentMixture(this.logWeight, mean, scale, this.nu);
  }
}

/** Log density at the mean of a Student-t whose scale has the Cholesky factor with log determinant `logDet`. */
function studentPeak(logDet, nu, dim) {
  return lgammaGain(0.5 * nu, 0.5 * dim) - logDet - 0.5 * dim * LOG_TWO_PI;
}

/** The parts of an array that belong to some of the components, `size` numbers each. */
export function pickSlots(values, slots, size) {
  const out = new Float64Array(slots.length * size);
  slots.forEach((slot, k) => out.set(values.subarray(slot * size, (slot + 1) * size), k * size));
  return out;
}

/** Index of the first of increasing values that is above `bound`; their number if none is. */
function firstAbove(values, bound) {
  let low = 0;
  let high = values.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (values[middle] > bound) high = middle;
    else low = middle + 1;
  }
  return low;
}
