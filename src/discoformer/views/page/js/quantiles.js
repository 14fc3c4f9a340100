// Quantiles from a distribution function, by bisection.

const HALVINGS = 200; // more than double precision can tell; the loop ends as soon as nothing moves

/**
 * Points where `cdf`, increasing, has the values `shares`, strictly between 0 and 1.
 *
 * @param {(points: Float64Array) => Float64Array} cdf
 * @param {ArrayLike<number>} shares
 * @param {number} low, high - a first guess of a bracket, which is widened until it holds the answer
 */
export function bisectQuantile(cdf, shares, low, high) {
  const at = x => cdf(Float64Array.of(x))[0];
  return Float64Array.from(shares, share => {
    let [a, b] = [low, high];
    for (let reach = b - a || 1; at(a) > share; reach *= 2) a -= reach;
    for (let reach = b - a || 1; at(b) < share; reach *= 2) b += reach;
    for (let k = 0; k < HALVINGS; k++) {
      const middle = 0.5 * (a + b);
      if (middle <= a || middle >= b) break;
      if (at(middle) < share) a = middle;
      else b = middle;
    }
    return 0.5 * (a + b);
  });
}
