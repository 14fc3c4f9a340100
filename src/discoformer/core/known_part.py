"""A density at queries with gaps, of a fit to a sample that had none: the margin of what is there."""

from __future__ import annotations

import torch
from torch import Tensor

from discoformer.core.checks import holds
from discoformer.core.fields import Density, Estimate, PointDensity

__all__ = ["KnownPart"]


class KnownPart(PointDensity):
    """A density that takes gaps, NaN: it answers with the density of what is there.

    A row without any value has density one.  The score at a gap is zero.

    >>> from discoformer.baselines.kde import KDE
    >>> field = KDE(1.0).fit([[0.0, 0.0], [9.0, 9.0]])
    >>> rows = torch.tensor([[0.0, torch.nan], [0.0, 0.0]]).double()
    >>> found = KnownPart(field).log_density(rows)
    >>> bool(found[0] == field.marginal([0]).log_density(rows[:1, :1])[0]), bool(found[1] < found[0])
    (True, True)
    """

    def __init__(self, density: Density) -> None:
        self.density = density

    @property
    def dim(self) -> int:
        return self.density.dim

    @property
    def support(self) -> list[int]:
        return self.density.support

    def _estimate(self, queries: Tensor) -> Estimate[Tensor]:
        gaps = queries.isnan()
        if self.density.gaps or queries.ndim > 2 or not holds(gaps):
            return self.density._estimate(queries)
        log_density, score = queries.new_zeros(len(queries)), torch.zeros_like(queries)
        there, which = torch.unique(~gaps, dim=0, return_inverse=True)
        for number, present in enumerate(there):
            rows, columns = (which == number).nonzero().squeeze(-1), list(range(self.dim))
            part = self.density
            if not bool(present.all()):
                columns = [j for j in self.support if present[j]]
                if not columns:
                    continue
                part = self.density.marginal(columns)
            found = part._estimate(queries[rows][:, columns])
            log_density = log_density.index_copy(0, rows, found.log_density.to(log_density))
            place = torch.eye(self.dim).to(queries)[columns]
            score = score.index_copy(0, rows, found.score.to(score) @ place)
        return Estimate(log_density, score)
