"""The mixture core: its laws, with random weights in float64."""

import math
from typing import Literal

import numpy as np
import pytest
import torch
from helpers import F64, gmm_sample, mixture_network
from scipy import integrate

from discoformer import load_model
from discoformer.core.checks import DataError
from discoformer.core.frames import Whiten
from discoformer.evaluation.known_truth import gmm_datasets
from discoformer.models.mixture.core import MixtureConfig, MixtureCore
from discoformer.models.mixture.slots import (
    student_log_density,
)
from discoformer.priors import LocationScaleMixture, StudentT


@pytest.mark.parametrize("d", [1, 2, 5])
def test_affine_equivariance_is_exact(d: int) -> None:
    net, x = mixture_network(), gmm_sample(150, d)
    y = gmm_sample(40, d, seed=1)
    a = torch.randn(d, d, dtype=F64) + torch.eye(d, dtype=F64)
    order = torch.randperm(150)
    before = net(x, y)
    after = net(x[order] @ a + 3, y @ a + 3)
    torch.testing.assert_close(
        after.log_density, before.log_density - torch.linalg.slogdet(a)[1], rtol=1e-8, atol=1e-8
    )
    torch.testing.assert_close(after.score @ a.mT, before.score, rtol=1e-8, atol=1e-8)


def test_axis_core_is_equivariant_to_column_units_and_order() -> None:
    net, x = mixture_network(axis=True), gmm_sample(150, 4)
    columns = torch.tensor([2, 0, 3, 1])
    units = torch.tensor([1e-9, 1.0, -3.0, 1e9], dtype=F64)
    before = net(x, x)
    moved = (x[:, columns] - 1e3) * units
    after = net(moved, moved)
    shift = units.abs().log().sum()
    torch.testing.assert_close(after.log_density, before.log_density - shift, rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(after.score * units, before.score[:, columns], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("axis", [False, True])
def test_score_is_the_gradient_of_the_log_density(axis: bool) -> None:
    field = mixture_network(axis).encode(gmm_sample(120, 3))
    y = gmm_sample(50, 3, seed=2).requires_grad_()
    log_density, score = field.estimate(y)
    torch.testing.assert_close(score, torch.autograd.grad(log_density.sum(), y)[0], rtol=1e-8, atol=1e-8)


def test_density_integrates_to_one() -> None:
    one = mixture_network().encode(gmm_sample(100, 1))
    total, _ = integrate.quad(
        lambda t: math.exp(one.log_density(np.array([[t]])).item()), -200, 200, limit=400
    )
    assert total == pytest.approx(1, abs=1e-3)
    two = mixture_network().encode(gmm_sample(100, 2))
    u = torch.linspace(-8, 8, 1001, dtype=F64)  # y = sinh(u) reaches far into the tails
    grid = torch.cartesian_prod(u.sinh(), u.sinh())
    mass = two.log_density(grid).exp() * torch.cartesian_prod(u.cosh(), u.cosh()).prod(-1)
    assert float(mass.sum()) * 0.016**2 == pytest.approx(1, abs=1e-3)


def test_density_integrates_to_one_in_five_dimensions_by_importance() -> None:
    x = gmm_sample(200, 5)
    field = mixture_network().encode(x)
    values, vectors = torch.linalg.eigh(torch.cov(x.mT))
    proposal = LocationScaleMixture(  # tails as heavy as the heaviest slot's
        weights=torch.ones(1, dtype=F64),
        means=x.mean(0, keepdim=True),
        std=values.sqrt().unsqueeze(0),
        rotation=vectors.unsqueeze(0),
        family=StudentT(2.0),
    )
    y = proposal.sample(100_000, torch.Generator().manual_seed(1))
    ratio = (field.log_density(y) - proposal.log_density(y)).exp()
    error = float(ratio.std()) / math.sqrt(len(y))
    assert error < 0.02
    assert float(ratio.mean()) == pytest.approx(1, abs=5 * error)


def test_batch_equals_loop() -> None:
    net = mixture_network()
    x = torch.stack([gmm_sample(60, 2, seed) for seed in range(3)])
    batch = net.encode(x).log_density(x)
    for i in range(3):
        torch.testing.assert_close(net.encode(x[i]).log_density(x[i]), batch[i])


def test_equal_weights_are_no_weights() -> None:
    net, x = mixture_network(), gmm_sample(60, 2)
    weights = torch.full((60,), 7.0, dtype=F64)
    torch.testing.assert_close(net.encode(x, weights).log_density(x), net.encode(x).log_density(x))


def test_slots_and_refinements_are_chosen_at_run_time() -> None:
    x = gmm_sample(100, 2)
    chosen = mixture_network(slots=8).core.encode(x, slots=5, refinements=0)
    built = mixture_network(slots=5, refinements=0).core.encode(x)  # no weight depends on either
    assert chosen.log_weight.shape == (5,)
    torch.testing.assert_close(chosen.mean, built.mean)
    torch.testing.assert_close(chosen.estimate(x).score, built.estimate(x).score)


def test_sizes_that_make_no_mixture_are_refused() -> None:
    core, x = mixture_network().core, gmm_sample(30, 2)
    for wrong in ({"slots": 0}, {"slots": -3}, {"refinements": -1}):
        with pytest.raises(DataError, match="at least 1 slot, 0 refinements"):
            core.encode(x, **wrong)
    with pytest.raises(DataError, match="layers = 0"):
        MixtureCore(MixtureConfig(layers=0))
    with pytest.raises(DataError, match="64 is not a multiple of the 3 heads"):
        MixtureCore(MixtureConfig(heads=3))


def test_rows_of_weight_zero_do_not_count_in_the_moments() -> None:
    """With one slot the start does not matter, so dropping rows and weighting them zero agree."""
    net = mixture_network(slots=1)
    x = gmm_sample(80, 2)
    weights = (torch.arange(80) < 50).to(F64)
    torch.testing.assert_close(net.encode(x, weights).log_density(x), net.encode(x[:50]).log_density(x))


def test_differentiable_in_context() -> None:
    net = mixture_network(layers=2, slots=3)
    x, y = gmm_sample(12, 2).requires_grad_(), gmm_sample(3, 2, seed=5)

    def answer(context: torch.Tensor) -> torch.Tensor:
        return net(context, y).score

    assert torch.autograd.gradcheck(answer, x, eps=1e-6, atol=1e-5)


def test_single_precision_is_close_to_double() -> None:
    net, x = mixture_network(), gmm_sample(500, 3)
    double = net.encode(x).log_density(x)
    single = net.to(torch.float32).encode(x.float()).log_density(x.float())
    assert float((single - double).square().mean().sqrt()) < 1e-4
    assert float((single - double).abs().max()) < 1e-3


@pytest.mark.parametrize("name", ["mixture", "mixture-axis"])
@pytest.mark.parametrize(
    ("d", "n", "covariance", "index"),
    [
        (1, 1024, "diagonal", 1),
        (2, 256, "rotated", 2),
        (5, 4096, "rotated", 1),  # a far point with a slot of its own
        (10, 256, "rotated", 2),  # slots with fewer points than dimensions
        (10, 1024, "rotated", 1),  # widths of 0.03
    ],
)
def test_shipped_weights_answer_in_single_precision_as_in_double(
    name: str, d: int, n: int, covariance: Literal["diagonal", "rotated"], index: int
) -> None:
    x = list(gmm_datasets(d, n, index + 1, 4_000_000, covariance, modes=(3, 6, 10)))[index].context
    x = Whiten().fit(x).normalize(x)
    double = load_model(name)(x, x)
    single = load_model(name, torch.float32)(x.float(), x.float())
    assert float((single.log_density - double.log_density).square().mean().sqrt()) < 1e-4
    assert float((single.score - double.score).norm() / double.score.norm()) < 1e-4


@pytest.mark.parametrize("d", [1, 2])
def test_single_precision_survives_points_that_are_all_the_same(d: int) -> None:
    """The covariance of most slots is nothing but rounding: it must not become negative."""
    x, places = gmm_sample(50, d), gmm_sample(2, d, seed=1)
    x = torch.cat([x, 3 + places[:1].expand(3000, d), -3 + places[1:].expand(1000, d)]).float()
    log_density, score = load_model("mixture", torch.float32)(x, x)
    assert bool(log_density.isfinite().all()) and bool(score.isfinite().all())


def test_the_peak_of_nearly_gaussian_slots_keeps_its_digits_in_single_precision() -> None:
    nu = torch.tensor([3.0, 300.0, 8000.0])
    distance, log_peak = torch.zeros(3), torch.full((3,), -2.0)
    double = student_log_density(distance.double(), log_peak.double(), nu.double(), 10)
    single = student_log_density(distance, log_peak, nu, 10)
    torch.testing.assert_close(single.double(), double, rtol=0, atol=1e-6)
