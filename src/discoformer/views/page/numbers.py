"""A fitted density as numbers that a page can carry, and back.

The page carries exactly what the density is made of: the mixture's weights, means, scales and degrees of
freedom, and the transforms it is seen through.  `js/density.js` reads the same numbers and answers in the
browser.  A new kind of base, transform or column map adds one function here (`functools.singledispatch` by
its type), one in `_READERS`, and its twin in JavaScript.

Only closed-form mixtures can be carried.  A kernel estimate is its whole sample, and an attention network has
no margins and no conditionals.  Both are refused with a message, and a report on them has no live pictures.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Callable, Mapping, Sequence
from functools import singledispatch
from typing import Any

import numpy as np
import torch
from torch import Tensor

from discoformer.columns.bounds import HalfLine, Interval, Scaling
from discoformer.columns.kinds import ColumnKind
from discoformer.columns.left_out import Restriction
from discoformer.columns.normal_scores import NormalScores
from discoformer.columns.split import SplitColumns, SplitKind
from discoformer.core.checks import DataError
from discoformer.core.composed import Blend, Pushforward
from discoformer.core.fields import Density, Field
from discoformer.core.transforms import ColumnMap, ColumnMaps, Frame, KeptColumns, Relation, Transform
from discoformer.models.mixture.mixed import MixedMixture
from discoformer.models.mixture.student import StudentMixture

__all__ = ["density_numbers", "map_numbers", "pack", "read_density", "transform_numbers", "unpack"]

Numbers = dict[str, Any]


def pack(values: Any) -> Numbers:
    """An array as JSON: its shape, and its doubles in base64, which is exact and half as long as decimals.

    >>> pack([1.0, 2.0])
    {'shape': [2], 'f64': 'AAAAAAAA8D8AAAAAAAAAQA=='}
    """
    if isinstance(values, Tensor):
        values = values.detach().cpu().double().numpy()
    array = np.asarray(values, dtype="<f8", order="C")
    return {"shape": list(array.shape), "f64": base64.b64encode(array.tobytes()).decode()}


def unpack(numbers: Numbers) -> Tensor:
    """The tensor that `pack` was given.

    >>> unpack(pack([[0.1], [1e300]])).tolist()
    [[0.1], [1e+300]]
    """
    array = np.frombuffer(base64.b64decode(numbers["f64"]), dtype="<f8").reshape(numbers["shape"])
    return torch.tensor(array.astype(np.float64))


@singledispatch
def density_numbers(field: Field) -> Numbers:
    """What a fitted density is made of, as numbers for JSON.

    Parameters
    ----------
    field : a mixture, a mixture seen through transforms, or a blend of these

    Raises
    ------
    DataError
        The field is something else, or a batch of fits.

    Examples
    --------
    >>> from discoformer import load_model
    >>> field = load_model("default").fit(np.random.default_rng(0).normal(size=(50, 2)))
    >>> numbers = density_numbers(field)
    >>> numbers["kind"], [part["kind"] for part in numbers["parts"]]
    ('blend', ['pushed', 'pushed', 'pushed'])
    """
    raise DataError(
        f"{type(field).__name__} has no closed form that a page could carry: live pictures need a mixture "
        "model such as 'default'"
    )


@density_numbers.register
def _(field: Pushforward) -> Numbers:
    transforms = [transform_numbers(transform) for transform in field.transforms]
    return {"kind": "pushed", "transforms": transforms, "base": density_numbers(field.base)}


@density_numbers.register
def _(field: Blend) -> Numbers:
    _refuse_batch(field.log_weight, 1)
    parts = [density_numbers(part) for part in field.parts]
    return {"kind": "blend", "log_weight": pack(field.log_weight), "parts": parts}


@density_numbers.register
def _(field: StudentMixture) -> Numbers:
    _refuse_batch(field.log_weight, 1)
    row, column = np.tril_indices(field.dim)
    return {
        "kind": "student",
        "log_weight": pack(field.log_weight),
        "mean": pack(field.mean),
        "scale": pack(field.scale[:, row, column]),  # symmetric: the lower half, row by row
        "nu": pack(field.nu),
    }


@density_numbers.register
def _(field: MixedMixture) -> Numbers:
    return {
        "kind": "mixed",
        "student": density_numbers(field.student),
        "tables": [pack(table) for table in field.tables],
        "periods": list(field.periods or (0.0,) * field.numbers),
    }


@singledispatch
def transform_numbers(transform: Transform) -> Numbers:
    """What a transform is made of."""
    raise DataError(f"the page does not know the transform {type(transform).__name__}: write its numbers")


@transform_numbers.register
def _(transform: Frame) -> Numbers:
    _refuse_batch(transform.center, 2)
    names = ("center", "matrix", "inverse", "log_det")
    return {"kind": "frame", **{name: pack(getattr(transform, name)) for name in names}}


@transform_numbers.register
def _(transform: ColumnMaps) -> Numbers:
    maps = {str(column): map_numbers(part) for column, part in sorted(transform.maps.items())}
    return {"kind": "maps", "dim": transform.columns, "maps": maps}


@transform_numbers.register
def _(transform: KeptColumns) -> Numbers:
    relation = transform.relation
    _refuse_batch(relation.center, 2)
    ends = (
        None if transform.ends is None else dict(zip(("low", "high"), map(pack, transform.ends), strict=True))
    )
    return {
        "kind": "kept",
        "kept": list(transform.kept),
        "dropped": list(transform.dropped),
        "relation": {name: pack(getattr(relation, name)) for name in Relation._fields},
        "names": None if transform.names is None else list(transform.names),
        "ends": ends,
    }


@transform_numbers.register
def _(transform: Restriction) -> Numbers:
    _refuse_batch(transform.log_mass, 0)
    return {
        "kind": "restriction",
        "relation": {name: pack(getattr(transform.relation, name)) for name in Relation._fields},
        **{name: pack(getattr(transform, name)) for name in ("low", "high", "log_mass")},
    }


@transform_numbers.register
def _(transform: SplitColumns) -> Numbers:
    columns = [
        {**column.kind.__dict__, "cut": column.cut, "numbers": column.numbers} for column in transform.columns
    ]
    return {"kind": "split", "columns": columns, "names": transform.names and list(transform.names)}


@singledispatch
def map_numbers(column: ColumnMap) -> Numbers:
    """What the map of a column is made of."""
    raise DataError(f"the page does not know the column map {type(column).__name__}: write its numbers")


@map_numbers.register
def _(column: HalfLine) -> Numbers:
    return {
        "kind": "half-line",
        **_ends(column),
        "scale": _number(column.scale),
        "nudge": _number(column.nudge),
        "rising": bool(column.rising),
    }


@map_numbers.register
def _(column: Interval) -> Numbers:
    return {
        "kind": "interval",
        **_ends(column),
        "nudge_low": _number(column.nudge_low),
        "nudge_high": _number(column.nudge_high),
    }


@map_numbers.register
def _(column: NormalScores) -> Numbers:
    names = ("log_weight", "mean", "scale", "nu")
    return {"kind": "normal-scores", **_ends(column), **{name: pack(getattr(column, name)) for name in names}}


@map_numbers.register
def _(column: Scaling) -> Numbers:
    return {
        "kind": "scaling",
        **_ends(column),
        "center": _number(column.center),
        "scale": _number(column.scale),
    }


def read_density(numbers: Mapping[str, Any]) -> Density:
    """The density that `density_numbers` was given; the numbers on the page are all it takes.

    >>> from discoformer import load_model
    >>> x = np.random.default_rng(0).normal(size=(50, 2))
    >>> field = load_model("default").fit(x)
    >>> bool((read_density(density_numbers(field)).log_density(x) == field.log_density(x)).all())
    True
    """
    result: Density = _READERS[numbers["kind"]](numbers)
    return result


def _read_pushed(numbers: Mapping[str, Any]) -> Pushforward:
    transforms = [_READERS[part["kind"]](part) for part in numbers["transforms"]]
    return Pushforward(read_density(numbers["base"]), transforms)


def _read_blend(numbers: Mapping[str, Any]) -> Blend:
    return Blend(tuple(map(read_density, numbers["parts"])), unpack(numbers["log_weight"]))


def _read_student(numbers: Mapping[str, Any]) -> StudentMixture:
    mean, lower = unpack(numbers["mean"]), unpack(numbers["scale"])
    count, dim = mean.shape
    row, column = np.tril_indices(dim)
    scale = mean.new_empty(count, dim, dim)
    scale[:, row, column] = lower
    scale[:, column, row] = lower
    return StudentMixture(unpack(numbers["log_weight"]), mean, scale, unpack(numbers["nu"]))


def _read_mixed(numbers: Mapping[str, Any]) -> MixedMixture:
    tables = tuple(map(unpack, numbers["tables"]))
    return MixedMixture(_read_student(numbers["student"]), tables, tuple(numbers["periods"]))


def _read_frame(numbers: Mapping[str, Any]) -> Frame:
    return Frame(*(unpack(numbers[name]) for name in ("center", "matrix", "inverse", "log_det")))


def _read_maps(numbers: Mapping[str, Any]) -> ColumnMaps:
    maps = {int(column): _READERS[part["kind"]](part) for column, part in numbers["maps"].items()}
    return ColumnMaps(maps, numbers["dim"])


def _read_kept(numbers: Mapping[str, Any]) -> KeptColumns:
    names = None if numbers["names"] is None else tuple(numbers["names"])
    ends = numbers["ends"] and (unpack(numbers["ends"]["low"]), unpack(numbers["ends"]["high"]))
    return KeptColumns(
        tuple(numbers["kept"]), tuple(numbers["dropped"]), _read_relation(numbers), names, ends
    )


def _read_restriction(numbers: Mapping[str, Any]) -> Restriction:
    ends = (unpack(numbers[name]) for name in ("low", "high", "log_mass"))
    return Restriction(_read_relation(numbers), *ends)


def _read_split(numbers: Mapping[str, Any]) -> SplitColumns:
    columns = []
    for column in numbers["columns"]:
        kind = {**column, "atoms": tuple(column["atoms"])}
        cut, has_numbers = kind.pop("cut"), kind.pop("numbers")
        columns.append(SplitKind(ColumnKind(**kind), cut, has_numbers))
    return SplitColumns(tuple(columns), numbers["names"] and tuple(numbers["names"]))


def _read_relation(numbers: Mapping[str, Any]) -> Relation:
    return Relation(*(unpack(numbers["relation"][name]) for name in Relation._fields))


def _read_half_line(numbers: Mapping[str, Any]) -> HalfLine:
    low, high = _read_ends(numbers)
    scale, nudge = _tensors([numbers["scale"]], [numbers["nudge"]])
    return HalfLine(low, high, scale, nudge, numbers["rising"])


def _read_interval(numbers: Mapping[str, Any]) -> Interval:
    return Interval(*_read_ends(numbers), *_tensors([numbers["nudge_low"]], [numbers["nudge_high"]]))


def _read_normal_scores(numbers: Mapping[str, Any]) -> NormalScores:
    log_weight, mean, scale, nu = (unpack(numbers[name]) for name in ("log_weight", "mean", "scale", "nu"))
    low, high = _read_ends(numbers)
    return NormalScores(low, high, log_weight, mean, scale, nu)


def _read_scaling(numbers: Mapping[str, Any]) -> Scaling:
    return Scaling(*_read_ends(numbers), *_tensors(numbers["center"], numbers["scale"]))


_READERS: dict[str, Callable[[Mapping[str, Any]], Any]] = {
    "pushed": _read_pushed,
    "blend": _read_blend,
    "student": _read_student,
    "mixed": _read_mixed,
    "frame": _read_frame,
    "maps": _read_maps,
    "kept": _read_kept,
    "restriction": _read_restriction,
    "split": _read_split,
    "half-line": _read_half_line,
    "interval": _read_interval,
    "normal-scores": _read_normal_scores,
    "scaling": _read_scaling,
}


def _refuse_batch(tensor: Tensor, plain: int) -> None:
    if tensor.ndim > plain:
        raise DataError("a batch of fits has no page: fit one table at a time")


def _number(value: Tensor) -> float:
    if value.numel() != 1:
        raise DataError("a batch of fits has no page: fit one table at a time")
    return float(value)


def _ends(column: ColumnMap) -> Numbers:
    """Where the column ends; None for infinity, which JSON cannot hold."""
    ends = {"low": _number(column.low), "high": _number(column.high)}
    return {name: None if math.isinf(end) else end for name, end in ends.items()}


def _read_ends(numbers: Mapping[str, Any]) -> list[Tensor]:
    low = -math.inf if numbers["low"] is None else numbers["low"]
    high = math.inf if numbers["high"] is None else numbers["high"]
    return _tensors(low, high)


def _tensors(*values: float | Sequence[float]) -> list[Tensor]:
    return [torch.tensor(value, dtype=torch.float64) for value in values]
