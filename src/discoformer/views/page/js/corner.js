// The corner: every shown column on the diagonal, every pair of them below it, all drawn from the density.

import { drawBottomAxis, drawLeftAxis } from "./axes.js";
import { drawCells } from "./cells.js";
import { element } from "./dom.js";
import { isLabelled, numbersPart } from "./kinds.js";
import { drawMarks } from "./marks.js";
import { drawArrows, drawColumn, drawPair } from "./panels.js";
import { addPointer } from "./pointer.js";

const FINE = 96; // cells per side of a picture at rest
const COARSEST = 24;
const BUDGET = 15; // milliseconds of a frame that the maps of pairs may take while something is dragged
const REST = 180; // milliseconds without a change after which pictures are drawn finely
const WIDEST = 270; // pixels of a panel
const GUTTER = 46;

export class Corner {
  constructor(answers, state, root, colours, tell) {
    Object.assign(this, { answers, state, root, colours, tell });
    this.panels = [];
    this.cells = 64;
    this.cost = 1e-4; // milliseconds per cell and pair, as measured
    this.timer = null;
    this.frames = [];
  }

  /** Make the panels for the columns shown. */
  build() {
    const { shown } = this.state.values;
    const count = shown.length;
    this.panels = [];
    this.axes = [];
    const nodes = [];
    shown.forEach((column, row) => {
      const left = row > 0 ? element("canvas", { "aria-hidden": "true" }) : null;
      nodes.push(element("div.left", { style: `grid-area:${row + 1}/1` }, left ?? ""));
      if (left) this.axes.push({ canvas: left, column, side: "left" });
      shown.slice(0, row + 1).forEach((other, place) => {
        const panel = this.makePanel(other, place === row ? null : column);
        panel.node.style.gridArea = `${row + 1}/${place + 2}`;
        nodes.push(panel.node);
      });
      const bottom = element("canvas", { "aria-hidden": "true" });
      this.axes.push({ canvas: bottom, column, side: "bottom" });
      const name = element(
        "span.name",
        { title: this.answers.columns[column].name },
        this.answers.columns[column].name,
      );
      nodes.push(element("div.bottom", { style: `grid-area:${count + 1}/${row + 2}` }, bottom, name));
    });
    this.root.replaceChildren(...nodes);
    this.root.style.setProperty("--count", count);
    this.measure();
  }

  makePanel(x, y) {
    const names = this.answers.columns;
    const what =
      y === null ? `density of ${names[x].name}` : `density of ${names[y].name} against ${names[x].name}`;
    const base = element("canvas", { "aria-hidden": "true" });
    const marks = element("canvas", {
      tabindex: "0",
      role: "img",
      "aria-label": `${what}; arrow keys read it`,
    });
    const panel = {
      x,
      y,
      base,
      marks,
      key: `${x},${y}`,
      size: { width: 1, height: 1 },
      scale: null,
      density: null,
    };
    const title = y === null ? element("span.title", {}, names[x].name) : "";
    panel.node = element("div.panel", {}, base, marks, title);
    addPointer(panel, this);
    this.panels.push(panel);
    return panel;
  }

  /** Sizes from the width there is. */
  measure() {
    const count = this.state.values.shown.length;
    const room = this.root.clientWidth - GUTTER - 6 * count;
    const side = Math.max(60, Math.min(WIDEST * (count === 1 ? 2 : 1), Math.floor(room / count)));
    this.root.style.setProperty("--side", `${side}px`);
    for (const panel of this.panels)
      panel.size = { width: side, height: count === 1 ? Math.round(0.6 * side) : side };
    this.side = side;
  }

  range(column) {
    const { low, high } = this.answers.columns[column];
    return this.state.values.zoom.get(column) ?? [low, high];
  }

  get ranges() {
    return this.answers.columns.map((_, j) => this.range(j));
  }

  /** Draw everything, or the densities alone: coarsely while something moves, and finely when it rests. */
  draw(moving, alone = false) {
    const start = performance.now();
    const pairs = this.panels.filter(panel => panel.y !== null).length || 1;
    const affordable = Math.floor(Math.sqrt(BUDGET / (this.cost * pairs)));
    this.cells = moving ? Math.max(COARSEST, Math.min(FINE, affordable)) : FINE;
    this.drawDensities();
    if (!alone) {
      this.drawAxes();
      this.drawAllMarks();
    }
    const spent = performance.now() - start;
    this.cost = 0.5 * this.cost + (0.5 * spent) / (pairs * this.cells ** 2);
    this.frames.push({ moving, spent, cells: this.cells });
    if (this.frames.length > 500) this.frames.shift();
    clearTimeout(this.timer);
    if (moving && this.cells < FINE) this.timer = setTimeout(() => this.draw(false, true), REST);
  }

  /** The lower layer; `panel.density` is exact, what is drawn leaves out what cannot be seen. */
  drawDensities() {
    const { answers, state } = this;
    const { shown, given, arrows } = state.values;
    const colours = this.colours();
    const joint = answers.density && answers.joint(shown, given);
    const visible = joint && joint.prune();
    for (const panel of this.panels) {
      const columns = [panel.x, panel.y].filter(c => c !== null);
      const places = columns.map(c => shown.indexOf(c));
      const part = whole => (places.length === shown.length ? whole : whole.marginal(places));
      panel.density = joint && part(joint);
      const drawn = visible && part(visible);
      const ranges = columns.map(c => this.range(c));
      if (panel.y === null) {
        const before = given.size && joint ? answers.margin(panel.x) : null;
        drawColumn(panel.base, panel.size, answers.columns[panel.x], ranges[0], drawn, before, colours);
      } else if (drawn) {
        this.drawBoth(
          panel,
          columns.map(c => answers.columns[c]),
          ranges,
          drawn,
          arrows,
        );
      }
    }
  }

  /** The picture of two columns; where all values of one have mass of their own, rows are all there is. */
  drawBoth(panel, columns, ranges, density, arrows) {
    const { base, size } = panel;
    const colours = this.colours();
    if (columns.some(column => !isLabelled(column) && !column.numbers)) return;
    if (columns.some(isLabelled)) {
      panel.scale = drawCells(base, size, columns, ranges, density, this.cells, colours);
      return;
    }
    const part = numbersPart(density, columns);
    const full = columns.map(column => [column.low, column.high]);
    panel.scale = drawPair(base, size, ranges, full, part, this.cells, colours);
    if (arrows) drawArrows(base.getContext("2d"), size, ranges, part, panel.scale, colours);
  }

  drawAxes() {
    const colours = this.colours();
    for (const { canvas, column, side } of this.axes) {
      const about = this.answers.columns[column];
      if (side === "left") drawLeftAxis(canvas, GUTTER, this.side, about, this.range(column), colours);
      else drawBottomAxis(canvas, this.side, 20, about, this.range(column), colours);
    }
  }

  /** Only the upper layer: rows, the chosen one, the cross. */
  drawAllMarks() {
    const colours = this.colours();
    const ranges = this.ranges;
    for (const panel of this.panels) drawMarks(panel, ranges, this.answers, this.state.values, colours);
  }
}
