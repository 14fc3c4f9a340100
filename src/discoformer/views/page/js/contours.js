// Lines of equal height on a grid, by marching squares.

// Edges of a cell that a line crosses, by which of its corners (1, 2, 4, 8 from the lower left, anticlockwise)
// are above: 0 bottom, 1 right, 2 top, 3 left.
const CROSSED = [
  [],
  [3, 0],
  [0, 1],
  [3, 1],
  [1, 2],
  [3, 0, 1, 2],
  [0, 2],
  [3, 2],
  [2, 3],
  [2, 0],
  [0, 1, 2, 3],
  [2, 1],
  [1, 3],
  [1, 0],
  [0, 3],
  [],
];

/**
 * Add the line where a grid (rows x columns, row by row) has the height `level` to a canvas path.
 *
 * @param {(column: number) => number} x, y - pixels of fractional columns and rows
 */
export function traceContour(path, grid, columns, rows, level, x, y) {
  for (let r = 0; r + 1 < rows; r++) {
    for (let c = 0; c + 1 < columns; c++) {
      const at = r * columns + c;
      const corners = [grid[at], grid[at + 1], grid[at + columns + 1], grid[at + columns]];
      let code = 0;
      for (let k = 0; k < 4; k++) if (corners[k] > level) code |= 1 << k;
      if (code === 0 || code === 15) continue;
      const edges = CROSSED[code];
      for (let k = 0; k < edges.length; k += 2) {
        const [ax, ay] = crossing(edges[k], corners, level);
        const [bx, by] = crossing(edges[k + 1], corners, level);
        path.moveTo(x(c + ax), y(r + ay));
        path.lineTo(x(c + bx), y(r + by));
      }
    }
  }
}

/** Where on an edge of the unit cell the height is met. */
function crossing(edge, corners, level) {
  const [from, to] = [corners[edge], corners[(edge + 1) % 4]];
  const part = (level - from) / (to - from);
  if (edge === 0) return [part, 0];
  if (edge === 1) return [1, part];
  return edge === 2 ? [1 - part, 1] : [0, 1 - part];
}
