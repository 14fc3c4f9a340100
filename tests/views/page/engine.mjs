// Appended to the bundle of density.js by the tests: reads a task from standard input, writes the answers.
//
// Either {special: [[name, arguments], ...]}, or {numbers, asks} with asks of the form
// {through: [["marginal", columns], ["conditional", columns, values]], verb: "logDensity", at: [numbers, ...]}.

import { readFileSync } from "node:fs";

const TASK = JSON.parse(readFileSync(0, "utf8"));
const SPECIAL = {
  ...{ lgamma, lgammaGain, erf, erfc, ndtr, logNdtr, ndtri, logNdtrInverse, studentCdf, levelOf },
  gammaDraws: (shape, count) => {
    const random = new Random(5);
    return Array.from({ length: count }, () => random.gamma(shape));
  },
  gridLevel: (density, logDensity) => levelInScale(levelScale(density), logDensity),
  gridDepth: (density, level) => depthOfLevel(levelScale(density), level),
};

/** JSON has no word for a gap either: null stands for it. */
function gaps(values) {
  return Array.isArray(values) ? values.map(gaps) : (values ?? NaN);
}

/** JSON has no word for infinity: text stands for it. */
function plain(found) {
  if (found.score) return { logDensity: plain(found.logDensity), score: plain(found.score) };
  return Array.from(found, value => (Number.isFinite(value) ? value : String(value)));
}

/** Codes of a slice are null where there are none. */
function asked(step, given) {
  return step === "slice" ? given : gaps(given);
}

function answer(whole, { through, verb, at }) {
  const density = through.reduce((part, [step, ...given]) => part[step](...asked(step, given)), whole);
  if (verb === "sample") return plain(density.sample(at[0], new Random(1)));
  return plain(density[verb](...at.map(values => Float64Array.from(gaps(values)))));
}

function answers() {
  if (TASK.special)
    return TASK.special.map(([name, given]) => {
      const found = given.map(row => SPECIAL[name](...row));
      return Array.isArray(found[0]) ? found : plain(found);
    });
  const density = readDensity(TASK.numbers);
  return TASK.asks.map(ask => answer(density, ask));
}

process.stdout.write(JSON.stringify(answers()));
