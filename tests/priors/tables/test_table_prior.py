"""Laws of the table prior: exact scores, integral one, samples follow the density, no test family in it."""

import math
from dataclasses import fields
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats
from torch import Tensor

from discoformer.core.checks import DataError
from discoformer.core.frames import Whiten
from discoformer.priors import (
    BroadPrior,
    Distribution,
    GMMPrior,
    Laplace,
    Linear,
    LocationScaleMixture,
    MixedPrior,
    MixtureDistribution,
    Normal,
    Quartic,
    StudentT,
    TablePrior,
    Warped,
    prior_from_config,
)
from discoformer.priors.tables.column_maps import ByColumn, MonotoneMap, Reshaped
from discoformer.priors.tables.copulas import elliptical_copula, mixture_copula, random_mixing
from discoformer.priors.tables.precise import Precise
from discoformer.priors.tables.quantile_maps import SoftInterval
from discoformer.priors.tables.shapes import SinhArcsinh
from discoformer.priors.tables.structural import Structural, draw_structural
from discoformer.training.config import Recipe
from discoformer.training.tasks import draw_task, step_generator

F64 = torch.float64
KINDS = ("copula", "structural", "clusters", "correlated")


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def prior(kind: str, **values: Any) -> TablePrior:
    """A table prior of one kind of laws."""
    return TablePrior(**{**{name: float(name == kind) for name in KINDS}, **values})


def rough(kind: str, **values: Any) -> TablePrior:
    """The same with everything in it that is narrow."""
    return prior(kind, censored=1.0, heaped=1.0, reshaped=1.0, atoms=0.5, contaminated=0.5, **values)


CASES = [(kind, dim, seed) for kind in KINDS for dim in (1, 2, 5) for seed in range(3)]


@pytest.mark.parametrize(("kind", "dim", "seed"), CASES)
def test_score_is_the_gradient_of_the_log_density(kind: str, dim: int, seed: int) -> None:
    for family in (prior(kind), rough(kind)):
        law, other = family.pair(3, dim, seeded(seed), F64)
        points = torch.cat([law.sample(30, seeded(1)), other.sample(10, seeded(2))], -2).requires_grad_()
        log_density, score = law.estimate(points)
        assert log_density is not None and log_density.shape == (3, 40)
        (gradient,) = torch.autograd.grad(log_density.sum(), points)
        torch.testing.assert_close(score, gradient, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(("kind", "seed"), [(kind, seed) for kind in KINDS for seed in range(3)])
def test_on_the_line_the_density_integrates_to_one_and_samples_follow_it(kind: str, seed: int) -> None:
    for family in (prior(kind), rough(kind)):
        law = family.draw(1, 1, seeded(seed), F64)
        x = law.sample(4000, seeded(1)).flatten()
        # A fine grid where most of the sample is, for heaps of width .005, and a coarse one far out.
        reach = 3 * float(x.abs().max()) + 10
        low, high = torch.quantile(x, torch.tensor([0.02, 0.98], dtype=F64)).tolist()
        wide = 3 * (high - low)
        inner = torch.linspace(low - wide, high + wide, 40_001, dtype=F64)
        outer = [torch.linspace(*ends, 4001, dtype=F64) for ends in ((-reach, inner[0]), (inner[-1], reach))]
        grid = torch.cat([outer[0][:-1], inner, outer[1][1:]])
        log_density = law.log_density(grid.unsqueeze(-1)).squeeze(0)
        density = log_density.exp()
        cdf = torch.cat([torch.zeros(1, dtype=F64), torch.cumulative_trapezoid(density, grid)])
        assert abs(float(cdf[-1]) - 1) < 2e-3
        uniform = np.interp(x.numpy(), grid.numpy(), cdf.numpy())
        assert stats.kstest(uniform, "uniform").pvalue > 1e-3
        # The mean of the log density is minus the entropy, by quadrature.
        entropy = float(torch.trapezoid(-density * log_density, grid))
        found = -law.log_density(x.reshape(1, -1, 1))
        assert abs(float(found.mean()) - entropy) < 4.5 * float(found.std()) / math.sqrt(4000) + 5e-3


def proposal(x: Tensor) -> MixtureDistribution:
    """Broad and narrow Student-t components around points of the law: heavier tails, nearly its shape."""
    parts = []
    spread = x.std(-2, keepdim=True)
    for width in (0.01, 0.05, 0.2, 1.0):
        std = (width * spread).expand(x.shape)
        parts.append(LocationScaleMixture(torch.ones(x.shape[:-1], dtype=F64), x, std, family=StudentT(3.0)))
    return MixtureDistribution(torch.ones(*x.shape[:-2], len(parts), dtype=F64), tuple(parts))


@pytest.mark.parametrize(("kind", "dim"), [(kind, dim) for kind in KINDS for dim in (2, 3)])
def test_density_integrates_to_one_by_importance(kind: str, dim: int) -> None:
    n, round_ = 8_000, {"condition": (1.0, 50.0)}
    # Heaps in three columns at once are too narrow for these proposals.
    for seed, family in enumerate([prior(kind, **round_), rough(kind, **round_)][: 4 - dim]):
        law = family.draw(2, dim, seeded(seed + 5), F64)
        q = proposal(law.sample(100, seeded(1)))
        x = q.sample(n, seeded(2))
        ratio = torch.exp(law.log_density(x) - q.log_density(x))
        error = ratio.std(-1) / math.sqrt(n)
        assert bool(((ratio.mean(-1) - 1).abs() < 4.5 * error).all())
        assert float(error.max()) < 0.15  # or the test would say nothing


@pytest.mark.parametrize(("kind", "dim", "seed"), CASES)
def test_samples_follow_the_density(kind: str, dim: int, seed: int) -> None:
    # Integration by parts: E[score] = 0 and E[x score'] = -I under the density.
    n = 10_000
    for family in (prior(kind), rough(kind)):
        law = family.draw(2, dim, seeded(seed + 20), F64)
        x = law.sample(n, seeded(2))
        score = law.score(x)
        products = torch.cat([score, (x.unsqueeze(-1) * score.unsqueeze(-2)).flatten(-2)], -1)
        expected = torch.cat([torch.zeros(dim, dtype=F64), -torch.eye(dim, dtype=F64).flatten()])
        standard_error = products.std(-2) / math.sqrt(n)
        assert bool(((products.mean(-2) - expected).abs() < 5 * standard_error).all())


@pytest.mark.parametrize("kind", KINDS)
def test_single_precision_is_the_truth_at_the_rounded_points(kind: str) -> None:
    for seed in range(5):
        single = rough(kind).draw(2, 4, seeded(seed), torch.float32)
        double = rough(kind).draw(2, 4, seeded(seed), F64)
        x = single.sample(50, seeded(1))
        assert x.dtype == torch.float32
        torch.testing.assert_close(x, double.sample(50, seeded(1)).float())
        result, expected = single.estimate(x), double.estimate(x.double())
        assert result.score.dtype == torch.float32
        torch.testing.assert_close(result.score.double(), expected.score, rtol=1e-6, atol=1e-6)
        torch.testing.assert_close(result.log_density, expected.log_density.float())  # type: ignore[union-attr]


def test_blocks_of_queries_do_not_change_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    law = rough("copula").draw(2, 3, seeded(1), F64)
    x = law.sample(100, seeded())
    whole = law.estimate(x)
    for module in ("precise", "atoms"):
        monkeypatch.setattr(f"discoformer.priors.tables.{module}._BLOCK", 64)
    blocks = law.estimate(x)
    torch.testing.assert_close(blocks.score, whole.score, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(blocks.log_density, whole.log_density, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("dim", [1, 2, 10, 32])
def test_training_tasks_are_finite_and_their_scores_are_bounded(dim: int) -> None:
    # Also at points of the second law, which may be far out; in whitened coordinates, per column.
    recipe = Recipe(
        name="x", core={}, frame="whiten", prior={}, dims=[dim], sizes=(128, 512), tokens=512, max_batch=4
    )
    for step in range(40):
        task = draw_task(recipe, TablePrior(), step_generator(seed=0, rank=0, step=step)).to(F64)
        size = task.context.shape[1]
        frame = Whiten().fit(task.context)
        score = frame.normalize_estimate(task.truth).score[:, :size]
        assert float(score.abs().max()) < 1000
        assert task.context.abs().max() < 1e5


def parts_of(value: Any) -> list[Any]:
    """A law and everything it is made of."""
    found = [value]
    if isinstance(value, Distribution | MonotoneMap):
        for field in fields(value):  # type: ignore[arg-type]
            found += parts_of(getattr(value, field.name))
    elif isinstance(value, tuple):
        for part in value:
            found += parts_of(part)
    return found


def test_every_kind_is_drawn_and_the_test_families_are_not() -> None:
    seen: set[str] = set()
    for seed in range(250):
        law = TablePrior().draw(1, 1 + seed % 4, seeded(seed))
        assert isinstance(law, Precise)
        for part in parts_of(law):
            if isinstance(part, Distribution | MonotoneMap):
                seen.add(type(part).__name__)
            assert not isinstance(part, Laplace | Quartic)
            if isinstance(part, StudentT):
                assert part.nu >= 6
            if isinstance(part, Structural) and part.degrees is not None:
                assert float(part.degrees.min()) >= 6
            if isinstance(part, SinhArcsinh):
                assert float(part.skew.abs().max()) <= 0.6 and float((part.tail - 1).abs().min()) >= 0.1
            if isinstance(part, SoftInterval) and bool((part.left == 1).all()):
                assert float(part.softness.max()) <= 0.06
    made_of = {"Precise", "Reshaped", "Structural", "LocationScaleMixture", "Warped", "MixtureDistribution"}
    maps = {
        "Chain",
        "ByColumn",
        "Mirrored",
        "AffineColumns",
        "Johnson",
        "SinhArcsinh",
        "LogNormal",
        "Weibull",
        "HalfNormal",
    }
    assert seen == made_of | maps | {"SoftInterval", "Atoms", "Hinge", "Staircase"}


def test_pairs_share_their_kind_and_their_correlations() -> None:
    for seed in range(20):
        x, y = prior("correlated", contaminated=0.0).pair(3, 4, seeded(seed), F64)
        assert isinstance(x, Precise) and isinstance(y, Precise)
        assert isinstance(x.base, Warped) and isinstance(y.base, Warped)
        assert isinstance(x.base.warp, Linear) and isinstance(y.base.warp, Linear)
        assert torch.equal(x.base.warp.matrix, y.base.warp.matrix)
        assert not torch.equal(x.sample(5, seeded()), y.sample(5, seeded()))
    x, y = prior("copula", turned=0.0, contaminated=0.0).pair(2, 6, seeded(3), F64)
    assert isinstance(x, Precise) and isinstance(x.base, Reshaped)
    assert isinstance(y, Precise) and isinstance(y.base, Reshaped)
    kinds = []
    for law in (x.base, y.base):
        kinds.append([part.groups for part in parts_of(law) if isinstance(part, ByColumn)])
    assert kinds[0] == kinds[1]


def test_columns_are_correlated_to_the_third_nine_and_beyond() -> None:
    largest, conditions = 0.0, []
    for seed in range(100):
        mixing = random_mixing(4, 3, (10.0, 1e6), seeded(seed), factors=seed % 2 == 0)
        covariance = mixing @ mixing.mT
        conditions += torch.linalg.cond(covariance).tolist()
        copula = elliptical_copula(mixing, None)
        assert copula.rotation is not None
        correlation = (copula.rotation * copula.std.square().unsqueeze(-2)) @ copula.rotation.mT
        torch.testing.assert_close(
            correlation.diagonal(dim1=-2, dim2=-1), torch.ones(4, 1, 3, dtype=F64), rtol=1e-8, atol=1e-8
        )
        off = (correlation.squeeze(1) - torch.eye(3, dtype=F64)).abs()
        largest = max(largest, float(off.max()))
    assert largest > 0.999 and 5e5 < max(conditions) < 1.2e6 and min(conditions) < 30


def test_mixture_copulas_have_standard_columns() -> None:
    for seed in range(4):
        x = mixture_copula(3, 4, 2, seeded(seed)).sample(40_000, seeded(1))
        torch.testing.assert_close(x.mean(-2), torch.zeros(3, 2, dtype=F64), rtol=0, atol=0.03)
        torch.testing.assert_close(x.std(-2), torch.ones(3, 2, dtype=F64), rtol=0, atol=0.03)


def test_structural_columns_have_about_unit_scale_and_depend_on_each_other() -> None:
    law = draw_structural(8, 6, (0.1, 0.3), None, False, seeded(3))
    x = law.sample(5000, seeded(1))
    assert float(x.std(-2).min()) > 0.6 and float(x.std(-2).max()) < 1.6
    # The noise of a column with parents is a small part of it: its density beats that of a normal column.
    gain = law.log_density(x).mean(-1) - Normal().estimate(x)[0].mean(-1)
    assert float(gain.min()) > 0.5


def test_structural_without_functions_is_noise() -> None:
    zero = torch.zeros(3, dtype=F64)
    law = Structural(
        torch.zeros(3, 5, 3, dtype=F64), torch.zeros(3, 5).double(), torch.zeros(3, 5).double(), zero, zero
    )
    x = torch.randn(10, 3, generator=seeded(), dtype=F64)
    log_density, score = law.estimate(x)
    expected, expected_score = Normal().estimate(x)
    torch.testing.assert_close(log_density, expected)
    torch.testing.assert_close(score, expected_score)


def test_far_rows_are_few_and_far() -> None:
    family = prior("clusters", contaminated=1.0, contamination=(0.02, 0.02), distance=(20.0, 20.0))
    law = family.draw(1, 2, seeded(), F64)
    assert isinstance(law, Precise) and isinstance(law.base, MixtureDistribution)
    torch.testing.assert_close(law.base.weights, torch.tensor([[0.98, 0.02]], dtype=F64))
    x = law.sample(20_000, seeded(1)).squeeze(0)
    far = ((x - x.median(0).values).abs() > 6).any(-1).double().mean()
    assert 0.008 < float(far) < 0.021


def test_mixed_prior_draws_from_all_and_comes_back_from_its_description() -> None:
    both = MixedPrior((GMMPrior(), TablePrior(copula=0.0)), (0.5, 0.5))
    kinds = {type(both.draw(1, 2, seeded(seed))).__name__ for seed in range(20)}
    assert kinds == {"LocationScaleMixture", "Precise"}
    assert {type(both.pair(1, 2, seeded(seed))[1]).__name__ for seed in range(20)} == kinds
    assert prior_from_config(both.describe()) == both
    config = {
        "name": "mixed",
        "priors": [{"name": "broad", "gmm": {"name": "gmm", "modes": [1, 4]}}, {"name": "tables"}],
        "weights": [0.5, 0.5],
    }
    assert prior_from_config(config) == MixedPrior((BroadPrior(gmm=GMMPrior(modes=(1, 4))), TablePrior()))


ones = torch.ones(2)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: TablePrior(heaped=1.5), "heaped = 1.5 must be a probability"),
        (lambda: TablePrior(copula=0, structural=0, clusters=0, correlated=0), "not all be zero"),
        (lambda: TablePrior(plain=0, skewed=0, positive=0, bounded=0, atoms=0), "not all be zero"),
        (lambda: TablePrior(student=0.6, mixture=0.6), "sum must not be above one"),
        (lambda: TablePrior(contamination=(0.5, 1.5)), "below one"),
        (lambda: TablePrior(narrow=(0.0, 1.0)), "narrow"),
        (lambda: MixedPrior((), ()), "one at least"),
        (lambda: MixedPrior((BroadPrior(),), (0.5, 0.5)), "1 numbers"),
        (lambda: MixedPrior(("broad",), (1.0,)), "no prior"),  # type: ignore[arg-type]
        (lambda: MixedPrior((BroadPrior(),), (0.0,)), "all be zero"),
        (lambda: MixedPrior((BroadPrior(),), (-1.0,)), "not negative"),
        (lambda: prior_from_config({"name": "mixed", "priors": {"name": "broad"}}), "list of priors"),
        (lambda: Linear(torch.ones(2, 3)), "square"),
        (lambda: Linear(torch.zeros(2, 2)), "singular"),
        (lambda: Structural(torch.ones(2, 5, 2), ones, ones, ones, ones), "from the column itself on"),
        (lambda: Structural(torch.zeros(2, 5, 2), ones, ones, ones, ones, None, (0, 0)), "each of 2 columns"),
    ],
)
def test_bad_parameters_say_what_is_wrong(build: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        build()
