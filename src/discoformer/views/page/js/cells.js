// Two columns of which one has labels, or both: a strip for every label, in the colours of levels.

import { sizeCanvas } from "./dom.js";
import { codesOf, isLabelled, numbersPart } from "./kinds.js";
import { levelScale } from "./levels.js";
import { COARSE, paintLevels } from "./panels.js";
import { midpoints } from "./scales.js";

/**
 * Draw the strips or cells.
 *
 * @param {object[]} columns - the one across, and the one upwards
 * @returns {object} the levels, for reading them at a point
 */
export function drawCells(canvas, size, columns, ranges, density, cells, colours) {
  const context = sizeCanvas(canvas, size.width, size.height);
  const grid = densityCells(density, columns, ranges, cells);
  const full = columns.map(column => [column.low, column.high]);
  const zoomed = ranges.some((range, j) => range[0] !== full[j][0] || range[1] !== full[j][1]);
  const scale = levelScale(zoomed ? densityCells(density, columns, full, COARSE) : grid);
  const [wide, tall] = columns.map(column => (isLabelled(column) ? column.labels.length : cells));
  paintLevels(context, size, grid, [wide, tall], scale, colours.dark, false);
  context.fillStyle = colours.paper; // a gap between labels
  for (let k = 1; k < wide && isLabelled(columns[0]); k++)
    context.fillRect((k * size.width) / wide - 0.5, 0, 1, size.height);
  for (let k = 1; k < tall && isLabelled(columns[1]); k++)
    context.fillRect(0, (k * size.height) / tall - 0.5, size.width, 1);
  return scale;
}

/** Densities (upwards x across), beside every label, at the midpoints of the cells of numbers. */
function densityCells(density, columns, ranges, cells) {
  const [xs, ys] = columns.map((column, k) =>
    isLabelled(column) ? codesOf(column) : midpoints(ranges[k], cells),
  );
  const out = new Float64Array(xs.length * ys.length);
  if (columns.every(isLabelled)) {
    const points = Float64Array.from({ length: 2 * out.length }, (_, k) => {
      return k % 2 ? ys[Math.floor(k / 2 / xs.length)] : xs[(k >> 1) % xs.length];
    });
    return density.logDensity(points).map(Math.exp);
  }
  const across = isLabelled(columns[0]);
  (across ? xs : ys).forEach(code => {
    const part = numbersPart(density, columns, across ? [code, null] : [null, code]);
    part.logDensity(across ? ys : xs).forEach((value, k) => {
      out[across ? k * xs.length + code : code * xs.length + k] = Math.exp(value);
    });
  });
  return out;
}
