// The upper layer of a panel: rows as dots, the row that was chosen, the cross under the pointer.

import { sizeCanvas } from "./dom.js";
import { isLabelled, spread } from "./kinds.js";
import { linearScale } from "./scales.js";

const NEAR = 16; // pixels within which a row counts as pointed at

/** Scales of a panel of one or two columns. */
export function panelScales(panel, ranges) {
  const x = linearScale(ranges[panel.x], panel.size.width);
  if (panel.y === null) return { x, y: null };
  return { x, y: linearScale(ranges[panel.y], panel.size.height, true) };
}

/** Draw rows, the chosen row and a cross over a panel. */
export function drawMarks(panel, ranges, answers, values, colours) {
  const context = sizeCanvas(panel.marks, panel.size.width, panel.size.height);
  const { x, y } = panelScales(panel, ranges);
  if (values.dots) (y ? drawDots : drawRug)(context, panel, answers, x, y, colours);
  const row = values.selected === null ? null : answers.row(values.selected);
  if (row) drawChosen(context, panel, answers, row, x, y, colours);
  if (values.pointed?.panel === panel.key) drawCross(context, panel, values.pointed, x, y, colours);
}

function drawDots(context, panel, answers, x, y, colours) {
  const size = answers.numbers.length > 1500 ? 1.4 : 2.2;
  context.fillStyle = colours.dot;
  for (let k = 0; k < answers.values.length; k += answers.width) {
    const [px, py] = pixels(panel, answers, k, x, y);
    if (!(px >= 0 && py >= 0 && px <= x.size && py <= y.size)) continue; // nor what is missing
    context.fillRect(px - size / 2, py - size / 2, size, size);
  }
}

/** Where the row whose values start at `k` is in a panel; NaN where one is missing. */
function pixels(panel, answers, k, x, y) {
  const row = k / answers.width;
  const across = x.at(spread(answers.columns[panel.x], answers.values[k + panel.x], row, 0));
  return [across, y ? y.at(spread(answers.columns[panel.y], answers.values[k + panel.y], row, 1)) : 0];
}

function drawRug(context, panel, answers, x, y, colours) {
  context.fillStyle = colours.dot;
  if (isLabelled(answers.columns[panel.x])) return;
  const step = answers.width * Math.ceil(answers.numbers.length / 600);
  for (let k = 0; k < answers.values.length; k += step) {
    context.fillRect(x.at(answers.values[k + panel.x]), panel.size.height - 5, 1, 5);
  }
}

/** The chosen row: a ring, or at the edge an arrowhead towards where it is. */
function drawChosen(context, panel, answers, row, x, y, colours) {
  const { width, height } = panel.size;
  const [value, other] = pixels(panel, answers, (row.byteOffset - answers.values.byteOffset) / 8, x, y);
  if (Number.isNaN(value) || Number.isNaN(other)) return;
  const px = Math.min(Math.max(value, 5), width - 5);
  context.lineWidth = 2;
  context.strokeStyle = colours.accent;
  if (!y) {
    context.beginPath();
    context.moveTo(px, 0);
    context.lineTo(px, height);
    context.stroke();
    if (px !== value) drawHead(context, px, height / 2, value < px ? Math.PI : 0, colours);
    return;
  }
  const py = Math.min(Math.max(other, 5), height - 5);
  if (px !== value || py !== other) {
    drawHead(context, px, py, Math.atan2(other - py, value - px), colours);
    return;
  }
  context.beginPath();
  context.arc(px, py, 5.5, 0, 2 * Math.PI);
  context.lineWidth = 4;
  context.strokeStyle = colours.paper;
  context.stroke();
  context.lineWidth = 2;
  context.strokeStyle = colours.accent;
  context.stroke();
}

function drawHead(context, px, py, angle, colours) {
  context.save();
  context.translate(px, py);
  context.rotate(angle);
  context.beginPath();
  context.moveTo(5, 0);
  context.lineTo(-5, -6);
  context.lineTo(-5, 6);
  context.closePath();
  context.fillStyle = colours.accent;
  context.fill();
  context.restore();
}

function drawCross(context, panel, pointed, x, y, colours) {
  context.strokeStyle = colours.ink;
  context.globalAlpha = 0.6;
  context.lineWidth = 1;
  context.beginPath();
  const px = x.at(pointed.x);
  context.moveTo(px, 0);
  context.lineTo(px, panel.size.height);
  if (y) {
    const py = y.at(pointed.y);
    context.moveTo(0, py);
    context.lineTo(panel.size.width, py);
  }
  context.stroke();
  context.globalAlpha = 1;
  if (pointed.brush) drawBrush(context, pointed.brush, colours);
}

function drawBrush(context, [ax, ay, bx, by], colours) {
  context.strokeStyle = colours.accent;
  context.setLineDash([4, 3]);
  context.strokeRect(Math.min(ax, bx), Math.min(ay, by), Math.abs(bx - ax), Math.abs(by - ay));
  context.setLineDash([]);
}

/** The number of the row nearest to a pixel of a panel, or null if none is near. */
export function nearestRow(panel, ranges, answers, px, py) {
  const { x, y } = panelScales(panel, ranges);
  let best = null;
  let least = NEAR * NEAR;
  for (let k = 0; k < answers.numbers.length; k++) {
    const [across, up] = pixels(panel, answers, k * answers.width, x, y);
    const [dx, dy] = [across - px, y ? up - py : 0];
    const distance = dx * dx + dy * dy;
    if (distance < least) [best, least] = [answers.numbers[k], distance];
  }
  return best;
}
