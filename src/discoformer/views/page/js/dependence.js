// What depends on what: a table of columns by columns, each cell as dark as the dependence is strong.

import { isDark, onTheme, viridis } from "./colours.js";
import { element } from "./dom.js";
import { formatNumber } from "./format.js";

/** Fill an element with the matrix of pairs; a click shows the two columns in the corner. */
export function makeMatrix(root, pairs, explorer) {
  const fill = () => root.replaceChildren(matrixTable(pairs, explorer));
  fill();
  onTheme(fill);
}

function matrixTable(pairs, { answers, state }) {
  const columns = answers.fitted;
  const strength = new Map();
  for (const [a, b, , correlation] of pairs) {
    strength.set(`${a},${b}`, correlation);
    strength.set(`${b},${a}`, correlation);
  }
  const head = element(
    "tr",
    {},
    element("td", {}),
    ...columns.map(c => {
      return element("th", { scope: "col" }, element("span", {}, answers.columns[c].name));
    }),
  );
  const lines = columns.map(a =>
    element(
      "tr",
      {},
      element("th", { scope: "row" }, answers.columns[a].name),
      ...columns.map(b => (a === b ? element("td.self", {}, "") : makeCell(a, b, strength, answers, state))),
    ),
  );
  const letters = Math.min(Math.max(...columns.map(c => answers.columns[c].name.length)), 15);
  return element(
    "table.matrix",
    { style: `--letters:${letters}` },
    element("thead", {}, head),
    element("tbody", {}, ...lines),
  );
}

function makeCell(a, b, strength, answers, state) {
  const value = strength.get(`${a},${b}`);
  if (value === undefined) return element("td", {}, "");
  const [red, green, blue] = viridis(isDark() ? 0.1 + 0.85 * value : 0.97 - 0.87 * value).map(part =>
    Math.round(0.25 * 255 + 0.75 * part),
  );
  const light = 0.3 * red + 0.59 * green + 0.11 * blue > 140;
  const text = formatNumber(Math.round(100 * value) / 100);
  const name = `${answers.columns[a].name} and ${answers.columns[b].name}: ${text}`;
  const show = () => {
    const given = new Map(state.values.given);
    given.delete(a);
    given.delete(b);
    state.set({ shown: [a, b].sort((p, q) => p - q), given, zoom: new Map() });
    document.querySelector(".explorer")?.scrollIntoView({ behavior: "smooth", block: "start" });
  };
  const style = `background:rgb(${red},${green},${blue});color:${light ? "#12202b" : "#ffffff"}`;
  return element(
    "td",
    {},
    element("button", { type: "button", style, title: name, "aria-label": name, click: show }, text),
  );
}
