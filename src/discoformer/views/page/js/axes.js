// Ticks and numbers beside the panels.

import { sizeCanvas } from "./dom.js";
import { formatTick } from "./format.js";
import { linearScale, niceTicks } from "./scales.js";

const LETTER = 11; // pixels

/** The axis of a column below its panels. */
export function drawBottomAxis(canvas, width, height, column, range, colours) {
  const context = sizeCanvas(canvas, width, height);
  const x = linearScale(range, width);
  const { ticks, step } = niceTicks(range[0], range[1], Math.max(2, width / 60));
  prepare(context, colours);
  context.textAlign = "center";
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
  for (const tick of ticks) {
    const py = y.at(tick);
    context.fillRect(width - 4, py - 0.5, 4, 1);
    if (py > LETTER / 2 && py < height - LETTER / 2) {
      context.fillText(formatTick(column, tick, step), width - 6, py + LETTER * 0.36, width - 7);
    }
  }
}

function prepare(context, colours) {
  context.fillStyle = colours.muted;
  context.font = `${LETTER}px ${colours.font}`;
}
