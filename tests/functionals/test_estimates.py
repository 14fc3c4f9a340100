"""Functionals: closed forms with exact fields, bias and standard errors of fitted ones, the command line."""

import math

import numpy as np
import pytest
import torch
from helpers import normal
from torch import Tensor

from discoformer.baselines.kde import KDE
from discoformer.baselines.score_matching import ScoreMatching
from discoformer.baselines.sdkde import AutogradScore
from discoformer.core.checks import DataError
from discoformer.core.fields import Estimate, Field, Method, PointDensity
from discoformer.functionals import (
    entropy,
    fisher_information,
    jensen_shannon,
    kl_divergence,
    mutual_information,
    relative_fisher_information,
)
from discoformer.priors import LocationScaleMixture, gaussian

SPLITS = ["none", "folds", "balanced"]


class MaximumLikelihood(Method):
    """The Gaussian with the mean and covariance of the sample."""

    def _fit(self, context: Tensor, weights: Tensor | None) -> Field:
        mean = context.mean(-2)
        centered = context - mean.unsqueeze(-2)
        return gaussian(mean, centered.mT @ centered / context.shape[-2])


class Remembers(Method):
    """Log density 1 at points it was fitted to, 0 elsewhere; the score at a point is the point."""

    def _fit(self, context: Tensor, weights: Tensor | None) -> Field:
        return RemembersField(context)


class RemembersField(PointDensity):
    def __init__(self, context: Tensor) -> None:
        self.context = context

    @property
    def dim(self) -> int:
        return self.context.shape[-1]

    def _estimate(self, queries: Tensor) -> Estimate[Tensor]:
        seen = (queries.unsqueeze(-2) == self.context.unsqueeze(-3)).all(-1).any(-1)
        return Estimate(seen.to(queries.dtype), queries)


def covariance(dim: int, seed: int = 0) -> Tensor:
    root = normal(dim, dim, seed=seed)
    return root @ root.mT / dim + 0.5 * torch.eye(dim, dtype=torch.float64)


def standardized(n: int, dim: int) -> Tensor:
    """A sample whose second moments are exactly the identity."""
    x = normal(n, dim)
    x = x - x.mean(0)
    return x @ torch.linalg.inv(torch.linalg.cholesky(x.mT @ x / n)).mT


def within(result: tuple[object, object], truth: float, errors: float = 4) -> bool:
    value, error = (float(v) for v in result)  # type: ignore[arg-type]
    return abs(value - truth) < errors * error


def test_entropy_of_exact_gaussians() -> None:
    cov = covariance(3)
    exact = gaussian(torch.ones(3, dtype=torch.float64), cov)
    x = exact.sample(4000, torch.Generator().manual_seed(1))
    truth = 0.5 * float(torch.logdet(2 * math.pi * math.e * cov))
    assert within(entropy(x, exact), truth)
    torch.testing.assert_close(entropy(x, exact).value, -exact.log_density(x).mean())


@pytest.mark.parametrize("form", ["one-step", "square"])
def test_fisher_information_of_exact_gaussians(form: str) -> None:
    cov = covariance(3)
    exact = gaussian(torch.zeros(3, dtype=torch.float64), cov)
    x = exact.sample(4000, torch.Generator().manual_seed(1))
    assert within(fisher_information(x, exact, form=form), float(torch.linalg.inv(cov).trace()))


def test_one_step_fisher_information_is_wrong_in_second_order_only() -> None:
    dim, wrong = 3, 0.1
    x = standardized(2500, dim)  # more than one block of points
    field = gaussian(torch.zeros(dim, dtype=torch.float64), torch.eye(dim, dtype=torch.float64) / (1 + wrong))
    one_step = fisher_information(x, field).value
    square = fisher_information(x, field, form="square").value
    assert one_step.item() == pytest.approx(dim * (1 - wrong**2), rel=1e-12)
    assert square.item() == pytest.approx(dim * (1 + wrong) ** 2, rel=1e-12)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("bandwidth", ["scott", "scott-full", 0.3])
def test_divergence_of_a_kernel_estimate_is_what_autograd_says(
    bandwidth: str | float, weighted: bool
) -> None:
    x = normal(2, 40, 3) @ normal(3, 3, seed=1) + 5
    weights = normal(2, 40, seed=2).exp() if weighted else None
    field, plain = (method.fit(x, weights) for method in (KDE(bandwidth), AutogradScore(KDE(bandwidth))))
    y = (1.3 * x).requires_grad_()
    score = field.score(y)
    slopes = (torch.autograd.grad(score[..., k].sum(), y, retain_graph=True)[0][..., k] for k in range(3))
    torch.testing.assert_close(field.score_divergence(y.detach()), sum(slopes), rtol=1e-8, atol=1e-8)
    torch.testing.assert_close(fisher_information(x, field), fisher_information(x, plain))


def test_divergences_of_exact_gaussians() -> None:
    a, b = covariance(2), covariance(2, seed=5)
    shift = torch.tensor([0.5, -0.3], dtype=torch.float64)
    f, g = gaussian(torch.zeros(2, dtype=torch.float64), a), gaussian(shift, b)
    x, y = (h.sample(4000, torch.Generator().manual_seed(s)) for s, h in enumerate((f, g)))
    inverse = torch.linalg.inv(b)
    kl = 0.5 * float((inverse @ a).trace() - 2 + shift @ inverse @ shift + torch.logdet(b) - torch.logdet(a))
    assert within(kl_divergence(x, y, f, g), kl)
    gap = inverse - torch.linalg.inv(a)
    rfi = float((gap @ a @ gap).trace() + (inverse @ shift).square().sum())
    assert within(relative_fisher_information(x, y, f, g), rfi)


def test_jensen_shannon_by_quadrature_and_symmetry() -> None:
    f = gaussian(torch.zeros(1).double(), torch.eye(1).double())
    g = LocationScaleMixture(
        torch.ones(2).double(), torch.tensor([[-1.0], [2.0]]).double(), torch.ones(2, 1).double()
    )
    grid = torch.linspace(-12, 12, 20001, dtype=torch.float64).unsqueeze(-1)
    log_f, log_g = f.log_density(grid), g.log_density(grid)
    log_m = torch.logaddexp(log_f, log_g) - math.log(2)
    truth = torch.trapezoid(log_f.exp() * (log_f - log_m) + log_g.exp() * (log_g - log_m), grid[:, 0]) / 2
    x, y = (h.sample(4000, torch.Generator().manual_seed(s)) for s, h in enumerate((f, g)))
    assert within(jensen_shannon(x, y, f, g), float(truth))
    one, other = jensen_shannon(x, y, KDE()), jensen_shannon(y, x, KDE())
    torch.testing.assert_close(torch.stack(one), torch.stack(other))


def test_mutual_information_of_exact_gaussians() -> None:
    rho = 0.8
    cov = torch.tensor([[1, rho], [rho, 1]], dtype=torch.float64)
    joint, part = gaussian(torch.zeros(2).double(), cov), gaussian(torch.zeros(1).double(), cov[:1, :1])
    x = joint.sample(4000, torch.Generator().manual_seed(0))
    truth = -0.5 * math.log(1 - rho**2)
    assert within(mutual_information(x[:, :1], x[:, 1:], joint, (part, part)), truth)
    assert within(mutual_information(x[:, :1], x[:, 1:], MaximumLikelihood()), truth)


@pytest.mark.parametrize("rows, folds", [(20, 2), (23, 5), (23, 23)])
def test_held_out_points_have_not_been_seen(rows: int, folds: int) -> None:
    x = normal(rows, 2)
    answers = {s: -entropy(x, Remembers(), split=s, folds=folds).value.item() for s in SPLITS}
    assert answers == {"none": 1.0, "folds": 0.0, "balanced": 0.5}


@pytest.mark.parametrize("split", SPLITS)
def test_answers_come_back_in_the_order_of_the_rows(split: str) -> None:
    x = normal(3, 23, 2)  # the scores are the points, so their difference to the points vanishes
    result = relative_fisher_information(x, x, Remembers(), RemembersField(x), split=split)
    torch.testing.assert_close(result.value, torch.zeros(3).double(), atol=0, rtol=0)


def test_leave_one_out_is_cross_fitting_with_as_many_folds_as_rows() -> None:
    x, y, method = normal(30, 2), normal(20, 2, seed=1), KDE(0.7)  # a rule would change with every fold
    torch.testing.assert_close(entropy(x, method, split="loo"), entropy(x, method, split="folds", folds=30))
    torch.testing.assert_close(
        kl_divergence(x, y, method, split="loo"), kl_divergence(x, y, method, split="folds", folds=30)
    )


def test_balanced_cancels_the_bias_of_maximum_likelihood() -> None:
    n, dim = 100, 4
    x = normal(2000, n, dim)
    truth = 0.5 * dim * math.log(2 * math.pi * math.e)
    bias = {s: float((entropy(x, MaximumLikelihood(), split=s).value - truth).mean()) for s in SPLITS}
    parameters = dim + dim * (dim + 1) / 2
    assert bias["none"] == pytest.approx(-parameters / (2 * n), rel=0.15)
    assert bias["folds"] > 0
    assert abs(bias["balanced"]) < 0.3 * min(-bias["none"], bias["folds"])


@pytest.mark.parametrize("shift", [0.0, 1.0])
def test_standard_errors_are_the_spread_over_samples(shift: float) -> None:
    x, y = normal(800, 300, 1), normal(800, 200, 1, seed=1) + shift
    method = MaximumLikelihood()
    pairs = {
        "entropy": entropy(x, method),
        "fisher": fisher_information(x, method, split="none"),
        "mutual information": mutual_information(x, 0.5 * x + y[:, :1] + normal(800, 300, 1, seed=2), method),
    }
    if shift:  # the first order of a divergence vanishes between equal densities
        pairs |= {"kl": kl_divergence(x, y, method), "js": jensen_shannon(x, y, method)}
    for name, (value, error) in pairs.items():
        assert float(error.mean() / value.std()) == pytest.approx(1, rel=0.15), name


@pytest.mark.parametrize("split", SPLITS)
def test_standard_error_of_relative_fisher_information_counts_both_samples(split: str) -> None:
    x, y = normal(800, 300, 1), normal(800, 200, 1, seed=1) + 0.5
    value, error = relative_fisher_information(x, y, MaximumLikelihood(), split=split)
    # The influence function knows no family: in one as small as this the value varies a little less.
    assert 0.95 < float(error.mean() / value.std()) < 1.25


def test_a_sample_that_nothing_is_fitted_to_adds_no_error() -> None:
    f, g = (gaussian(torch.full((1,), c).double(), torch.eye(1).double()) for c in (0.0, 1.0))
    x, y = normal(100, 1), normal(100, 1, seed=1)
    for call in (kl_divergence, relative_fisher_information):
        for source in (f, MaximumLikelihood()):
            torch.testing.assert_close(call(x, y, source, g), call(x, y[:10], source, g))
    log_ratio = f.log_density(x) - g.log_density(x)
    torch.testing.assert_close(kl_divergence(x, y, f, g).standard_error, log_ratio.std() / 10)
    square = (f.score(x) - g.score(x)).square().sum(-1)
    error = relative_fisher_information(x, y, f, g).standard_error
    torch.testing.assert_close(error, square.std() / 10, atol=1e-12, rtol=0)


FUNCTIONALS = {
    "entropy": lambda x, y: entropy(x, KDE()),
    "fisher": lambda x, y: fisher_information(x, KDE()),
    "kl": lambda x, y: kl_divergence(x, y, KDE()),
    "rfi": lambda x, y: relative_fisher_information(x, y, KDE()),
    "js": lambda x, y: jensen_shannon(x, y, KDE()),
    "mi": lambda x, y: mutual_information(x, y, KDE()),
}


@pytest.mark.parametrize("name", FUNCTIONALS)
def test_batches_kinds_of_numbers_and_repeats(name: str) -> None:
    call = FUNCTIONALS[name]
    x, y = normal(2, 40, 2), normal(2, 40, 2, seed=1)
    batch = torch.stack(call(x, y))
    torch.testing.assert_close(batch, torch.stack([torch.stack(call(x[b], y[b])) for b in range(2)], -1))
    assert all(isinstance(v, float) for v in call(x[0].numpy(), y[0].numpy()))
    np.testing.assert_allclose(call(x.numpy(), y.numpy()), batch.numpy(), rtol=1e-12)
    torch.testing.assert_close(torch.stack(call(x, y)), batch, atol=0, rtol=0)


@pytest.mark.parametrize("name", FUNCTIONALS)
def test_affine_laws(name: str) -> None:
    """What happens to the value when all data are multiplied by 3 and shifted, exactly for Scott's rule."""
    x, y = normal(50, 2), normal(50, 2, seed=1)
    before, after = (FUNCTIONALS[name](*pair).value for pair in ((x, y), (3 * x + 1, 3 * y + 1)))
    if name == "entropy":
        before = before + 2 * math.log(3)
    torch.testing.assert_close(after, before / 9 if name in ("fisher", "rfi") else before)


@pytest.mark.parametrize("name", ["entropy", "fisher", "rfi"])
def test_values_are_differentiable_in_the_sample(name: str) -> None:
    method = KDE(0.8)
    y = normal(5, 1, seed=1)
    call = {
        "entropy": lambda x: entropy(x, method).value,
        "fisher": lambda x: fisher_information(x, method, split="none").value,
        "rfi": lambda x: relative_fisher_information(x, y, method).value,
    }[name]
    assert torch.autograd.gradcheck(call, normal(6, 1).requires_grad_())


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda x: entropy(x, KDE(), split="half"), "split='half' is unknown"),  # type: ignore[arg-type]
        (lambda x: fisher_information(x, KDE(), form="cube"), "form='cube' is unknown"),  # type: ignore[arg-type]
        (lambda x: fisher_information(x, KDE(), split="loo"), "not there for the score"),
        (lambda x: entropy(x, MaximumLikelihood(), split="loo"), "use split='folds'"),
        (lambda x: entropy(x, KDE(), folds=1), "do not make 1 folds"),
        (lambda x: entropy(x[:4], KDE()), "4 row.* do not make 5 folds"),
        (lambda x: kl_divergence(x, x[:, :1], KDE()), "give the same columns of both"),
        (lambda x: kl_divergence(x, x, KDE().fit(x)), "a field for each, or a method"),
        (lambda x: mutual_information(x, x[:5], KDE()), "as many rows"),
        (lambda x: entropy(x * math.nan, KDE()), "NaN or infinite"),
    ],
)
def test_errors_say_what_to_do(call: object, message: str) -> None:
    with pytest.raises(DataError, match=message):
        call(normal(20, 2))  # type: ignore[operator]


def test_a_field_without_density_has_fisher_information_but_no_entropy() -> None:
    x, method = normal(50, 1), ScoreMatching(steps=2, hidden=(4,))
    assert torch.isfinite(fisher_information(x, method).value)
    assert torch.isfinite(torch.stack(relative_fisher_information(x, x + 1, method))).all()
    with pytest.raises(DataError, match="score only"):
        entropy(x, method)
