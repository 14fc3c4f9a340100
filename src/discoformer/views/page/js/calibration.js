// Calibration: how many held-out rows fall into the regions that should hold a share of them.

import { onTheme, theme } from "./colours.js";
import { element, sizeCanvas } from "./dom.js";
import { formatShare } from "./format.js";
import { linearScale } from "./scales.js";

const PLOT = { width: 260, height: 260, left: 44, bottom: 34, top: 8, right: 20 };
const MARKS = [0, 0.25, 0.5, 0.75, 1];

/**
 * Draw the curves.
 *
 * @param {object} found - {shares, inside, margins, band}: the line of the whole rows, a thin one per column
 */
export function makeCalibration(root, found) {
  const canvas = element("canvas", {
    role: "img",
    "aria-label": "share of held-out rows by the share expected",
  });
  root.replaceChildren(canvas);
  const draw = () => drawCalibration(canvas, found, theme(document.body));
  draw();
  onTheme(draw);
}

function drawCalibration(canvas, { shares, inside, margins, band }, colours) {
  const { width, height, left, bottom, top, right } = PLOT;
  const context = sizeCanvas(canvas, width + left + right, height + bottom + top);
  const [across, down] = [linearScale([0, 1], width), linearScale([0, 1], height, true)];
  const [x, y] = [value => left + across.at(value), value => top + down.at(Math.min(Math.max(value, 0), 1))];
  context.fillStyle = colours.bar;
  context.beginPath();
  shares.forEach(share => context.lineTo(x(share), y(share + band)));
  [...shares].reverse().forEach(share => context.lineTo(x(share), y(share - band)));
  context.fill();
  const line = (values, colour, thick) => {
    context.beginPath();
    values.forEach((value, k) => context.lineTo(x(shares[k]), y(value)));
    context.strokeStyle = colour;
    context.lineWidth = thick;
    context.stroke();
  };
  for (const margin of margins) line(margin, colours.muted, 0.6);
  line(inside, colours.accent, 2.5);
  context.strokeStyle = colours.line;
  context.lineWidth = 1;
  context.strokeRect(left, top, width, height);
  context.fillStyle = colours.muted;
  context.font = `11px ${colours.font}`;
  for (const mark of MARKS) {
    context.textAlign = "center";
    context.fillText(formatShare(mark), x(mark), top + height + 14);
    context.textAlign = "right";
    context.fillText(formatShare(mark), left - 5, y(mark) + 4);
  }
  context.textAlign = "center";
  context.fillText("expected", left + width / 2, top + height + 29);
}
