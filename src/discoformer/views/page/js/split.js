// Columns of every kind as numbers and categories, exactly invertible.
//
// The twin of discoformer/columns/split.py.  A column with atoms becomes a category, which atom it is or none, and
// numbers with a gap at every atom.  A circular column is cut where Python cut it.  A lattice stays as it is; what
// is drawn is rounded to it.  Numbers come first, then categories.

const ON_GRID = 1e-6; // rounding, in steps of a lattice

export class SplitColumns {
  /** @param {object[]} columns - {kind, levels, atoms, step, origin, period, cut, numbers} each */
  constructor(columns) {
    this.columns = columns;
    this.dim = columns.length;
    const places = columns.map((_, j) => j);
    this.numbers = places.filter(j => columns[j].numbers);
    this.categories = places.filter(j => isCategory(columns[j]));
    this.inside = this.numbers.length + this.categories.length;
  }

  static read({ columns }) {
    return new SplitColumns(columns);
  }

  normalize(points) {
    const rows = points.length / this.dim;
    const out = new Float64Array(rows * this.inside);
    for (let p = 0; p < rows; p++) {
      this.numbers.forEach((j, k) => {
        out[p * this.inside + k] = toNumber(this.columns[j], points[p * this.dim + j]);
      });
      this.categories.forEach((j, k) => {
        const at = p * this.inside + this.numbers.length + k;
        out[at] = toCode(this.columns[j], points[p * this.dim + j]);
      });
    }
    return out;
  }

  denormalize(points) {
    const rows = points.length / this.inside;
    const out = new Float64Array(rows * this.dim);
    for (let p = 0; p < rows; p++) {
      this.numbers.forEach((j, k) => {
        out[p * this.dim + j] = fromNumber(this.columns[j], points[p * this.inside + k]);
      });
      this.categories.forEach((j, k) => {
        const { kind, atoms, numbers } = this.columns[j];
        const code = points[p * this.inside + this.numbers.length + k];
        if (kind === "category") out[p * this.dim + j] = code;
        else if (!numbers || code < atoms.length) out[p * this.dim + j] = atoms[code];
      });
    }
    return out;
  }

  outside(points, logDensity, score) {
    if (!score) return null;
    const out = new Float64Array(points.length);
    for (let p = 0; p < logDensity.length; p++) {
      this.numbers.forEach((j, k) => {
        out[p * this.dim + j] = score[p * this.inside + k];
      });
    }
    return out;
  }

  /** A distribution function of one column: atoms hold mass of their own. */
  cdf(inside, points) {
    const { atoms, mass, rest, left } = this.apart(inside);
    const below = rest ? rest.cdf(points).map(value => left * value) : new Float64Array(points.length);
    return below.map((value, p) =>
      atoms.reduce((sum, atom, k) => sum + (points[p] >= atom) * mass[k], value),
    );
  }

  quantile(inside, shares) {
    const { atoms, mass, rest, left } = this.apart(inside);
    if (!atoms.length) return rest.quantile(shares);
    const upto = this.cdf(inside, Float64Array.from(atoms));
    return Float64Array.from(shares, share => {
      const next = [...upto].findIndex(value => share <= value);
      if (!rest) return atoms.at(next);
      if (next >= 0 && share >= upto[next] - mass[next]) return atoms[next];
      const passed = mass.slice(0, next < 0 ? mass.length : next).reduce((sum, value) => sum + value, 0);
      const among = (share - passed) / left;
      return rest.quantile([Math.min(Math.max(among, Number.EPSILON), 1 - Number.EPSILON)])[0];
    });
  }

  /** Of one column: its atoms in order, their masses, and the law of the other values, whose mass is `left`. */
  apart(inside) {
    const [column] = this.columns;
    const law = {
      cdf: x => inside.cdf(this.normalize(x.map(value => endOfBin(column, value)))),
      quantile: s => this.denormalize(inside.quantile(s)),
    };
    if (!column.atoms.length) return { atoms: [], mass: [], rest: law, left: 1 };
    const order = column.atoms.map((_, k) => k).sort((a, b) => column.atoms[a] - column.atoms[b]);
    const which = inside.marginal([inside.dim - 1]);
    const mass = Array.from(which.logDensity(Float64Array.from(order)), Math.exp);
    const atoms = order.map(k => column.atoms[k]);
    const left = 1 - mass.reduce((sum, value) => sum + value, 0);
    if (!column.numbers) return { atoms, mass, rest: null, left };
    const others = new SplitColumns([{ ...column, atoms: [] }]);
    return { atoms, mass, rest: others.apart(inside.conditional([1], [atoms.length])).rest, left };
  }

  select(columns) {
    const chosen = columns.map(c => this.columns[c]);
    const numbers = columns.filter(c => this.columns[c].numbers).map(c => this.numbers.indexOf(c));
    const categories = columns.filter(c => this.categories.includes(c)).map(c => this.categories.indexOf(c));
    const inner = [...numbers, ...categories.map(c => this.numbers.length + c)];
    return [chosen.every(isPlain) ? null : new SplitColumns(chosen), inner];
  }

  /**
   * What is needed for the part of a density where columns have given codes, and the others are numbers.
   *
   * @param {(number|null)[]} codes - of every column, null for its numbers
   * @returns {{part: SplitColumns|null, numbers: number[], categories: number[], codes: number[]}} the map of the
   *   numbers that are left, their places inside, those of the categories, and the codes of these
   */
  slice(codes) {
    const free = this.numbers.filter(j => codes[j] === null);
    const left = free.map(j => ({ ...this.columns[j], atoms: [] }));
    return {
      part: left.every(isPlain) ? null : new SplitColumns(left),
      numbers: free.map(j => this.numbers.indexOf(j)),
      categories: this.categories.map((_, k) => this.numbers.length + k),
      codes: this.categories.map(j => codes[j] ?? this.columns[j].atoms.length),
    };
  }

  /** Values of a column of numbers inside, and log slopes. */
  axis(column, values) {
    return [values.map(x => toNumber(this.columns[column], x)), values.map(() => 0)];
  }

  outerSupport(support) {
    const outside = [...this.numbers, ...this.categories];
    return [...new Set(support.map(j => outside[j]))].sort((a, b) => a - b);
  }

  checkGiven() {}
}

function isCategory({ kind, atoms }) {
  return kind === "category" || atoms.length > 0;
}

function isPlain({ kind, atoms, step }) {
  return kind === "continuous" && !atoms.length && !step;
}

/** The code of a category, or of the atom that a value is, the last for none of them; NaN for a gap. */
function toCode({ kind, atoms }, value) {
  if (kind === "category" || Number.isNaN(value)) return value;
  const which = atoms.indexOf(value);
  return which < 0 ? atoms.length : which;
}

/** A value as a number: none at an atom, and on a circle the way from where it is cut. */
function toNumber({ atoms, cut, period }, value) {
  if (atoms.includes(value)) return NaN;
  return period ? remainder(value - cut, period) : value;
}

function fromNumber({ cut, step, origin, period }, number) {
  let value = number + cut;
  if (step) value = origin + step * Math.round((value - origin) / step) + 0;
  return period ? origin + remainder(value - origin, period) : value;
}

/** Where the bin of the last point of a lattice that is not above a value ends; of other columns, the value. */
function endOfBin({ step, origin }, value) {
  return step ? origin + step * (Math.floor((value - origin) / step + ON_GRID) + 0.5) : value;
}

/** From zero on, below the period, also of negative numbers. */
function remainder(value, period) {
  const rest = value % period;
  return rest < 0 ? rest + period : rest;
}
