"""The field that the mixture core returns: a distribution in the data's own coordinates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from discoformer.core.checks import DataError, check_points
from discoformer.core.frames import Frame, scaling_frame
from discoformer.models.mixture.student import StudentMixture
from discoformer.models.network import NetworkField

__all__ = ["MixtureField"]


class MixtureField(NetworkField):
    """A Student-t mixture seen through a frame.

    The parameters stay in normalized coordinates, where the arithmetic is safe whatever the units of
    the data; `weights`, `means` and `covariances` show them in the units of the data.

    Examples
    --------
    >>> from discoformer import load_model
    >>> field = load_model("mixture").fit(torch.randn(100, 3, dtype=torch.float64))
    >>> field.marginal([2, 0]).dim, field.conditional([1], [0.5]).dim
    (2, 2)
    >>> bool(field.marginal([1]).cdf(torch.tensor([[100.0]])) > 0.999)
    True
    """

    state: StudentMixture

    @property
    def weights(self) -> Tensor:
        """Mixture weights (..., M)."""
        return self.state.log_weight.exp()

    @property
    def means(self) -> Tensor:
        """Component means (..., M, d)."""
        return self.frame.denormalize(self.state.mean)

    @property
    def covariances(self) -> Tensor:
        """Component covariances (..., M, d, d)."""
        return self.state.transform(self.frame.inverse, torch.zeros_like(self.frame.center)).covariance

    def sample(self, n: int, generator: torch.Generator | None = None) -> Tensor:
        """Draw n points: (..., n, d)."""
        return self.frame.denormalize(self.state.sample(n, generator))

    def marginal(self, columns: Sequence[int]) -> MixtureField:
        """The field of some of the columns, in the order given."""
        self._check(columns)
        mixture, frame = self._by_column()
        return replace(self, state=mixture.marginal(columns), frame=_part(frame, columns))

    def conditional(self, columns: Sequence[int], values: Any) -> MixtureField:
        """The field of the other columns given ``values`` (..., k) of ``columns``."""
        self._check(columns)
        if len(columns) >= self.dim:
            raise DataError("every column is given, none is left: leave at least one out")
        row = self._check_values(columns, values)
        mixture, frame = self._by_column()
        given = _part(frame, columns).normalize(row).squeeze(-2)
        rest = [c for c in range(self.dim) if c not in set(columns)]
        return replace(self, state=mixture.conditional(columns, given), frame=_part(frame, rest))

    def cdf(self, queries: Any) -> Tensor:
        """Distribution function (..., m) at queries (..., m, 1), for one column; has no gradient."""
        points = check_points(queries, "queries", dim=self.dim)
        return self.state.cdf(self.frame.normalize(points.to(self.frame.center.dtype)))

    def _by_column(self) -> tuple[StudentMixture, Frame]:
        """The mixture with each column in a unit of its own, and the frame of these units."""
        unit = self.frame.inverse.norm(dim=-2)  # (..., d)
        mixture = self.state.transform(
            self.frame.inverse / unit.unsqueeze(-2), torch.zeros_like(self.frame.center)
        )
        return mixture, scaling_frame(self.frame.center, unit)

    def _check_values(self, columns: Sequence[int], values: Any) -> Tensor:
        """Values (..., k) as points (..., 1, k), in the type of the frame."""
        try:
            row = torch.as_tensor(values, dtype=self.frame.center.dtype)
        except (TypeError, ValueError) as error:
            raise DataError(f"values are not numbers: {error}") from None
        if row.shape[-1:] != (len(columns),):
            raise DataError(f"values have shape {tuple(row.shape)}, expected one for each of {list(columns)}")
        return check_points(row.unsqueeze(-2), "values")

    def _check(self, columns: Sequence[int]) -> None:
        wrong = [c for c in columns if not 0 <= c < self.dim]
        if wrong or len(set(columns)) != len(columns) or not columns:
            raise DataError(f"columns {list(columns)}: give distinct numbers from 0 to {self.dim - 1}")


def _part(frame: Frame, columns: Sequence[int]) -> Frame:
    """The frame of some columns, for a frame that only scales."""
    keep = torch.as_tensor(columns, device=frame.center.device)
    return scaling_frame(frame.center[..., keep], frame.inverse.diagonal(dim1=-2, dim2=-1)[..., keep])
