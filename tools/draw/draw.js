// Draw points with the mouse, a finger or the keyboard; the network answers while you draw.
//
// A fit takes a few dozen milliseconds, so there is one in every frame; when the hand rests the picture gets finer.

import { onTheme, theme } from "./colours.js";
import { element, sizeCanvas } from "./dom.js";
import { EXAMPLES, makeExample } from "./examples.js";
import { Network } from "./encoder.js";
import { formatNumber } from "./format.js";
import { drawArrows, drawPair } from "./panels.js";
import { Random } from "./random.js";
import { linearScale } from "./scales.js";
import { makeDownload } from "./tables.js";

const RANGE = [-4, 4];
const MOST = 2000; // points
const FEWEST = 4;
const STRIDE = 9; // pixels between two points of a stroke
const RUBBER = 22; // pixels
const PAUSE = 200; // milliseconds after which the hand rests
const CELLS = { moving: 72, rest: 132 };
const ARROW_KEYS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };

class Drawing {
  constructor(network, root) {
    Object.assign(this, { network, root, points: [], strokes: [], density: null, scale: null });
    Object.assign(this, { arrows: true, dots: true, erasing: false, spread: 14, cursor: null, times: [] });
    this.random = new Random(Date.now());
    this.base = element("canvas", { "aria-hidden": "true" });
    this.marks = element("canvas", {
      ...{ tabindex: "0", role: "img" },
      "aria-label": "a place to draw: drag, or move the cross by arrow keys and set points by the space bar",
    });
    this.empty = element("p.empty", {}, "Draw here");
    this.status = element("p.status", { "aria-live": "polite" });
    this.readout = element("p.readout");
    this.board = element("div.board", {}, this.base, this.marks, this.empty);
    root.replaceChildren(this.board, this.makeSide());
    this.listenToPointer();
    this.marks.addEventListener("keydown", event => this.onKey(event));
    new ResizeObserver(() => this.resize()).observe(this.board);
    onTheme(() => this.show(CELLS.rest));
    this.resize();
    this.load(makeExample(EXAMPLES[0]));
    this.fresh = true; // the first stroke takes the place of what is shown to begin with
  }

  makeSide() {
    const button = (text, click) => element("button", { type: "button", click }, text);
    const toggle = (name, text) => {
      const box = element("input", { type: "checkbox" });
      box.checked = this[name];
      box.addEventListener("change", () => {
        this[name] = box.checked;
        this.show(CELLS.rest);
      });
      return element("label", {}, box, text);
    };
    const spread = element("input", {
      type: "range",
      min: 0,
      max: 60,
      value: this.spread,
      "aria-label": "width",
    });
    spread.addEventListener("input", () => {
      this.spread = Number(spread.value);
    });
    const rubber = button("rub out", () => {
      this.erasing = !this.erasing;
      rubber.setAttribute("aria-pressed", String(this.erasing));
    });
    const rows = () => [
      ["x", "y"],
      ...Array.from({ length: this.count }, (_, k) => this.points.slice(2 * k, 2 * k + 2)),
    ];
    return element(
      "div.side",
      {},
      element("h2", {}, "Begin with"),
      element("div.group", {}, ...EXAMPLES.map(name => button(name, () => this.load(makeExample(name))))),
      element("h2", {}, "Width of the brush"),
      spread,
      element(
        "div.group",
        {},
        rubber,
        button("undo", () => this.undo()),
        button("clear", () => this.load([])),
      ),
      element("h2", {}, "Show"),
      element("div.group", {}, toggle("dots", "points"), toggle("arrows", "score arrows")),
      this.status,
      this.readout,
      makeDownload("points", rows),
    );
  }

  get count() {
    return this.points.length / 2;
  }

  load(points) {
    this.fresh = false;
    this.points = points;
    this.strokes = points.length ? [points.length] : [];
    this.refit(false);
  }

  undo() {
    const length = this.strokes.pop() ?? 0;
    this.points.length = Math.max(this.points.length - length, 0);
    this.refit(true);
  }

  /** A point near a pixel, as the brush sprays it. */
  add(px, py, spread = this.spread) {
    if (this.count >= MOST) return;
    if (this.fresh) [this.points, this.strokes, this.fresh] = [[], [0], false];
    const [dx, dy] = [this.random.normal(), this.random.normal()];
    this.points.push(this.x.value(px + spread * dx), this.y.value(py + spread * dy));
    this.strokes[this.strokes.length - 1] += 2;
    this.refit(true);
  }

  rub(px, py) {
    const kept = [];
    for (let k = 0; k < this.points.length; k += 2) {
      const far = Math.hypot(this.x.at(this.points[k]) - px, this.y.at(this.points[k + 1]) - py) > RUBBER;
      if (far) kept.push(this.points[k], this.points[k + 1]);
    }
    if (kept.length === this.points.length) return;
    this.points = kept;
    this.strokes = [kept.length];
    this.refit(true);
  }

  /** Fit once in this frame, and draw finely when the hand rests. */
  refit(moving) {
    clearTimeout(this.timer);
    if (!moving) {
      this.fit(CELLS.rest);
      return;
    }
    this.waiting ??= requestAnimationFrame(() => {
      this.waiting = null;
      this.fit(CELLS.moving);
    });
    this.timer = setTimeout(() => this.show(CELLS.rest), PAUSE);
  }

  fit(cells) {
    const start = performance.now();
    let problem = "";
    this.density = null;
    if (this.count >= FEWEST) {
      try {
        this.density = this.network.fit(Float64Array.from(this.points), 2);
      } catch (error) {
        if (!(error instanceof RangeError)) throw error;
        problem = error.message;
      }
    }
    const fitted = performance.now() - start;
    this.show(cells);
    const drawn = performance.now() - start - fitted;
    this.times.push({ count: this.count, fitted, drawn });
    this.tell(problem, fitted, drawn);
  }

  tell(problem, fitted, drawn) {
    this.empty.hidden = this.count > 0;
    const size = `${formatNumber(this.count)} point${this.count === 1 ? "" : "s"}`;
    let text = `${size}: the network needs ${FEWEST} or more.`;
    if (problem) text = `${size}: ${problem}. Draw some beside it.`;
    else if (this.density) {
      text = `${size}, fitted in ${Math.round(fitted)} ms, drawn in ${Math.round(drawn)} ms.`;
      if (this.count >= MOST) text += " These are enough: the page takes no more.";
    }
    this.status.textContent = text;
    this.read();
  }

  resize() {
    const side = Math.floor(this.board.clientWidth);
    if (!side || side === this.side) return;
    this.side = side;
    this.x = linearScale(RANGE, side);
    this.y = linearScale(RANGE, side, true);
    this.show(CELLS.rest);
  }

  show(cells) {
    const colours = theme(document.body);
    const size = { width: this.side, height: this.side };
    const ranges = [RANGE, RANGE];
    if (this.density) {
      this.scale = drawPair(this.base, size, ranges, ranges, this.density, cells, colours);
      if (this.arrows) {
        drawArrows(this.base.getContext("2d"), size, ranges, this.density, this.scale, colours);
      }
    } else sizeCanvas(this.base, this.side, this.side);
    this.showMarks(colours);
  }

  showMarks(colours = theme(document.body)) {
    const context = sizeCanvas(this.marks, this.side, this.side);
    context.fillStyle = colours.accent;
    const size = this.count > 600 ? 2 : 3;
    for (let k = 0; this.dots && k < this.points.length; k += 2) {
      const [px, py] = [this.x.at(this.points[k]), this.y.at(this.points[k + 1])];
      context.fillRect(px - size / 2, py - size / 2, size, size);
    }
    if (!this.cursor?.keyboard) return;
    const [px, py] = this.cursor.place;
    context.strokeStyle = colours.ink;
    context.strokeRect(px - 8, py - 0.5, 16, 1);
    context.strokeRect(px - 0.5, py - 8, 1, 16);
  }

  /** What there is to read at the cursor. */
  read() {
    if (!this.cursor || !this.density) {
      this.readout.textContent = "Point at the picture to read it.";
      return;
    }
    const at = [this.x.value(this.cursor.place[0]), this.y.value(this.cursor.place[1])];
    const { logDensity, score } = this.density.estimate(Float64Array.from(at));
    const round = value => formatNumber(Math.round(100 * value) / 100);
    const lines = [
      `at ${round(at[0])}, ${round(at[1])}`,
      `log density ${round(logDensity[0])}`,
      `score ${round(score[0])}, ${round(score[1])}`,
    ];
    this.readout.replaceChildren(...lines.map(line => element("span", {}, line)));
  }

  listenToPointer() {
    let last = null;
    const place = event => {
      const box = this.marks.getBoundingClientRect();
      return [event.clientX - box.left, event.clientY - box.top];
    };
    const act = (px, py) => (this.erasing ? this.rub(px, py) : this.add(px, py));
    this.marks.addEventListener("pointerdown", event => {
      this.marks.setPointerCapture(event.pointerId);
      last = place(event);
      this.strokes.push(0);
      act(...last);
    });
    this.marks.addEventListener("pointermove", event => {
      const now = place(event);
      this.cursor = { place: now, keyboard: false };
      if (!last) {
        this.read();
        return;
      }
      const way = Math.hypot(now[0] - last[0], now[1] - last[1]);
      const count = Math.floor(way / STRIDE);
      for (let k = 1; k <= count; k++) {
        act(last[0] + (k / count) * (now[0] - last[0]), last[1] + (k / count) * (now[1] - last[1]));
      }
      if (count) last = now;
    });
    const stop = () => {
      last = null;
    };
    this.marks.addEventListener("pointerup", stop);
    this.marks.addEventListener("pointercancel", stop);
    this.marks.addEventListener("pointerleave", () => {
      if (!last) this.cursor = null;
    });
  }

  onKey(event) {
    const place = this.cursor?.place ?? [this.side / 2, this.side / 2];
    if (ARROW_KEYS[event.key]) {
      const [dx, dy] = ARROW_KEYS[event.key];
      const step = event.shiftKey ? 40 : 8;
      const clip = value => Math.min(Math.max(value, 0), this.side);
      this.cursor = { place: [clip(place[0] + dx * step), clip(place[1] - dy * step)], keyboard: true };
    } else if (event.key === " " || event.key === "Enter") {
      this.cursor = { place, keyboard: true };
      this.strokes.push(0);
      if (this.erasing) this.rub(...place);
      else this.add(...place, 0);
    } else if (event.key === "Backspace") this.undo();
    else return;
    event.preventDefault();
    this.showMarks();
    this.read();
  }
}

function startDrawing() {
  const numbers = JSON.parse(document.getElementById("weights").textContent);
  const size = numbers.tensors.reduce((sum, [, count]) => sum + count, 0);
  document.getElementById("about").textContent =
    `The network has ${formatNumber(size)} weights, here in half precision. Up to ${formatNumber(MOST)} points.`;
  window.drawing = new Drawing(new Network(numbers), document.getElementById("draw"));
}

startDrawing();
