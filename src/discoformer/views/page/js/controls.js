// Which columns are in the picture, and which are held fixed: chips and sliders, all reachable by keyboard.

import { element } from "./dom.js";
import { formatValue } from "./format.js";
import { isLabelled } from "./kinds.js";

export const MOST_SHOWN = 5;

/** A list of switches, one for each column: in the picture or not. */
export function makeChips(answers, state) {
  const chips = answers.fitted.map(column => {
    const toggle = () => {
      const { shown, given } = state.values;
      const inside = shown.includes(column);
      if (inside ? shown.length === 1 : shown.length === MOST_SHOWN) return;
      const left = new Map(given);
      left.delete(column);
      const next = inside ? shown.filter(c => c !== column) : [...shown, column].sort((a, b) => a - b);
      state.set({ shown: next, given: left, zoom: new Map() });
    };
    return element("button.chip", { type: "button", click: toggle }, answers.columns[column].name);
  });
  const update = ({ shown }) => {
    answers.fitted.forEach((column, k) => {
      const inside = shown.includes(column);
      chips[k].setAttribute("aria-pressed", String(inside));
      chips[k].disabled = inside ? shown.length === 1 : shown.length >= MOST_SHOWN;
    });
  };
  state.listen((values, changed) => changed.has("shown") && update(values));
  update(state.values);
  return element("div.chips", { role: "group", "aria-label": "columns in the picture" }, ...chips);
}

/** A slider for every column that is not in the picture. */
export function makeSliders(answers, state) {
  const list = element("div.sliders");
  const rows = new Map(answers.fitted.map(column => [column, makeSlider(answers, state, column)]));
  const fill = ({ shown }) => {
    const hidden = answers.fitted.filter(column => !shown.includes(column));
    list.replaceChildren(...hidden.map(column => rows.get(column).node));
    if (!hidden.length) {
      list.append(element("p.hint", {}, "Take a column out of the picture to hold it fixed at a value."));
    }
  };
  const update = values => {
    for (const row of rows.values()) row.update(values);
  };
  state.listen((values, changed) => {
    if (changed.has("shown")) fill(values);
    if (changed.has("given") || changed.has("shown")) update(values);
  });
  fill(state.values);
  update(state.values);
  return list;
}

/** A list of labels for a category, in the place of a slider. */
function makeChoice(about, id, hold, free) {
  const choice = element(
    "select",
    { id, change: () => (choice.value === "" ? free() : hold(Number(choice.value))) },
    element("option", { value: "" }, "any"),
    ...about.labels.map((label, code) => element("option", { value: code }, label)),
  );
  return choice;
}

/** Of a column whose values may have mass of their own: the nearest of those within half a step. */
function snap({ atoms }, value, step) {
  const near = atoms.find(([atom]) => Math.abs(atom - value) <= step / 2);
  return near ? near[0] : value;
}

function makeSlider(answers, state, column) {
  const about = answers.columns[column];
  const { name, low, high, median, bounds, origin } = about;
  const inside = value => Math.min(Math.max(value, bounds[0] ?? -Infinity), bounds[1] ?? Infinity);
  const grid = about.step > 0 && high - low < 5000 * about.step;
  const step = grid ? about.step : (high - low) / 400;
  const place = (value, round) => origin + step * round((value - origin) / step);
  const ends = grid ? [place(low, Math.ceil), place(high, Math.floor)] : [low, high];
  const id = `slider-${column}-${Math.random().toString(36).slice(2, 8)}`;
  const hold = (value, moving = true) => {
    const held = snap(about, inside(value), step);
    state.set({ given: new Map(state.values.given).set(column, held), moving });
  };
  const free = () => {
    const given = new Map(state.values.given);
    given.delete(column);
    state.set({ given });
  };
  const slide = {
    input: () => hold(Number(range.value)),
    change: () => state.set({ moving: false }),
  };
  const range = isLabelled(about)
    ? makeChoice(about, id, code => hold(code, false), free)
    : element("input", { type: "range", id, min: ends[0], max: ends[1], step, value: median, ...slide });
  const output = element("output", { for: id });
  const button = element(
    "button.free",
    { type: "button", click: free, "aria-label": `let ${name} free` },
    "×",
  );
  const node = element(
    "div.slider",
    {},
    element("label", { for: id, title: name }, name),
    output,
    button,
    range,
  );
  const update = ({ given }) => {
    const held = given.has(column);
    node.classList.toggle("held", held);
    button.hidden = !held;
    const said = held ? formatValue(about, given.get(column)) : "any";
    output.textContent = isLabelled(about) ? "" : said; // a list says it itself
    if (held || isLabelled(about)) range.value = held ? given.get(column) : "";
    range.setAttribute("aria-valuetext", held ? formatValue(about, given.get(column)) : "any value");
  };
  return { node, update };
}

/** A switch for something that is on or off. */
export function makeSwitch(state, key, text) {
  const box = element("input", {
    type: "checkbox",
    change: () => state.set({ [key]: box.checked }),
  });
  box.checked = state.values[key];
  state.listen((values, changed) => {
    if (changed.has(key)) box.checked = values[key];
  });
  return element("label.switch", {}, box, text);
}
