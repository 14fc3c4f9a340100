// Samples to begin with, always the same, in a window from -4 to 4.

import { Random } from "./random.js";

const POINTS = 240;

const SHAPES = {
  clusters: ([a, b], k) =>
    [
      [-2 + 0.5 * a, 1 + 0.9 * b],
      [1.7 + 0.4 * a, 2 + 0.4 * b],
      [0.8 + 0.9 * a + 0.6 * b, -1.8 + 0.5 * b],
    ][k % 3],
  ring: ([a, b], k, u) => [
    2.5 * Math.cos(2 * Math.PI * u) + 0.18 * a,
    2.5 * Math.sin(2 * Math.PI * u) + 0.18 * b,
  ],
  moons: ([a, b], k, u) => {
    const side = k % 2 ? 1 : -1;
    return [
      side * (1.9 * Math.cos(Math.PI * u) + 0.95) + 0.2 * a,
      side * (1.9 * Math.sin(Math.PI * u) - 0.45) + 0.2 * b,
    ];
  },
  spiral: ([a, b], k, u) => {
    const turn = 3.2 * Math.PI * Math.sqrt(u);
    return [0.33 * turn * Math.cos(turn) + 0.12 * a, 0.33 * turn * Math.sin(turn) + 0.12 * b];
  },
  skewed: ([a, b]) => [-3.2 + 1.1 * Math.exp(0.6 * a), -2.8 + 1.2 * Math.exp(0.5 * b + 0.25 * a)],
};

export const EXAMPLES = Object.keys(SHAPES);

/** The points (n x 2) of an example. */
export function makeExample(name) {
  const random = new Random(7);
  const points = [];
  for (let k = 0; k < POINTS; k++)
    points.push(...SHAPES[name]([random.normal(), random.normal()], k, random.uniform()));
  return points;
}
