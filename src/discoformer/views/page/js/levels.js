// Levels: the share of the mass where a density is higher than at a point.
//
// A level of 0.5 is the edge of the smallest region that holds half of the mass; 0.999 is a rare place.

const DEPTH = 24; // nats below the peak; what is lower has a level of one in pictures
const BINS = 480;
const EQUAL = 1e-9;

/**
 * The level of points of a density in all columns, from quantiles of its log density at its own draws.
 *
 * @param {ArrayLike<number>} quantiles - of the log density at draws, increasing, at evenly spaced shares
 */
export function levelOf(logDensity, quantiles) {
  const last = quantiles.length - 1;
  logDensity += EQUAL * (1 + Math.abs(logDensity)); // what differs by rounding alone is equal
  if (!(logDensity > quantiles[0])) return 1;
  if (logDensity >= quantiles[last]) return 0;
  let low = 0;
  let high = last;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (quantiles[middle] <= logDensity) low = middle;
    else high = middle;
  }
  const part = (logDensity - quantiles[low]) / (quantiles[high] - quantiles[low]);
  return 1 - (low + part) / last;
}

/** The levels of a density on a grid of cells of the same size; reads them by `levelInScale`. */
export function levelScale(density) {
  let top = 0;
  for (let k = 0; k < density.length; k++) if (density[k] > top) top = density[k];
  const mass = new Float64Array(BINS + 1); // by depth below the peak
  let total = 0;
  const peak = Math.log(top);
  for (let k = 0; k < density.length; k++) {
    if (!(density[k] > 0)) continue;
    mass[binOf(peak - Math.log(density[k]))] += density[k];
    total += density[k];
  }
  const level = new Float64Array(BINS + 1); // at the shallow end of every bin
  let above = 0;
  for (let b = 0; b <= BINS; b++) {
    level[b] = total ? above / total : 0;
    above += mass[b];
  }
  return { peak, level };
}

/** The level of a log density in a scale of `levelScale`. */
export function levelInScale(scale, logDensity) {
  const depth = scale.peak - logDensity;
  if (!(depth < DEPTH)) return 1;
  if (depth <= 0) return 0;
  const bin = binOf(depth);
  const part = (depth * BINS) / DEPTH - bin;
  return scale.level[bin] + part * (scale.level[bin + 1] - scale.level[bin]);
}

/** The log density at a level of a scale: the other way round, for contour lines. */
export function depthOfLevel(scale, level) {
  let bin = 0;
  while (bin < BINS - 1 && scale.level[bin + 1] < level) bin++;
  const width = scale.level[bin + 1] - scale.level[bin];
  const part = width > 0 ? Math.min((level - scale.level[bin]) / width, 1) : 1;
  return scale.peak - ((bin + part) * DEPTH) / BINS;
}

function binOf(depth) {
  return Math.min(Math.floor((depth * BINS) / DEPTH), BINS);
}
