"""How odd a row is, as a probability: the level of its density, conformal p-values, false discoveries.

The level of x is P(f(X) < f(x)): one less the mass of the highest-density region that x lies on the edge of.
It is a rank among rows of the sample, each scored by the fit without it, with a standard error of
sqrt(p (1 - p) / n).  Draws of the fit are as good where the fit is the truth; an estimate is sharper than the
truth, and its regions hold less than they say.

A conformal p-value ranks a row among rows that the fit has not seen: p = (1 + #{scores <= own}) / (1 + n).
With rows kept apart it is valid in finite samples, whatever the fit: P(p <= a) <= a.  The rows of the sample,
each scored by the fit without it, serve as well, up to what a single row changes in the fit.
"""

from __future__ import annotations

import warnings

import numpy as np
import torch
from numpy.typing import NDArray

from discoformer.core.checks import DataError
from discoformer.core.fields import Density
from discoformer.detection.common_scale import CommonScale, on_scale

__all__ = ["DRAWS", "conformal_p_values", "discoveries", "drawn_log_densities", "levels", "warn_if_too_few"]

DRAWS = 16384


def drawn_log_densities(
    density: Density, draws: int = DRAWS, scale: CommonScale | None = None
) -> NDArray[np.float64]:
    """Log densities (N,) at draws of a density, in increasing order; on a common scale, if there is one."""
    with torch.no_grad():
        points = density.sample(draws, torch.Generator().manual_seed(0))
        found: NDArray[np.float64] = density.log_density(points).cpu().numpy()
    return np.sort(on_scale(scale, found, points.cpu().numpy()))


def levels(
    log_density: NDArray[np.float64], among: NDArray[np.float64], weights: NDArray[np.float64] | None = None
) -> NDArray[np.float64]:
    """Share (m,) of log densities (N,), each with its weight, that are below those of the rows (m,).

    >>> levels(np.array([0.0, 2.5]), np.array([1.0, 4.0, 3.0, 2.0])).tolist()
    [0.0, 0.5]
    >>> levels(np.array([2.5]), np.array([1.0, 4.0, 2.0]), np.array([3.0, 4.0, 1.0])).tolist()
    [0.5]
    """
    order = np.argsort(among, kind="stable")
    place = np.searchsorted(among[order], log_density)
    if weights is None:
        return place / len(among)
    below = np.concatenate([[0.0], np.cumsum(weights[order])])
    return np.asarray(below[place] / below[-1])


def conformal_p_values(scores: NDArray[np.float64], calibration: NDArray[np.float64]) -> NDArray[np.float64]:
    """P-values (m,) of scores (m,), low is odd, among scores (n,) of rows that are not.

    >>> conformal_p_values(np.array([0.0, 2.5]), np.array([1.0, 2.0, 3.0])).tolist()
    [0.25, 0.75]
    """
    below = np.searchsorted(np.sort(calibration), scores, side="right")
    return np.asarray((1 + below) / (1 + len(calibration)))


def discoveries(p_values: NDArray[np.float64], rate: float = 0.1) -> NDArray[np.bool_]:
    """Rows (m,) to be called odd so that at most a share ``rate`` of these is wrongly so, on average.

    Benjamini and Hochberg's rule, which holds for conformal p-values, with Storey's estimate of how many
    rows are not odd: twice those with a p-value above one half.

    >>> discoveries(np.array([0.001, 0.9, 0.02, 0.4]), rate=0.1).tolist()
    [True, False, True, False]
    """
    if not 0 < rate < 1:
        raise DataError(f"a false discovery rate of {rate}: give a share between 0 and 1")
    order = np.argsort(p_values)
    passed = p_values[order] * _usual_share(p_values) <= rate * np.arange(1, len(order) + 1) / len(order)
    found = np.zeros(len(order), dtype=bool)
    if passed.any():
        found[order[: np.flatnonzero(passed)[-1] + 1]] = True
    return found


def warn_if_too_few(p_values: NDArray[np.float64], rate: float, calibration: int) -> None:
    """Warn if not even the least p-value that ``calibration`` rows allow would single out one row.

    >>> import warnings
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     warn_if_too_few(np.linspace(0.01, 1, 100), 0.1, 200)
    >>> print(caught[0].message)  # doctest: +ELLIPSIS
    one odd row among 100 cannot be told: with 200 rows to compare with no p-value is below 0.005, ...
    """
    count = len(p_values)
    needed = rate / (_usual_share(p_values) * count)
    if 1 / (1 + calibration) > needed:
        warnings.warn(
            f"one odd row among {count} cannot be told: with {calibration} rows to compare with no p-value "
            f"is below {1 / (1 + calibration):.2g}, and it takes {needed:.2g}: ask about fewer rows, or fit "
            "to more",
            stacklevel=3,
        )


def _usual_share(p_values: NDArray[np.float64]) -> float:
    """Share of rows that are not odd, at most."""
    return float(min(1.0, 2 * (1 + (p_values > 0.5).sum()) / len(p_values)))
