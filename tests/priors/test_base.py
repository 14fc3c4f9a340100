"""Laws of the priors: the score is the gradient, densities integrate to one, samples follow them."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from helpers import F64, FAMILIES, choose, family_mixture, random_warps, seeded
from scipy import stats

from discoformer.core.checks import DataError
from discoformer.core.fields import Field
from discoformer.priors import (
    PRIORS,
    Affine,
    Banana,
    BroadPrior,
    Distribution,
    GaussianPrior,
    GMMPrior,
    LocationScaleMixture,
    MixtureDistribution,
    Normal,
    Quartic,
    Ring,
    StudentT,
    Warped,
    gaussian,
    prior_from_config,
    spiral,
)


def distributions(dim: int) -> dict[str, Distribution]:
    """Batches of three: every family, aligned and rotated, every warp, a mixture of such; plane curves."""
    found: dict[str, Distribution] = {}
    for name, family in FAMILIES.items():
        found[name] = family_mixture(dim, family, rotated=False)
        found[f"{name}-rotated"] = family_mixture(dim, family, rotated=True)
    for name, warp in random_warps(dim).items():
        found[f"{name}-warp"] = Warped(family_mixture(dim, Normal(), rotated=False), warp)
    found["mixed"] = MixtureDistribution(
        torch.tensor([[0.2, 0.3, 0.5], [1.0, 2.0, 3.0], [0.0, 0.5, 0.5]], dtype=F64),
        (found["normal-rotated"], found["student_t"], found["skew-warp"]),
    )
    if dim == 2:
        found["bent-skewed-t"] = Warped(
            Warped(found["student_t"], random_warps(2)["skew"]), random_warps(2)["banana"]
        )
        found["ring"] = Ring(
            torch.tensor([1.0, 2.0, 1.5], dtype=F64), torch.tensor([0.2, 0.3, 0.25], dtype=F64)
        )
        found["spiral"] = spiral(turns=1.0, radius=2.0, width=0.3, modes=40)
    return found


CASES = [pytest.param(dim, name, id=f"{name}-d{dim}") for dim in (1, 2) for name in distributions(dim)]


@pytest.mark.parametrize(("dim", "name"), [*CASES, *((5, name) for name in distributions(5))])
def test_score_is_the_gradient_of_the_log_density(dim: int, name: str) -> None:
    target = distributions(dim)[name]
    points = target.sample(20, seeded(1)).requires_grad_()
    log_density, score = target.estimate(points)
    assert log_density.shape == (*target.batch_shape, 20)
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


@pytest.mark.parametrize(("dim", "name"), [case for case in CASES if "spiral" not in case.values])
def test_a_batch_is_a_loop(dim: int, name: str) -> None:
    target = distributions(dim)[name]
    shared = torch.randn(6, dim, generator=seeded(), dtype=F64)
    own = target.sample(6, seeded())
    for queries in (shared, own):
        whole = target.estimate(queries)
        for member in range(3):
            part = choose(target, member).estimate(queries if queries.ndim == 2 else queries[member])
            torch.testing.assert_close(whole.log_density[member], part.log_density)
            torch.testing.assert_close(whole.score[member], part.score)


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
        torch.testing.assert_close(single.log_density.double(), double.log_density, rtol=1e-3, atol=1e-3)
        error = (single.score - double.score).square().sum() / double.score.square().sum()
        assert float(error) < 1e-6


def test_queries_whose_answer_overflows_are_refused() -> None:
    far = np.array([[0.0, 0.0], [1e149, 0.0]])
    narrow = 1e-20 * torch.ones(2, dtype=F64)
    zero = torch.zeros(2, dtype=F64)
    for base in (gaussian(zero, torch.eye(2, dtype=F64)), family_mixture(2, Quartic(), rotated=True)):
        target = Warped(base, Affine(narrow, zero))
        assert np.isfinite(target.estimate(far[:1]).score).all()
        with pytest.raises(DataError, match="no finite answer"):
            target.estimate(far)
        with pytest.raises(DataError, match="no finite answer"):
            target.score(torch.from_numpy(far))
    heavy = Warped(family_mixture(2, StudentT(3.0), rotated=True), Affine(narrow, zero))
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
