"""Error bars of a fit: in one pass where a head has learned them, by the Bayesian bootstrap elsewhere."""

from __future__ import annotations

from typing import Literal, get_args

import torch
from torch import Tensor

from discoformer.api.fitting import Fitted
from discoformer.core.checks import DataError
from discoformer.core.fields import Estimate, as_point_density
from discoformer.functionals.bootstrap import bootstrap
from discoformer.models.error_bars import ErrorHead, shipped_error_head
from discoformer.models.mixture.error_features import has_error_features
from discoformer.models.mixture.views import Views
from discoformer.models.registry import is_shipped

__all__ = ["BarSource", "error_bars", "head_of"]

BarSource = Literal["head", "bootstrap"]
"""Where error bars come from: one pass of a small network, or fits to the sample with random weights."""


def head_of(fitted: Fitted) -> ErrorHead | None:
    """The network that knows the errors of this fit; None if there is none.

    There is one for the default, with axes, on columns of numbers.
    """
    name = fitted.resolved.name
    known = (
        is_shipped(name) and isinstance(fitted.resolved.method, Views) and has_error_features(fitted.field)
    )
    return shipped_error_head(name) if known else None


def error_bars(
    fitted: Fitted,
    sample: Tensor | None,
    queries: Tensor,
    *,
    weights: Tensor | None = None,
    source: BarSource | None = None,
    no_sample: str = "error bars need the sample in memory: fit to an array or a frame",
) -> Estimate[Tensor]:
    """Standard deviations of log density (m,) and score (m, d) at queries (m, d); 1.645 of them hold 90 %.

    Parameters
    ----------
    fitted : to one sample
    sample : (n, d), in memory; the bootstrap needs it
    queries : (m, d)
    weights : (n,), of the sample, if it has any
    source : the head where there is one, unless a source is named
    no_sample : what to say where the bootstrap has none

    >>> from discoformer.api.fitting import fit_sample
    >>> x = torch.randn(400, 1, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    >>> fitted, zero = fit_sample(x), torch.zeros(1, 1).double()
    >>> bars = [float(error_bars(fitted, x, zero, source=s).log_density) for s in ("head", "bootstrap")]
    >>> all(0.01 < bar < 0.3 for bar in bars)
    True
    """
    if source is not None and source not in get_args(BarSource):
        raise DataError(f"std={source!r}: give True, {' or '.join(map(repr, get_args(BarSource)))}")
    field = as_point_density(fitted.field)
    head = None if source == "bootstrap" else head_of(fitted)
    if head is not None:
        return head.spread(field, queries)
    if source == "head":
        raise DataError(
            "error bars in one pass are for 'default' on columns of numbers: take std='bootstrap'"
        )
    if sample is None:
        raise DataError(no_sample)
    if sample.ndim > 2:
        raise DataError("error bars are for one sample, not for a batch")
    return bootstrap(fitted.refit(), field, sample, queries.to(torch.float64), weights=weights)
