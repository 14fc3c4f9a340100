// The report: everything the page does beyond its words, started when it is opened.

import { makeCalibration } from "./calibration.js";
import { makeMatrix } from "./dependence.js";
import { element } from "./dom.js";
import { explore } from "./explorer.js";
import { plainValue } from "./format.js";
import { makeMargins } from "./margins.js";
import { makeRowCard } from "./rowcard.js";
import { makeSynthetic } from "./synthetic.js";
import { localizeNumbers, makeDownload, makeSortable, tableCells } from "./tables.js";

const TOLERANCE = 1e-6; // how far the page may be from Python before it says so
const THEMES = ["", "light", "dark"];

function start() {
  const data = JSON.parse(document.getElementById("data").textContent);
  localizeNumbers(document);
  makeThemeButton(document.getElementById("theme"));
  const explorer = explore(document.getElementById("explorer"), data);
  if (!(explorer.answers.error < TOLERANCE)) {
    const text = `Numbers here differ from Python's by ${explorer.answers.error}: do not rely on them.`;
    document.querySelector("main").prepend(element("p.note", { role: "alert" }, text));
  }
  makeMargins(document.getElementById("margins"), explorer);
  const beside = document.getElementById("synthetic");
  if (beside) explorer.synthetic = makeSynthetic(beside, explorer);
  if (data.calibration) makeCalibration(document.getElementById("calibration"), data.calibration);
  if (data.pairs.length) makeMatrix(document.getElementById("matrix"), data.pairs, explorer);
  for (const table of document.querySelectorAll("table.sortable")) {
    makeSortable(table);
    const cells = table.id === "rows" ? () => unusualCells(data) : () => tableCells(table);
    table.closest(".wide").after(makeDownload(table.id, cells));
  }
  followRow(explorer, data.unusual);
  window.discoformer = explorer; // for those who want to ask the density in the console
}

/** Rows in words, in the table and in the pictures are the same rows: choosing one marks it everywhere. */
function followRow(explorer, unusual) {
  const { state } = explorer;
  const card = document.getElementById("card");
  const buttons = [...document.querySelectorAll("button[data-row]")];
  for (const button of buttons) {
    button.addEventListener("click", () => {
      const number = Number(button.dataset.row);
      state.set({ selected: state.values.selected === number ? null : number });
    });
  }
  state.listen(({ selected }, changed) => {
    if (!changed.has("selected")) return;
    card.hidden = selected === null;
    card.replaceChildren(...(selected === null ? [] : makeRowCard(selected, explorer, unusual)));
    for (const button of buttons) {
      const on = Number(button.dataset.row) === selected;
      button.setAttribute("aria-pressed", String(on));
      button.closest("tr")?.classList.toggle("marked", on);
    }
  });
}

/** The unusual rows with all their values, in full digits. */
function unusualCells(data) {
  const names = data.columns.map(column => column.name);
  const head = ["row", "odd column", "suggested low", "suggested middle", "suggested high", ...names];
  const lines = data.unusual.map(({ row, column, expected, likely, values }) => {
    const about = data.columns[column];
    const suggested = likely ? [null, likely[0], null] : (expected ?? [null, null, null]);
    const told = suggested.map(value => plainValue(about, value));
    return [row, about?.name ?? "", ...told, ...values.map((value, j) => plainValue(data.columns[j], value))];
  });
  return [head, ...lines];
}

/** Light, dark, or as the system is. */
function makeThemeButton(button) {
  const root = document.documentElement;
  const tell = () => {
    button.textContent = { light: "☀ light", dark: "☾ dark" }[root.dataset.theme] ?? "◐ auto";
  };
  button.hidden = false;
  button.addEventListener("click", () => {
    const next = THEMES[(THEMES.indexOf(root.dataset.theme ?? "") + 1) % THEMES.length];
    if (next) root.dataset.theme = next;
    else delete root.dataset.theme;
    tell();
  });
  tell();
}

start();
