"""Regression for skpro: the law of a column given the others, from one joint density."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from discoformer.adapters.torch import normal_shares
from discoformer.columns.fit_recipe import FitRecipe
from discoformer.core.checks import DataError
from discoformer.core.extras import require
from discoformer.core.fields import Density, as_density
from discoformer.methods import resolve

require("skpro", "skpro", "the skpro interface")

import pandas as pd  # noqa: E402
from skpro.distributions.base import BaseDistribution  # noqa: E402
from skpro.regression.base import BaseProbaRegressor  # noqa: E402

__all__ = ["ConditionalDensity", "DiScoFormerRegressor"]


_SHARES, _WEIGHTS = (nodes.numpy() for nodes in normal_shares())


class ConditionalDensity(BaseDistribution):  # type: ignore[misc]
    """The law of one column given rows of the others: all rows in one batch.

    Parameters
    ----------
    density : of all columns, the target last
    rows : (n, k), what is given

    Examples
    --------
    >>> import pandas as pd
    >>> from discoformer.adapters.skpro import ConditionalDensity
    >>> laws = ConditionalDensity(**ConditionalDensity.get_test_params()[0])
    >>> laws.log_pdf(laws.ppf(pd.DataFrame([0.1, 0.5, 0.9], columns=["y"]))).shape
    (3, 1)
    """

    _tags = {
        "distr:measuretype": "continuous",
        "distr:paramtype": "nonparametric",
        "capabilities:approx": ["energy", "pdfnorm", "mean", "var"],
        "capabilities:exact": ["pdf", "log_pdf", "cdf", "ppf"],
    }

    def __init__(self, density: Density, rows: Any, index: Any = None, columns: Any = None) -> None:
        self.density, self.rows = density, rows
        super().__init__(index=index, columns=columns)

    def _law(self) -> Density:
        given = torch.from_numpy(np.atleast_2d(np.array(self.rows, dtype=np.float64)))
        return self.density.conditional(list(range(given.shape[-1])), given)

    @torch.no_grad()
    def _log_pdf(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        found = self._law()._estimate(_column(x)).log_density
        return found.numpy().reshape(np.shape(x))

    def _pdf(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        density: NDArray[np.float64] = np.exp(self._log_pdf(x))
        return density

    def _cdf(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        return self._law().cdf(_column(x)).numpy().reshape(np.shape(x))

    def _ppf(self, p: NDArray[np.float64]) -> NDArray[np.float64]:
        shares = _column(p).squeeze(-1).clamp(1e-12, 1 - 1e-12)
        return self._law().quantile(shares).numpy().reshape(np.shape(p))

    def _mean(self) -> NDArray[np.float64]:
        mean: NDArray[np.float64] = (self._quantiles() @ _WEIGHTS).reshape(self.shape)
        return mean

    def _var(self) -> NDArray[np.float64]:
        quantiles = self._quantiles()
        off = quantiles - (quantiles @ _WEIGHTS)[:, None]
        variance: NDArray[np.float64] = (off**2 @ _WEIGHTS).reshape(self.shape)
        return variance

    def _energy_self(self) -> NDArray[np.float64]:
        """E|X - Y|: of two shares, the larger is p with density 2 p, the smaller with 2 (1 - p)."""
        return self._per_row(self._quantiles() @ (2 * (2 * _SHARES - 1) * _WEIGHTS))

    def _energy_x(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        return self._per_row(np.abs(self._quantiles() - np.reshape(x, (-1, 1))) @ _WEIGHTS)

    def _per_row(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        return values if self.ndim else values.reshape(())

    def pdfnorm(self, a: float = 2) -> Any:
        """E p(X)^(a - 1)."""
        points = torch.from_numpy(self._quantiles()).unsqueeze(-1)
        with torch.no_grad():
            density = self._law()._estimate(points).log_density.numpy()
        norm = (np.exp((a - 1) * density) @ _WEIGHTS).reshape(self.shape)
        return pd.DataFrame(norm, index=self.index, columns=self.columns) if self.ndim else float(norm)

    def _sample(self, n_samples: int | None = None) -> Any:
        """New draws, by torch's own random numbers."""
        with torch.no_grad():
            draws = self._law().sample(n_samples or 1).squeeze(-1).numpy()  # (rows, n_samples)
        if not self.ndim:
            return float(draws[0, 0]) if n_samples is None else pd.DataFrame(draws[0], columns=self.columns)
        if n_samples is None:
            return pd.DataFrame(draws, index=self.index, columns=self.columns)
        index = pd.MultiIndex.from_product([range(n_samples), self.index])
        return pd.DataFrame(draws.T.reshape(-1, 1), index=index, columns=self.columns)

    @torch.no_grad()
    def _quantiles(self) -> NDArray[np.float64]:
        """Quantiles (rows, nodes) of every law: what a row says does not depend on the others."""
        law = self._law()
        rows = np.atleast_2d(np.asarray(self.rows)).shape[0]
        return law.quantile(torch.from_numpy(_SHARES).expand(rows, -1)).squeeze(-1).numpy()

    def _subset_params(self, rowidx: Any, colidx: Any, coerce_scalar: bool = False) -> dict[str, Any]:
        rows = np.asarray(self.rows)
        return {"density": self.density, "rows": rows if rowidx is None else rows[rowidx]}

    @classmethod
    def get_test_params(cls, parameter_set: str = "default") -> list[dict[str, Any]]:
        """Laws for skpro's own checks."""
        points = np.random.default_rng(0).normal(size=(100, 2))
        joint = as_density(resolve("default").method.fit(points))
        return [
            {"density": joint, "rows": points[:3, :1], "index": [0, 1, 2], "columns": ["y"]},
            {"density": joint, "rows": points[0, :1]},
        ]


class DiScoFormerRegressor(BaseProbaRegressor):  # type: ignore[misc]
    """A column given the others by the joint density of all.

    Parameters
    ----------
    model : as for `discoformer.DiScoFormer`

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from discoformer.adapters.skpro import DiScoFormerRegressor
    >>> x, noise = np.random.default_rng(0).normal(size=(2, 200, 1))
    >>> X, y = pd.DataFrame(x, columns=["x"]), pd.DataFrame(x + 0.1 * noise, columns=["y"])
    >>> reg = DiScoFormerRegressor().fit(X, y)
    >>> bool((reg.predict(X) - X.to_numpy()).abs().to_numpy().mean() < 0.05)
    True
    >>> reg.predict_proba(X[:3]).log_pdf(y[:3]).shape
    (3, 1)
    """

    _tags = {
        "capability:multioutput": False,
        "capability:missing": False,
        "X_inner_mtype": "pd_DataFrame_Table",
    }

    def __init__(self, model: Any = "default") -> None:
        self.model = model
        super().__init__()

    def _fit(self, X: pd.DataFrame, y: pd.DataFrame) -> DiScoFormerRegressor:
        if y.shape[1] != 1:
            raise DataError(f"y has {y.shape[1]} columns: fit one regressor for each")
        joint = np.column_stack([X.to_numpy(np.float64), y.to_numpy(np.float64)])
        self.density_ = as_density(FitRecipe(resolve(self.model).method, drop=False).fit(joint))
        self.target_ = list(y.columns)
        return self

    def _predict_proba(self, X: pd.DataFrame) -> ConditionalDensity:
        if not len(X):
            raise DataError("X has no rows: give one at least")
        return ConditionalDensity(self.density_, X.to_numpy(np.float64), X.index, self.target_)

    @classmethod
    def get_test_params(cls, parameter_set: str = "default") -> list[dict[str, Any]]:
        """Models for skpro's own checks."""
        return [{"model": "default"}, {"model": "default-gmm"}]


def _column(values: Any) -> torch.Tensor:
    """Numbers (n, 1) or () as one query for each law: (n, 1, 1)."""
    return torch.from_numpy(np.array(values, dtype=np.float64).reshape(-1, 1, 1))
