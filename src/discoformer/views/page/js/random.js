// Random numbers that repeat from a seed: the same page shows the same draws.

export class Random {
  constructor(seed) {
    this.state = seed >>> 0;
    this.spare = null;
  }

  /** Between 0 and 1, neither included: a counter whose bits are mixed (Weyl sequence and two multiplications). */
  uniform() {
    this.state = (this.state + 0x9e3779b9) >>> 0;
    let bits = this.state;
    bits = Math.imul(bits ^ (bits >>> 16), 0x85ebca6b);
    bits = Math.imul(bits ^ (bits >>> 13), 0xc2b2ae35);
    return ((bits ^ (bits >>> 16)) >>> 0) / 2 ** 32 + 2 ** -33;
  }

  /** Of a standard normal law, by pairs (Box and Muller). */
  normal() {
    if (this.spare !== null) {
      const kept = this.spare;
      this.spare = null;
      return kept;
    }
    const radius = Math.sqrt(-2 * Math.log(this.uniform()));
    const angle = 2 * Math.PI * this.uniform();
    this.spare = radius * Math.sin(angle);
    return radius * Math.cos(angle);
  }

  /** Of a gamma law with a shape of at least one and scale one (Marsaglia and Tsang). */
  gamma(shape) {
    const d = shape - 1 / 3;
    const c = 1 / Math.sqrt(9 * d);
    for (;;) {
      const x = this.normal();
      const v = (1 + c * x) ** 3;
      if (v > 0 && Math.log(this.uniform()) < 0.5 * x * x + d - d * v + d * Math.log(v)) return d * v;
    }
  }

  /** The number of one of the weights, which sum to one, by how large they are. */
  choose(weights) {
    let left = this.uniform();
    for (let k = 0; k < weights.length - 1; k++) {
      left -= weights[k];
      if (left < 0) return k;
    }
    return weights.length - 1;
  }
}
