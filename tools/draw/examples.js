// Samples to begin with, always the same, in a window from -4 to 4.

/** Numbers between 0 and 1 that repeat from a seed. */
function makeRandom(seed) {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return (state + 0.5) / 2 ** 32;
  };
}

const POINTS = 240;

/** Two numbers of a standard normal law. */
export function normalPair(random) {
  const radius = Math.sqrt(-2 * Math.log(random()));
  const angle = 2 * Math.PI * random();
  return [radius * Math.cos(angle), radius * Math.sin(angle)];
}

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
  const random = makeRandom(7);
  const points = [];
  for (let k = 0; k < POINTS; k++) points.push(...SHAPES[name](normalPair(random), k, random()));
  return points;
}
