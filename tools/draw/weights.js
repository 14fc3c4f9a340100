// Weights in half precision, as tools/draw_page.py writes them.

/** One number from its 16 bits. */
function halfToNumber(bits) {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >> 10) & 0x1f;
  const fraction = bits & 0x3ff;
  if (exponent === 0) return sign * fraction * 2 ** -24;
  return sign * (1 + fraction / 1024) * 2 ** (exponent - 15); // weights are finite: exponent 31 has no use
}

/**
 * Tensors by name, as flat arrays.
 *
 * @param {{tensors: [string, number][], f16: string}} numbers - names with sizes in order, and base64 of all
 */
export function readWeights({ tensors, f16 }) {
  const text = atob(f16);
  const found = {};
  let at = 0;
  for (const [name, size] of tensors) {
    const values = new Float64Array(size);
    for (let k = 0; k < size; k++, at += 2) {
      values[k] = halfToNumber(text.charCodeAt(at) | (text.charCodeAt(at + 1) << 8));
    }
    found[name] = values;
  }
  return found;
}
