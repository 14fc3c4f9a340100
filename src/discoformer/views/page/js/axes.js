// Ticks and numbers beside the panels.

import { sizeCanvas } from "./dom.js";
import { formatTick } from "./format.js";
import { isLabelled } from "./kinds.js";
import { linearScale, niceTicks } from "./scales.js";

const LETTER = 11; // pixels

/** The axis of a column below its panels. */
export function drawBottomAxis(canvas, width, height, column, range, colours) {
  const context = sizeCanvas(canvas, width, height);
  const x = linearScale(range, width);
  const { ticks, step } = niceTicks(range[0], range[1], Math.max(2, width / 60));
  prepare(context, colours);
  context.textAlign = "center";
  if (isLabelled(column)) {
    const room = x.at(1) - x.at(0);
    const every = Math.ceil((2.5 * LETTER) / room);
    for (let code = 0; code < column.labels.length; code += every) {
      const text = shorten(context, column.labels[code], every * room - 4);
      context.fillText(text, x.at(code), 6 + LETTER * 0.8);
    }
    return;
  }
  for (const tick of ticks) {
    const px = x.at(tick);
    const text = formatTick(column, tick, step);
    const half = context.measureText(text).width / 2;
    context.fillRect(px - 0.5, 0, 1, 4);
    context.fillText(text, Math.min(Math.max(px, half), width - half), 6 + LETTER * 0.8);
  }
}

/** The axis of a column to the left of its panels. */
export function drawLeftAxis(canvas, width, height, column, range, colours) {
  const context = sizeCanvas(canvas, width, height);
  const y = linearScale(range, height, true);
  const { ticks, step } = niceTicks(range[0], range[1], Math.max(2, height / 45));
  prepare(context, colours);
  context.textAlign = "right";
  if (isLabelled(column)) {
    const every = Math.ceil((1.3 * LETTER) / (y.at(0) - y.at(1)));
    for (let code = 0; code < column.labels.length; code += every) {
      context.fillText(shorten(context, column.labels[code], width - 4), width - 3, y.at(code) + LETTER * 0.36);
    }
    return;
  }
  for (const tick of ticks) {
    const py = y.at(tick);
    context.fillRect(width - 4, py - 0.5, 4, 1);
    if (py > LETTER / 2 && py < height - LETTER / 2) {
      context.fillText(formatTick(column, tick, step), width - 6, py + LETTER * 0.36, width - 7);
    }
  }
}

/** A label cut so that it fits. */
function shorten(context, text, width) {
  if (context.measureText(text).width <= width) return text;
  let count = text.length - 1;
  while (count > 1 && context.measureText(`${text.slice(0, count)}…`).width > width) count--;
  return `${text.slice(0, count)}…`;
}

function prepare(context, colours) {
  context.fillStyle = colours.muted;
  context.font = `${LETTER}px ${colours.font}`;
}
