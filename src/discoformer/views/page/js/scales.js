// From values to pixels and back, and where to put ticks.

/** A linear scale of [low, high] onto [0, size], upwards if `flip`. */
export function linearScale([low, high], size, flip = false) {
  const factor = size / (high - low);
  return {
    low,
    high,
    size,
    at: value => (flip ? size - (value - low) * factor : (value - low) * factor),
    value: pixel => low + (flip ? size - pixel : pixel) / factor,
  };
}

/** Round steps 1, 2, 5 x 10^k inside [low, high], about `count` of them. */
export function niceTicks(low, high, count) {
  const rough = (high - low) / Math.max(count, 1);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map(f => f * power).find(s => s >= rough * 0.999);
  const ticks = [];
  const first = Math.ceil(low / step - 1e-9);
  for (let k = first; k * step <= high + 1e-9 * step; k++) ticks.push(k * step + 0); // + 0: no minus zero
  return { ticks, step };
}

/** `count` midpoints of equal cells of [low, high]. */
export function midpoints([low, high], count) {
  const step = (high - low) / count;
  return Float64Array.from({ length: count }, (_, k) => low + (k + 0.5) * step);
}
