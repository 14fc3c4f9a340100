// Tables that sort by a click on their head, and that can be taken home as csv.

import { element } from "./dom.js";
import { csvCell, formatNumber } from "./format.js";

/** Write every number of the page (`<data value>`) in the reader's format. */
export function localizeNumbers(root) {
  for (const node of root.querySelectorAll("data[value]"))
    node.textContent = formatNumber(Number(node.value));
}

/** What a cell is sorted by: its number if it has one, else its text. */
function keyOf(cell) {
  const number = cell.querySelector("data[value]")?.value ?? cell.dataset.value;
  return number === undefined ? cell.textContent.trim().toLocaleLowerCase() : Number(number);
}

/** Make the heads of a table into buttons that sort it. */
export function makeSortable(table) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    const button = element("button.sort", { type: "button", click: () => sortBy(table, heads, column) });
    button.append(...head.childNodes);
    head.replaceChildren(button);
  });
}

function sortBy(table, heads, column) {
  const down = heads[column].getAttribute("aria-sort") !== "descending";
  heads.forEach(head => head.removeAttribute("aria-sort"));
  heads[column].setAttribute("aria-sort", down ? "descending" : "ascending");
  const body = table.tBodies[0];
  const keyed = [...body.rows].map(row => [keyOf(row.cells[column]), row]);
  const sign = down ? -1 : 1;
  keyed.sort(([a], [b]) => {
    if (typeof a === "number" && typeof b === "number") return sign * (a - b);
    return sign * String(a).localeCompare(String(b));
  });
  body.append(...keyed.map(([, row]) => row));
}

/** A button that saves rows of cells as a csv file. */
export function makeDownload(name, cells, text = "download csv") {
  const save = () => {
    const lines = cells()
      .map(row => row.map(csvCell).join(","))
      .join("\r\n");
    const address = URL.createObjectURL(new Blob([lines, "\r\n"], { type: "text/csv" }));
    const link = element("a", { href: address, download: `${name}.csv` });
    link.click();
    setTimeout(() => URL.revokeObjectURL(address), 1000);
  };
  return element("button.download", { type: "button", click: save }, text);
}

/** The cells of a table as it stands, numbers in full. */
export function tableCells(table) {
  return [...table.rows].map(row =>
    [...row.cells].map(cell => cell.querySelector("data[value]")?.value ?? cell.textContent.trim()),
  );
}
