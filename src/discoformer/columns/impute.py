"""Gaps of a table filled by a fitted density: what is expected given the rest of the row, or draws.

Expected are the mean of a number, over draws that are spread evenly, the mean direction on a circle, and the
most likely level of a category.  Whether a value is missing must not depend on the value itself.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce

import torch
from torch import Tensor

from discoformer.columns.content_noise import content_noise
from discoformer.columns.kinds import ColumnKind
from discoformer.core.checks import DataError
from discoformer.core.composed import PushedDensity, on_support
from discoformer.core.fields import Density

__all__ = ["impute"]

_DRAWS = 32  # of the mean; a power of two, as the even spread asks for
_CHUNK = 1024  # rows at a time
_EVEN = 256  # quantiles of a mean


@torch.no_grad()
def impute(
    density: Density,
    rows: Tensor,
    kinds: Sequence[ColumnKind] | None = None,
    *,
    draws: int | None = None,
    generator: torch.Generator | None = None,
) -> Tensor:
    """Rows (n, d) with their gaps, NaN, filled; with ``draws`` several times at random, (draws, n, d).

    Of a category the likeliest level is filled in, of a number its mean; signs such as -999 are left out of
    the mean, and filled in where they are likelier than a number.

    Parameters
    ----------
    density : fitted to a table with the same columns
    rows : (n, d), NaN where there is a gap
    kinds : of the columns; None if all are continuous
    draws : how many tables to draw, for multiple imputation; None for one table of what is expected
    generator : of the draws

    Examples
    --------
    >>> from discoformer.columns.fit_recipe import FitRecipe
    >>> from discoformer.methods import resolve
    >>> x = torch.randn(200, 1, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    >>> table = torch.cat([x, x + 0.1 * x.flip(0)], -1)
    >>> table[0, 1] = torch.nan
    >>> density = FitRecipe(resolve("default").method).fit(table)
    >>> bool((impute(density, table)[0, 1] - x[0, 0]).abs() < 0.5)
    True
    """
    if rows.shape[-1] != density.dim:
        raise DataError(f"rows have {rows.shape[-1]} column(s), but the density has {density.dim}")
    gap = rows.isnan()
    lost = gap.any(-1).nonzero().flatten()
    if draws is not None and draws < 1:
        raise DataError(f"draws = {draws}: ask for at least one")
    filled = rows.clone() if draws is None else rows.expand(draws, *rows.shape).clone()
    if not len(lost):
        return filled
    if not density.gaps:
        filled[..., lost, :] = _given_the_rest(density, rows[lost], draws, generator)
        return filled
    if draws is None:
        filled[lost] = _expected(density, rows[lost], kinds or [ColumnKind()] * rows.shape[-1])
        return filled

    def chance(count: int) -> Tensor:
        return torch.rand(draws * len(lost), count, dtype=rows.dtype, generator=generator).to(rows.device)

    which = torch.arange(len(lost), device=rows.device).repeat(draws)
    filled[:, lost] = density.complete(rows[lost], which, chance).reshape(draws, len(lost), -1)
    return filled


def _given_the_rest(
    density: Density, rows: Tensor, draws: int | None, generator: torch.Generator | None
) -> Tensor:
    """Rows (n, d) filled by the conditionals of a density that knows nothing of gaps: means, or draws."""
    part, columns = on_support(density)
    assert isinstance(part, Density)
    inner = rows[:, columns]
    filled = inner.clone() if draws is None else inner.expand(draws, *inner.shape).clone()
    even = (torch.arange(_EVEN, dtype=torch.float64, device=rows.device) + 0.5) / _EVEN
    there, which = torch.unique(~inner.isnan(), dim=0, return_inverse=True)
    for number, present in enumerate(there.tolist()):
        known = [j for j, one in enumerate(present) if one]
        gone = [j for j, one in enumerate(present) if not one]
        for own in (which == number).nonzero().flatten().split(_CHUNK) if gone else ():
            law = part.conditional(known, inner[own][:, known]) if known else part
            if draws is not None:
                found = law.sample(draws, generator) if known else law.sample(draws * len(own), generator)
                found = found.reshape(len(own), draws, len(gone)).movedim(1, 0)
                filled[:, own.unsqueeze(-1), gone] = found.to(filled)
                continue
            for k, j in enumerate(gone):
                margin = law.marginal([k]) if len(gone) > 1 else law
                shares = even.expand(len(own), -1) if known else even
                filled[own, j] = margin.quantile(shares).squeeze(-1).mean(-1).to(filled)
    whole = rows.expand(*filled.shape[:-1], density.dim).clone()
    whole[..., columns] = filled
    if isinstance(density, PushedDensity) and bool(whole.isnan().any()):  # what was left out follows
        inside = reduce(lambda points, transform: transform.normalize(points), density.transforms, whole)
        outside = reduce(lambda points, way: way.denormalize(points), density.transforms[::-1], inside)
        whole = torch.where(whole.isnan(), outside, whole)
    return whole


def _expected(density: Density, rows: Tensor, kinds: Sequence[ColumnKind]) -> Tensor:
    """What is expected of rows (n, d) that all have gaps."""
    draws = torch.cat([_evenly(density, part) for part in rows.split(_CHUNK)], 1)  # (draws, n, d)
    found = draws.mean(0)
    for j, kind in enumerate(kinds):
        if kind.period:
            angle = (draws[..., j] - kind.origin) * (2 * math.pi / kind.period)
            turn = torch.atan2(angle.sin().mean(0), angle.cos().mean(0)) / (2 * math.pi)
            found[:, j] = kind.origin + kind.period * turn.remainder(1.0)
        elif kind.levels:
            found[:, j] = _likeliest(density, rows, j, kind.levels)
        elif kind.atoms:
            found[:, j] = _without_signs(draws[..., j], kind.atoms)
    return torch.where(rows.isnan(), found, rows)


def _without_signs(draws: Tensor, atoms: Sequence[float]) -> Tensor:
    """Means (n,) of draws (k, n), but signs such as -999 are no numbers: the likelier of a sign and a number.

    An atom is a sign if it is further from the other draws than these are wide.  Zeros and caps are numbers.
    """
    known = torch.tensor(atoms, dtype=draws.dtype, device=draws.device)
    between = draws[~torch.isin(draws, known)]
    if not len(between):
        return draws.mode(0).values
    low, high = between.aminmax()
    signs = known[(known < 2 * low - high) | (known > 2 * high - low)]
    sign = torch.isin(draws, signs)
    number = torch.where(sign, torch.nan, draws).nanmean(0)
    return torch.where(
        sign.double().mean(0) > 0.5, torch.where(sign, draws, torch.inf).mode(0).values, number
    )


def _evenly(density: Density, rows: Tensor) -> Tensor:
    """Rows (n, d) completed by draws (draws, n, d) from points that fill a cube evenly.

    What a row says shifts the points, so that rows draw on their own and permuting them changes nothing.
    """
    used, least = 0, torch.finfo(torch.float64).eps

    def chance(count: int) -> Tensor:
        nonlocal used
        shift = content_noise(rows, used + count)[:, used:]
        even = torch.quasirandom.SobolEngine(used + count).draw(_DRAWS, dtype=torch.float64)[:, used:]
        used += count
        return (even.to(shift).unsqueeze(1) + shift).remainder(1.0).clamp(least, 1 - least).flatten(0, 1)

    which = torch.arange(len(rows), device=rows.device).repeat(_DRAWS)
    return density.complete(rows, which, chance).reshape(_DRAWS, *rows.shape)


def _likeliest(density: Density, rows: Tensor, column: int, levels: int) -> Tensor:
    """The most likely level (n,) of a category given the rest of every row."""
    best = rows[:, column].clone()
    lost = best.isnan().nonzero().flatten()
    if len(lost):
        asked = rows[lost].repeat(levels, 1, 1)
        asked[..., column] = torch.arange(levels, dtype=rows.dtype, device=rows.device).unsqueeze(-1)
        answer = density._estimate(asked.reshape(-1, rows.shape[-1])).log_density.reshape(levels, -1)
        best[lost] = answer.argmax(0).to(best)
    return best
