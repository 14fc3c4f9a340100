"""What every column of a table is: inferred, with the reason; shown; and said otherwise by the user.

    table -> schema -> numbers -> density

`infer_schema` looks at the columns one by one (the rules and their constants are in `schema_rules`),
`to_numbers` makes numbers of them, codes of categories among them, `from_numbers` the way back.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from discoformer.columns.bounds import FREE, Bound
from discoformer.columns.kinds import ColumnKind
from discoformer.columns.schema_column import KINDS, ColumnSchema, Kind, Use
from discoformer.columns.schema_overrides import override, parse_kind
from discoformer.columns.schema_rules import classify, numbers_of
from discoformer.core.checks import DataError, column_names, refuse_unknown, show_cell
from discoformer.core.transforms import SupportWarning

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["KINDS", "ColumnSchema", "Kind", "Schema", "Use", "infer_schema"]


@dataclass(frozen=True)
class Schema:
    """The columns of a table, in order.

    >>> import pandas as pd
    >>> frame = pd.DataFrame({"name": ["Ann", "Bo", "Cy"], "height": [1.7, 1.65, 1.9]})
    >>> schema = infer_schema(frame)
    >>> [(column.name, column.kind) for column in schema]
    [('name', 'identifier'), ('height', 'continuous')]
    >>> schema.numbers
    ('height',)
    """

    columns: tuple[ColumnSchema, ...]

    def __iter__(self) -> Iterator[ColumnSchema]:
        return iter(self.columns)

    def __len__(self) -> int:
        return len(self.columns)

    def __getitem__(self, name: Any) -> ColumnSchema:
        for column in self.columns:
            if column.name == name:
                return column
        raise KeyError(name)

    def named(self, use: Use) -> tuple[Any, ...]:
        """Names of the columns of a use: "number", "code", "left out" or "refused"."""
        return tuple(column.name for column in self.columns if column.use == use)

    @property
    def numbers(self) -> tuple[Any, ...]:
        """Names of the numeric part."""
        return self.named("number")

    @property
    def used(self) -> tuple[ColumnSchema, ...]:
        """Columns that a density is for: numbers and categories, in order."""
        return tuple(column for column in self.columns if column.use in ("number", "code"))

    @property
    def kinds(self) -> list[ColumnKind]:
        """What the used columns are to a density."""
        return [column.density_kind for column in self.used]

    @property
    def bounds(self) -> list[Bound]:
        """Where the values leave no doubt that the used columns end."""
        return [c.bounds if c.use == "number" else FREE for c in self.used]

    def with_labels(self, frame: pd.DataFrame) -> Schema:
        """The schema with the labels that its categories have in another frame, after its own."""
        columns = []
        for column in self.columns:
            if column.use == "code" and column.name in frame.columns:
                known = set(column.categories)
                there = frame[column.name].dropna().unique().tolist()
                column = replace(
                    column, categories=(*column.categories, *(x for x in there if x not in known))
                )
            columns.append(column)
        return Schema(tuple(columns))

    def plain(self) -> Schema:
        """What a density of nothing but numbers uses: no categories, no masses, no bounds of its own.

        Truth values and the numbers 0 and 1 are numbers there.

        >>> import pandas as pd
        >>> frame = pd.DataFrame({"paid": [True, False, True], "by": ["card", "cash", "card"]})
        >>> [column.use for column in infer_schema(frame).plain()]
        ['number', 'left out']
        """
        return Schema(tuple(map(_plain, self.columns)))

    def warn(self) -> None:
        """Say in one warning which columns are left out, and why."""
        out = [f"{show_cell(c.name)} ({c.kind}: {c.reason})" for c in self.columns if c.use == "left out"]
        if out:
            more = f" and {len(out) - 8} more" if len(out) > 8 else ""
            way = "say otherwise by types, as in NAME=category"
            warnings.warn(f"left out {', '.join(out[:8])}{more}: {way}", SupportWarning, stacklevel=3)


def infer_schema(
    frame: pd.DataFrame,
    types: Mapping[Any, str] | str | None = None,
    exclude: Sequence[Any] = (),
    columns: Sequence[Any] | None = None,
    units: Mapping[Any, str] | None = None,
) -> Schema:
    """The kind of every column of a frame.

    Parameters
    ----------
    frame : the table (n, d), with whatever types its columns have
    types : kinds by column name where the rules are not to decide, as in ``{"age": "count"}``; one kind,
        such as ``"continuous"``, for all columns of numbers, and the others are left out but for dates
    exclude : names of columns to leave out
    columns : names of the columns to use, in this order; all by default.  Numbers that are asked for by
        name are used, even if they look like identifiers.
    units : signs that the cells of columns were written with, such as %

    Raises
    ------
    DataError
        Two columns of one name, a name that the frame has not, a kind that does not exist or that the
        values of the column cannot be.

    >>> import pandas as pd
    >>> frame = pd.DataFrame({"age": [31, 45, 31, 28], "paid": [True, False, True, True]})
    >>> [column.kind for column in infer_schema(frame, types={"age": "continuous"})]
    ['continuous', 'boolean']
    >>> infer_schema(frame, exclude=["agee"])
    Traceback (most recent call last):
        ...
    discoformer.DataError: no column 'agee', the table has 'age', 'paid'
    """
    have = list(frame.columns)
    if len(set(have)) < len(have):
        twice = next(name for name in have if have.count(name) > 1)
        raise DataError(f"two columns {show_cell(twice)}: rename one of them")
    units = units or {}
    everywhere = types if isinstance(types, str) else None
    types = {} if types is None or isinstance(types, str) else types
    refuse_unknown((*types, *exclude, *(columns or ())), have, "the table has")
    wanted = [name for name in (have if columns is None else columns) if name not in set(exclude)]
    if len(set(wanted)) < len(wanted):
        raise DataError(f"the same column is asked for twice: {column_names(range(len(wanted)), wanted)}")
    found = []
    for name in wanted:
        column = classify(name, frame[name], units.get(name, ""))
        if name in types:
            column = override(column, frame[name], types[name])
        elif everywhere is not None:
            column = _everywhere(column, frame[name], everywhere)
        elif columns is not None and column.kind == "identifier":
            column = _asked_for(column, frame[name])
        found.append(column)
    return Schema(tuple(found))


def _everywhere(column: ColumnSchema, cells: pd.Series[Any], kind: str) -> ColumnSchema:
    """The column with the kind that all numbers have; other columns but dates are left out."""
    parse_kind(column.name, kind)
    if column.kind == "constant" or column.unit or column.use == "refused":
        return column
    if numbers_of(cells) is None:
        return replace(column, use="left out", reason=f"no numbers to be {kind}")
    return override(column, cells, kind)


def _plain(column: ColumnSchema) -> ColumnSchema:
    if column.use == "number":
        kind: Kind = column.kind if column.kind in ("date", "constant") else "continuous"
        free = replace(column, kind=kind, low=-math.inf, high=math.inf)
        return replace(free, step=0.0, origin=0.0, atoms=(), period=0.0)
    if column.use != "code":
        return column
    numeric = column.kind == "boolean" and column.reason != "asked for" and column.dtype.kind in "biuf"
    return replace(column, use="number" if numeric else "left out", categories=())


def _asked_for(column: ColumnSchema, cells: pd.Series[Any]) -> ColumnSchema:
    """Numbers that look like identifiers, but were asked for by name."""
    if numbers_of(cells) is None:
        return column
    return replace(column, kind="continuous", reason="asked for by name", use="number")
