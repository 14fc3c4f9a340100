"""A mixture of densities obeys what its parts obey."""

from dataclasses import replace

import pytest
import torch

from discoformer.baselines.kde import KDE
from discoformer.core.blend import Blend
from discoformer.core.fields import Density, as_density
from discoformer.models.mixture.student import StudentMixture

F64 = torch.float64


@pytest.fixture
def blend() -> Blend:
    generator = torch.Generator().manual_seed(0)
    parts = [
        as_density(KDE().fit(torch.randn(40, 2, generator=generator, dtype=F64) + c)) for c in (0.0, 2.0)
    ]
    return Blend(tuple(parts), torch.tensor([0.3, 0.7], dtype=F64).log())


def test_score_is_the_gradient(blend: Blend) -> None:
    x = torch.randn(20, 2, dtype=F64).requires_grad_()
    log_density, score = blend.estimate(x)
    torch.testing.assert_close(torch.autograd.grad(log_density.sum(), x)[0], score)


def test_chain_rule_and_margins(blend: Blend) -> None:
    x = torch.randn(5, 2, dtype=F64)
    for point in x:
        first = blend.marginal([0]).log_density(point[None, :1])
        rest = blend.conditional([0], point[:1]).log_density(point[None, 1:])
        torch.testing.assert_close(first + rest, blend.log_density(point[None]))
    line = torch.linspace(-12, 14, 4001, dtype=F64)[:, None]
    plane = torch.cat([torch.full_like(line, 0.4), line], 1)
    integral = torch.trapezoid(blend.log_density(plane).exp(), line[:, 0])
    torch.testing.assert_close(
        integral.log(), blend.marginal([0]).log_density(torch.tensor([[0.4]], dtype=F64))[0]
    )


def test_distribution_function_and_quantiles(blend: Blend) -> None:
    one = blend.marginal([1])
    shares = torch.tensor([0.01, 0.5, 0.9], dtype=F64)
    torch.testing.assert_close(one.cdf(one.quantile(shares)), shares)
    draws = one.sample(20_000, torch.Generator().manual_seed(1))
    below = (draws <= one.quantile(shares).T).double().mean(0)
    torch.testing.assert_close(below, shares, rtol=0, atol=0.012)


def test_all_verbs_stay_in_the_type(blend: Blend) -> None:
    assert isinstance(blend.marginal([0]), Density) and isinstance(blend.conditional([0], [0.0]), Density)
    assert "weights 0.30, 0.70" in repr(blend)


def test_a_part_without_weight_is_not_asked() -> None:
    """Eagerly it is left out, and traced it counts for nothing: both answer as the other part."""
    one, zero = torch.ones(1, dtype=F64), torch.zeros(1, dtype=F64)
    part, silent = (StudentMixture(zero, c * one[:, None], one[:, None, None], 5 * one) for c in (1.0, 50.0))
    both = Blend((part, silent), torch.tensor([0.0, -torch.inf], dtype=F64))
    at = torch.tensor([[0.5], [49.0]], dtype=F64)
    torch.testing.assert_close(both.estimate(at), part.estimate(at))
    mapped = torch.func.vmap(lambda row: both.log_density(row.unsqueeze(0)).squeeze(0))(at)
    torch.testing.assert_close(mapped, part.log_density(at))
    torch.testing.assert_close(both.left_out(at), part.left_out(at))
    assert float(both.sample(500, torch.Generator().manual_seed(0)).max()) < 40


def test_what_is_unseen_is_taken_off_where_rows_are_left_out() -> None:
    x = torch.randn(40, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    plain = Blend((KDE(0.3).fit(x), KDE(0.6).fit(x)), torch.tensor([0.5, 0.5]).double().log())
    seen, left_out = plain.log_density(x), plain.left_out(x)
    torch.testing.assert_close(
        replace(plain, unseen=0.5).left_out(x), left_out - 0.5 * (1 + seen - left_out).log()
    )
