"""The outcome of an experiment: lines beside the published ones, and claims that are shown or not.

A summary is made from measurements alone.  Lower is better in every line; where ours is worse than the
paper's number, than the paper's core or than a rival, a sentence says so.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from discoformer_paper.harness.labels import CORE, GMM, KDE, OURS, PUBLISHED, PUBLISHED_KDE
from discoformer_paper.harness.measured import Measured, error_of

__all__ = [
    "Cases",
    "Claim",
    "Line",
    "Summary",
    "Verdict",
    "Whose",
    "against",
    "judge",
    "least",
    "measured",
    "number",
    "slope",
    "trend",
]

_FIRST, _LAST = (PUBLISHED, PUBLISHED_KDE, CORE, OURS), (KDE, GMM)
_ALWAYS = (PUBLISHED, CORE, OURS, KDE)

Whose = Literal["paper", "assumption", "ours"]
Verdict = Literal["shown", "not shown", "undecided", "not tested"]
Cases = Mapping[str, tuple[float, float]]  # by name: a value, and the bound it must not exceed


class Line(NamedTuple):
    """A setting and the numbers found there, by column; NaN for one that was not measured."""

    what: str
    found: Mapping[str, float]


class Claim(NamedTuple):
    """A sentence, whether it is shown, and the evidence in numbers.

    ``whose`` is "paper" for what the paper says of its model, "assumption" for what its theory assumes of it,
    "ours" for a bar that we set.
    """

    whose: Whose
    text: str
    verdict: Verdict
    evidence: str


@dataclass(frozen=True)
class Summary:
    """Lines and claims of an experiment.

    Attributes
    ----------
    unit : what the numbers are
    lines : settings, in the order of the paper
    claims : of the paper and ours
    rivals : columns that ours is compared with, besides the published one and the paper's core; without
        any, ours is compared with the published one alone
    ratio_to : columns for the ratio, if not all rivals: it should not jump where one of them ends
    reasons : by column, why it may win, for the sentence that says so
    caveat : why the published numbers may not be comparable at all
    floor : numbers up to here are rounding and count as zero
    notes : sentences that the page adds
    """

    unit: str
    lines: Sequence[Line]
    claims: Sequence[Claim] = ()
    rivals: Sequence[str] = (KDE, GMM)
    ratio_to: Sequence[str] | None = None
    reasons: Mapping[str, str] = field(default_factory=dict)
    caveat: str | None = None
    floor: float = 0.0
    notes: Sequence[str] = ()

    def table(self, ours: str) -> tuple[list[str], list[list[str]]]:
        """Header and rows of text; our column has the name of our network."""
        filled = {name for line in self.lines for name, x in line.found.items() if not math.isnan(x)}
        others = [name for line in self.lines for name in line.found if name not in (*_FIRST, *_LAST)]
        names = [*_FIRST, *dict.fromkeys(others), *_LAST]
        names = [name for name in names if name in _ALWAYS or name in filled]
        header = ["", *(ours if name == OURS else name for name in names), "ratio"]
        rows = [
            [line.what, *(number(line.found.get(name, math.nan)) for name in names), self._ratio(line)]
            for line in self.lines
        ]
        return header, rows

    def worse(self, ours: str) -> list[str]:
        """A sentence for every line where ours is worse than the published number, the core or a rival."""
        others = (PUBLISHED, CORE, *self.rivals) if self.rivals else (PUBLISHED,)
        reasons = {CORE: "a network for this dimension alone", PUBLISHED: self.caveat, **self.reasons}
        return self._beaten(OURS, f"{ours} has {{}}", others, reasons)

    def core_worse(self) -> list[str]:
        """A sentence for every line where the paper's core is worse here than published."""
        return self._beaten(CORE, f"{CORE} has {{}} here", [PUBLISHED], {PUBLISHED: self.caveat})

    def _beaten(
        self, who: str, start: str, others: Sequence[str], reasons: Mapping[str, str | None]
    ) -> list[str]:
        sentences = []
        for line in self.lines:
            mine = self._value(line, who)
            better = [name for name in others if self._value(line, name) < mine]
            if better:
                first, *rest = _apart([mine, *(line.found[name] for name in better)])
                told = [f"{name} has {text}" for name, text in zip(better, rest, strict=True)]
                why = [f" ({reasons[name]})" if reasons.get(name) else "" for name in better]
                told = [text + reason for text, reason in zip(told, why, strict=True)]
                listed = ", ".join(told[:-1]) + " and " * (len(told) > 1) + told[-1]
                sentences.append(f"{line.what}: {start.format(first)}; {listed}.")
        return sentences

    def _ratio(self, line: Line) -> str:
        """Ours over the best rival; no ratio of negative numbers, which are slopes."""
        others = self.rivals if self.ratio_to is None else self.ratio_to
        rival = least(*(self._value(line, name) for name in others))
        mine = self._value(line, OURS)
        if mine == rival == 0:
            return "1"
        return number(mine / rival if rival > 0 else math.nan)

    def _value(self, line: Line, name: str) -> float:
        value = line.found.get(name, math.nan)
        return 0.0 if abs(value) <= self.floor else value


def judge(whose: Whose, text: str, cases: Cases) -> Claim:
    """The claim that value <= bound in all cases.

    A case whose value and bound differ by no more than the standard error of their difference, on the data
    sets of both, decides nothing: the claim is undecided unless another case clearly fails.  It is "not
    tested" while a case is missing (NaN).  The evidence names the case that is closest to its bound, or
    farthest beyond it, by the ratio of the two (by their difference where numbers may be negative).

    >>> claim = judge("ours", "below one", {"n=1": (0.5, 1.0), "n=2": (2.0, 1.0)})
    >>> claim.verdict, claim.evidence
    ('not shown', '1 of 2; n=2: 2 > 1')
    """
    known = {name: case for name, case in cases.items() if not any(map(math.isnan, case))}
    if not known:
        return Claim(whose, text, "not tested", "not measured")
    near = {name: case for name, case in known.items() if _within(case)}
    failed = {name: case for name, case in known.items() if case[0] > case[1]}
    clear = {name: case for name, case in failed.items() if name not in near}
    kept = f"{len(known) - len(failed)} of {len(cases)}"
    if not clear and len(known) < len(cases):
        missing = next(name for name in cases if name not in known)
        return Claim(whose, text, "not tested", f"{kept}; {missing}: not measured")
    positive = all(value >= 0 and bound > 0 for value, bound in known.values())
    name, (value, bound) = max(
        (clear or near or known).items(),
        key=lambda item: item[1][0] / item[1][1] if positive else item[1][0] - item[1][1],
    )
    verdict: Verdict = "not shown" if clear else "undecided" if near else "shown"
    closest = "" if clear or near else "closest "
    told = f"{closest}{name}: {number(value)} {'>' if value > bound else '<='} {number(bound)}"
    error = error_of(value - bound)
    told += "" if math.isnan(error) or not error else f", difference ± {number(error, 2)}"
    return Claim(whose, text, verdict, f"{kept}; {told}")


def _within(case: tuple[float, float]) -> bool:
    """Whether value and bound differ by no more than a standard error, as far as that is known."""
    gap = case[0] - case[1]
    return 0 < error_of(gap) < math.inf and abs(gap) <= error_of(gap)


def against(lines: Iterable[Line], column: str, other: str) -> dict[str, tuple[float, float]]:
    """Cases for `judge`: one column against another, by line.

    >>> against([Line("n=1", {"ours": 0.5, "KDE": 1.0})], OURS, KDE)
    {'n=1': (0.5, 1.0)}
    """
    return {line.what: (line.found.get(column, math.nan), line.found.get(other, math.nan)) for line in lines}


def measured(cases: Cases) -> Cases:
    """The cases whose value was measured.

    >>> measured({"n=1": (0.5, 1.0), "n=2": (math.nan, 1.0)})
    {'n=1': (0.5, 1.0)}
    """
    return {name: case for name, case in cases.items() if not math.isnan(case[0])}


def least(*values: float) -> float:
    """The smallest number that was measured; NaN if none was.

    >>> least(math.nan, 2.0, 1.0)
    1.0
    """
    return min((value for value in values if not math.isnan(value)), default=math.nan)


def number(value: float, digits: int = 3) -> str:
    """A few digits; a dash for what was not measured.

    >>> number(1234.5), number(0.01234), number(5.6e-31), number(math.nan)
    ('1234', '0.0123', '5.6e-31', '–')
    """
    if math.isnan(value):
        return "–"
    if value == 0 or 1e-3 <= abs(value) < 1000:
        return f"{value:.{digits}g}"
    if 1000 <= abs(value) < 1e6:
        return f"{value:.{max(0, digits - 4)}f}"
    return f"{value:.{digits - 2}e}"


def _apart(values: Sequence[float]) -> list[str]:
    """Numbers as text, with enough digits to tell the first from all others.

    >>> _apart([1.2345, 1.2341, 0.5])
    ['1.2345', '1.2341', '0.5']
    """
    for digits in range(3, 8):
        first, *rest = (number(value, digits) for value in values)
        if first not in rest:
            break
    return [first, *rest]


def slope(points: Mapping[float, float]) -> float:
    """Slope of the logarithm of the values in that of the keys; NaN for fewer than two.

    >>> round(slope({1: 3.0, 2: 1.5, 4: 0.75}), 9)
    -1.0
    """
    if len(points) < 2:
        return math.nan
    places = [math.log(key) for key in points]
    heights = [y.log() if isinstance(y, Measured) else math.log(y) for y in points.values()]
    return trend(dict(zip(places, heights, strict=True)))


def trend(points: Mapping[float, float]) -> float:
    """Slope of the straight line through points.

    >>> trend({1: 1.0, 2: 3.0, 3: 5.0})
    2.0
    """
    middle = math.fsum(points) / len(points)
    width = math.fsum((x - middle) ** 2 for x in points)
    return sum((x - middle) / width * y for x, y in points.items())
