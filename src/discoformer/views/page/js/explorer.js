// The live corner with its controls: the heart of the report, and all of the widget.

import { Answers } from "./answers.js";
import { onTheme, theme } from "./colours.js";
import { MOST_SHOWN, makeChips, makeSliders, makeSwitch } from "./controls.js";
import { Corner } from "./corner.js";
import { element } from "./dom.js";
import { formatNumber, formatShare, formatValue } from "./format.js";
import { isLabelled } from "./kinds.js";
import { LINES } from "./panels.js";
import { readAt } from "./pointer.js";
import { State } from "./state.js";

const NARROW = 720; // pixels below which two columns are enough to begin with

/**
 * Build the corner inside an element.
 *
 * @param {HTMLElement} root
 * @param {object} data - what Python wrote (discoformer/views/page/payload.py, `explorer_data`)
 * @returns {{answers: Answers, state: State, corner: Corner}}
 */
export function explore(root, data) {
  const answers = new Answers(data);
  const state = new State({
    shown: data.start.slice(0, root.clientWidth > NARROW ? MOST_SHOWN : 2).sort((a, b) => a - b),
    given: new Map(),
    zoom: new Map(),
    selected: null,
    pointed: null,
    arrows: false,
    dots: true,
    moving: false,
  });
  let colours = theme(root);
  const plot = element("div.corner");
  const readout = element("p.readout", { "aria-live": "polite" });
  const status = element("p.status");
  const corner = new Corner(answers, state, plot, () => colours);
  root.classList.add("discoformer", "explorer-room"); // its width, not the window's, decides the layout
  const aside = element("div.aside", {}, makeLegend(answers), readout);
  const controls = makePanelOfControls(answers, state, data, status);
  root.replaceChildren(element("div.explorer", {}, controls, element("div.stage", {}, plot, aside)));

  state.listen((values, changed) => {
    if (changed.has("shown")) corner.build();
    const still = ["pointed", "selected", "dots"];
    const others = [...changed].filter(name => !still.includes(name) && name !== "moving");
    const alone = [...changed].every(name => ["given", "moving"].includes(name));
    if (others.length) corner.draw(values.moving, alone);
    else if (still.some(name => changed.has(name))) corner.drawAllMarks();
    if (changed.has("pointed") || changed.has("given"))
      readout.replaceChildren(...describe(corner, values.pointed));
    if (changed.has("given") || changed.has("shown")) status.textContent = tellGiven(answers, values.given);
  });
  const redraw = () => {
    colours = theme(root);
    corner.measure();
    corner.draw(false);
  };
  corner.build();
  redraw();
  status.textContent = tellGiven(answers, state.values.given);
  readout.replaceChildren(...describe(corner, null));
  watchSize(root, redraw);
  onTheme(redraw);
  new MutationObserver(redraw).observe(root, { attributeFilter: ["data-theme"] });
  return { answers, state, corner };
}

/** Redraw when the width of an element changes, not when its height does. */
function watchSize(root, redraw) {
  let width = root.clientWidth;
  new ResizeObserver(() => {
    if (root.clientWidth === width || !root.clientWidth) return;
    width = root.clientWidth;
    requestAnimationFrame(redraw);
  }).observe(root);
}

function makePanelOfControls(answers, state, data, status) {
  const reset = () => state.set({ zoom: new Map() });
  const free = () => state.set({ given: new Map(), moving: false });
  const zoomBy = factor => () => {
    const zoom = new Map(state.values.zoom);
    for (const column of state.values.shown) {
      const { low, high } = answers.columns[column];
      if (isLabelled(answers.columns[column])) continue;
      const [a, b] = zoom.get(column) ?? [low, high];
      const half = Math.min(0.5 * (b - a) * factor, 0.5 * (high - low));
      const middle = Math.min(Math.max(0.5 * (a + b), low + half), high - half);
      zoom.set(column, [middle - half, middle + half]);
    }
    state.set({ zoom });
  };
  const button = (text, label, click) =>
    element("button", { type: "button", "aria-label": label, click }, text);
  if (!answers.density)
    return element("div.controls", {}, element("p.note", {}, data.why), makeChips(answers, state));
  return element(
    "details.controls",
    { open: true },
    element("summary", {}, "Columns and sliders"),
    element("h3", {}, "In the picture"),
    makeChips(answers, state),
    element("h3", {}, "Held fixed"),
    makeSliders(answers, state),
    status,
    element(
      "div.buttons",
      {},
      makeSwitch(state, "dots", "rows"),
      makeSwitch(state, "arrows", "score arrows"),
      button("+", "zoom in", zoomBy(0.5)),
      button("−", "zoom out", zoomBy(2)),
      button("whole", "show the whole range", reset),
      button("let all free", "let all columns free", free),
    ),
  );
}

/** In words: what the pictures are conditioned on. */
function tellGiven(answers, given) {
  if (!given.size) return "Nothing is held fixed: the pictures show all rows.";
  const parts = [...given].map(
    ([column, value]) => `${answers.columns[column].name} = ${formatValue(answers.columns[column], value)}`,
  );
  return `Given ${parts.join(", ")}`;
}

function makeLegend(answers) {
  if (!answers.density) return "";
  const bar = element("div.ramp", { "aria-hidden": "true" });
  const lines = LINES.map(share => formatShare(share)).join(", ");
  return element(
    "div.legend",
    {},
    bar,
    element("div.ends", {}, element("span", {}, "rare"), element("span", {}, "dense")),
    element("p", {}, `Lines hold ${lines} of the mass.`),
  );
}

/** What the place pointed at says. */
function describe(corner, pointed) {
  const { columns } = corner.answers;
  const found = pointed && readAt(corner, pointed);
  if (!found)
    return [element("span.hint", {}, "Point at a picture to read it; drag to zoom; click a row to mark it.")];
  const { panel, point, logDensity, level, row } = found;
  const parts = [panel.x, panel.y].filter(c => c !== null);
  const lines = parts.map((c, k) => `${columns[c].name} ${formatValue(columns[c], point[k])}`);
  if (logDensity !== null) lines.push(`log density ${formatNumber(logDensity)}`);
  if (level !== null) lines.push(`${formatShare(level)} of the mass is denser`);
  if (row !== null) lines.push(`row ${row}`);
  return lines.map(line => element("span", {}, line));
}
