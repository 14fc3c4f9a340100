// Columns of every kind in pictures: where a value is drawn, and which part of a density can be drawn there.

const SPREAD = 0.7; // of the room of a label that its rows take
const STRIDES = [0.7548776662466927, 0.5698402909980532]; // whose multiples fill a square evenly

/** Whether a column has labels, whose codes are 0, 1, ... */
export function isLabelled({ labels }) {
  return labels.length > 0;
}

/** The codes of the labels of a column. */
export function codesOf({ labels }) {
  return Float64Array.from(labels, (_, code) => code);
}

/** Where row `k` is drawn along an axis: rows of the same label are spread, so that none hides another. */
export function spread(column, value, k, axis) {
  return isLabelled(column) ? value + SPREAD * (((k * STRIDES[axis]) % 1) - 0.5) : value;
}

/** The value under a place along an axis: that of the label there. */
export function valueAt(column, place) {
  return isLabelled(column) ? Math.min(Math.max(Math.round(place), 0), column.labels.length - 1) : place;
}

/**
 * The part of a density of some columns that has a height at every place: of labels those with given codes, of
 * numbers those without mass of their own.
 *
 * @param {(number|null)[]} codes - of every column, null for numbers
 */
export function numbersPart(density, columns, codes = columns.map(() => null)) {
  return columns.some(column => isLabelled(column) || column.atoms.length) ? density.slice(codes) : density;
}
