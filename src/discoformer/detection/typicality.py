"""How typical a row is, near by and from afar, seen through noise.

A density in full has detail that says nothing about errors: directions in which columns nearly agree, heaps,
values that repeat.  In such a direction a harmless row is thousands of nats odd, and between two heaps every
row is.  So the sample is looked at through noise, a third of the spread of each column: what differs by
less is the same.  It is seen twice.  One view is the mixture that was fitted to it, which sees rows between
clusters.  The other depends on whether there may be errors in the sample:

- If so, the sample as one normal cloud: it sees a tight little cluster of errors, which the mixture would
  explain by a component.
- A sample that is said to be clean has no such cluster.  It is seen row by row, as a kernel estimate with the
  noise for a bandwidth: rows without neighbours are odd.

A row is as odd as it is in the view where it looks oddest:

    typicality(x) = min_k (log f_k(x) - mean_k) / std_k

Mean and standard deviation are over the rows of the sample, each judged by the fit without it, so that both
views count alike.  A view in which all rows of the sample look the same has no say.

Rows with gaps or with values that carry mass of their own are compared on a common scale
(`discoformer.detection.common_scale`).

Noise and views were chosen on tables that no result is reported on (docs/LOG.md).  From a fifth to four
fifths of the spread the noise makes little difference; without it, and with margins made normal, rows are
ranked worse.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from discoformer.columns.kinds import CONTINUOUS, ColumnKind
from discoformer.core.composed import Blend, Pushforward, push
from discoformer.core.fields import Density
from discoformer.core.kernel_sums import kernel_sums, log_weights
from discoformer.core.known_part import KnownPart
from discoformer.detection.common_scale import CommonScale, common_scale

__all__ = ["NOISE", "Cloud", "Neighbours", "Typicality", "through_noise"]

NOISE = 1 / 3  # standard deviation, in that of a column
_MOST = 8192  # rows that stand for all: every one is compared with every row
_ROUNDING = 1e-9  # relative error of log densities: what they vary by less is no spread
_LEAST = -1e100  # stands for no density at all, so that means and scores are finite


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


class _Columns(NamedTuple):
    """Standardized columns of numbers without gaps.

    Attributes
    ----------
    columns : (d,), marks those that count
    center, spread : (1, k)
    """

    columns: Tensor
    center: Tensor
    spread: Tensor

    @classmethod
    def of(cls, rows: Tensor, numbers: Sequence[int] | None) -> _Columns:
        """Of rows (n, d): those that vary, of the columns that hold numbers (all, unless told)."""
        columns = rows.isfinite().all(0) & (rows.amax(0) > rows.amin(0))
        if numbers is not None:
            columns &= torch.isin(torch.arange(len(columns)), torch.tensor(list(numbers), dtype=torch.long))
        points = rows[:, columns]
        center = points.mean(0, keepdim=True)
        return cls(columns, center, (points - center).square().mean(0, keepdim=True).sqrt())

    def __call__(self, rows: Tensor) -> Tensor:
        """Rows (m, d) as (m, k); a gap counts as the usual value."""
        return ((rows[:, self.columns].to(self.center) - self.center) / self.spread).nan_to_num(0.0)


@dataclass(frozen=True)
class Cloud:
    """A sample as one normal law, seen through noise.

    Attributes
    ----------
    place : standardizes the columns that count
    precision : (k, k)
    """

    place: _Columns
    precision: Tensor

    @classmethod
    def of(cls, rows: Tensor, numbers: Sequence[int] | None = None) -> Cloud:
        """The cloud of rows (n, d)."""
        place = _Columns.of(rows, numbers)
        points = place(rows)
        noise = NOISE**2 * torch.eye(points.shape[-1], dtype=points.dtype, device=points.device)
        return cls(place, torch.linalg.inv(points.mT @ points / len(points) + noise))

    def log_density(self, rows: Tensor) -> Tensor:
        """Log density (m,) at rows (m, d), but for a constant."""
        points = self.place(rows)
        return -0.5 * ((points @ self.precision) * points).sum(-1)

    def left_out(self, rows: Tensor) -> Tensor:
        """Log density (n,) at the rows of the sample; one row hardly changes a cloud."""
        return self.log_density(rows)


@dataclass(frozen=True)
class Neighbours:
    """A sample row by row, seen through noise: a kernel estimate with the noise for a bandwidth.

    Of very many rows some stand for all, evenly from the usual to the odd.

    Attributes
    ----------
    place : standardizes the columns that count
    points : (N, k), in units of the noise
    number : (n,), which of these every row of the sample is; -1 if it is none
    """

    place: _Columns
    points: Tensor
    number: Tensor

    @classmethod
    def of(cls, rows: Tensor, numbers: Sequence[int] | None = None) -> Neighbours:
        """Rows (n, d)."""
        place, count = _Columns.of(rows, numbers), len(rows)
        chosen = torch.arange(count)
        if count > _MOST:
            order = place(rows).square().sum(-1).argsort(stable=True)
            chosen = order[torch.linspace(0, count - 1, _MOST).round().long()]
        number = torch.full((count,), -1)
        number[chosen] = torch.arange(len(chosen))
        return cls(place, place(rows[chosen]) / NOISE, number)

    def log_density(self, rows: Tensor) -> Tensor:
        """Log density (m,) at rows (m, d), but for a constant."""
        return self._sums(rows, None)

    def left_out(self, rows: Tensor) -> Tensor:
        """Log density (n,) at the rows of the sample, each without itself."""
        return self._sums(rows, self.number)

    def _sums(self, rows: Tensor, exclude: Tensor | None) -> Tensor:
        points = self.points
        return kernel_sums(self.place(rows) / NOISE, points, log_weights(points, None), exclude=exclude)[0]


@dataclass(frozen=True)
class Typicality:
    """How typical rows are: 0 is usual, far below is odd.

    Attributes
    ----------
    near : the density of the sample through noise
    other : the sample row by row, or as one
    center, spread : (2,), usual log density in both views; a spread of 0 is none, and such a view has no say
    own : (n,), typicality of the rows of the sample, each by the fit without it
    kinds : kinds of the columns
    scale : what makes rows with different cells comparable, if there are such rows in the sample

    Examples
    --------
    >>> from discoformer.baselines.kde import KDE
    >>> rows = torch.randn(200, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    >>> typicality = Typicality.of(KDE().fit(rows), rows)
    >>> bool(typicality(torch.tensor([[9.0, -9.0]]).double()) < typicality.own.min())
    True
    """

    near: Density
    other: Neighbours | Cloud
    center: Tensor
    spread: Tensor
    own: Tensor
    kinds: Sequence[ColumnKind]
    scale: CommonScale | None = None

    @classmethod
    def of(
        cls,
        density: Density,
        rows: Tensor,
        numbers: Sequence[int] | None = None,
        *,
        kinds: Sequence[ColumnKind] | None = None,
        clean: bool = False,
    ) -> Typicality:
        """Of a density that was fitted to rows (n, d), of which some columns hold ``numbers`` (all of them).

        In a ``clean`` sample there are no errors.
        """
        kinds = [CONTINUOUS] * density.dim if kinds is None else kinds
        near, other = through_noise(density, rows), (Neighbours if clean else Cloud).of(rows, numbers)
        scale = common_scale(near, rows.cpu().numpy(), kinds)
        by_density = _compared(near.left_out(rows), rows, scale)
        levels = torch.stack([by_density, other.left_out(rows)], -1).clamp_min(_LEAST)  # (n, 2)
        center, spread = levels.mean(0), levels.std(0)
        spread = torch.where(spread > _ROUNDING * (1 + levels.abs().amax(0)), spread, 0.0)
        own = _least(levels, center, spread) if bool(spread.any()) else torch.zeros_like(levels[:, 0])
        return cls(near, other, center, spread, own, kinds, scale)

    def __call__(self, rows: Tensor) -> Tensor:
        """Typicality (m,) of new rows (m, d)."""
        scale = self.scale or common_scale(self.near, rows.cpu().numpy(), self.kinds)
        by_density = _compared(KnownPart(self.near).log_density(rows), rows, scale)
        levels = torch.stack([by_density, self.other.log_density(rows)], -1).clamp_min(_LEAST)
        return _least(levels, self.center, self.spread)


def _least(levels: Tensor, center: Tensor, spread: Tensor) -> Tensor:
    """Levels (m, 2) in the view where they look oddest (m,); in nats if neither view has a spread."""
    if not bool(spread.any()):
        return (levels - center).amin(-1)
    return torch.where(spread > 0, (levels - center) / spread, torch.inf).amin(-1)


def _compared(log_density: Tensor, rows: Tensor, scale: CommonScale | None) -> Tensor:
    """Log densities (n,) of rows on a common scale, on which those of complete rows stay as they are."""
    if scale is None:
        return log_density
    more = scale(rows.cpu().numpy()) - scale.usual.sum()
    return log_density + torch.from_numpy(more).to(log_density)
