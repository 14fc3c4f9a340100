// Pointing at panels: hover to read, click to choose a row, drag to zoom, arrow keys instead of a mouse.

import { isLabelled, valueAt } from "./kinds.js";
import { levelInScale } from "./levels.js";
import { nearestRow, panelScales } from "./marks.js";

const MOVED = 6; // pixels after which a press is a drag
const STEP = 0.02; // of the range, for the arrow keys
const KEYS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };

/** Let a panel of a corner be pointed at. */
export function addPointer(panel, corner) {
  const { state } = corner;
  let pressed = null;

  const place = event => {
    const box = panel.marks.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };
  const point = (px, py, brush = null) => {
    const { x, y } = panelScales(panel, corner.ranges);
    state.set({ pointed: { panel: panel.key, x: x.value(px), y: y ? y.value(py) : null, px, py, brush } });
  };

  panel.marks.addEventListener("pointerdown", event => {
    if (event.button !== 0) return;
    pressed = place(event);
    if (event.pointerType === "mouse") panel.marks.setPointerCapture(event.pointerId);
  });
  panel.marks.addEventListener("pointermove", event => {
    const [px, py] = place(event);
    const dragged =
      pressed && event.pointerType === "mouse" && Math.hypot(px - pressed[0], py - pressed[1]) > MOVED;
    point(px, py, dragged ? [...pressed, px, panel.y === null ? panel.size.height : py] : null);
  });
  panel.marks.addEventListener("pointerup", event => {
    if (!pressed) return;
    const [start, end] = [pressed, place(event)];
    pressed = null;
    if (Math.hypot(end[0] - start[0], end[1] - start[1]) <= MOVED) choose(panel, corner, ...end);
    else if (event.pointerType === "mouse") zoomTo(panel, corner, start, end);
  });
  panel.marks.addEventListener("pointercancel", () => {
    pressed = null;
  });
  panel.marks.addEventListener("pointerleave", () => {
    if (!pressed) state.set({ pointed: null });
  });
  panel.marks.addEventListener("blur", () => state.set({ pointed: null }));
  panel.marks.addEventListener("dblclick", () => state.set({ zoom: new Map() }));
  panel.marks.addEventListener("keydown", event => onKey(event, panel, corner, point));
}

function onKey(event, panel, corner, point) {
  const { pointed } = corner.state.values;
  const { width, height } = panel.size;
  const [px, py] = pointed?.panel === panel.key ? [pointed.px, pointed.py] : [width / 2, height / 2];
  if (KEYS[event.key]) {
    const [dx, dy] = KEYS[event.key];
    const big = event.shiftKey ? 5 : 1;
    const clip = (value, most) => Math.min(Math.max(value, 0), most);
    point(clip(px + dx * big * STEP * width, width), clip(py - dy * big * STEP * height, height));
  } else if (event.key === "Enter") choose(panel, corner, px, py);
  else if (event.key === "Escape") corner.state.set({ pointed: null, selected: null });
  else return;
  event.preventDefault();
}

/** Choose the row under the pointer; a click on nothing lets the chosen one go. */
function choose(panel, corner, px, py) {
  corner.state.set({ selected: nearestRow(panel, corner.ranges, corner.answers, px, py) });
}

function zoomTo(panel, corner, start, end) {
  const { x, y } = panelScales(panel, corner.ranges);
  const zoom = new Map(corner.state.values.zoom);
  const put = (column, scale, a, b) => {
    if (isLabelled(corner.answers.columns[column])) return;
    const [low, high] = [scale.value(a), scale.value(b)].sort((p, q) => p - q);
    const full = corner.answers.columns[column];
    if (high - low > 1e-6 * (full.high - full.low)) zoom.set(column, [low, high]);
  };
  put(panel.x, x, start[0], end[0]);
  if (y) put(panel.y, y, start[1], end[1]);
  corner.state.set({ zoom, pointed: null });
}

/** What there is to read at the place pointed at: log density, level, and the row that is near. */
export function readAt(corner, pointed) {
  const panel = corner.panels.find(one => one.key === pointed.panel);
  if (!panel) return null;
  const { columns } = corner.answers;
  const point = [valueAt(columns[panel.x], pointed.x)];
  if (panel.y !== null) point.push(valueAt(columns[panel.y], pointed.y));
  const logDensity = panel.density ? panel.density.logDensity(Float64Array.from(point))[0] : null;
  const level = panel.scale && logDensity !== null ? levelInScale(panel.scale, logDensity) : null;
  const row = nearestRow(panel, corner.ranges, corner.answers, pointed.px, pointed.py);
  return { panel, point, logDensity, level, row };
}
