"""How typical a row is, near by and from afar, seen through noise.

A density in full has detail that says nothing about errors: directions in which columns nearly agree, heaps,
values that repeat.  In such a direction a harmless row is thousands of nats odd, and between two heaps every
row is.  So the sample is looked at through noise, a third of the spread of each column: what differs by
less is the same.  It is seen twice: as the mixture that was fitted to it, and as one normal cloud.  The
mixture sees rows between clusters, the cloud sees a tight little cluster of errors, which a mixture would
explain by a component.  A row is as odd as it is in the view where it looks oddest:

    typicality(x) = min_k (log f_k(x) - mean_k) / std_k

Mean and standard deviation are over the rows of the sample, each judged by the fit without it, so that both
views count alike.

The noise was chosen on tables that no result is reported on (docs/LOG.md): from a fifth to four fifths of the
spread it makes little difference; without noise, and with margins made normal, rows are ranked worse.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from discoformer.core.composed import Blend, Pushforward, push
from discoformer.core.fields import Density

__all__ = ["NOISE", "Cloud", "Typicality", "through_noise"]

NOISE = 1 / 3  # standard deviation, in that of a column


def through_noise(density: Density, rows: Tensor) -> Density:
    """The sample as it is, rows (n, d), through noise.

    Of a blend that is the first part; the others look at it in other coordinates.  Columns with bounds,
    labels or masses have no such noise: the density itself, which has no spikes there.

    >>> from discoformer.baselines.kde import KDE
    >>> rows = torch.tensor([[0.0], [2.0]]).double()
    >>> through_noise(KDE(1.0).fit(rows), rows).bandwidth.round(decimals=4).tolist()
    [[1.1111]]
    """
    first = density
    if isinstance(density, Blend):
        first = density.parts[0]
    elif isinstance(density, Pushforward) and isinstance(density.base, Blend):
        first = push(density.base.parts[0], density.transforms)
    known = torch.where(rows.isfinite(), rows, torch.nan)
    mean = known.nanmean(0, keepdim=True)
    variance = (known - mean).square().nanmean(0).nan_to_num(0.0)
    return first.blurred(torch.diag(NOISE**2 * variance)) or density


@dataclass(frozen=True)
class Cloud:
    """A sample as one normal law, seen through noise, of the columns without gaps.

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
        noise = NOISE**2 * torch.eye(len(correlation), dtype=rows.dtype, device=rows.device)
        return cls(columns, center, torch.linalg.inv(correlation + noise) / scale)

    def log_density(self, rows: Tensor) -> Tensor:
        """Log density (m,) at rows (m, d), but for a constant; a gap counts as the usual value."""
        offset = (rows[:, self.columns].to(self.center) - self.center).nan_to_num(0.0)
        return -0.5 * ((offset @ self.precision) * offset).sum(-1)


@dataclass(frozen=True)
class Typicality:
    """How typical rows are: 0 is usual, far below is odd.

    Attributes
    ----------
    near : the density of the sample through noise
    cloud : the sample as one
    center, spread : (2,), usual log density near by and from afar
    own : (n,), typicality of the rows of the sample, each by the fit without it

    Examples
    --------
    >>> from discoformer.baselines.kde import KDE
    >>> rows = torch.randn(200, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    >>> typicality = Typicality.of(KDE().fit(rows), rows)
    >>> bool(typicality(torch.tensor([[9.0, -9.0]]).double()) < typicality.own.min())
    True
    """

    near: Density
    cloud: Cloud
    center: Tensor
    spread: Tensor
    own: Tensor

    @classmethod
    def of(cls, density: Density, rows: Tensor) -> Typicality:
        """Of a density that was fitted to rows (n, d)."""
        near, cloud = through_noise(density, rows), Cloud.of(rows)
        levels = torch.stack([near.left_out(rows), cloud.log_density(rows)], -1)  # (n, 2)
        center, spread = levels.mean(0), levels.std(0).clamp_min(torch.finfo(levels.dtype).tiny)
        return cls(near, cloud, center, spread, ((levels - center) / spread).amin(-1))

    def __call__(self, rows: Tensor) -> Tensor:
        """Typicality (m,) of new rows (m, d)."""
        levels = torch.stack([self.near.log_density(rows), self.cloud.log_density(rows)], -1)
        return ((levels - self.center) / self.spread).amin(-1)
