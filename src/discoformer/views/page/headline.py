"""The first screen: what is worth knowing about a table, in words.

A sentence is a list of pieces: text, numbers, dates, and names of columns.  The template writes numbers so
that the page can put them in the reader's own format, and escapes everything else.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from discoformer.columns.schema_column import Kind
from discoformer.views.page.calibration import Calibration
from discoformer.views.page.dependence import Pair
from discoformer.views.page.kinds import date_text
from discoformer.views.page.summary import ALONE, ColumnStatistics, Comparison, TableSummary
from discoformer.views.page.unusual import Likely, UnusualRow

__all__ = [
    *("Moment", "Name", "Piece", "Point", "Words"),
    *("about", "calibrated", "cell", "headline", "suggested"),
]

_LISTED = 5  # rows listed one by one
_NAMED = 6  # columns named in a list before it says how many more there are
_REGIONS = (0.5, 0.8, 0.95)  # regions whose calibration is stated
_STRONG, _SOME, _WEAK = 0.6, 0.3, 0.2  # correlations at which the wording changes


_KINDS: dict[Kind, str] = {  # words for the kinds, in the order they are listed
    "continuous": "continuous",
    "positive": "of positive amounts",
    "bounded": "within bounds",
    "count": "of counts",
    "lattice": "on a grid",
    "atoms": "with values that many rows share",
    "date": "of dates",
    "circular": "circular",
    "category": "of labels",
    "boolean": "of yes and no",
    "identifier": "that number the rows",
    "constant": "constant",
}


class Name(str):
    """The name of a column in a sentence."""


class Moment(str):
    """A date in a sentence."""


Piece = str | int | float
Words = list[Piece]


@dataclass(frozen=True)
class Point:
    """One thing to know: a short statement, its details, and perhaps rows, each with a sentence."""

    topic: str
    lead: Words
    body: Words
    rows: Sequence[tuple[int, Words]] = ()


def headline(summary: TableSummary) -> list[Point]:
    """What the first screen says: errors, columns, what depends on what, and whether to trust the model."""
    points = [_errors(summary), _columns(summary)]
    if summary.pairs:
        points.append(_dependence(summary))
    if isinstance(summary.comparison, Comparison):
        points.append(_verdict(summary.comparison))
    return points


def _errors(summary: TableSummary) -> Point:
    unusual, names = summary.unusual, [column.name for column in summary.columns]
    found = [row for row in unusual.rows if row.error]
    rows = [(row.row, _told(row, summary.columns)) for row in found[:_LISTED]]
    rows += _lone(summary, {row.row for row in found})
    count = unusual.errors + len(rows) - min(len(found), _LISTED)
    body: Words = []
    if unusual.errors > _LISTED:
        body += ["The ", _LISTED, " most surprising come first; more are in the table below. "]
    for tail in unusual.tails:
        body += [Name(names[tail]), " has a long tail rather than errors. "]
    if not count:
        first = unusual.rows[0] if unusual.rows else None
        if first is not None and first.column is not None:
            rows = [(first.row, [*_told(first, summary.columns), ": odd, but no more than chance allows"])]
        return Point("clean", ["No row looks like an error."], body, rows)
    what = (" row of ", " looks like an error.") if count == 1 else (" rows of ", " look like errors.")
    return Point("errors", [count, what[0], summary.rows, what[1]], body, rows)


def _lone(summary: TableSummary, known: set[int]) -> list[tuple[int, Words]]:
    """Rows with a negative value in a column where hardly any other is negative."""
    rows: list[tuple[int, Words]] = []
    for column in summary.columns:
        alone = "in no other row" if len(column.kind.lone) == 1 else "in hardly any other row"
        new = [row for row in column.kind.lone if row not in known][:_LISTED]
        for row in new:
            value = cell(column, column.kind.lone[row])
            rows.append((row, [Name(column.name), " is ", value, f": negative, as {alone}"]))
    return rows


def _told(row: UnusualRow, columns: Sequence[ColumnStatistics]) -> Words:
    if row.column is None:
        return ["log density ", row.log_density]
    column = columns[row.column]
    words: Words = [Name(column.name), " is ", cell(column, row.values[row.column])]
    if isinstance(row.expected, Likely):
        share = _percent(row.expected.share)
        words += ["; the other columns suggest ", column.kind.labels[row.expected.code], f" ({share})"]
    elif row.expected is not None:
        low, high = (cell(column, end, rough=True) for end in (row.expected.low, row.expected.high))
        words += ["; the other columns suggest ", low, " to ", high]
    return words


def suggested(columns: Sequence[ColumnStatistics], row: UnusualRow) -> tuple[Words, Words]:
    """What the other columns suggest for the odd one, as two cells: from and to, or a label and its share."""
    if row.column is None or row.expected is None:
        return [], []
    column, expected = columns[row.column], row.expected
    if isinstance(expected, Likely):
        return [column.kind.labels[expected.code]], [_percent(expected.share)]
    return [cell(column, expected.low, rough=True)], [cell(column, expected.high, rough=True)]


def cell(column: ColumnStatistics, value: float, *, rough: bool = False) -> Piece:
    """A value of a column for people to read: a number, a date or a label; ``rough`` rounds an estimate."""
    if math.isnan(value):
        return ""
    if column.kind.labels:
        return column.kind.labels[int(value)]
    if column.kind.date:
        return Moment(date_text(value, column.kind.date))
    return about(value) if rough else value


def _columns(summary: TableSummary) -> Point:
    columns = summary.columns
    body: Words = []
    for kind, word in _KINDS.items():
        of_kind = [column.name for column in columns if column.kind.schema.kind == kind]
        if of_kind:
            body += [", " if body else "", len(of_kind), f" {word} (", *_list(of_kind), ")"]
    body.append(". ")
    without = [column.name for column in columns if not column.fitted]
    if without:
        body += ["Left out of the fit: ", *_list(without), ". "]
    gaps = [(column.name, column.kind.gaps) for column in columns if column.kind.gaps]
    if gaps:
        body += ["Missing: "]
        for k, (name, count) in enumerate(gaps[:_NAMED]):
            body += [", " if k else "", Name(name), " (", count, ")"]
        body += [f" and {len(gaps) - _NAMED} more. " if len(gaps) > _NAMED else ". "]
    if summary.left_out:
        body += ["Not in the fit: "]
        for k, column in enumerate(summary.left_out[:_NAMED]):
            body += [", " if k else "", Name(column.name), f" ({column.kind}: {column.reason})"]
        more = len(summary.left_out) - _NAMED
        body += [f" and {more} more. " if more > 0 else ". "]
    for summarized in columns:
        kind_of = summarized.kind
        heaps = [text for text in kind_of.remarks if "exactly" in text or "tail" in text]
        heaps += [kind_of.schema.reason] if kind_of.schema.kind == "atoms" else []
        if heaps:
            body += [Name(summarized.name), ": ", ", ".join(heaps), ". "]
    return Point("columns", [len(columns), " columns." if len(columns) > 1 else " column."], body)


def _dependence(summary: TableSummary) -> Point:
    names = [column.name for column in summary.columns]
    best = summary.pairs[0]
    if best.correlation < _WEAK:
        lead: Words = ["The columns are nearly independent."]
        return Point("dependence", lead, ["The strongest tie is ", *_tie(best, names), "."])
    lead = [Name(names[best.first]), " and ", Name(names[best.second]), f" {_strength(best)}."]
    body: Words = ["As strong as a correlation of ", round(best.correlation, 2)]
    for pair in summary.pairs[1:4]:
        if pair.correlation >= _SOME:
            body += ["; then ", *_tie(pair, names)]
    body.append(". ")
    strongest = dict.fromkeys((j for pair in summary.pairs for j in (pair.first, pair.second)), 0.0)
    for pair in summary.pairs:
        for j in (pair.first, pair.second):
            strongest[j] = max(strongest[j], pair.correlation)
    alone = [names[j] for j, value in sorted(strongest.items()) if value < _WEAK]
    if alone and len(strongest) < len(summary.pairs) + 2:
        body += [
            *_list(alone),
            " hardly depends on another column." if len(alone) == 1 else " hardly depend on other columns.",
        ]
    return Point("dependence", lead, body)


def _tie(pair: Pair, names: Sequence[str]) -> Words:
    return [Name(names[pair.first]), " and ", Name(names[pair.second]), " (", round(pair.correlation, 2), ")"]


def _strength(pair: Pair) -> str:
    r = pair.correlation
    if r >= 0.95:
        return "nearly determine each other"
    return "depend on each other" + (" strongly" if r >= _STRONG else " somewhat" if r < _SOME else "")


def _verdict(comparison: Comparison) -> Point:
    """By the mean log-likelihood or, where a few extreme rows blur it, by the share of rows more likely."""
    if len(comparison.results) < 2:
        return Point("model", ["There is nothing to compare the model with."], [])
    best, _, _ = comparison.results[0]
    ahead = best == comparison.own
    peer = comparison.results[1][0] if ahead else best
    gap, error = next(
        gap for label, _, gap in comparison.results if label == (peer if ahead else comparison.own)
    )
    wins = comparison.wins[peer]
    half = 1 / math.sqrt(comparison.rows)  # two standard errors of a share of one half
    body: Words = [f"Of the rows it had not seen, {wins:.0%} are more likely under it than under {peer}."]
    fits = "fit" if peer == ALONE else "fits"
    if ahead and (gap > 2 * error or wins > 0.5 + half):
        others = peer if peer == ALONE else "its peers"
        return Point("model", [f"The model fits this table better than {others}."], body)
    if not ahead and (gap > 2 * error or wins < 0.5 - half):
        return Point("model", [f"Take details with care: {peer} {fits} this table better."], body)
    return Point("model", [f"The model fits as well as {peer}."], body)


def calibrated(found: Calibration) -> Words:
    """Whether regions hold as many rows as they should, in two sentences."""
    words: Words = ["Regions that should hold "]
    for k, share in enumerate(_REGIONS):
        words += ["" if k == 0 else " and " if k == len(_REGIONS) - 1 else ", ", f"{share:.0%}"]
    words.append(" of the rows hold ")
    for k, share in enumerate(_REGIONS):
        words += ["" if k == 0 else " and " if k == len(_REGIONS) - 1 else ", ", f"{found.held(share):.0%}"]
    words.append(" of those the fit had not seen. ")
    if abs(found.gap) <= found.band:
        return [*words, "Chance alone could make such a difference."]
    sure = "The model is too sure of itself" if found.gap < 0 else "The model is too careful"
    return [*words, f"{sure}: by chance they would differ by less than {found.band:.0%}."]


def _percent(share: float) -> str:
    """A probability, never shown as certain or impossible.

    >>> _percent(0.42), _percent(0.9999), _percent(0.001)
    ('42%', 'over 99%', 'under 1%')
    """
    if share > 0.99:
        return "over 99%"
    return f"{share:.0%}" if share >= 0.01 else "under 1%"


def about(value: float) -> float:
    """An estimate, rounded to three digits.

    >>> about(19301.99), about(0.0), about(-0.012345)
    (19300.0, 0.0, -0.0123)
    """
    return float(f"{value:.3g}")


def _list(names: Sequence[str]) -> Words:
    """The first few names with commas, and how many more there are.

    >>> _list(["a", "b", "c"])
    ['a', ', ', 'b', ' and ', 'c']
    """
    shown = names[:_NAMED]
    words: Words = []
    for k, name in enumerate(shown):
        last = k == len(names) - 1
        words += [*([" and " if last else ", "] if k else []), Name(name)]
    if len(names) > len(shown):
        words += [" and ", len(names) - len(shown), " more"]
    return words
