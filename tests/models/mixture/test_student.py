"""A Student-t mixture is the law that scipy has, component by component; draws in chunks do not change."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from helpers import F64, normal, random_covariance
from scipy import optimize, stats
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from discoformer.core.checks import DataError
from discoformer.models.mixture import student
from discoformer.models.mixture.student import StudentMixture


class Largest(TorchDispatchMode):
    """Remembers the size of the largest tensor that was made."""

    numel = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        if isinstance(made, Tensor):
            self.numel = max(self.numel, made.numel())
        return made


def test_draws_come_in_chunks_that_do_not_change_them(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = torch.Generator().manual_seed(0)
    draw = torch.randn(2, 3, 20, 20, dtype=torch.float64, generator=generator)
    mixture = StudentMixture(
        torch.full((2, 3), 1 / 3, dtype=torch.float64).log(),
        draw[..., 0],
        draw @ draw.mT + torch.eye(20, dtype=torch.float64),
        torch.full((2, 3), 5.0, dtype=torch.float64),
    )
    whole = mixture.sample(1000, torch.Generator().manual_seed(1))
    monkeypatch.setattr(student, "_BUDGET", 8 * 2 * 20**2 * 7)  # seven draws of each batch at once
    with Largest() as seen:
        chunked = mixture.sample(1000, torch.Generator().manual_seed(1))
    assert torch.equal(chunked, whole)
    assert seen.numel <= whole.numel()


# -- against scipy ----------------------------------------------------------------------------

SHARES = np.array([1e-9, 1e-3, 0.25, 0.5, 0.9, 1 - 1e-6])


def random_mixture(count: int, dim: int, seed: int = 0) -> StudentMixture:
    scale = torch.stack([random_covariance(dim, seed=seed + m) for m in range(count)])
    weights = normal(count, seed=seed).log_softmax(-1)
    return StudentMixture(
        weights, 3 * normal(count, dim, seed=seed + 9), scale, 2.5 + normal(count, seed=1).exp()
    )


def components(mixture: StudentMixture) -> list[tuple[float, Any]]:
    """Weight and scipy's law of every component of one column."""
    weights, nu = mixture.log_weight.exp().tolist(), mixture.nu.tolist()
    place, scale = mixture.mean[:, 0].tolist(), mixture.scale[:, 0, 0].sqrt().tolist()
    return [(w, stats.t(*law)) for w, *law in zip(weights, nu, place, scale, strict=True)]


@pytest.mark.parametrize("dim", [1, 3])
def test_density_is_that_of_scipys_components(dim: int) -> None:
    mixture, y = random_mixture(4, dim), normal(20, dim, seed=5) * 4
    laws = zip(mixture.mean, mixture.scale, mixture.nu, strict=True)
    parts = [stats.multivariate_t(m.numpy(), s.numpy(), float(nu)).logpdf(y.numpy()) for m, s, nu in laws]
    expected = np.logaddexp.reduce(np.array(parts).reshape(4, -1).T + mixture.log_weight.numpy(), -1)
    np.testing.assert_allclose(mixture.log_density(y), expected, rtol=1e-9)


def test_distribution_function_is_that_of_scipys_components() -> None:
    mixture, y = random_mixture(4, 1), np.linspace(-60, 60, 41)[:, None]
    expected = sum(w * law.cdf(y[:, 0]) for w, law in components(mixture))
    np.testing.assert_allclose(mixture.cdf(y), expected, rtol=1e-10)
    np.testing.assert_allclose(mixture.cdf(torch.from_numpy(y)), expected, rtol=1e-10)


def test_quantiles_of_one_component_are_scipys() -> None:
    for nu in (2.1, 5.0, 1e8):
        one = StudentMixture(
            torch.zeros(1, dtype=F64),
            torch.full((1, 1), 3.0, dtype=F64),
            torch.full((1, 1, 1), 4.0, dtype=F64),
            torch.full((1,), nu, dtype=F64),
        )
        expected = stats.t(nu, 3, 2).ppf(SHARES)
        np.testing.assert_allclose(one.quantile(SHARES).flatten(), expected, rtol=1e-7)


def test_quantiles_of_a_mixture_are_where_scipys_distribution_function_is_the_share() -> None:
    mixture = random_mixture(5, 1)
    laws = components(mixture)
    for share, found in zip(SHARES, mixture.quantile(SHARES).flatten().tolist(), strict=True):
        expected = optimize.brentq(
            lambda x, share=share: sum(w * law.cdf(x) for w, law in laws) - share, -1e9, 1e9, xtol=1e-12
        )
        assert found == pytest.approx(expected, rel=1e-7)
    torch.testing.assert_close(
        mixture.cdf(mixture.quantile(SHARES)), torch.from_numpy(SHARES), rtol=1e-8, atol=0
    )


def test_quantiles_of_a_batch_are_those_of_each() -> None:
    mixtures = [random_mixture(3, 1, seed) for seed in (0, 20)]
    both = StudentMixture(*map(torch.stack, zip(*map(parts, mixtures), strict=True)))
    found = both.quantile(np.stack([SHARES, SHARES]))
    assert found.shape == (2, len(SHARES), 1)
    for one, own in zip(mixtures, found, strict=True):
        torch.testing.assert_close(own, one.quantile(SHARES), rtol=1e-9, atol=1e-9)


def parts(mixture: StudentMixture) -> tuple[Tensor, ...]:
    return mixture.log_weight, mixture.mean, mixture.scale, mixture.nu


def test_far_apart_components_keep_their_digits() -> None:
    mixture = random_mixture(2, 1)
    apart = replace(mixture, mean=torch.tensor([[-1e9], [1e9]], dtype=F64))
    (middle,) = apart.quantile(apart.log_weight[:1].exp()).flatten().tolist()
    assert abs(middle) < 1e9  # in the gap, where the distribution function is flat
    low, high = apart.quantile(
        [0.5 * float(w) for w in (apart.log_weight[0].exp(), 2 - apart.log_weight[1].exp())]
    )
    torch.testing.assert_close(torch.cat([low, high]), apart.mean.flatten(), rtol=1e-12, atol=0)


def test_what_is_no_question_is_refused() -> None:
    one, two = random_mixture(3, 1), random_mixture(3, 2)
    for ask in (lambda: two.cdf(np.zeros((3, 2))), lambda: two.quantile([0.5])):
        with pytest.raises(DataError, match="needs one column, not 2"):
            ask()
    with pytest.raises(DataError, match="above 0 and below 1"):
        one.quantile([0.5, 1.0])
    with pytest.raises(DataError, match="NaN"):
        one.cdf([[math.nan]])
    assert str(two) == "mixture of 3 Student-t component(s) in 2 column(s)"
