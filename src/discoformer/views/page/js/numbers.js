// Numbers as Python packs them (discoformer/views/page/numbers.py): doubles in base64, exact.

/** The flat Float64Array of `{shape, f64}`. */
export function unpack(numbers) {
  const text = atob(numbers.f64);
  const bytes = new Uint8Array(text.length);
  for (let k = 0; k < text.length; k++) bytes[k] = text.charCodeAt(k);
  return new Float64Array(bytes.buffer);
}

/** Full symmetric matrices (M x d x d) from their lower halves, row by row. */
export function unpackSymmetric(numbers, dim) {
  const lower = unpack(numbers);
  const size = (dim * (dim + 1)) / 2;
  const count = lower.length / size;
  const full = new Float64Array(count * dim * dim);
  for (let m = 0, k = 0; m < count; m++) {
    for (let i = 0; i < dim; i++) {
      for (let j = 0; j <= i; j++, k++) {
        full[(m * dim + i) * dim + j] = lower[k];
        full[(m * dim + j) * dim + i] = lower[k];
      }
    }
  }
  return full;
}
