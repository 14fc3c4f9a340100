// The pictures of the corner: one column as a line over its histogram, two columns as a map of levels.
//
// A panel has two layers: the density, which moves with the sliders, and above it the rows and the marks, which
// do not.

import { densityColours } from "./colours.js";
import { traceContour } from "./contours.js";
import { sizeCanvas } from "./dom.js";
import { formatShare } from "./format.js";
import { codesOf, isLabelled, numbersPart } from "./kinds.js";
import { depthOfLevel, levelInScale, levelScale } from "./levels.js";
import { linearScale, midpoints } from "./scales.js";

export const LINES = [0.5, 0.8, 0.95]; // shares of the mass inside the contour lines
const LINE_POINTS = 240;
const HIGHEST = 4; // how much a line may stand above the tallest bar before it is cut
export const COARSE = 56; // cells of the grid that levels are read from when the picture is zoomed

/** One column: bars for the rows, a line for its density, a thin one for that before conditioning. */
export function drawColumn(canvas, size, column, range, density, before, colours) {
  const context = sizeCanvas(canvas, size.width, size.height);
  const x = linearScale(range, size.width);
  const [first, last] = column.edges;
  const step = (last - first) / column.counts.length;
  const sum = values => values.reduce((total, value) => total + value, 0);
  const total = sum(column.counts) + column.beyond + sum(column.atoms.map(([, count]) => count));
  const heights = column.counts.map(count => count / (total * step || 1));
  if (isLabelled(column)) {
    drawLabels(context, size, column, x, heights, [before, density], colours);
    return;
  }
  const curve = density && profile(density, column, range);
  const plain = before && profile(before, column, range);
  const seen = heights.filter((_, k) => first + (k + 1) * step > range[0] && first + k * step < range[1]);
  const tallest = Math.max(...seen, 0);
  const peak = curve ? Math.max(...curve.heights) : 0;
  const spikes = column.atoms.map(([value, count]) => [value, count / (total * step || 1), count / total]);
  const highest = Math.max(...spikes.map(([, height]) => height), 0);
  const among = Math.max(tallest, Math.min(peak, HIGHEST * tallest || peak));
  const top = 1.08 * Math.max(among, Math.min(highest, 2 * among || highest)) || 1;
  const y = linearScale([0, top], size.height - 1, true);
  context.fillStyle = colours.bar;
  heights.forEach((height, k) => {
    const left = x.at(first + k * step);
    const wide = Math.max(x.at(first + (k + 1) * step) - left - 1, 0.5);
    if (height > 0) context.fillRect(left, y.at(height), wide, y.at(0) - y.at(height));
  });
  if (plain) stroke(context, plain, x, y, colours.muted, 1, [3, 3]);
  if (curve) stroke(context, curve, x, y, colours.curve, 2, []);
  if (spikes.length) drawSpikes(context, size, spikes, x, y, step, [before, density], colours);
}

/** Values with mass of their own: a bar each, as wide as those beside it, with its share in words. */
function drawSpikes(context, size, spikes, x, y, step, [before, density], colours) {
  const at = Float64Array.from(spikes, ([value]) => value);
  const [old, mass] = [before, density].map(law => law && law.logDensity(at).map(Math.exp));
  const wide = Math.max(x.at(step) - x.at(0), 5);
  spikes.forEach(([value, height, share], k) => {
    const left = x.at(value) - wide / 2;
    const tip = Math.max(y.at(height), 0);
    context.fillStyle = colours.bar;
    context.fillRect(left, tip, wide, y.at(0) - tip);
    const tick = (law, colour, thick) => {
      context.fillStyle = colour;
      if (law) context.fillRect(left - 2, Math.max(y.at(law[k] / step), 0), wide + 4, thick);
    };
    tick(old, colours.muted, 1);
    tick(mass, colours.curve, 2);
    context.fillStyle = colours.ink;
    context.font = `10px ${colours.font}`;
    context.textAlign = left + wide + 30 < size.width ? "left" : "right";
    const beside = context.textAlign === "left" ? left + wide + 4 : left - 4;
    context.fillText(formatShare(mass ? mass[k] : share), beside, Math.max(tip, 16) + 9);
  });
}

/** Labels: a bar for the rows of each, a mark for its probability, a thin one for that before conditioning. */
function drawLabels(context, size, column, x, heights, laws, colours) {
  const [old, now] = laws.map(law => law && law.logDensity(codesOf(column)).map(Math.exp));
  const y = linearScale([0, 1.25 * Math.max(...heights, ...(now ?? [])) || 1], size.height - 1, true);
  heights.forEach((height, code) => {
    const [left, right] = [x.at(code - 0.38), x.at(code + 0.38)];
    context.fillStyle = colours.bar;
    context.fillRect(left, y.at(height), right - left, y.at(0) - y.at(height));
    context.fillStyle = colours.muted;
    if (old) context.fillRect(left, y.at(old[code]) - 0.5, right - left, 1);
    context.fillStyle = colours.curve;
    if (now) context.fillRect(left, y.at(now[code]) - 1, right - left, 2.5);
  });
}

/**
 * A density over a range, to be drawn as a line.
 *
 * A column of a few values has a density of spikes that no line can show: its mass in every bar is drawn.
 */
function profile(density, column, range) {
  const kept = profiles.get(density);
  if (kept && kept.range[0] === range[0] && kept.range[1] === range[1]) return kept.found;
  const found = measureProfile(density, column, range);
  profiles.set(density, { range, found });
  return found;
}

const profiles = new WeakMap(); // by density: that before conditioning is the same in every frame

function measureProfile(density, column, range) {
  if (!column.few || column.atoms.length) {
    if (!column.numbers) return { points: [], heights: [0] };
    const part = numbersPart(density, [column]);
    const step = (range[1] - range[0]) / (LINE_POINTS - 1);
    const points = Float64Array.from({ length: LINE_POINTS }, (_, k) => range[0] + k * step);
    return { points, heights: part.logDensity(points).map(Math.exp) };
  }
  const count = column.counts.length;
  const step = (column.edges[1] - column.edges[0]) / count;
  const edges = Float64Array.from({ length: count + 1 }, (_, k) => column.edges[0] + k * step);
  const below = density.cdf(edges);
  const points = Float64Array.from({ length: 2 * count }, (_, k) => edges[(k + 1) >> 1]);
  return { points, heights: points.map((_, k) => (below[(k >> 1) + 1] - below[k >> 1]) / step) };
}

function stroke(context, { points, heights }, x, y, colour, width, dash) {
  context.beginPath();
  points.forEach((value, k) => context.lineTo(x.at(value), Math.max(y.at(heights[k]), -4)));
  context.strokeStyle = colour;
  context.lineWidth = width;
  context.lineJoin = "round";
  context.setLineDash(dash);
  context.stroke();
  context.setLineDash([]);
}

/**
 * Two columns: every place in the colour of its level, with lines around given shares of the mass.
 *
 * @returns {object} the levels, for reading them at a point
 */
export function drawPair(canvas, size, ranges, full, density, cells, colours) {
  const context = sizeCanvas(canvas, size.width, size.height);
  const [xs, ys] = ranges.map(range => midpoints(range, cells));
  const grid = density.densityGrid(xs, ys);
  const zoomed = ranges.some((range, j) => range[0] !== full[j][0] || range[1] !== full[j][1]);
  const scale = levelScale(
    zoomed ? density.densityGrid(...full.map(range => midpoints(range, COARSE))) : grid,
  );
  paintLevels(context, size, grid, [cells, cells], scale, colours.dark, true);
  const cell = [size.width / cells, size.height / cells];
  context.strokeStyle = colours.dark ? "rgba(255,255,255,0.55)" : "rgba(20,30,45,0.55)";
  LINES.forEach((share, k) => {
    context.beginPath();
    const level = Math.exp(depthOfLevel(scale, share));
    traceContour(
      context,
      grid,
      cells,
      cells,
      level,
      c => (c + 0.5) * cell[0],
      r => size.height - (r + 0.5) * cell[1],
    );
    context.lineWidth = k === 0 ? 1.2 : 0.7;
    context.stroke();
  });
  return scale;
}

const shades = new Map(); // the 256 colours of a theme, and a small canvas to scale up from

/** Every cell of a grid of columns and rows in the colour of its level, smoothly or not. */
export function paintLevels(context, size, grid, [columns, rows], scale, dark, smooth) {
  if (!shades.has(dark)) shades.set(dark, densityColours(dark));
  const colours = shades.get(dark);
  const small = scratchCanvas(columns, rows);
  const image = new ImageData(columns, rows);
  for (let r = 0, k = 0; r < rows; r++) {
    for (let c = 0; c < columns; c++, k++) {
      if (!(grid[k] > 0)) continue;
      const level = levelInScale(scale, Math.log(grid[k]));
      const shade = 4 * Math.round(255 * (1 - level));
      const at = 4 * ((rows - 1 - r) * columns + c);
      for (let part = 0; part < 4; part++) image.data[at + part] = colours[shade + part];
    }
  }
  small.getContext("2d").putImageData(image, 0, 0);
  context.imageSmoothingEnabled = smooth;
  context.imageSmoothingQuality = "high";
  context.drawImage(small, 0, 0, columns, rows, 0, 0, size.width, size.height);
}

const scratches = new Map();

function scratchCanvas(columns, rows) {
  const key = `${columns},${rows}`;
  if (!scratches.has(key)) {
    const canvas = document.createElement("canvas");
    [canvas.width, canvas.height] = [columns, rows];
    scratches.set(key, canvas);
  }
  return scratches.get(key);
}

/** Arrows of the score, per width and height of the picture, so that they are perpendicular to the lines. */
export function drawArrows(context, size, ranges, density, scale, colours) {
  const count = Math.max(6, Math.round(size.width / 22));
  const [xs, ys] = ranges.map(range => midpoints(range, count));
  const points = new Float64Array(2 * count * count);
  for (let r = 0, k = 0; r < count; r++) {
    for (let c = 0; c < count; c++, k += 2) [points[k], points[k + 1]] = [xs[c], ys[r]];
  }
  const { logDensity, score } = density.estimate(points);
  const arrows = [];
  const [wide, tall] = ranges.map(range => range[1] - range[0]);
  for (let k = 0; k < logDensity.length; k++) {
    if (levelInScale(scale, logDensity[k]) > 0.985) continue;
    const [dx, dy] = [score[2 * k] * wide, score[2 * k + 1] * tall];
    const length = Math.sqrt(Math.hypot(dx, dy)); // roots, so that short arrows stay visible
    if (length > 0) arrows.push([points[2 * k], points[2 * k + 1], dx / length, dy / length]);
  }
  const longest = Math.max(...arrows.map(([, , dx, dy]) => Math.hypot(dx, dy)), 1e-300);
  const unit = (0.9 * size.width) / count / longest;
  const x = linearScale(ranges[0], size.width);
  const y = linearScale(ranges[1], size.height, true);
  context.strokeStyle = colours.dark ? "rgba(255,255,255,0.9)" : "rgba(10,20,30,0.85)";
  context.lineWidth = 1;
  context.beginPath();
  for (const [px, py, dx, dy] of arrows) {
    const [ax, ay] = [dx * unit, -dy * unit];
    const [sx, sy] = [x.at(px) - ax / 2, y.at(py) - ay / 2];
    const [ex, ey] = [sx + ax, sy + ay];
    context.moveTo(sx, sy);
    context.lineTo(ex, ey);
    context.lineTo(ex - 0.35 * ax - 0.2 * ay, ey - 0.35 * ay + 0.2 * ax);
    context.moveTo(ex, ey);
    context.lineTo(ex - 0.35 * ax + 0.2 * ay, ey - 0.35 * ay - 0.2 * ax);
  }
  context.stroke();
}
