// A card for every column: bars for its rows, the fitted density as a line, and its kind in words.

import { onTheme, theme } from "./colours.js";
import { drawBottomAxis } from "./axes.js";
import { element } from "./dom.js";
import { linearScale } from "./scales.js";
import { drawColumn } from "./panels.js";

const SIZE = { width: 230, height: 90 };

/** Cards for all columns; they follow the chosen row and the theme. */
export function makeMargins(root, { answers, state }) {
  const cards = answers.columns.map((column, j) => {
    const canvas = element("canvas", { role: "img", "aria-label": `rows and density of ${column.name}` });
    const axis = element("canvas", { "aria-hidden": "true" });
    const words = [column.kind, ...column.remarks].join("; ");
    const card = element(
      "figure.margin",
      {},
      element("h3", {}, column.name),
      canvas,
      axis,
      element("figcaption", {}, words),
    );
    const margin = answers.density && answers.fitted.includes(j) ? answers.margin(j) : null;
    return { card, canvas, axis, column, margin, place: j };
  });
  root.replaceChildren(...cards.map(({ card }) => card));
  const draw = () => {
    const colours = theme(document.body);
    const row = state.values.selected === null ? null : answers.row(state.values.selected);
    for (const { canvas, axis, column, margin, place } of cards) {
      const range = [column.low, column.high];
      drawColumn(canvas, SIZE, column, range, margin, null, colours);
      drawBottomAxis(axis, SIZE.width, 20, column, range, colours);
      if (row && !Number.isNaN(row[place])) markValue(canvas, range, row[place], colours);
    }
  };
  draw();
  state.listen((values, changed) => changed.has("selected") && draw());
  onTheme(draw);
}

function markValue(canvas, range, value, colours) {
  const x = linearScale(range, SIZE.width);
  const context = canvas.getContext("2d");
  context.fillStyle = colours.accent;
  context.fillRect(Math.min(Math.max(x.at(value), 1), SIZE.width - 1) - 1, 0, 2, SIZE.height);
}
