"""Laws of the priors: the score is the gradient, densities integrate to one, samples follow them."""

import dataclasses
import math
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats
from torch import Tensor

from discoformer.core.checks import DataError
from discoformer.core.fields import Field
from discoformer.priors import (
    PRIORS,
    Affine,
    AffinePrior,
    Banana,
    BroadPrior,
    Distribution,
    Family,
    GaussianPrior,
    GMMPrior,
    Laplace,
    LocationScaleMixture,
    Logistic,
    MixtureDistribution,
    Normal,
    Quartic,
    Ring,
    Rotated,
    Skew,
    StudentT,
    Warp,
    Warped,
    gaussian,
    prior_from_config,
    random_rotations,
    spiral,
)

F64 = torch.float64
FAMILIES: dict[str, Family] = {
    "normal": Normal(),
    "laplace": Laplace(),
    "logistic": Logistic(),
    "student_t": StudentT(3.5),
    "quartic": Quartic(),
}


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def mixture(dim: int, family: Family, rotated: bool, batch: int = 3, k: int = 4) -> LocationScaleMixture:
    g = seeded(dim)
    return LocationScaleMixture(
        weights=torch.rand(batch, k, generator=g, dtype=F64) + 0.2,
        means=torch.randn(batch, k, dim, generator=g, dtype=F64),
        std=torch.rand(batch, k, dim, generator=g, dtype=F64) + 0.4,
        rotation=random_rotations((batch, k), dim, g, F64) if rotated else None,
        family=family,
    )


def warps(dim: int, batch: int = 3) -> dict[str, Warp]:
    g = seeded(dim)
    found: dict[str, Warp] = {
        "skew": Skew(
            torch.randn(batch, dim, generator=g, dtype=F64) * 0.5,
            torch.rand(batch, dim, generator=g, dtype=F64) + 0.5,
        ),
        "rotated": Rotated(random_rotations((batch,), dim, g, F64)),
        "affine": Affine(
            torch.rand(batch, dim, generator=g, dtype=F64) + 0.3,
            torch.randn(batch, dim, generator=g, dtype=F64),
        ),
    }
    if dim > 1:
        found["banana"] = Banana(
            torch.linspace(-0.5, 0.6, batch, dtype=F64),
            torch.linspace(0.8, 1.2, batch, dtype=F64),
            dim - 1,
            0,
        )
    return found


def distributions(dim: int) -> dict[str, Distribution]:
    """Batches of three: every family, aligned and rotated, every warp, a mixture of such; plane curves."""
    found: dict[str, Distribution] = {}
    for name, family in FAMILIES.items():
        found[name] = mixture(dim, family, rotated=False)
        found[f"{name}-rotated"] = mixture(dim, family, rotated=True)
    for name, warp in warps(dim).items():
        found[f"{name}-warp"] = Warped(mixture(dim, Normal(), rotated=False), warp)
    found["mixed"] = MixtureDistribution(
        torch.tensor([[0.2, 0.3, 0.5], [1.0, 2.0, 3.0], [0.0, 0.5, 0.5]], dtype=F64),
        (found["normal-rotated"], found["student_t"], found["skew-warp"]),
    )
    if dim == 2:
        found["bent-skewed-t"] = Warped(Warped(found["student_t"], warps(2)["skew"]), warps(2)["banana"])
        found["ring"] = Ring(
            torch.tensor([1.0, 2.0, 1.5], dtype=F64), torch.tensor([0.2, 0.3, 0.25], dtype=F64)
        )
        found["spiral"] = spiral(turns=1.0, radius=2.0, width=0.3, modes=40)
    return found


CASES = [pytest.param(dim, name, id=f"{name}-d{dim}") for dim in (1, 2) for name in distributions(dim)]


def choose(value: Any, index: int) -> Any:
    """Member ``index`` of a batched distribution or warp."""
    if isinstance(value, Tensor):
        return value[index]
    if isinstance(value, tuple):
        return tuple(choose(part, index) for part in value)
    if isinstance(value, Distribution | Warp):
        parts = {f.name: choose(getattr(value, f.name), index) for f in dataclasses.fields(value)}  # type: ignore[arg-type]
        return type(value)(**parts)
    return value


@pytest.mark.parametrize(("dim", "name"), [*CASES, *((5, name) for name in distributions(5))])
def test_score_is_the_gradient_of_the_log_density(dim: int, name: str) -> None:
    target = distributions(dim)[name]
    points = target.sample(20, seeded(1)).requires_grad_()
    log_density, score = target.estimate(points)
    assert log_density is not None and log_density.shape == (*target.batch_shape, 20)
    (gradient,) = torch.autograd.grad(log_density.sum(), points)
    torch.testing.assert_close(score, gradient, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(("dim", "name"), CASES)
def test_density_integrates_to_one(dim: int, name: str) -> None:
    # x = sinh(u) / 2 on a uniform grid of u resolves the middle and reaches far into heavy tails.
    u = torch.linspace(-8, 8, 20_001 if dim == 1 else 481, dtype=F64)
    nodes, weights = u.sinh() / 2, u.cosh() / 2 * (u[1] - u[0])
    grid = torch.cartesian_prod(*[nodes] * dim).reshape(-1, dim)
    volume = torch.cartesian_prod(*[weights] * dim).reshape(-1, dim).prod(-1)
    integral = (distributions(dim)[name].log_density(grid).exp() * volume).sum(-1)
    torch.testing.assert_close(integral, torch.ones_like(integral), rtol=0, atol=1e-3)


@pytest.mark.parametrize(("dim", "name"), CASES)
def test_samples_follow_the_density(dim: int, name: str) -> None:
    # Integration by parts: E[score] = 0 and E[x score'] = -I under the density.
    target = distributions(dim)[name]
    n = 20_000
    x = target.sample(n, seeded(2))
    score = target.score(x)
    products = torch.cat([score, (x.unsqueeze(-1) * score.unsqueeze(-2)).flatten(-2)], -1)
    expected = torch.cat([torch.zeros(dim, dtype=F64), -torch.eye(dim, dtype=F64).flatten()])
    standard_error = products.std(-2) / math.sqrt(n)
    assert bool(((products.mean(-2) - expected).abs() < 4.5 * standard_error).all())


def test_samples_pass_a_kolmogorov_smirnov_test() -> None:
    n = 5_000
    references = {
        "normal": stats.norm(),
        "laplace": stats.laplace(scale=1 / math.sqrt(2)),
        "logistic": stats.logistic(scale=math.sqrt(3) / math.pi),
        "student_t": stats.t(3.5),
        "quartic": stats.gennorm(4),
    }
    for seed, (name, reference) in enumerate(references.items()):
        x = FAMILIES[name].sample((n, 1), seeded(seed), F64)
        assert stats.kstest(x[:, 0].numpy(), reference.cdf).pvalue > 1e-3, name
    ring = Ring(torch.tensor(2.0, dtype=F64), torch.tensor(0.3, dtype=F64)).sample(n, seeded())
    radius, angle = ring.norm(dim=-1).numpy(), torch.atan2(ring[:, 1], ring[:, 0]).numpy()
    assert stats.kstest(radius, stats.lognorm(0.3, scale=2.0).cdf).pvalue > 1e-3
    assert stats.kstest(angle, stats.uniform(-math.pi, 2 * math.pi).cdf).pvalue > 1e-3


def test_families_equal_scipy() -> None:
    t = torch.linspace(-4, 4, 30, dtype=F64).reshape(10, 3)
    x = t.numpy()
    references = {
        "normal": stats.norm.logpdf(x).sum(-1),
        "laplace": stats.laplace.logpdf(x, scale=1 / math.sqrt(2)).sum(-1),
        "logistic": stats.logistic.logpdf(x, scale=math.sqrt(3) / math.pi).sum(-1),
        "student_t": stats.multivariate_t(np.zeros(3), np.eye(3), df=3.5).logpdf(x),
        "quartic": stats.gennorm.logpdf(x, 4).sum(-1),
    }
    for name, reference in references.items():
        np.testing.assert_allclose(FAMILIES[name].estimate(t)[0].numpy(), reference, rtol=1e-12, err_msg=name)


def test_gaussians_and_elliptical_mixtures_equal_scipy() -> None:
    g = seeded()
    root = torch.randn(3, 3, generator=g, dtype=F64)
    mean, covariance = torch.randn(3, generator=g, dtype=F64), root @ root.mT
    x = torch.randn(7, 3, generator=g, dtype=F64)
    normal = stats.multivariate_normal(mean.numpy(), covariance.numpy())
    np.testing.assert_allclose(gaussian(mean, covariance).log_density(x.numpy()), normal.logpdf(x.numpy()))
    torch.testing.assert_close(
        gaussian(mean, covariance).score(x), torch.linalg.solve(covariance, (mean - x).mT).mT
    )

    target = choose(mixture(3, StudentT(4.0), rotated=True), 0)
    assert target.rotation is not None
    scatter = (target.rotation * target.std.square().unsqueeze(-2)) @ target.rotation.mT
    density = sum(
        float(w) * stats.multivariate_t(m.numpy(), s.numpy(), df=4.0).pdf(x.numpy())
        for w, m, s in zip(target.weights / target.weights.sum(), target.means, scatter, strict=True)
    )
    np.testing.assert_allclose(target.log_density(x.numpy()), np.log(density))


@pytest.mark.parametrize("dim", [1, 2, 5])
def test_warps_invert_and_have_the_jacobian_they_claim(dim: int) -> None:
    base = mixture(dim, Normal(), rotated=True)
    x = base.sample(4, seeded())
    for name, warp in warps(dim).items():
        y = warp.forward(x)
        torch.testing.assert_close(warp.inverse(y), x, msg=name)
        for member in range(3):
            jacobians = [
                torch.autograd.functional.jacobian(choose(warp, member).forward, point.unsqueeze(0)).squeeze()
                for point in x[member]
            ]
            log_det = torch.stack([torch.linalg.slogdet(j.reshape(dim, dim))[1] for j in jacobians])
            warped = Warped(base, warp).log_density(y)[member]
            torch.testing.assert_close(warped, base.log_density(x)[member] - log_det, msg=name)


@pytest.mark.parametrize(("dim", "name"), [case for case in CASES if "spiral" not in case.values])
def test_a_batch_is_a_loop(dim: int, name: str) -> None:
    target = distributions(dim)[name]
    shared = torch.randn(6, dim, generator=seeded(), dtype=F64)
    own = target.sample(6, seeded())
    for queries in (shared, own):
        whole = target.estimate(queries)
        for member in range(3):
            part = choose(target, member).estimate(queries if queries.ndim == 2 else queries[member])
            assert whole.log_density is not None
            torch.testing.assert_close(whole.log_density[member], part.log_density)
            torch.testing.assert_close(whole.score[member], part.score)


def test_blocks_of_rows_do_not_change_the_answer() -> None:
    target = spiral()
    queries = target.sample(2_000, seeded())  # several blocks
    whole = target.estimate(queries)
    halves = [target.estimate(part) for part in (queries[:777], queries[777:])]
    torch.testing.assert_close(whole.score, torch.cat([h.score for h in halves]), rtol=1e-13, atol=0)


@pytest.mark.parametrize("dim", [1, 2])
def test_every_distribution_is_a_field_for_numpy(dim: int) -> None:
    for name, target in distributions(dim).items():
        assert isinstance(target, Field) and target.dim == dim
        queries = target.sample(5, seeded())
        answer = target.estimate(queries.numpy())
        assert isinstance(answer.score, np.ndarray), name
        np.testing.assert_array_equal(answer.score, target.score(queries).numpy())
        with pytest.raises(DataError, match="column"):
            target.score(np.zeros((2, dim + 1)))


@pytest.mark.parametrize("name", PRIORS)
def test_seeds_reproduce(name: str) -> None:
    prior = PRIORS[name]()
    first, again, other = (prior.draw(2, 3, seeded(s)).sample(10, seeded(s)) for s in (5, 5, 6))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


@pytest.mark.parametrize("name", PRIORS)
def test_float32_draws_are_finite_and_close_to_float64(name: str) -> None:
    prior = PRIORS[name]()
    for seed in range(40):
        target = prior.draw(4, 1 + seed % 12, seeded(seed))
        x = target.sample(200, seeded(seed))
        assert x.dtype == torch.float32 and bool(torch.isfinite(x).all())
        single, double = target.estimate(x), target.estimate(x.double())
        assert single.log_density is not None and double.log_density is not None
        torch.testing.assert_close(single.log_density.double(), double.log_density, rtol=1e-3, atol=1e-3)
        error = (single.score - double.score).square().sum() / double.score.square().sum()
        assert float(error) < 1e-6


@pytest.mark.parametrize(("reading", "power"), [("std", 1), ("variance", 2)])
def test_gmm_prior_keeps_its_ranges_in_both_readings(reading: Any, power: int) -> None:
    prior = GMMPrior(reading=reading, covariance="either", weights="either")
    seen: dict[str, set[Any]] = {"k": set(), "rotated": set(), "equal": set()}
    scales = []
    for seed in range(120):
        x, y = prior.pair(8, 2, seeded(seed), F64)
        assert isinstance(x, LocationScaleMixture) and isinstance(y, LocationScaleMixture)
        assert x.means.shape == y.means.shape and not torch.equal(x.means, y.means)
        assert (x.rotation is None) == (y.rotation is None)
        assert float(x.means.abs().max()) <= 3
        torch.testing.assert_close(x.weights.sum(-1), torch.ones(8, dtype=F64))
        scales.append(x.std.flatten() ** power)
        k = x.weights.shape[-1]
        seen["k"].add(k)
        seen["rotated"].add(x.rotation is not None)
        if k > 1:
            seen["equal"] |= set((x.weights.std(-1) < 1e-12).tolist())
    values = torch.cat(scales)
    assert 0.2 <= float(values.min()) < 0.21 and 0.99 < float(values.max()) <= 1
    assert abs(float(values.mean()) - 0.6) < 0.02  # uniform in the quantity that was named
    assert seen == {"k": set(range(1, 11)), "rotated": {True, False}, "equal": {True, False}}


def test_paper_default_is_diagonal_with_equal_weights() -> None:
    for seed in range(10):
        target = GMMPrior().draw(3, 2, seeded(seed), F64)
        assert isinstance(target, LocationScaleMixture) and target.rotation is None
        assert bool((target.weights == 1 / target.weights.shape[-1]).all())


def test_gaussian_prior_is_gaussian_with_log_normal_spectrum() -> None:
    target = GaussianPrior(spread=2.0, scale=3.0, anisotropy=0.4).draw(2_000, 2, seeded(), F64)
    assert isinstance(target, LocationScaleMixture) and target.family == Normal()
    assert target.weights.shape == (2_000, 1) and float(target.means.abs().max()) <= 2
    logs = target.std.log().flatten()
    assert abs(float(logs.mean()) - math.log(3.0)) < 0.05 and abs(float(logs.std()) - 0.4) < 0.03


def test_broad_prior_draws_every_family_and_warp_but_never_a_bent_student_t() -> None:
    families, warped, modes = set(), set(), set()
    prior = BroadPrior(gmm_share=0.0)
    for seed in range(300):
        target = prior.draw(1, 2 + seed % 3, seeded(seed))
        chain = []
        while isinstance(target, Warped):
            chain.append(type(target.warp).__name__)
            target = target.base
        assert isinstance(target, LocationScaleMixture)
        families.add(type(target.family).__name__)
        warped |= set(chain)
        modes.add(target.weights.shape[-1])
        if isinstance(target.family, StudentT):
            assert "Banana" not in chain and 2.5 <= target.family.nu <= 30
        if chain and "Rotated" not in chain:
            assert target.rotation is None
    assert families == {"Normal", "StudentT", "Laplace", "Logistic"}  # Quartic stays a test family
    assert warped == {"Skew", "Banana", "Rotated"}
    assert modes == set(range(1, 17))
    assert BroadPrior(gmm_share=1.0).draw(2, 2, seeded()).sample(3).shape == (2, 3, 2)


def test_broad_prior_mixes_families_within_one_mixture_if_asked() -> None:
    prior = BroadPrior(gmm_share=0.0, mixed=1.0, modes=(4, 8))
    together = set()
    for seed in range(60):
        target, queries = prior.pair(2, 2, seeded(seed), F64)
        assert target.log_density(queries.sample(5, seeded())).shape == (2, 5)
        chain = []
        while isinstance(target, Warped):
            chain.append(type(target.warp).__name__)
            target = target.base
        assert isinstance(target, MixtureDistribution)
        torch.testing.assert_close(target.weights.sum(-1), torch.ones(2, dtype=F64))
        families = []
        for part in target.distributions:
            assert isinstance(part, LocationScaleMixture)
            families.append(type(part.family).__name__)
        assert 4 <= sum(part.weights.shape[-1] for part in target.distributions) <= 8  # type: ignore[attr-defined]
        assert not ("Banana" in chain and "StudentT" in families)
        together.add(len(set(families)))
    assert together >= {2, 3, 4}


def test_a_mixture_of_single_components_is_their_mixture() -> None:
    whole = mixture(2, Laplace(), rotated=True)
    assert whole.rotation is not None
    parts = tuple(
        LocationScaleMixture(
            torch.ones(3, 1, dtype=F64),
            whole.means[:, i : i + 1],
            whole.std[:, i : i + 1],
            whole.rotation[:, i : i + 1],
            whole.family,
        )
        for i in range(4)
    )
    points = whole.sample(30, seeded())
    result, expected = MixtureDistribution(whole.weights, parts).estimate(points), whole.estimate(points)
    torch.testing.assert_close(result.log_density, expected.log_density, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(result.score, expected.score, rtol=1e-12, atol=1e-12)


def test_affine_prior_scales_over_orders_of_magnitude_and_pairs_share_the_map() -> None:
    prior = AffinePrior(base=GMMPrior(modes=(2, 2)), location=(0.01, 100.0), scale=(1e-3, 1e3))
    x, y = prior.pair(2_000, 1, seeded(), F64)
    assert isinstance(x, Warped) and isinstance(y, Warped) and x.warp is y.warp
    assert isinstance(x.warp, Affine)
    magnitude = x.warp.shift.abs().log10()
    assert abs(float((x.warp.shift > 0).double().mean()) - 0.5) < 0.05
    assert stats.kstest(magnitude.flatten().numpy(), stats.uniform(-2, 4).cdf).pvalue > 1e-3
    assert stats.kstest(x.warp.scale.log10().flatten().numpy(), stats.uniform(-3, 6).cdf).pvalue > 1e-3
    assert not torch.equal(x.base.sample(1, seeded()), y.base.sample(1, seeded()))


@pytest.mark.parametrize("name", PRIORS)
def test_description_and_config_are_inverse(name: str) -> None:
    prior = PRIORS[name]()
    assert prior_from_config(prior.describe()) == prior
    assert prior.describe()["name"] == name


def test_config_lists_become_ranges_and_nested_priors() -> None:
    config = {"name": "affine", "base": {"name": "gmm", "modes": [2, 3]}, "scale": [0.5, 2.0]}
    assert prior_from_config(config) == AffinePrior(GMMPrior(modes=(2, 3)), scale=(0.5, 2.0))


def test_random_rotations_are_orthogonal_and_uniform() -> None:
    q = random_rotations((20_000,), 3, seeded(), F64)
    torch.testing.assert_close(q @ q.mT, torch.eye(3, dtype=F64).expand_as(q))
    trace = q.diagonal(dim1=-2, dim2=-1).sum(-1)
    # Under Haar measure E tr Q = 0 and E (tr Q)^2 = 1; plain QR without the sign fix has E tr Q < 0.
    assert abs(float(trace.mean())) < 0.03 and abs(float(trace.square().mean()) - 1) < 0.05


def test_queries_whose_answer_overflows_are_refused() -> None:
    far = np.array([[0.0, 0.0], [1e149, 0.0]])
    narrow = 1e-20 * torch.ones(2, dtype=F64)
    zero = torch.zeros(2, dtype=F64)
    for base in (gaussian(zero, torch.eye(2, dtype=F64)), mixture(2, Quartic(), rotated=True)):
        target = Warped(base, Affine(narrow, zero))
        assert np.isfinite(target.estimate(far[:1]).score).all()
        with pytest.raises(DataError, match="no finite answer"):
            target.estimate(far)
        with pytest.raises(DataError, match="no finite answer"):
            target.score(torch.from_numpy(far))
    heavy = Warped(mixture(2, StudentT(3.0), rotated=True), Affine(narrow, zero))
    log_density, score = heavy.estimate(far)
    # The tail of a bivariate t with nu = 3 is of degree -5, so x . score = -5 (Euler).
    np.testing.assert_allclose(score[:, 1, 0], -5 / 1e149, rtol=1e-9)
    assert np.isfinite(log_density).all()


ones = torch.ones(2, 1)
nan = math.nan


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: LocationScaleMixture(torch.ones(2), ones, 0 * ones), "std .* positive"),
        (lambda: LocationScaleMixture(torch.zeros(2), ones, ones), "weights"),
        (lambda: LocationScaleMixture(torch.ones(3), ones, ones), "weights has shape"),
        (lambda: gaussian(torch.zeros(2), torch.ones(2, 2)), "positive definite"),
        (lambda: gaussian(torch.zeros(2), torch.tensor([[1.0, 0.5], [0.0, 1.0]])), "symmetric"),
        (lambda: StudentT(0.0), "degrees of freedom"),
        (lambda: MixtureDistribution(torch.ones(0), ()), "at least one"),
        (lambda: MixtureDistribution(torch.ones(2), (spiral(),)), "one column for each of the 1"),
        (lambda: MixtureDistribution(torch.ones(3, 1), (spiral(),)), "does not fit"),
        (lambda: MixtureDistribution(torch.zeros(1), (spiral(),)), "zero"),
        (lambda: Banana(torch.tensor(1.0), torch.tensor(1.0), 1, 1), "different"),
        (lambda: Banana(ones[0, 0], ones[0, 0], 0, 3).forward(torch.zeros(1, 2)), "column"),
        (lambda: Ring(torch.tensor(1.0), torch.tensor(0.0)), "positive"),
        (lambda: GMMPrior(modes=(3, 2)), "modes"),
        (lambda: GMMPrior(scale=(0.0, 1.0)), "scale"),
        (lambda: GMMPrior(reading="sd"), "not one of std, variance"),  # type: ignore[arg-type]
        (lambda: BroadPrior(skew=1.5), "probability"),
        (lambda: BroadPrior(mixed=nan), "mixed = nan must be a probability"),
        (lambda: BroadPrior(laplace=nan), "laplace = nan"),
        (lambda: BroadPrior(normal=0, student_t=0, laplace=0, logistic=0), "not all be zero"),
        (lambda: BroadPrior(gmm=GaussianPrior()), "not a GMM prior"),  # type: ignore[arg-type]
        (lambda: GMMPrior(spread=nan), "spread = nan"),
        (lambda: GaussianPrior(spread=math.inf), "spread = inf"),
        (lambda: prior_from_config({"name": "gmm", "modes": 3}), "modes = 3 must be two counts"),
        (lambda: prior_from_config({"name": "gmm", "modes": [1.5, 3.2]}), "two counts"),
        (lambda: prior_from_config({"name": "gmm", "scale": 1.0}), "two positive numbers"),
        (lambda: prior_from_config({"name": "broad", "spread": "wide"}), "spread = 'wide'"),
        (lambda: prior_from_config({"name": "affine", "base": "gmm"}), "base = 'gmm' is not a prior"),
        (lambda: prior_from_config({"name": "gnm"}), "not one of gmm"),
        (lambda: prior_from_config({"name": "gmm", "mode": [1, 2]}), "no field 'mode'"),
    ],
)
def test_bad_parameters_say_what_is_wrong(build: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        build()
