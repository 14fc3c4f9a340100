// Rows of the table beside rows drawn from the density: if you can tell them apart, the model misses something.

import { drawBottomAxis, drawLeftAxis } from "./axes.js";
import { onTheme, theme } from "./colours.js";
import { element, sizeCanvas } from "./dom.js";
import { formatNumber, formatValue, plainValue } from "./format.js";
import { spread } from "./kinds.js";
import { linearScale } from "./scales.js";
import { makeDownload } from "./tables.js";

const MOST_DRAWN = 600;
const TAKEN_HOME = 1000;
const AXIS = 46;
const LARGEST = 330; // pixels
const WAIT = 250; // milliseconds without a change before new rows are drawn

/** Fill an element with both pictures; they follow the columns and the sliders of the corner. */
export function makeSynthetic(root, explorer) {
  const { answers, state } = explorer;
  const count = Math.min(answers.numbers.length, MOST_DRAWN);
  const pictures = ["rows of the table", "rows drawn from the fit"].map(text => makePicture(text));
  const words = element("p.small", { "aria-live": "polite" });
  const again = () => {
    made.seed += 1;
    made.stale = true;
    draw();
  };
  const made = { seed: 1, stale: true, rows: null };
  const pair = () => choosePair(answers, state.values.shown);
  const draw = () => {
    if (made.stale) made.rows = answers.draw(count, state.values.given, made.seed);
    made.stale = false;
    const columns = pair();
    const side = Math.min(
      LARGEST,
      Math.floor((root.clientWidth - 40) / (root.clientWidth < 620 ? 1 : 2)) - AXIS,
    );
    drawRows(pictures[0], answers, columns, evenly(answers, count), side);
    drawRows(pictures[1], answers, columns, made.rows, side);
    words.textContent = tell(answers, columns, count, state.values.given);
  };
  const cells = () => {
    const rows = answers.draw(TAKEN_HOME, state.values.given, made.seed + 1000);
    const lines = Array.from({ length: TAKEN_HOME }, (_, k) =>
      answers.columns.map((column, j) => plainValue(column, rows[k * answers.width + j])),
    );
    return [answers.columns.map(column => column.name), ...lines];
  };
  root.replaceChildren(
    words,
    element("div.twins", {}, ...pictures.map(({ node }) => node)),
    element(
      "div.buttons",
      {},
      element("button", { type: "button", click: again }, "draw again"),
      makeDownload("synthetic", cells, `download ${formatNumber(TAKEN_HOME)} drawn rows`),
    ),
  );
  let timer = null;
  state.listen((values, changed) => {
    made.stale ||= changed.has("given");
    if (!["given", "shown"].some(name => changed.has(name))) return;
    clearTimeout(timer);
    timer = setTimeout(draw, WAIT);
  });
  onTheme(draw);
  draw();
  return { draw, again, made };
}

function makePicture(text) {
  const [canvas, left, bottom] = [text, "", ""].map(label =>
    element("canvas", label ? { role: "img", "aria-label": label } : { "aria-hidden": "true" }),
  );
  const node = element(
    "figure.twin",
    {},
    element("h3", {}, text),
    element("div.framed", {}, left, canvas, element("span"), bottom),
  );
  return { node, canvas, left, bottom };
}

/** The first two columns of the corner, or another beside the only one. */
function choosePair(answers, shown) {
  const others = answers.fitted.filter(column => !shown.includes(column));
  return [...shown, ...others].slice(0, 2);
}

/** Rows of the table, evenly spaced in their order. */
function evenly(answers, count) {
  const total = answers.numbers.length;
  const out = new Float64Array(count * answers.width);
  for (let k = 0; k < count; k++) {
    const row = Math.floor(((k + 0.5) * total) / count);
    out.set(answers.values.subarray(row * answers.width, (row + 1) * answers.width), k * answers.width);
  }
  return out;
}

function drawRows({ canvas, left, bottom }, answers, [first, second], rows, side) {
  const colours = theme(document.body);
  const context = sizeCanvas(canvas, side, side);
  const [across, up] = [answers.columns[first], answers.columns[second]];
  const x = linearScale([across.low, across.high], side);
  const y = linearScale([up.low, up.high], side, true);
  context.fillStyle = colours.curve;
  context.globalAlpha = 0.55;
  for (let k = 0; k < rows.length; k += answers.width) {
    context.beginPath();
    const place = k / answers.width;
    const px = x.at(spread(across, rows[k + first], place, 0));
    context.arc(px, y.at(spread(up, rows[k + second], place, 1)), 2, 0, 2 * Math.PI);
    context.fill();
  }
  drawLeftAxis(left, AXIS, side, up, [up.low, up.high], colours);
  drawBottomAxis(bottom, side, 20, across, [across.low, across.high], colours);
}

function tell(answers, [first, second], count, given) {
  const names = `${answers.columns[second].name} against ${answers.columns[first].name}`;
  const held = [...given].map(([c, value]) => {
    return `${answers.columns[c].name} = ${formatValue(answers.columns[c], value)}`;
  });
  const where = held.length ? `; those drawn are given ${held.join(", ")}` : "";
  const what = `${names}: ${formatNumber(count)} of each${where}.`;
  return `${what} If you can tell left from right, the model misses something.`;
}
