"""Entropy and information: closed forms with exact fields, affine laws, derivatives, refusals."""

import math

import numpy as np
import pytest
import torch
from helpers import FUNCTIONALS, MaximumLikelihood, normal, random_covariance, within
from torch import Tensor

from discoformer import DiScoFormer
from discoformer.baselines.kde import KDE
from discoformer.baselines.score_matching import ScoreMatching
from discoformer.baselines.sdkde import AutogradScore
from discoformer.core.checks import DataError
from discoformer.functionals import (
    conditional_mutual_information,
    entropy,
    fisher_information,
    jensen_shannon,
    kl_divergence,
    mutual_information,
    relative_fisher_information,
    total_correlation,
)
from discoformer.models.registry import load_model
from discoformer.priors import gaussian


def standardized(n: int, dim: int) -> Tensor:
    """A sample whose second moments are exactly the identity."""
    x = normal(n, dim)
    x = x - x.mean(0)
    return x @ torch.linalg.inv(torch.linalg.cholesky(x.mT @ x / n)).mT


def test_entropy_of_exact_gaussians() -> None:
    cov = random_covariance(3)
    exact = gaussian(torch.ones(3, dtype=torch.float64), cov)
    x = exact.sample(4000, torch.Generator().manual_seed(1))
    truth = 0.5 * float(torch.logdet(2 * math.pi * math.e * cov))
    assert within(entropy(x, exact), truth)
    torch.testing.assert_close(entropy(x, exact).value, -exact.log_density(x).mean())


@pytest.mark.parametrize("form", ["one-step", "square"])
def test_fisher_information_of_exact_gaussians(form: str) -> None:
    cov = random_covariance(3)
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


def test_mutual_information_of_exact_gaussians() -> None:
    rho = 0.8
    cov = torch.tensor([[1, rho], [rho, 1]], dtype=torch.float64)
    joint, part = gaussian(torch.zeros(2).double(), cov), gaussian(torch.zeros(1).double(), cov[:1, :1])
    x = joint.sample(4000, torch.Generator().manual_seed(0))
    truth = -0.5 * math.log(1 - rho**2)
    assert within(mutual_information(x[:, :1], x[:, 1:], joint, (part, part)), truth)
    assert within(mutual_information(x[:, :1], x[:, 1:], MaximumLikelihood()), truth)


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
        (lambda x: fisher_information(x, KDE(), split="loo"), "does not work for the score"),
        (lambda x: entropy(x, MaximumLikelihood(), split="loo"), "use split='folds'"),
        (lambda x: entropy(x, KDE(), split="folds", folds=1), "do not make 1 folds"),
        (lambda x: entropy(x[:4], KDE(), split="folds"), "4 row.* do not make 5 folds"),
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


def test_information_of_three_parts_by_the_entropies_of_a_gaussian() -> None:
    generator = torch.Generator().manual_seed(0)
    covariance = torch.tensor([[2.0, 0.8, 0.5], [0.8, 1.0, 0.3], [0.5, 0.3, 1.5]], dtype=torch.float64)
    x = gaussian(torch.zeros(3).double(), covariance).sample(3000, generator)

    def log_det(*columns: int) -> float:
        return 0.5 * float(torch.logdet(covariance[list(columns)][:, list(columns)]))

    method = MaximumLikelihood()
    conditional = conditional_mutual_information(x[:, :1], x[:, 1:2], x[:, 2:], method)
    exact = log_det(0, 2) + log_det(1, 2) - log_det(2) - log_det(0, 1, 2)
    assert abs(float(conditional.value) - exact) < 4 * float(conditional.standard_error)
    total = total_correlation(x, method)
    exact = log_det(0) + log_det(1) + log_det(2) - log_det(0, 1, 2)
    assert abs(float(total.value) - exact) < 4 * float(total.standard_error)
    with pytest.raises(DataError, match="one field cannot stand"):
        total_correlation(x, gaussian(torch.zeros(3).double(), covariance))  # type: ignore[arg-type]


def test_margins_of_the_joint_density_are_those_of_a_gaussian() -> None:
    x = normal(800, 2) @ torch.tensor([[1.0, 0.7], [0.0, 0.5]], dtype=torch.float64)
    method = load_model("default").network
    joint = mutual_information(x[:, :1], x[:, 1:], method, "joint", split="none")
    own = mutual_information(x[:, :1], x[:, 1:], method, split="none")
    assert abs(float(joint.value - own.value)) < 0.05
    with pytest.raises(DataError, match="answers at points only"):
        mutual_information(x[:, :1], x[:, 1:], ScoreMatching(), "joint")


@pytest.mark.parametrize(
    "ask",
    [
        entropy,
        fisher_information,
        total_correlation,
        lambda x, source: mutual_information(x[:, :1], x[:, 1:], source),
        lambda x, source: conditional_mutual_information(x[:, :1], x[:, 1:2], x[:, 2:], source),
        lambda x, source: kl_divergence(x, x + 1, source),
        lambda x, source: relative_fisher_information(x, x + 1, source),
        lambda x, source: jensen_shannon(x, x + 1, source),
    ],
)
def test_sources_are_methods_their_names_or_fitted_estimators(ask: object) -> None:
    x = normal(60, 3)
    torch.testing.assert_close(ask(x, "kde-scott").value, ask(x, KDE()).value)  # type: ignore[operator]
    with pytest.raises(DataError, match="no model 'nothing'"):
        ask(x, "nothing")  # type: ignore[operator]
    with pytest.raises(DataError, match="fit a DiScoFormer first"):
        ask(x, DiScoFormer())  # type: ignore[operator]


def test_fitted_estimators_answer_as_their_fields() -> None:
    x, y = normal(60, 2), normal(50, 2, seed=1) + 1
    f, g = (DiScoFormer(model="kde-scott").fit(sample) for sample in (x, y))
    assert entropy(x, f) == entropy(x, f.field_)
    assert kl_divergence(x, y, f, g) == kl_divergence(x, y, f.field_, g.field_)
    margins = (f.marginal([0]), f.marginal([1]))
    exact = mutual_information(x[:, :1], x[:, 1:], f.field_, (margins[0].field_, margins[1].field_))
    assert mutual_information(x[:, :1], x[:, 1:], f, margins) == exact
    with pytest.raises(DataError, match="give a pair"):
        mutual_information(x[:, :1], x[:, 1:], f, "own")  # type: ignore[arg-type]
    with pytest.raises(DataError, match="give a pair"):
        mutual_information(x[:, :1], x[:, 1:], f, margins[:1])  # type: ignore[arg-type]
