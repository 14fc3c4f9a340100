// Small dense matrices, row by row in flat arrays: what a mixture of a few dozen components needs.
//
// Every function works on the matrix that starts at an offset, so that the matrices of all components can stand
// in one array and nothing is allocated in a loop.

/**
 * Cholesky's factor L of a symmetric matrix S = L L', in place.
 *
 * The lower half of `matrix` becomes L; the upper half is left as it is and never read.
 */
export function cholesky(matrix, size, offset = 0) {
  for (let j = 0; j < size; j++) {
    const rowJ = offset + j * size;
    let pivot = matrix[rowJ + j];
    for (let k = 0; k < j; k++) pivot -= matrix[rowJ + k] * matrix[rowJ + k];
    if (!(pivot > 0)) throw new RangeError("a scale matrix is not positive definite");
    const root = Math.sqrt(pivot);
    matrix[rowJ + j] = root;
    for (let i = j + 1; i < size; i++) {
      const rowI = offset + i * size;
      let sum = matrix[rowI + j];
      for (let k = 0; k < j; k++) sum -= matrix[rowI + k] * matrix[rowJ + k];
      matrix[rowI + j] = sum / root;
    }
  }
}

/** Solve L y = b in place, for the columns of `right` (size x columns) that start at `start`. */
export function solveLower(factor, size, offset, right, columns, start = 0) {
  for (let i = 0; i < size; i++) {
    const row = offset + i * size;
    for (let c = 0; c < columns; c++) {
      let sum = right[start + i * columns + c];
      for (let k = 0; k < i; k++) sum -= factor[row + k] * right[start + k * columns + c];
      right[start + i * columns + c] = sum / factor[row + i];
    }
  }
}

/** The inverse of a lower triangular matrix, in place; the upper half is not touched. */
export function invertLower(factor, size, offset = 0) {
  for (let j = 0; j < size; j++) {
    const diagonal = offset + j * size + j;
    factor[diagonal] = 1 / factor[diagonal];
    for (let i = j + 1; i < size; i++) {
      const row = offset + i * size;
      let sum = 0;
      for (let k = j; k < i; k++) sum += factor[row + k] * factor[offset + k * size + j];
      factor[row + j] = -sum / factor[row + i];
    }
  }
}

/** Inverse Cholesky factors of `count` symmetric matrices, and half the logarithms of their determinants. */
export function inverseRoots(matrices, count, size) {
  const root = Float64Array.from(matrices);
  const logDet = new Float64Array(count);
  for (let m = 0, at = 0; m < count; m++, at += size * size) {
    cholesky(root, size, at);
    for (let j = 0; j < size; j++) logDet[m] += Math.log(root[at + j * size + j]);
    invertLower(root, size, at);
  }
  return { root, logDet };
}

/** out = left' middle right for left (d x e), middle (d x d) at an offset, right = left: (e x e) at another. */
export function congruence(left, d, e, middle, offset, out, start, scratch) {
  for (let i = 0; i < d; i++) {
    for (let b = 0; b < e; b++) {
      let sum = 0;
      for (let k = 0; k < d; k++) sum += middle[offset + i * d + k] * left[k * e + b];
      scratch[i * e + b] = sum;
    }
  }
  for (let a = 0; a < e; a++) {
    for (let b = 0; b < e; b++) {
      let sum = 0;
      for (let k = 0; k < d; k++) sum += left[k * e + a] * scratch[k * e + b];
      out[start + a * e + b] = sum;
    }
  }
}

/** log sum exp of the first `count` numbers; -Infinity if none of them is finite. */
export function logSumExp(values, count = values.length) {
  let top = -Infinity;
  for (let k = 0; k < count; k++) if (values[k] > top) top = values[k];
  if (top === -Infinity) return top;
  let sum = 0;
  for (let k = 0; k < count; k++) sum += Math.exp(values[k] - top);
  return top + Math.log(sum);
}
