"""A density cut off where columns that follow from its own would leave their bounds.

Shares of a whole: z = 1 - x - y was left out of the fit, but cannot be negative.  So there is no mass where
x + y > 1, and what is left is scaled up to one.  The closed-form margins and
conditionals of x and y ignore z: they are those of the density before the cut.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from discoformer.core.checks import DataError
from discoformer.core.fields import Estimate
from discoformer.core.transforms import OFF_SUPPORT, At, Relation, Transform

__all__ = ["Restriction"]

_LEAST = 1e-3  # of the mass: with less inside, the fit contradicts the bounds


@dataclass(frozen=True)
class Restriction(Transform):
    """No mass where a relation of the columns (..., m, k) leaves its bounds ``low`` and ``high`` (e,).

    Attributes
    ----------
    relation : of e further columns to these k
    low, high : (e,), where these end
    log_mass : (...), logarithm of the mass inside before the cut
    """

    relation: Relation
    low: Tensor
    high: Tensor
    log_mass: Tensor

    @property
    def dim(self) -> int:
        return self.relation.slopes.shape[-2]

    def holds(self, points: Tensor) -> Tensor:
        """Whether points (..., m, k) are within, (..., m)."""
        values, slack = self.relation.complete(points), OFF_SUPPORT * self.relation.scale.to(points)
        return ((values >= self.low.to(points) - slack) & (values <= self.high.to(points) + slack)).all(-1)

    def draw(self, sample: Callable[[int], Tensor], n: int) -> Tensor:
        """The first n points (..., n, k) within, of as many draws as that takes."""
        rows = int(1.1 * n / float(self.log_mass.exp().min())) + 16
        while True:
            points = sample(rows)
            within = self.holds(points)
            if int(within.sum(-1).min()) >= n:
                first = within.to(torch.int8).argsort(dim=-1, descending=True, stable=True)[..., :n]
                return points.gather(-2, first.unsqueeze(-1).expand(*first.shape, points.shape[-1]))
            rows *= 2

    def check_mass(self, share: Tensor) -> None:
        """Raise `DataError` if there is nearly no mass (...) within."""
        if bool((share < _LEAST).any()):
            raise DataError(
                "the fit puts no mass within the bounds of columns left out: leave out their bounds"
            )

    def normalize(self, points: Tensor) -> Tensor:
        return points

    def denormalize(self, points: Tensor) -> Tensor:
        return points

    def score_outside(self, at: At, score: Tensor) -> Tensor:
        return torch.where(self.holds(at.outside).unsqueeze(-1), score, 0.0)

    def estimate_outside(self, at: At, inside: Estimate[Tensor]) -> Estimate[Tensor]:
        log_density = inside.log_density - self.log_mass.to(at.outside).unsqueeze(-1)
        return Estimate(
            torch.where(self.holds(at.outside), log_density, -torch.inf),
            self.score_outside(at, inside.score),
        )

    def select(self, columns: Sequence[int]) -> tuple[Transform | None, list[int]]:
        return None, list(columns)
