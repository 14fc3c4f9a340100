"""From a ``model`` argument to a method: names, paths and methods are all models.

Weights are read once per process, whatever asks for them.  What a network was trained for is data in
its card; `check_range` compares a sample with it and warns, once, where the sample lies outside.
"""

from __future__ import annotations

import warnings
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from discoformer.core.checks import DataError
from discoformer.core.fields import Method
from discoformer.models.registry import Card, list_models, load_model, read_card

__all__ = ["KERNEL", "RangeWarning", "Resolved", "check_range", "resolve"]

KERNEL = "kde"  # the one name that needs no weights


class RangeWarning(UserWarning):
    """The sample is outside the range of rows or columns that the network was trained on.

    The answer is still the network's; silence it with `warnings.simplefilter` once you have compared.
    """


class Resolved(NamedTuple):
    """A method, the name it goes by, and its card if it is a network with one."""

    method: Method
    name: str
    card: Card | None


def resolve(model: str | Path | Method = "default") -> Resolved:
    """The method behind a registered name, "default", a weights file, "kde", or a method itself.

    >>> resolve("kde").method.bandwidth
    'scott'
    >>> resolve("no such model")
    Traceback (most recent call last):
        ...
    discoformer.DataError: no model 'no such model': ...
    """
    if isinstance(model, Method):
        return Resolved(model, type(model).__name__, None)
    if not isinstance(model, str | Path):
        raise DataError(f"model is {model!r}: give a name, a path or a method such as KDE()")
    if model == KERNEL:
        from discoformer.baselines.kde import KDE

        return Resolved(KDE(), KERNEL, None)
    path = Path(model)
    stamp = path.stat().st_mtime_ns if path.is_file() else 0  # a file that is trained on gets read again
    return _load(str(model), stamp)


@lru_cache(maxsize=8)
def _load(name: str, stamp: int) -> Resolved:
    network = load_model(name)
    shipped = list_models()
    return Resolved(network, name, shipped[name] if name in shipped else read_card(name))


def check_range(resolved: Resolved, rows: int, columns: int) -> None:
    """Warn with `RangeWarning` if a sample of this shape is not what the network was trained for."""
    if resolved.card is None:
        return
    outside = [
        f"{size} {what} (trained on {low} to {high})"
        for size, what, (low, high) in (
            (rows, "rows", resolved.card.sizes),
            (columns, "columns", resolved.card.dims),
        )
        if not low <= size <= high
    ]
    if outside:
        warnings.warn(
            f"the sample has {' and '.join(outside)}, outside the range of model {resolved.name!r}: "
            "compare held-out likelihood before relying on it",
            RangeWarning,
            stacklevel=3,
        )
