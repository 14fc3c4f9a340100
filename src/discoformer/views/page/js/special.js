// Special functions in double precision: log gamma, the normal law and Student's.
//
// Tests compare every one of them with scipy (tests/views/page/test_engine.py).

export const HALF_LOG_TWO_PI = 0.9189385332046727;
const HALF_LOG_PI = 0.5723649429247001;
const SQRT_HALF = Math.SQRT1_2;

/** Stirling's remainder log Gamma(x) - (x - 1/2) log x + x - log(2 pi)/2, for x of at least ten. */
function stirlingRemainder(x) {
  const square = 1 / (x * x);
  const tail = 1 / 1188 - square * (691 / 360360 - square / 156);
  return (1 / 12 - square * (1 / 360 - square * (1 / 1260 - square * (1 / 1680 - square * tail)))) / x;
}

/** log Gamma(x) of x > 0. */
export function lgamma(x) {
  let shift = 1;
  while (x < 10) {
    shift *= x;
    x += 1;
  }
  return (x - 0.5) * Math.log(x) - x + HALF_LOG_TWO_PI + stirlingRemainder(x) - Math.log(shift);
}

/**
 * log Gamma(a + h) - log Gamma(a) - h log a of a > 0 and h >= 0.
 *
 * The difference of two large numbers is never taken, so it keeps its digits for any a.
 */
export function lgammaGain(a, h) {
  let shift = 0;
  const start = a;
  while (a < 10) {
    shift += Math.log1p(h / a);
    a += 1;
  }
  const step = Math.log1p(h / a);
  const gain = (a + h - 0.5) * step - h + stirlingRemainder(a + h) - stirlingRemainder(a);
  return gain + h * Math.log(a / start) - shift;
}

/**
 * Chebyshev coefficients of log(exp(x^2) erfc(x) / t) in u = 2 t - 1, t = 2 / (2 + x): one smooth function for
 * all x >= 0.  Computed with sixty digits from 128 nodes; what is cut off is below 1e-17.
 */
const ERFC = [
  -1.302653719781709434, 0.6419697923564902603, 0.01947647320418583631, -0.009561514786808631642,
  -0.0009465953444820368663, 0.0003668394978527614519, 0.00004252332480690777164, -0.00002027857811253424315,
  -1.624290004647025513e-6, 1.303655835580523202e-6, 1.562644172206614318e-8, -8.523809591492654253e-8,
  6.529054439098851496e-9, 5.059343495551468942e-9, -9.913641564930330867e-10, -2.273651222931835856e-10,
  9.646791102015526802e-11, 2.394038083039114745e-12, -6.886027526497553398e-12, 8.944879273090725717e-13,
  3.130921399342958078e-13, -1.127082236136725237e-13, 3.810905255189232055e-16, 7.106097613609236988e-15,
  -1.523028201457104304e-15, -9.457494571291234e-17, 1.210237189224278992e-16, -2.816663087747176972e-17,
];

/** log(exp(x^2) erfc(x)) of x >= 0, by Clenshaw's recurrence. */
function logScaledErfc(x) {
  const t = 2 / (2 + x);
  const twice = 4 * t - 2;
  let b = 0;
  let before = 0;
  for (let k = ERFC.length - 1; k > 0; k--) {
    const next = twice * b - before + ERFC[k];
    before = b;
    b = next;
  }
  return Math.log(t) + 0.5 * (ERFC[0] + twice * b) - before;
}

/** The complementary error function 1 - erf(x), with all its digits in the right tail. */
export function erfc(x) {
  if (x < 0) return 2 - erfc(-x);
  const coarse = Math.fround(x); // its square is exact, and so is what remains
  return Math.exp(-coarse * coarse) * Math.exp((coarse - x) * (coarse + x) + logScaledErfc(x));
}

/** The error function. */
export function erf(x) {
  if (Math.abs(x) > 0.5) return x > 0 ? 1 - erfc(x) : erfc(-x) - 1;
  let term = x;
  let sum = x;
  for (let k = 1; Math.abs(term) > 1e-17 * Math.abs(sum); k++) {
    term *= (-x * x) / k;
    sum += term / (2 * k + 1);
  }
  return (2 / Math.sqrt(Math.PI)) * sum;
}

/** The normal distribution function. */
export function ndtr(z) {
  return 0.5 * erfc(-z * SQRT_HALF);
}

/** Its logarithm, finite in the farthest tail. */
export function logNdtr(z) {
  if (z > -1) return Math.log1p(-0.5 * erfc(z * SQRT_HALF));
  return logScaledErfc(-z * SQRT_HALF) - 0.5 * z * z - Math.LN2;
}

/** The normal quantile: z with ndtr(z) = p. */
export function ndtri(p) {
  if (!(p > 0 && p < 1)) return p === 0 ? -Infinity : p === 1 ? Infinity : NaN;
  if (p > 0.5) return -ndtri(1 - p);
  const t = Math.sqrt(-2 * Math.log(p));
  // Abramowitz and Stegun 26.2.22, good to three digits; each of Halley's steps has three times as many
  let z = (2.30753 + 0.27061 * t) / (1 + t * (0.99229 + 0.04481 * t)) - t;
  for (let k = 0; k < 3; k++) {
    const logSlope = -0.5 * z * z - HALF_LOG_TWO_PI;
    const step = (ndtr(z) - p) * Math.exp(-logSlope);
    z -= step / (1 + 0.5 * z * step);
  }
  return z;
}

/** z with logNdtr(z) = logShare, far out in the left tail, by Newton's steps from the leading term. */
export function logNdtrInverse(logShare) {
  let z = -Math.sqrt(-2 * logShare);
  for (let k = 0; k < 4; k++) {
    const value = logNdtr(z);
    z -= (value - logShare) * Math.exp(value + 0.5 * z * z + HALF_LOG_TWO_PI);
  }
  return z;
}

/** The continued fraction of the incomplete beta function I_x(a, b), by Lentz's method. */
function betaFraction(a, b, x) {
  const tiny = 1e-300;
  const safe = value => (Math.abs(value) < tiny ? tiny : value);
  let c = 1;
  let d = 1 / safe(1 - ((a + b) * x) / (a + 1));
  let result = d;
  for (let m = 1; m < 1000; m++) {
    const even = (m * (b - m) * x) / ((a + 2 * m - 1) * (a + 2 * m));
    d = 1 / safe(1 + even * d);
    c = safe(1 + even / c);
    result *= d * c;
    const odd = (-(a + m) * (a + b + m) * x) / ((a + 2 * m) * (a + 2 * m + 1));
    d = 1 / safe(1 + odd * d);
    c = safe(1 + odd / c);
    const factor = d * c;
    result *= factor;
    if (Math.abs(factor - 1) < 1e-16) break;
  }
  return result;
}

/** Student's distribution function with nu degrees of freedom. */
export function studentCdf(t, nu) {
  if (t > 0) return 1 - studentCdf(-t, nu);
  if (nu > 1e4) return nearlyNormalCdf(t, nu);
  // half of I_x(nu/2, 1/2) at x = nu / (nu + t^2)
  const a = 0.5 * nu;
  const logX = -Math.log1p((t * t) / nu);
  const x = Math.exp(logX);
  const rest = (t * t) / (nu + t * t);
  if (rest === 0) return 0.5;
  const logBeta = HALF_LOG_PI - lgammaGain(a, 0.5) - 0.5 * Math.log(a);
  const front = Math.exp(a * logX + 0.5 * Math.log(rest) - logBeta);
  if (x < (a + 1) / (a + 2.5)) return (0.5 * front * betaFraction(a, 0.5, x)) / a;
  return 0.5 - front * betaFraction(0.5, a, rest);
}

/** The same for many degrees of freedom, by Fisher's expansion in 1/nu; what is cut off is below 1e-14. */
function nearlyNormalCdf(t, nu) {
  if (t < -40) return 0; // less than 1e-300
  const s = t * t;
  const first = (s + 1) / 4;
  const second = (((3 * s - 7) * s - 5) * s - 3) / 96;
  const third = (((((s - 11) * s + 14) * s + 6) * s - 3) * s - 15) / 384;
  const correction = (t * (first + (second + third / nu) / nu)) / nu;
  return ndtr(t) - correction * Math.exp(-0.5 * s - HALF_LOG_TWO_PI);
}
