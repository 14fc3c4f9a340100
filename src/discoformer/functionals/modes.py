"""The mode of a density: a value that the table can have.

Values with a mass of their own, atoms and labels, are infinitely denser than any other.  So points with the
most of them come first, and among these the densest; on a lattice a place counts by the mass of its bin.
Densities of other columns are compared per standard deviation, whatever their units.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from discoformer.columns.kinds import ColumnKind
from discoformer.columns.split import kinds_of, on_lattice
from discoformer.core.composed import on_support
from discoformer.core.fields import Density, PointDensity
from discoformer.functionals.draws import draw

__all__ = ["mode"]

_DRAWS = 4096
_STARTS = 8  # starting points of the search
_ROUNDS = 200  # steps on the lattice, at most


@torch.no_grad()
def mode(density: Density) -> NDArray[np.float64]:
    """The point (d,) of highest density, found by climbing along the score from the densest draws.

    Atoms and labels stay as they were drawn, and columns on a lattice end on it.

    >>> from discoformer.baselines.kde import KDE
    >>> mode(KDE(1.0).fit([[0.0], [0.1], [0.2], [9.0]])).round(1).tolist()
    [0.1]
    """
    draws = draw(density, _DRAWS)
    inner, kept = on_support(density)
    points = draws[:, kept]
    hill = _Hill.of(inner, points)
    starts = hill.best(points, _STARTS)
    tops = hill.best(torch.cat([starts, hill.rounded(hill.climb(starts, ~hill.fixed(starts)))]))
    tops = hill.step(tops)
    best = hill.best(torch.cat([tops, hill.climb(tops, ~hill.fixed(tops) & ~hill.lattice)]))[0]
    if len(kept) == density.dim:
        return np.asarray(best.numpy())
    nearest = ((points - best) / hill.scale).square().sum(-1).argmin()
    full = draws[nearest].clone()  # dependent columns as in the nearest draw
    full[kept] = best
    return np.asarray(full.numpy())


class _Hill(NamedTuple):
    """A density to climb: its columns' kinds, and their scales (d,), one step on a lattice."""

    density: PointDensity
    kinds: Sequence[ColumnKind]
    scale: Tensor

    @classmethod
    def of(cls, density: PointDensity, points: Tensor) -> _Hill:
        kinds = kinds_of(density)
        scale = points.std(0).clamp_min(torch.finfo(points.dtype).tiny)
        steps = torch.tensor([kind.step for kind in kinds], dtype=scale.dtype)
        return cls(density, kinds, torch.where(steps > 0, steps, scale))

    def fixed(self, points: Tensor) -> Tensor:
        """Which coordinates (m, d) are atoms or labels."""
        columns = []
        for x, kind in zip(points.unbind(-1), self.kinds, strict=True):
            columns.append(torch.isin(x, torch.tensor(kind.atoms, dtype=x.dtype)) | (kind.levels > 0))
        return torch.stack(columns, -1)

    @property
    def lattice(self) -> Tensor:
        """Which columns (d,) are on a lattice."""
        return torch.tensor([kind.step > 0 for kind in self.kinds])

    def best(self, points: Tensor, count: int = 1) -> Tensor:
        """The densest (count, d) of the points (m, d)."""
        fixed = self.fixed(points)
        free = (~fixed & ~self.lattice).sum(-1)
        height = self.density.log_density(points) + torch.where(fixed, 0.0, self.scale.log()).sum(-1)
        height = torch.where(free == free.min(), height, -torch.inf)
        return points[height.topk(min(count, len(points))).indices]

    def climb(self, starts: Tensor, moves: Tensor) -> Tensor:
        """The tops above the points (m, d), all at once, each in the coordinates (m, d) in which it moves."""
        from scipy.optimize import minimize  # slow to load, so only here; scikit-learn brings scipy

        if not bool(moves.any()):
            return starts
        scale, points = self.scale.expand_as(starts)[moves], starts.clone()

        def downhill(x: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
            points[moves] = torch.from_numpy(x) * scale
            log_density, score = self.density.estimate(points)
            return -min(float(log_density.sum()), 1e300), -(score[moves] * scale).numpy()

        found = minimize(downhill, (starts[moves] / scale).numpy(), jac=True, method="L-BFGS-B")
        points[moves] = torch.from_numpy(found.x) * scale
        for j, kind in enumerate(self.kinds):
            if kind.period:
                points[:, j] = kind.origin + (points[:, j] - kind.origin).remainder(kind.period)
        return points

    def rounded(self, points: Tensor) -> Tensor:
        """The points (m, d) on their lattices; atoms stay."""
        fixed, found = self.fixed(points), points.clone()
        for j, kind in enumerate(self.kinds):
            if kind.step:
                on = on_lattice(((points[:, j] - kind.origin) / kind.step).round(), kind)
                found[:, j] = torch.where(fixed[:, j], points[:, j], on)
        return found

    def step(self, top: Tensor) -> Tensor:
        """The point (1, d), moved along its lattices until no single step leads up."""
        loose = ~self.fixed(top)[0] & self.lattice
        moves = torch.diag(torch.where(loose, self.scale, 0.0))[loose]
        for _ in range(_ROUNDS if len(moves) else 0):
            near = self.best(self.rounded(torch.cat([top, top + moves, top - moves])))
            if bool((near == top).all()):
                break
            top = near
        return top
