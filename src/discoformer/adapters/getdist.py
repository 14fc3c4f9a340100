"""A fitted density for GetDist: draws with their log density, to plot beside chains."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from discoformer.adapters.fitted import answer, bounds_of, density_of, draw
from discoformer.core.checks import DataError
from discoformer.core.extras import require

__all__ = ["to_getdist"]


def to_getdist(
    fitted: Any, names: Sequence[str] | None = None, *, draws: int = 20_000, seed: int = 0, label: str = ""
) -> Any:
    """A `getdist.MCSamples` of a fitted density; the bounds of the fit are its ranges.

    Parameters
    ----------
    fitted : a fitted `DiScoFormer`, or a `Density`
    names : of the parameters; those the estimator was fitted with by default
    draws, seed : how many points, and of which random numbers
    label : for legends

    Examples
    --------
    >>> from discoformer import KDE
    >>> samples = to_getdist(KDE().fit(np.eye(3)), ["a", "b", "c"], draws=100)  # doctest: +SKIP
    """
    require("getdist", "bayes", "to_getdist")
    from getdist import MCSamples

    density = density_of(fitted)
    known = getattr(fitted, "feature_names_in_", None)
    own = [f"x{j}" for j in range(density.dim)] if known is None else list(map(str, known))
    labels = own if names is None else list(names)
    if len(labels) != density.dim:
        raise DataError(f"{len(labels)} name(s) for {density.dim} column(s): give one each")
    points = draw(density, draws, np.random.default_rng(seed))
    log_density, _ = answer(density, points)
    ranges = dict(zip(labels, bounds_of(density), strict=True))
    return MCSamples(
        samples=points, names=labels, labels=labels, loglikes=-log_density, ranges=ranges, label=label or None
    )
