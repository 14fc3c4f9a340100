// The live corner in a notebook: what anywidget asks of a module.

import { explore } from "./explorer.js";

/** Show the corner for the widget's `data`, and again whenever Python sets it anew. */
function render({ model, el }) {
  const root = document.createElement("div");
  el.append(root);
  const show = () => explore(root, model.get("data"));
  model.on("change:data", show);
  show();
}

export default { render };
