// Numbers as the reader writes them.

import { isLabelled } from "./kinds.js";

const WHOLE = new Intl.NumberFormat(undefined, { maximumFractionDigits: 0, useGrouping: "min2" });
const TINY = new Intl.NumberFormat(undefined, { notation: "scientific", maximumFractionDigits: 3 });
const BY_DECIMALS = [];

function withDecimals(count) {
  BY_DECIMALS[count] ??= new Intl.NumberFormat(undefined, {
    maximumFractionDigits: count,
    useGrouping: "min2",
  });
  return BY_DECIMALS[count];
}

/** A number with four digits or so; whole numbers in full. */
export function formatNumber(value) {
  if (value === Infinity) return "∞";
  if (value === -Infinity) return "−∞";
  if (!Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  if (size !== 0 && (size >= 1e12 || size < 1e-4)) return TINY.format(value);
  if (Number.isInteger(value)) return WHOLE.format(value);
  return withDecimals(Math.max(0, 3 - Math.floor(Math.log10(size)))).format(value);
}

/** A value of a column: a number, a date or a label. */
export function formatValue(column, value) {
  if (Number.isNaN(value)) return "missing";
  if (isLabelled(column)) return column.labels[value];
  return column.date ? formatDate(value, column.date === "D" ? DAY : MINUTE) : formatNumber(value);
}

/** A value for a file: in full, dates as in ISO 8601, nothing for a gap. */
export function plainValue(column, value) {
  if (value === null || Number.isNaN(value)) return "";
  if (isLabelled(column)) return column.labels[value];
  if (!column.date) return value;
  const moment = new Date(86_400_000 * value);
  return Number.isNaN(moment.getTime()) ? value : moment.toISOString().slice(0, column.date === "D" ? 10 : 19);
}

/** What is suggested for a column: an interval, or the likeliest label with its probability. */
export function formatSuggested(column, { expected, likely }) {
  if (likely) return `${column.labels[likely[0]]} (${formatShare(likely[1])})`;
  return `${formatAbout(column, expected[0])} to ${formatAbout(column, expected[2])}`;
}

/** Three digits of a value that is an estimate; of a date the day. */
export function formatAbout(column, value) {
  return column.date ? formatDate(value, DAY) : formatNumber(Number(value.toPrecision(3)));
}

const DAY = { year: "numeric", month: "short", day: "numeric" };
const MINUTE = { ...DAY, hour: "2-digit", minute: "2-digit" };
const MONTH = { year: "numeric", month: "short" };

/** A date from days since 1970. */
function formatDate(days, parts) {
  const moment = new Date(86_400_000 * days);
  if (Number.isNaN(moment.getTime())) return "–";
  return new Intl.DateTimeFormat(undefined, { ...parts, timeZone: "UTC" }).format(moment);
}

/** A value on an axis, with as many decimals as the step between ticks needs. */
export function formatTick(column, value, step) {
  if (column.date) {
    return formatDate(value, step >= 28 ? MONTH : step >= 1 ? { month: "short", day: "numeric" } : MINUTE);
  }
  const size = Math.max(Math.abs(value), step);
  if (value !== 0 && (size >= 1e7 || step < 1e-5)) return TINY.format(value);
  return withDecimals(Math.max(0, Math.ceil(-Math.log10(step) - 1e-9))).format(value);
}

/** A share as a percentage: more digits near none and all. */
export function formatShare(share) {
  const rest = Math.min(share, 1 - share);
  const decimals = rest > 0.02 ? 0 : rest > 0.002 ? 1 : 2;
  return new Intl.NumberFormat(undefined, { style: "percent", maximumFractionDigits: decimals }).format(
    share,
  );
}

/** A cell of a csv file: quoted where it must be, and never a formula for a spreadsheet. */
export function csvCell(value) {
  const text = String(value ?? "");
  const safe = /^[=+\-@\t\r]/.test(text) && !Number.isFinite(Number(text)) ? `'${text}` : text;
  return /[",\n\r]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}
