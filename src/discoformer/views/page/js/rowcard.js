// One row in full: what it shows, what the other columns suggest, and where it does not fit.

import { theme } from "./colours.js";
import { element } from "./dom.js";
import { formatNumber, formatShare, formatSuggested, formatValue } from "./format.js";
import { drawColumn } from "./panels.js";
import { panelScales } from "./marks.js";

const PICTURE = { width: 260, height: 110 };
const FIRST = 4; // columns told at once, the most surprising
const ODD = 4; // nats from which on a value is marked

/**
 * The card of a row; empty if the page does not have the row.
 *
 * @param {number} number
 * @param {object} explorer - of `explore`
 * @param {object[]} unusual - rows that Python asked a fit about that had not seen them
 */
export function makeRowCard(number, explorer, unusual) {
  const { answers, state } = explorer;
  const values = answers.row(number);
  if (!values) return [element("p.hint", {}, `Row ${number} is not among the rows in this page.`)];
  const button = (text, click) => element("button", { type: "button", click }, text);
  const close = button("close", () => state.set({ selected: null }));
  const title = element("h3", {}, `Row ${number}`);
  if (!answers.density) return [element("div.cardtop", {}, title, close), plainTable(answers, values)];
  const hold = button("hold the others at this row", () => holdOthers(number, explorer));
  const top = element("div.cardtop", {}, title, hold, close);
  let parts;
  try {
    parts = answers.explain(values);
  } catch {
    return [top, element("p.hint", {}, "A value is beyond its bounds.")];
  }
  parts.sort((a, b) => b.surprise - a.surprise);
  const known = unusual.find(one => one.row === number);
  const facts = element("p", {}, tellLevel(answers, values), known ? tellWithout(answers, known) : "");
  const tables = [explainTable(answers, values, parts.slice(0, FIRST))];
  if (parts.length > FIRST) {
    const rest = explainTable(answers, values, parts.slice(FIRST));
    tables.push(element("details", {}, element("summary", {}, "other columns"), rest));
  }
  return [
    top,
    facts,
    element("div.cardbody", {}, element("div", {}, ...tables), picture(answers, values, parts[0])),
  ];
}

function tellLevel(answers, values) {
  const logDensity = answers.density.logDensity(values)[0];
  const whole = answers.fitted.every(column => !Number.isNaN(values[column]));
  const level = whole ? answers.level(logDensity) : null; // of fewer columns there are other levels
  const share = level === null ? "" : `; ${formatShare(level)} of the fitted density is more likely`;
  return `Log density ${formatNumber(logDensity)}${share}. `;
}

/** What a fit that has not seen the row says about it. */
function tellWithout(answers, known) {
  const { column, expected, likely } = known;
  if (column === null || !(expected || likely)) return "";
  const about = answers.columns[column];
  return `A fit without this row suggests ${formatSuggested(about, known)} for ${about.name}.`;
}

function plainTable(answers, values) {
  const lines = answers.columns.map((column, j) =>
    element(
      "tr",
      {},
      element("th", { scope: "row" }, column.name),
      element("td", {}, formatValue(column, values[j])),
    ),
  );
  return element("table", {}, element("tbody", {}, ...lines));
}

function explainTable(answers, values, parts) {
  const heads = ["column", "value", "suggested by the others", "surprise"];
  const lines = parts.map(part => {
    const { column, surprise } = part;
    const about = answers.columns[column];
    const meter = element("span.meter", { style: `--share:${Math.min(Math.max(surprise, 0) / 12, 1)}` });
    return element(
      surprise > ODD ? "tr.worst" : "tr",
      {},
      element("th", { scope: "row" }, about.name),
      element("td", {}, formatValue(about, values[column])),
      element("td", {}, formatSuggested(about, part)),
      element(
        "td",
        {},
        meter,
        element("span.amount", {}, formatNumber(Math.max(0, Math.round(10 * surprise) / 10))),
      ),
    );
  });
  const head = element("tr", {}, ...heads.map(text => element("th", { scope: "col" }, text)));
  return element(
    "div.wide",
    {},
    element("table", {}, element("thead", {}, head), element("tbody", {}, ...lines)),
  );
}

/** The density of the column to blame, given the others, with the value in it. */
function picture(answers, values, worst) {
  const canvas = element("canvas", { role: "img", "aria-label": "density of the column given the others" });
  const column = answers.columns[worst.column];
  const value = values[worst.column];
  const pad = 0.05 * Math.max(column.high - value, value - column.low, 0);
  const range = [
    value < column.low ? value - pad : column.low,
    value > column.high ? value + pad : column.high,
  ];
  const colours = theme(document.body);
  drawColumn(canvas, PICTURE, column, range, worst.alone, null, colours);
  const { x } = panelScales({ x: 0, y: null, size: PICTURE }, [range]);
  const context = canvas.getContext("2d");
  context.fillStyle = colours.accent;
  context.fillRect(x.at(value) - 1, 0, 2, PICTURE.height);
  const text = `${column.name} given the others; the mark is this row. Bars: all rows.`;
  return element("figure", {}, canvas, element("figcaption", {}, text));
}

/** Hold every column that is not in the picture at the row's values. */
function holdOthers(number, { answers, state }) {
  const values = answers.row(number);
  const there = answers.fitted.filter(column => !Number.isNaN(values[column]));
  const hidden = there.filter(column => !state.values.shown.includes(column));
  state.set({ given: new Map(hidden.map(column => [column, values[column]])), moving: false });
  document.querySelector(".explorer")?.scrollIntoView({ behavior: "smooth", block: "start" });
}
