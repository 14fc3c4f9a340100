// Colours: viridis, ordered in lightness, so that they survive colour blindness and grey prints.

const VIRIDIS = [
  [68, 1, 84],
  [72, 40, 120],
  [62, 73, 137],
  [49, 104, 142],
  [38, 130, 142],
  [31, 158, 137],
  [53, 183, 121],
  [110, 206, 88],
  [181, 222, 43],
  [253, 231, 37],
];

/** A colour of viridis, from 0 (dark) to 1 (bright), as three numbers up to 255. */
export function viridis(position) {
  const at = Math.min(Math.max(position, 0), 1) * (VIRIDIS.length - 1);
  const k = Math.min(Math.floor(at), VIRIDIS.length - 2);
  return VIRIDIS[k].map((value, c) => value + (at - k) * (VIRIDIS[k + 1][c] - value));
}

/** Whether the page is dark, as its style sheet says. */
export function isDark(node = document.body) {
  return getComputedStyle(node).getPropertyValue("--dark").trim() === "1";
}

/** Call a function whenever the page turns dark or light. */
export function onTheme(change) {
  window.matchMedia?.("(prefers-color-scheme: dark)").addEventListener("change", change);
  new MutationObserver(change).observe(document.documentElement, { attributeFilter: ["data-theme"] });
}

/** Colours of the page, from its style sheet. */
export function theme(node) {
  const style = getComputedStyle(node);
  const read = name => style.getPropertyValue(name).trim();
  return {
    dark: isDark(node),
    ink: read("--ink"),
    muted: read("--muted"),
    line: read("--line"),
    bar: read("--bar"),
    curve: read("--curve"),
    accent: read("--accent"),
    paper: read("--paper"),
    dot: read("--dot"),
    font: style.fontFamily,
  };
}

/**
 * 256 colours for the level of a place, from rare (0) to the peak (255), with their transparency.
 *
 * On paper the peak is dark, on a dark page it is bright; rare places fade into the page.
 */
export function densityColours(dark) {
  const table = new Uint8ClampedArray(4 * 256);
  for (let k = 0; k < 256; k++) {
    const t = k / 255;
    const white = dark ? 0 : 0.42 * (1 - t);
    const colour = viridis(dark ? 0.1 + 0.9 * t : 0.96 - 0.86 * t);
    colour.forEach((value, c) => {
      table[4 * k + c] = white * 255 + (1 - white) * value;
    });
    table[4 * k + 3] = 255 * Math.min(1, t / 0.06);
  }
  return table;
}
