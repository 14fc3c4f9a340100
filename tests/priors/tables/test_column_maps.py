"""Laws of the column maps: they invert, slopes are derivatives, margins are what they are said to be."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from scipy import stats
from torch import Tensor

from discoformer.core.checks import DataError
from discoformer.priors.location_scale import gaussian
from discoformer.priors.tables.atoms import Atoms
from discoformer.priors.tables.column_maps import (
    AffineColumns,
    ByColumn,
    Chain,
    Mirrored,
    MonotoneMap,
    Reshaped,
)
from discoformer.priors.tables.quantile_maps import HalfNormal, SoftInterval, Weibull, normal_quantile
from discoformer.priors.tables.shapes import Hinge, Johnson, LogNormal, SinhArcsinh, Staircase

F64 = torch.float64
D = 3


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def between(low: float, high: float, seed: int, *more: int) -> Tensor:
    return low + (high - low) * torch.rand(2, D, *more, generator=seeded(seed), dtype=F64)


def maps() -> dict[str, MonotoneMap]:
    """A batch of two, three columns each."""
    side = torch.tensor([1.0, -1.0, 1.0], dtype=F64).expand(2, D)
    found: dict[str, MonotoneMap] = {
        "johnson": Johnson(between(0.1, 1.0, 0), between(-2, 2, 1)),
        "sinh-arcsinh": SinhArcsinh(between(-0.6, 0.6, 2), between(0.7, 1.8, 3)),
        "log-normal": LogNormal(between(0.3, 1.0, 4), between(0.01, 0.1, 5)),
        "hinge": Hinge(between(-1, 0.5, 6), between(0.01, 0.1, 7), between(0.05, 0.3, 8)),
        "staircase": Staircase(between(0.2, 1.5, 9), between(-0.5, 0.5, 10), between(0.02, 1.0, 11)),
        "weibull": Weibull(between(0.7, 3.0, 12), between(0.01, 0.1, 13)),
        "half-normal": HalfNormal(between(0.02, 0.2, 14)),
        "interval": SoftInterval(between(0.7, 3.0, 15), between(0.7, 3.0, 16), between(0.01, 0.1, 17)),
        "stretch": AffineColumns(between(-1, 1, 18), between(0.2, 2, 19)),
        "atoms": Atoms(
            between(0.01, 1, 20, 5),
            torch.arange(5, dtype=F64).expand(2, D, 5) - 2,
            between(0.02, 0.5, 21, 5),
            between(0.01, 0.05, 22, 5),
        ),
    }
    found["mirrored"] = Mirrored(found["log-normal"], side)
    found["chain"] = Chain((found["hinge"], found["mirrored"], found["staircase"]))
    found["by-column"] = ByColumn(
        ((2, 0), (1,)),
        (
            AffineColumns(between(-1, 1, 23)[:, :2], between(1, 2, 24)[:, :2]),
            Weibull(between(1, 2, 25)[:, :1], between(0.1, 0.2, 26)[:, :1]),
        ),
    )
    return found


@pytest.mark.parametrize("name", maps())
def test_maps_invert_and_their_slopes_are_derivatives(name: str) -> None:
    column_map = maps()[name]
    z = torch.linspace(-5, 5, 201, dtype=F64).unsqueeze(-1).expand(2, 201, D)
    x = column_map.forward(z).requires_grad_()
    latent, log_slope, bend = column_map.pull(x)
    # Atoms are inverted by Newton's method, to a millionth of a heap's width.
    torch.testing.assert_close(latent, z, rtol=1e-9, atol=1e-6 if name == "atoms" else 1e-10)
    assert bool((x.diff(dim=-2) > 0).all())
    (slope,) = torch.autograd.grad(latent.sum(), x, retain_graph=True)
    (derivative,) = torch.autograd.grad((log_slope + 0 * x).sum(), x)
    torch.testing.assert_close(slope, log_slope.exp(), rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(bend, derivative, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("name", maps())
def test_maps_are_finite_and_smooth_far_out(name: str) -> None:
    # Central differences: where a column ends, F or 1 - F is below what a double can hold.
    column_map = maps()[name]
    x = torch.linspace(-60, 60, 501, dtype=F64).unsqueeze(-1).expand(2, 501, D)
    latent, log_slope, bend = column_map.pull(x)
    assert all(bool(part.isfinite().all()) for part in (latent, log_slope, bend))
    outside = (x.abs() > 20).all(-1).all(0)
    h = 1e-5
    above, below = column_map.pull(x + h), column_map.pull(x - h)
    slope = (above.latent - below.latent) / (2 * h)
    torch.testing.assert_close(slope[:, outside], log_slope.exp()[:, outside], rtol=1e-4, atol=1e-6)
    derivative = (above.log_slope - below.log_slope) / (2 * h)
    torch.testing.assert_close(derivative[:, outside], bend[:, outside], rtol=1e-3, atol=1e-3)


def test_quantile_is_the_inverse_of_the_normal_distribution_function() -> None:
    log_p = -torch.logspace(math.log10(math.log(2)), 8, 60, dtype=F64)
    z = normal_quantile(log_p.requires_grad_())
    torch.testing.assert_close(torch.special.log_ndtr(z), log_p, rtol=1e-12, atol=1e-13)
    (slope,) = torch.autograd.grad(z.sum(), log_p)
    hazard = torch.exp(torch.special.log_ndtr(z) + 0.5 * z.square() + 0.5 * math.log(2 * math.pi))
    torch.testing.assert_close(slope, hazard, rtol=1e-6, atol=0)


def logistic(shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    u = torch.rand(shape, generator=generator, dtype=F64).clamp(1e-12, 1 - 1e-12)
    return torch.logit(u)


def exponential(n: int, generator: torch.Generator) -> Tensor:
    return -torch.log1p(-torch.rand(n, generator=generator, dtype=F64))


def one(*values: float) -> Tensor:
    """The parameter of one column; several values for the heaps of atoms."""
    return torch.tensor(values if len(values) == 1 else [values], dtype=F64)


def by_weibull(n: int, g: torch.Generator) -> Tensor:
    y = exponential(n, g) ** (1 / 1.5)
    return 0.05 * torch.log(torch.expm1(y / 0.05))


def by_two_pieces(n: int, g: torch.Generator) -> Tensor:
    size = torch.randn(n, generator=g, dtype=F64).abs()
    left = torch.rand(n, generator=g, dtype=F64) < 0.1 / 1.1
    return torch.where(left, -0.1 * size, size)


def by_box(n: int, g: torch.Generator) -> Tensor:
    return 2 * torch.rand(n, generator=g, dtype=F64) - 1 + 0.05 * logistic((n,), g)


def by_labels(n: int, g: torch.Generator) -> Tensor:
    label = torch.multinomial(torch.tensor([0.2, 0.5, 0.3]), n, replacement=True, generator=g)
    center = torch.tensor([0.0, 1.0, 2.0], dtype=F64)[label]
    half, soft = torch.tensor([[0.03, 0.02], [0.03, 0.02], [0.5, 0.05]], dtype=F64)[label].unbind(-1)
    return center + half * (2 * torch.rand(n, generator=g, dtype=F64) - 1) + soft * logistic((n,), g)


@pytest.mark.parametrize(
    ("column_map", "draw"),
    [
        (Weibull(one(1.5), one(0.05)), by_weibull),
        (HalfNormal(one(0.1)), by_two_pieces),
        (SoftInterval(one(1.0), one(1.0), one(0.05)), by_box),
        (Atoms(one(0.2, 0.5, 0.3), one(0, 1, 2), one(0.03, 0.03, 0.5), one(0.02, 0.02, 0.05)), by_labels),
    ],
)
def test_margins_are_what_their_names_say(
    column_map: MonotoneMap, draw: Callable[[int, torch.Generator], Tensor]
) -> None:
    # A normal column through the map, and draws made another way.
    n = 20_000
    x = column_map.forward(torch.randn(n, 1, generator=seeded(1), dtype=F64)).squeeze(-1)
    assert stats.ks_2samp(x.numpy(), draw(n, seeded(2)).numpy()).pvalue > 1e-3


def test_staircase_keeps_the_mass_of_every_cell() -> None:
    stairs = Staircase(one(0.5), one(0.2), one(0.05))
    z = torch.randn(1000, 1, generator=seeded(), dtype=F64)
    x = stairs.forward(z)
    assert torch.equal(((x - 0.2) / 0.5).round(), ((z - 0.2) / 0.5).round())
    # 90 % of a wrapped Cauchy of half-width w s / pi lie within 6.3 half-widths; here there is more between.
    off = ((x - 0.2) / 0.5 - ((x - 0.2) / 0.5).round()).abs()
    assert 0.85 < float((off < 6.3 * 0.05 / math.pi).double().mean()) < 0.97


def test_independent_columns_have_the_score_of_their_margins() -> None:
    column_map = SoftInterval(
        torch.ones(2, dtype=F64), torch.ones(2, dtype=F64), 0.05 * torch.ones(2, dtype=F64)
    )
    law = Reshaped(gaussian(torch.zeros(2, dtype=F64), torch.eye(2, dtype=F64)), column_map)
    x = torch.linspace(-1.5, 1.5, 61, dtype=F64).unsqueeze(-1).expand(61, 2)
    edges = torch.sigmoid((x + 1) / 0.05) - torch.sigmoid((x - 1) / 0.05)
    torch.testing.assert_close(law.log_density(x), (edges / 2).log().sum(-1), rtol=1e-9, atol=1e-9)
    score = (1 - torch.sigmoid((x + 1) / 0.05) - torch.sigmoid((x - 1) / 0.05)) / 0.05
    torch.testing.assert_close(law.score(x), score, rtol=1e-9, atol=1e-9)


ones = torch.ones(1)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Johnson(0 * ones, ones), "strength"),
        (lambda: SinhArcsinh(ones, -ones), "tail"),
        (lambda: LogNormal(ones, 0 * ones), "softness"),
        (lambda: Hinge(ones, 2 * ones, ones), "slope of a Hinge"),
        (lambda: Mirrored(AffineColumns(ones, ones), 0 * ones), "1 or -1"),
        (lambda: Staircase(ones, ones, 2 * ones), "width"),
        (lambda: Weibull(0 * ones, ones), "Weibull"),
        (lambda: HalfNormal(0 * ones), "HalfNormal"),
        (lambda: SoftInterval(ones, ones, 0 * ones), "SoftInterval"),
        (lambda: AffineColumns(ones, 0 * ones), "positive"),
        (lambda: Atoms(ones, ones, ones[None], ones), "same shape"),
        (lambda: Atoms(0 * ones, ones, ones, ones), "positive"),
        (lambda: ByColumn(((0, 0),), (AffineColumns(ones, ones),)), "every column once"),
    ],
)
def test_bad_parameters_say_what_is_wrong(build: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        build()
