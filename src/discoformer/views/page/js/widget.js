// The live corner in a notebook: what anywidget asks of a module.

import { onTheme } from "./colours.js";
import { explore } from "./explorer.js";

const WATCHED = ["class", "theme", "data-theme", "data-jp-theme-light", "data-vscode-theme-kind"];

/** Show the corner for the widget's `data`, and again whenever Python sets it anew. */
function render({ model, el }) {
  const root = document.createElement("div");
  const show = () => {
    const { answers, state } = explore(root, model.get("data"));
    state.listen((values, changed) => tellPython(model, answers, values, changed));
    model.on("change:selected", () => state.set({ selected: model.get("selected") }));
  };
  el.append(root);
  followHost(root);
  model.on("change:data", show);
  show();
}

/** What was clicked and what is held, for those who go on in Python. */
function tellPython(model, answers, values, changed) {
  if (changed.has("selected")) model.set("selected", values.selected);
  if (changed.has("given") && !values.moving) {
    const held = [...values.given].map(([column, value]) => [answers.columns[column].name, value]);
    model.set("given", Object.fromEntries(held));
  }
  model.save_changes();
}

/** Notebooks tell dark from light in their own ways; what is behind the widget tells it in all of them. */
function followHost(root) {
  const update = () => {
    root.dataset.theme = isDarkBehind(root) ? "dark" : "light";
  };
  update();
  onTheme(update);
  const watcher = new MutationObserver(update);
  for (const node of [document.documentElement, document.body]) {
    watcher.observe(node, { attributeFilter: WATCHED });
  }
}

function isDarkBehind(root) {
  for (let node = root.parentNode; node; node = node.parentNode ?? node.host) {
    if (!(node instanceof Element)) continue;
    const parts =
      getComputedStyle(node)
        .backgroundColor.match(/[\d.]+/g)
        ?.map(Number) ?? [];
    const [red, green, blue, opacity = 1] = parts;
    if (parts.length >= 3 && opacity > 0.5) return 0.3 * red + 0.59 * green + 0.11 * blue < 128;
  }
  return false; // a page without a background is white
}

export default { render };
