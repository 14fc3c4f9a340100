"""The one registry of methods: from a name, a path or a method itself to what can be fitted.

The same names work everywhere: ``DiScoFormer(model=...)``, `estimate`, every command's ``--model``, the
experiments and the benchmarks.  Weights are read once per process.  The card of a network says
what it was trained for; `check_range` compares a sample with it and warns where the sample lies outside.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from functools import lru_cache, partial
from pathlib import Path
from typing import NamedTuple

from discoformer.baselines.flow import SplineFlow
from discoformer.baselines.gmm import BayesianMixture, GaussianMixtureBIC
from discoformer.baselines.kde import KDE
from discoformer.core.checks import DataError
from discoformer.core.fields import Method
from discoformer.models.mixture.unified_network import UnifiedNetwork
from discoformer.models.mixture.views import Views
from discoformer.models.registry import Card, is_shipped, load_model, read_card, shipped_card

__all__ = [
    "METHODS",
    "PEERS",
    "RangeWarning",
    "Resolved",
    "check_range",
    "describe_methods",
    "resolve",
    "takes_kinds",
    "without_axes",
]


class Entry(NamedTuple):
    """A method that needs no weights: how to make it, and what it is."""

    make: Callable[[], Method]
    what: str


METHODS: dict[str, Entry] = {
    "kde-scott": Entry(KDE, "kernel density, Scott's rule per column"),
    "kde-loo": Entry(partial(KDE, "loo"), "kernel density, bandwidth of largest leave-one-out likelihood"),
    "gmm-full": Entry(
        GaussianMixtureBIC, "scikit-learn GaussianMixture, 1 to 20 components by BIC, full covariances"
    ),
    "gmm-diag": Entry(partial(GaussianMixtureBIC, "diag"), "the same with diagonal covariances"),
    "bayes-gmm": Entry(BayesianMixture, "scikit-learn BayesianGaussianMixture with 20 components"),
    "flow": Entry(SplineFlow, "neural spline flow, trained on the sample with early stopping (needs zuko)"),
}
"""Methods that need no weights, by name."""

PEERS = ("kde-scott", "kde-loo", "gmm-full", "gmm-diag", "bayes-gmm")
"""What a user would pick instead, without training a network."""


class RangeWarning(UserWarning):
    """The sample is outside the range of rows or columns that the network was trained on.

    The answer is still the network's.  Compare held-out likelihood (`discoformer compare`) before you rely
    on it, then silence the warning with `warnings.simplefilter`.
    """

    __module__ = "discoformer"  # where users import it from


class Resolved(NamedTuple):
    """A method, its name, and its card if it is a network that has one."""

    method: Method
    name: str
    card: Card | None


def resolve(model: str | Path | Method = "default") -> Resolved:
    """The method behind a name of `METHODS` or of ``discoformer models``, a weights file, or a method itself.

    >>> resolve("kde-scott").method.bandwidth
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
    if isinstance(model, str) and model in METHODS:
        return Resolved(METHODS[model].make(), model, None)
    # weights that have changed on disk are read again; `exists` is False for names that no file can have
    stamp = Path(model).stat().st_mtime_ns if os.path.exists(model) else 0
    return _load(str(model), stamp)


def without_axes(resolved: Resolved) -> Resolved:
    """The same network for data without preferred directions: exactly affine equivariant.

    >>> without_axes(resolve("default")).method.axes
    False
    """
    if not isinstance(resolved.method, Views | UnifiedNetwork):
        raise DataError(f"axes=False needs a network that can do without them, not {resolved.name!r}")
    return resolved._replace(method=resolved.method.without_axes())


def takes_kinds(resolved: Resolved) -> bool:
    """Whether the method can be fitted to categories, gaps, atoms, lattices and circles.

    >>> takes_kinds(resolve("default")), takes_kinds(resolve("kde-scott"))
    (True, False)
    """
    return isinstance(resolved.method, Views)


def describe_methods() -> str:
    """The names with a line for each, for the help of the commands."""
    width = max(map(len, METHODS))
    ours = "the network in the package; any name of `discoformer models`, or a path, works too"
    rows = {"default": ours, **{name: entry.what for name, entry in METHODS.items()}}
    return "\n".join(f"  {name:<{width}}  {what}" for name, what in rows.items())


@lru_cache(maxsize=8)
def _load(name: str, stamp: int) -> Resolved:
    try:
        network = load_model(name)
    except DataError as error:
        if os.path.exists(name):
            raise
        raise DataError(f"{error}; without weights: {', '.join(METHODS)}") from None
    return Resolved(network, name, shipped_card(name) if is_shipped(name) else read_card(name))


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
