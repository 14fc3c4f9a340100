"""The mixture core: its laws, with random weights in float64."""

import math
from typing import Literal

import numpy as np
import pytest
import torch
from scipy import integrate, stats

from discoformer import load_model
from discoformer.core.checks import DataError
from discoformer.core.frames import Whiten
from discoformer.evaluation.known_truth import gmm_datasets
from discoformer.models.mixture import sample as sample_module
from discoformer.models.mixture import student as student_module
from discoformer.models.mixture.core import MixtureConfig, MixtureCore
from discoformer.models.mixture.field import MixtureField
from discoformer.models.mixture.landmarks import farthest_points
from discoformer.models.mixture.lift import coefficients, lift, moment_matrix, natural_parameters
from discoformer.models.mixture.slots import (
    Slots,
    log_density_of,
    make_slots,
    moments_of,
    student_log_density,
)
from discoformer.models.mixture.statistics import slot_statistics
from discoformer.models.network import Network
from discoformer.priors import GMMPrior, LocationScaleMixture, StudentT

F64 = torch.float64


def network(axis: bool = False, **values: int) -> Network:
    """A small core whose decisions are random, so that every path of the arithmetic matters."""
    torch.manual_seed(0)
    config = MixtureConfig(**{"layers": 3, "width": 16, "heads": 2, "slots": 8, **values}, axis=axis)
    core = MixtureCore(config)
    for layer in core.layers:
        torch.nn.init.normal_(layer.decide.weight, std=0.3)
    return Network(core, "standardize" if axis else "whiten").to(F64).requires_grad_(False)


def sample(n: int, d: int, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    prior = GMMPrior(modes=(3, 3), covariance="rotated")
    return prior.draw(1, d, generator, dtype=F64).sample(n, generator)[0]


def slots(m: int, d: int) -> Slots:
    generator = torch.Generator().manual_seed(m * 10 + d)

    def draw(*shape: int) -> torch.Tensor:
        return torch.rand(1, m, *shape, generator=generator, dtype=F64)

    root = draw(d, d) - 0.5
    scale = root @ root.mT + 0.3 * torch.eye(d, dtype=F64)
    return make_slots(torch.log_softmax(draw(), -1), 3 * draw(d) - 1, scale, 2.5 + 20 * draw(), 0.5 + draw())


# -- lift and slots ---------------------------------------------------------------------------


def test_a_narrow_cluster_far_from_the_center_keeps_its_covariance() -> None:
    """Second moments minus squared means lose (distance / width)^2 of the precision: here 11 of 16 digits."""
    offset = torch.tensor([3.0, -2.0], dtype=F64)
    x = torch.cat([sample(100, 2) - 5, 1e-5 * sample(100, 2, seed=1) + offset])
    s = make_slots(
        torch.full((1, 2), math.log(0.5), dtype=F64),
        torch.stack([x[:100].mean(0), x[100:].mean(0)]).unsqueeze(0),
        torch.stack([torch.cov(x[:100].mT), torch.cov(x[100:].mT)]).unsqueeze(0),
        torch.full((1, 2), 1e9, dtype=F64),
        torch.ones(1, 2, dtype=F64),
    )
    found = moments_of(slot_statistics(lift(x).unsqueeze(0), 1 / 200, s), s).covariance[0, 1]
    expected = torch.cov(x[100:].mT, correction=0)
    assert float((found - expected).norm() / expected.norm()) < 1e-4


def test_lift_makes_gaussians_inner_products() -> None:
    x = sample(50, 3)
    s = slots(4, 3)
    theta = natural_parameters(s.mean, s.scale).theta
    got = theta[0] @ lift(x)
    for m in range(4):
        expected = stats.multivariate_normal(s.mean[0, m].numpy(), s.scale[0, m].numpy()).logpdf(x.numpy())
        np.testing.assert_allclose(got[m].numpy(), expected, rtol=1e-10)


@pytest.mark.parametrize("d", [1, 2, 5])
def test_lift_gives_quadratic_forms_and_second_moments(d: int) -> None:
    x = sample(30, d)
    h = torch.cat([torch.ones(30, 1, dtype=F64), x], -1)
    form = torch.randn(d + 1, d + 1, dtype=F64)
    form = form + form.mT
    torch.testing.assert_close(coefficients(form) @ lift(x), (h @ form * h).sum(-1))
    torch.testing.assert_close(moment_matrix(lift(x).sum(-1), d), h.mT @ h)


@pytest.mark.parametrize("brief", [False, True])
def test_moments_equal_the_definition_and_its_autograd(brief: bool) -> None:
    """The pass written by hand against a direct transcription with scipy-checked densities."""
    x = sample(40, 3).requires_grad_()
    inputs = tuple(t.requires_grad_() for t in slots(5, 3)[:5])
    parameters = make_slots(*inputs)._replace(brief=brief)
    weights = torch.rand(1, 40, dtype=F64)
    weights = weights / weights.sum()
    moments = moments_of(slot_statistics(lift(x).unsqueeze(0), weights, parameters), parameters)
    got = [moments.share, moments.log_mixture, moments.tail, moments.lifted]
    if not brief:
        got += log_density_of(moments, parameters)

    offset = x.unsqueeze(1) - parameters.mean[0]  # (n, M, d)
    distance = (offset.unsqueeze(-2) @ torch.linalg.inv(parameters.scale[0]) @ offset.unsqueeze(-1)).flatten(
        1
    )
    nu, d = parameters.nu[0], 3
    log_density = (
        torch.lgamma((nu + d) / 2)
        - torch.lgamma(nu / 2)
        - d / 2 * torch.log(nu * math.pi)
        - torch.logdet(parameters.scale[0]) / 2
        - (nu + d) / 2 * torch.log1p(distance / nu)
    )
    reference = stats.multivariate_t(
        parameters.mean[0, 0].detach().numpy(), parameters.scale[0, 0].detach().numpy(), float(nu[0].detach())
    )
    np.testing.assert_allclose(log_density[:, 0].detach(), reference.logpdf(x.detach().numpy()), rtol=1e-9)
    logits = log_density * parameters.temperature[0] + parameters.log_weight[0]
    r = torch.softmax(logits, -1)
    entropy = -(r * torch.log_softmax(logits, -1)).sum(-1, keepdim=True)
    mixture = torch.logsumexp(logits, -1, keepdim=True)
    u = (nu + d) / (nu + distance)
    w = r * weights[0].unsqueeze(-1)
    share, mass = w.sum(0), (w * u).sum(0)
    lifted = (w * u).mT @ lift(x).mT / mass.unsqueeze(-1)
    expected = [share, (w * mixture / d).sum(0) / share, mass / share, lifted]
    if not brief:
        columns = [(w * c).sum(0) / share for c in (entropy, log_density, log_density**2)]
        expected += [columns[0], columns[1], columns[2] - columns[1] ** 2]
    for a, b in zip(got, expected, strict=True):
        torch.testing.assert_close(a[0], b)

    probes = [torch.randn(b.shape, dtype=F64) for b in expected]
    gradients = [
        torch.autograd.grad(sum((a * p).sum() for a, p in zip(side, probes, strict=True)), (x, *inputs))
        for side in (got, expected)
    ]
    for a, b in zip(*gradients, strict=True):
        torch.testing.assert_close(a, b)


def test_statistics_add_over_chunks() -> None:
    phi = lift(sample(60, 2)).unsqueeze(0)
    weights = torch.full((1, 60), 1 / 60, dtype=F64)
    s = slots(4, 2)
    whole = slot_statistics(phi, 1 / 60, s)
    parts = [slot_statistics(phi[..., i : i + 13], weights[:, i : i + 13], s) for i in range(0, 60, 13)]
    torch.testing.assert_close(torch.stack(parts).sum(0), whole)


def test_sample_in_chunks_equals_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    net, x = network(), sample(300, 3)
    weights = torch.rand(300, dtype=F64)
    for w in (None, weights):
        whole = net.encode(x, w).log_density(x)
        with monkeypatch.context() as patch, torch.no_grad():
            patch.setattr(sample_module, "_CHUNK", 20_000)
            patch.setattr(sample_module, "_LEAST", 20)
            patch.setattr(student_module, "_BUDGET", 20_000)
            for keep in (0, sample_module._KEEP):
                patch.setattr(sample_module, "_KEEP", keep)
                torch.testing.assert_close(net.encode(x, w).log_density(x), whole, rtol=1e-10, atol=1e-10)


def test_moments_of_one_slot_are_the_samples() -> None:
    x = sample(80, 3)
    one = make_slots(
        torch.zeros(1, 1, dtype=F64),
        torch.zeros(1, 1, 3, dtype=F64),
        torch.eye(3, dtype=F64).expand(1, 1, 3, 3),
        torch.full((1, 1), 1e9, dtype=F64),
        torch.ones(1, 1, dtype=F64),
    )
    moments = moments_of(slot_statistics(lift(x).unsqueeze(0), 1 / 80, one), one)
    torch.testing.assert_close(moments.mean[0, 0], x.mean(0), rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(moments.covariance[0, 0], torch.cov(x.mT, correction=0), rtol=1e-6, atol=1e-6)


def test_landmarks_do_not_depend_on_order_or_rotation() -> None:
    x = sample(5000, 2)  # beyond the pool, so that the subsample is tested too
    rotation, _ = torch.linalg.qr(torch.randn(2, 2, dtype=F64))
    chosen = farthest_points(x.unsqueeze(0), 12)
    shuffled = farthest_points(x[torch.randperm(5000)].unsqueeze(0), 12)
    turned = farthest_points((x @ rotation).unsqueeze(0), 12)
    torch.testing.assert_close(shuffled, chosen)
    torch.testing.assert_close(turned, chosen @ rotation)


# -- laws of the field ------------------------------------------------------------------------


@pytest.mark.parametrize("d", [1, 2, 5])
def test_affine_equivariance_is_exact(d: int) -> None:
    net, x = network(), sample(150, d)
    y = sample(40, d, seed=1)
    a = torch.randn(d, d, dtype=F64) + torch.eye(d, dtype=F64)
    order = torch.randperm(150)
    before = net(x, y)
    after = net(x[order] @ a + 3, y @ a + 3)
    torch.testing.assert_close(
        after.log_density, before.log_density - torch.linalg.slogdet(a)[1], rtol=1e-8, atol=1e-8
    )
    torch.testing.assert_close(after.score @ a.mT, before.score, rtol=1e-8, atol=1e-8)


def test_axis_core_is_equivariant_to_column_units_and_order() -> None:
    net, x = network(axis=True), sample(150, 4)
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
    field = network(axis).encode(sample(120, 3))
    y = sample(50, 3, seed=2).requires_grad_()
    log_density, score = field.estimate(y)
    assert log_density is not None
    torch.testing.assert_close(score, torch.autograd.grad(log_density.sum(), y)[0], rtol=1e-8, atol=1e-8)


def test_density_integrates_to_one() -> None:
    one = network().encode(sample(100, 1))
    total, _ = integrate.quad(
        lambda t: math.exp(one.log_density(np.array([[t]])).item()), -200, 200, limit=400
    )
    assert total == pytest.approx(1, abs=1e-3)
    two = network().encode(sample(100, 2))
    u = torch.linspace(-8, 8, 1001, dtype=F64)  # y = sinh(u) reaches far into the tails
    grid = torch.cartesian_prod(u.sinh(), u.sinh())
    mass = two.log_density(grid).exp() * torch.cartesian_prod(u.cosh(), u.cosh()).prod(-1)
    assert float(mass.sum()) * 0.016**2 == pytest.approx(1, abs=1e-3)


def test_density_integrates_to_one_in_five_dimensions_by_importance() -> None:
    x = sample(200, 5)
    field = network().encode(x)
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
    net = network()
    x = torch.stack([sample(60, 2, seed) for seed in range(3)])
    batch = net.encode(x).log_density(x)
    for i in range(3):
        torch.testing.assert_close(net.encode(x[i]).log_density(x[i]), batch[i])


def test_equal_weights_are_no_weights() -> None:
    net, x = network(), sample(60, 2)
    weights = torch.full((60,), 7.0, dtype=F64)
    torch.testing.assert_close(net.encode(x, weights).log_density(x), net.encode(x).log_density(x))


def test_weights_are_repetitions_in_the_sums() -> None:
    """Only the sums: weights are worth fewer points than as many rows, so what follows may differ."""
    x, s = sample(60, 2), slots(4, 2)
    counts = torch.arange(60) % 3
    weights = (counts / counts.sum()).to(F64).unsqueeze(0)
    repeated = lift(x.repeat_interleave(counts, 0)).unsqueeze(0)
    torch.testing.assert_close(
        slot_statistics(lift(x).unsqueeze(0), weights, s), slot_statistics(repeated, 1 / int(counts.sum()), s)
    )


def test_slots_and_refinements_are_chosen_at_run_time() -> None:
    x = sample(100, 2)
    chosen = network(slots=8).core.encode(x, slots=5, refinements=0)
    built = network(slots=5, refinements=0).core.encode(x)  # no weight depends on either
    assert chosen.log_weight.shape == (5,)
    torch.testing.assert_close(chosen.mean, built.mean)
    torch.testing.assert_close(chosen.estimate(x).score, built.estimate(x).score)


def test_sizes_that_make_no_mixture_are_refused() -> None:
    core, x = network().core, sample(30, 2)
    for wrong in ({"slots": 0}, {"slots": -3}, {"refinements": -1}):
        with pytest.raises(DataError, match="at least 1 slot, 0 refinements"):
            core.encode(x, **wrong)
    with pytest.raises(DataError, match="layers = 0"):
        MixtureCore(MixtureConfig(layers=0))
    with pytest.raises(DataError, match="64 is not a multiple of the 3 heads"):
        MixtureCore(MixtureConfig(heads=3))


def test_rows_of_weight_zero_do_not_count_in_the_moments() -> None:
    """With one slot the start does not matter, so dropping rows and weighting them zero agree."""
    net = network(slots=1)
    x = sample(80, 2)
    weights = (torch.arange(80) < 50).to(F64)
    torch.testing.assert_close(net.encode(x, weights).log_density(x), net.encode(x[:50]).log_density(x))


def test_differentiable_in_context() -> None:
    net = network(layers=2, slots=3)
    x, y = sample(12, 2).requires_grad_(), sample(3, 2, seed=5)

    def answer(context: torch.Tensor) -> torch.Tensor:
        return net(context, y).score

    assert torch.autograd.gradcheck(answer, x, eps=1e-6, atol=1e-5)


def test_single_precision_is_close_to_double() -> None:
    net, x = network(), sample(500, 3)
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
    assert double.log_density is not None and single.log_density is not None
    assert float((single.log_density - double.log_density).square().mean().sqrt()) < 1e-4
    assert float((single.score - double.score).norm() / double.score.norm()) < 1e-4


@pytest.mark.parametrize("d", [1, 2])
def test_single_precision_survives_points_that_are_all_the_same(d: int) -> None:
    """The covariance of most slots is nothing but rounding: it must not become negative."""
    x, places = sample(50, d), sample(2, d, seed=1)
    x = torch.cat([x, 3 + places[:1].expand(3000, d), -3 + places[1:].expand(1000, d)]).float()
    log_density, score = load_model("mixture", torch.float32)(x, x)
    assert log_density is not None
    assert bool(log_density.isfinite().all()) and bool(score.isfinite().all())


def test_the_peak_of_nearly_gaussian_slots_keeps_its_digits_in_single_precision() -> None:
    nu = torch.tensor([3.0, 300.0, 8000.0])
    distance, log_peak = torch.zeros(3), torch.full((3,), -2.0)
    double = student_log_density(distance.double(), log_peak.double(), nu.double(), 10)
    single = student_log_density(distance, log_peak, nu, 10)
    torch.testing.assert_close(single.double(), double, rtol=0, atol=1e-6)


# -- the distribution -------------------------------------------------------------------------


def field_of(d: int) -> MixtureField:
    field = network().encode(sample(150, d))
    assert isinstance(field, MixtureField)
    return field


def test_sample_follows_the_density() -> None:
    field = field_of(1)
    x = field.sample(4000, torch.Generator().manual_seed(0)).numpy()
    result = stats.kstest(x[:, 0], lambda t: field.cdf(t.reshape(-1, 1)).numpy())
    assert result.pvalue > 1e-3


def test_cdf_is_the_integral_of_the_density() -> None:
    field = field_of(1)
    grid = torch.linspace(-8, 8, 4001, dtype=F64).unsqueeze(-1)
    density = field.log_density(grid).exp()
    integral = torch.cumulative_trapezoid(density, dx=16 / 4000)
    torch.testing.assert_close((field.cdf(grid) - field.cdf(grid[:1]))[1:], integral, rtol=0, atol=1e-5)


def test_conditional_times_marginal_is_the_joint() -> None:
    field = field_of(3)
    y = sample(10, 3, seed=3)
    for row in y:
        joint = field.log_density(row.unsqueeze(0))
        given = field.marginal([2, 0]).log_density(row[[2, 0]].unsqueeze(0))
        rest = field.conditional([2, 0], row[[2, 0]]).log_density(row[[1]].unsqueeze(0))
        torch.testing.assert_close(given + rest, joint, rtol=1e-9, atol=1e-9)


def test_marginal_is_the_integral_of_the_joint() -> None:
    field = field_of(2)
    axis = torch.linspace(-60, 60, 20001, dtype=F64)
    for value in (-1.0, 0.5):
        line = torch.stack([torch.full_like(axis, value), axis], -1)
        integral = torch.trapezoid(field.log_density(line).exp(), axis)
        direct = field.marginal([0]).log_density(torch.tensor([[value]], dtype=F64)).exp()
        torch.testing.assert_close(integral, direct[0], rtol=1e-4, atol=1e-7)


def test_parameters_are_in_data_units() -> None:
    x = sample(150, 2) * torch.tensor([1e6, 1e-6], dtype=F64) + 1e3
    field = network().encode(x)
    assert isinstance(field, MixtureField)
    mean = (field.weights.unsqueeze(-1) * field.means).sum(0)
    draws = field.sample(200_000, torch.Generator().manual_seed(0))
    spread = draws.std(0) / math.sqrt(len(draws))
    assert bool(((draws.mean(0) - mean).abs() < 5 * spread).all())
    between = field.means - mean
    total = (field.weights[:, None, None] * (field.covariances + between[:, :, None] * between[:, None])).sum(
        0
    )
    assert float((draws.var(0) / total.diagonal()).sub(1).abs().max()) < 0.1


def test_wrong_columns_are_refused() -> None:
    field = field_of(2)
    with pytest.raises(DataError, match="distinct numbers from 0 to 1"):
        field.marginal([2])
    with pytest.raises(DataError, match="none is left"):
        field.conditional([0, 1], [0.0, 0.0])
    for wrong in (0.5, [0.5, 1.0], []):
        with pytest.raises(DataError, match="expected one for each of"):
            field.conditional([0], wrong)
    with pytest.raises(DataError, match="values are not numbers"):
        field.conditional([0], ["a"])
    with pytest.raises(DataError, match="values has a NaN"):
        field.conditional([0], [math.nan])
    with pytest.raises(DataError, match="needs one column, not 2"):
        field.cdf(np.zeros((3, 2)))
    with pytest.raises(DataError, match="1 column"):
        field.estimate(np.zeros((3, 1)))
