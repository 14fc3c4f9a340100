"""How typical a row is: the smallest of its standardized log densities in several views.

A density with clusters and heaps explains fine detail, including a tight little cluster of errors.  The
sample seen as one cloud explains only its bulk.  A row is as odd as it is in the view where it looks oddest:

    typicality(x) = min_k (log f_k(x) - mean_k) / std_k

over the parts of a blend (the sample as it is, its margins made normal) and the cloud; mean and standard
deviation are over the rows of the sample, each judged by the fit without it, so that views of different
sharpness are comparable.  The cloud is the normal law with the covariance halfway between that of the
columns and that of independent ones: odd combinations count, but no direction is so narrow that it alone
decides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from discoformer.core.blend import Blend
from discoformer.core.fields import Density
from discoformer.core.pushforward import Pushforward, push

__all__ = ["Cloud", "Typicality", "views_of"]


def views_of(density: Density) -> list[Density]:
    """The parts of a blend, or the density alone.

    >>> from discoformer.baselines.kde import KDE
    >>> len(views_of(KDE().fit([[0.0], [1.0]])))
    1
    """
    if isinstance(density, Blend):
        return list(density.parts)
    if isinstance(density, Pushforward) and isinstance(density.base, Blend):
        return [push(part, density.transforms) for part in density.base.parts]
    return [density]


@dataclass(frozen=True)
class Cloud:
    """A sample as one normal law, of the columns without gaps.

    Attributes
    ----------
    columns : (d,), marks those that count
    center : (1, k)
    precision : (k, k)
    """

    columns: Tensor
    center: Tensor
    precision: Tensor

    @classmethod
    def of(cls, rows: Tensor) -> Cloud:
        """The cloud of rows (n, d)."""
        columns = rows.isfinite().all(0) & (rows.amax(0) > rows.amin(0))
        points = rows[:, columns]
        center = points.mean(0, keepdim=True)
        covariance = (points - center).mT @ (points - center) / len(points)
        variance = covariance.diagonal()
        scale = (variance.unsqueeze(0) * variance.unsqueeze(1)).sqrt()  # columns differ in units
        correlation = covariance / scale
        halfway = 0.5 * (correlation + torch.eye(len(correlation), dtype=rows.dtype, device=rows.device))
        return cls(columns, center, torch.linalg.inv(halfway) / scale)

    def log_density(self, rows: Tensor) -> Tensor:
        """Log density (m,) at rows (m, d), but for a constant; a gap counts as the usual value."""
        offset = (rows[:, self.columns].to(self.center) - self.center).nan_to_num(0.0)
        return -0.5 * ((offset @ self.precision) * offset).sum(-1)


@dataclass(frozen=True)
class Typicality:
    """How typical rows are: 0 is usual, far below is odd.

    Attributes
    ----------
    views : densities of the same columns
    cloud : the sample as one
    center, spread : (K + 1,), usual log density in every view, the cloud last
    own : (n,), typicality of the rows of the sample, each by the fit without it

    Examples
    --------
    >>> from discoformer.baselines.kde import KDE
    >>> rows = torch.randn(200, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    >>> typicality = Typicality.of(KDE().fit(rows), rows)
    >>> bool(typicality(torch.tensor([[9.0, -9.0]]).double()) < typicality.own.min())
    True
    """

    views: Sequence[Density]
    cloud: Cloud
    center: Tensor
    spread: Tensor
    own: Tensor

    @classmethod
    def of(cls, density: Density, rows: Tensor) -> Typicality:
        """Of a density that was fitted to rows (n, d)."""
        views, cloud = views_of(density), Cloud.of(rows)
        left_out = [view.left_out(rows) for view in views]
        levels = torch.stack([*left_out, cloud.log_density(rows)], -1)  # (n, K + 1)
        center, spread = levels.mean(0), levels.std(0).clamp_min(torch.finfo(levels.dtype).tiny)
        return cls(views, cloud, center, spread, ((levels - center) / spread).amin(-1))

    def __call__(self, rows: Tensor) -> Tensor:
        """Typicality (m,) of new rows (m, d)."""
        log_density = [view.log_density(rows) for view in self.views]
        levels = torch.stack([*log_density, self.cloud.log_density(rows)], -1)
        return ((levels - self.center) / self.spread).amin(-1)
