"""One column as the schema sees it: its kind, why, and what is done with it."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

from discoformer.columns.bounds import FREE, Bound
from discoformer.columns.kinds import ColumnKind

__all__ = ["KINDS", "NUMBERS", "ColumnSchema", "Kind", "Use"]

Kind = Literal[
    "continuous",
    "positive",
    "bounded",
    "count",
    "lattice",
    "atoms",
    "category",
    "boolean",
    "date",
    "circular",
    "identifier",
    "text",
    "constant",
]
KINDS: tuple[Kind, ...] = get_args(Kind)
NUMBERS: tuple[Kind, ...] = (
    *("continuous", "positive", "bounded", "count", "lattice", "atoms", "date", "circular"),
)
Use = Literal["number", "code", "left out", "refused"]

# What is done with a column of a kind, for the table of `discoformer describe`.
_ACTIONS: dict[Kind, str] = {
    "continuous": "a number",
    "positive": "a number",
    "bounded": "a number",
    "count": "a number, drawn as whole numbers",
    "lattice": "a number, drawn in its steps",
    "atoms": "a number, with a probability of its own for values that repeat",
    "category": "a category, with a probability per label",
    "boolean": "a category, with a probability per label",
    "date": "a number",
    "circular": "a number on a circle",
    "identifier": "left out",
    "text": "left out",
    "constant": "left out",
}


@dataclass(frozen=True)
class ColumnSchema:
    """A column, its kind, the reason in a few words, and what belongs to the kind.

    Attributes
    ----------
    name : as in the frame
    kind : one of `KINDS`
    reason : in a few words
    dtype : of pandas, which `from_numbers` gives back
    gaps, distinct : missing values, and distinct values beside them
    values : range or most frequent values, for people
    use : "number" for the numeric part, "code" for categories, "left out", or "refused"
    low, high : where the column ends, infinite if it does not
    step, origin : of the grid, for counts and lattices; a step of zero is no grid
    atoms : values with a probability of their own: too many rows share them, or they stand for something else
    period : of a circular column
    unit : of the numbers that dates become, such as "days since 1970-01-01"
    resolution : of dates, as in numpy: D, h, m, s, ms, us, ns
    decimals : that numbers are written with at most; -1 for as many as there are
    categories : labels, in the order of their codes; the only value of a constant column
    """

    name: Any
    kind: Kind
    reason: str
    dtype: Any = None
    gaps: int = 0
    distinct: int = 0
    values: str = ""
    use: Use = "number"
    low: float = -math.inf
    high: float = math.inf
    step: float = 0.0
    origin: float = 0.0
    atoms: tuple[float, ...] = ()
    period: float = 0.0
    unit: str = ""
    resolution: str = ""
    decimals: int = -1
    categories: tuple[Any, ...] = ()

    @property
    def bounds(self) -> Bound:
        """Where the column ends, as `discoformer.columns.bounds.parse_bounds` takes it."""
        return self.low, self.high

    @property
    def action(self) -> str:
        """What will be done with the column.

        >>> ColumnSchema("share", "bounded", "all within 0 and 1", low=0.0, high=1.0).action
        'a number within 0 and 1'
        """
        if self.use == "refused":
            return "refused until it is numbers"
        if self.use == "left out":
            return "left out"
        if self.kind == "constant":
            return "no density: refused, or left out by --drop-dependent"
        if self.use == "number" and self.kind in ("category", "boolean"):
            return "a number"
        action = f"a number: {self.unit}" if self.kind == "date" else _ACTIONS[self.kind]
        if self.atoms and self.kind != "atoms":
            values = ", ".join(f"{atom:g}" for atom in self.atoms)
            action += f", with a probability of its own for {values}"
        if self.use == "number" and self.bounds != FREE:
            inside = "not negative" if self.bounds == (0.0, math.inf) else self._inside
            return f"{action}, {inside}" if self.kind not in ("bounded", "positive") else f"{action} {inside}"
        return action

    @property
    def short(self) -> str:
        """The kind in a word or two, with its bounds.

        >>> ColumnSchema("share", "bounded", "all within 0 and 1", low=0.0, high=1.0).short
        'bounded within 0 and 1'
        """
        words = [str(self.kind)]
        if self.use == "number" and self.atoms:
            words.append("at " + ", ".join(f"{atom:g}" for atom in self.atoms))
        if self.use == "number" and self.bounds != FREE:
            words.append(self._inside)
        return " ".join(words)

    @property
    def _inside(self) -> str:
        """Its bounds in words."""
        if math.isfinite(self.low) and math.isfinite(self.high):
            return f"within {self.low:g} and {self.high:g}"
        return f"from {self.low:g}" if math.isfinite(self.low) else f"up to {self.high:g}"

    @property
    def density_kind(self) -> ColumnKind:
        """What the column is to a density: a category, a lattice, atoms, a circle, or plainly numbers.

        >>> ColumnSchema("n", "count", "whole numbers from 0", step=1.0).density_kind.step
        1.0
        """
        if self.use == "code":
            return ColumnKind("category", levels=len(self.categories))
        if self.period:
            return ColumnKind("circular", period=self.period, step=self.step, origin=self.origin)
        return ColumnKind(atoms=self.atoms, step=self.step, origin=self.origin)

    def as_dict(self) -> dict[str, Any]:
        """Everything as JSON can hold it: infinite bounds are None, labels are text.

        >>> ColumnSchema("n", "count", "whole numbers from 0", low=0.0).as_dict()["high"] is None
        True
        """
        plain = asdict(self)
        for end in ("low", "high"):
            plain[end] = plain[end] if math.isfinite(plain[end]) else None
        named = {
            "name": str(self.name),
            "dtype": str(self.dtype),
            "categories": list(map(str, self.categories)),
        }
        return {**plain, **named, "atoms": list(self.atoms), "action": self.action}
