"""Standard errors of functionals by the Bayesian bootstrap: the same estimate, rows weighted at random.

The standard error that comes with a functional is that of a mean over rows, as if the fit were given.  Here
the fit is made again for every set of weights, so what it owes to the sample counts, too.  A bias that all
fits share shows in neither.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from numbers import Integral
from typing import Any

import torch
from sklearn.base import BaseEstimator

from discoformer.core.checks import DataError, check_points, check_weights, show_cell
from discoformer.core.progress import track
from discoformer.functionals.bootstrap import FITS, POINTS, random_shares
from discoformer.functionals.columns import fits_batches
from discoformer.functionals.divergences import jensen_shannon, kl_divergence, relative_fisher_information
from discoformer.functionals.splits import Functional, ImpossibleWarning, Source, check_pair, source_of

__all__ = ["bootstrapped"]

_OF_TWO_LAWS = (kl_divergence, jensen_shannon, relative_fisher_information)


@torch.no_grad()
def bootstrapped(
    functional: Callable[..., Functional],
    *samples: Any,
    source: Source,
    weights: Any = None,
    fits: int = FITS,
    seed: int = 0,
    **options: Any,
) -> Functional:
    """A functional with a standard error from fits to rows with random weights.

    Parameters
    ----------
    functional : one of this package, such as `entropy` or `kl_divergence`
    samples : what it takes, (n, d) each
        Rows that belong together, as those of `mutual_information` do, have the same weight.
    source, weights, options : as for the functional
        A density that is known exactly stays as it is: then only the rows of the mean are drawn again.  What
        was fitted to the sample has to be given as the method that fits it, such as a name.
    fits : number of fits; n of them tell the standard error to a share of 1 / sqrt(2 n)
    seed : of the random weights

    >>> import numpy as np
    >>> from discoformer import KDE
    >>> from discoformer.functionals import entropy
    >>> x = np.random.default_rng(0).normal(size=(300, 1))
    >>> found = bootstrapped(entropy, x, source=KDE())
    >>> found.value == entropy(x, KDE()).value, 0.02 < found.standard_error < 0.08
    (True, True)
    """
    two = getattr(functional, "func", functional) in _OF_TWO_LAWS
    if len(samples) != 2 if two else not samples:
        raise DataError(f"{len(samples)} sample(s) given: give {2 if two else 1} after the functional")
    if isinstance(fits, bool) or not isinstance(fits, Integral):
        raise DataError(f"fits={show_cell(fits)}: give a whole number of fits, such as {FITS}")
    if isinstance(source, BaseEstimator) and hasattr(source, "n_features_in_"):
        raise DataError(
            "a fitted estimator would not be fitted again: give the name of its model as the source"
        )
    known, points = source_of(source), [check_points(sample, "sample", min_rows=2) for sample in samples]
    if any(rows.ndim > 2 for rows in points):
        raise DataError("the bootstrap is for one sample at a time: give arrays (n, d)")
    laws = points if two else points[:1]
    given = check_pair((None, None) if weights is None else weights) if two else (weights,)
    shares = []
    for k, (rows, own) in enumerate(zip(laws, given, strict=True)):
        share = check_weights(torch.ones(len(rows)) if own is None else own, rows)
        assert share is not None
        shares.append(random_shares(share.double(), fits, seed + k))
    value = functional(*samples, known, weights=given if two else weights, **options).value
    together = all(fits_batches(known, rows) for rows in points)
    at_once = max(1, POINTS // max(map(len, points))) if together else 1
    found = []
    for first in track(range(0, fits, at_once), "bootstrap"):
        part = [share[first : first + at_once] for share in shares]
        batch = [rows.expand(len(part[0]), *rows.shape) for rows in points] if together else points
        chosen = tuple(part) if together else tuple(share[0] for share in part)
        with warnings.catch_warnings():  # what is said of the sample itself is said once
            warnings.simplefilter("ignore", ImpossibleWarning)
            again = functional(*batch, known, weights=chosen if two else chosen[0], **options)
        found.append(torch.as_tensor(again.value).reshape(-1))
    return Functional.like(
        samples[0], torch.as_tensor(value, dtype=torch.float64), torch.cat(found).double().var()
    )
