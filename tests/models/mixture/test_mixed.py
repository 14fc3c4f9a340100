"""A mixture over numbers and categories with gaps: laws of its verbs."""

import math

import pytest
import torch

from discoformer.core.checks import DataError
from discoformer.models.mixture.mixed import MixedMixture
from discoformer.models.mixture.student import StudentMixture

F64 = torch.float64


def mixture(seed: int = 0, slots: int = 3, dim: int = 2, levels: tuple[int, ...] = (2, 3)) -> MixedMixture:
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator, dtype=F64)

    root = normal(slots, dim, dim)
    scale = root @ root.mT + 0.3 * torch.eye(dim, dtype=F64)
    nu = 4 + 10 * torch.rand(slots, generator=generator, dtype=F64)
    student = StudentMixture(normal(slots).log_softmax(-1), 2 * normal(slots, dim), scale, nu)
    return MixedMixture(student, tuple(normal(slots, count).log_softmax(-1) for count in levels))


@pytest.fixture
def rows() -> torch.Tensor:
    """Rows with every combination of gaps."""
    whole = mixture().sample(16, torch.Generator().manual_seed(1))
    gap = torch.tensor([[row >> column & 1 for column in range(4)] for row in range(16)]).bool()
    return whole.masked_fill(gap, torch.nan)


def test_without_categories_and_gaps_it_is_the_plain_mixture() -> None:
    plain = mixture(levels=())
    x = torch.randn(9, 2, generator=torch.Generator().manual_seed(0), dtype=F64)
    for mine, theirs in zip(plain.estimate(x), plain.student.estimate(x), strict=True):
        torch.testing.assert_close(mine, theirs)
    torch.testing.assert_close(
        plain.conditional([0], [0.3]).log_density(x[:, :1]),
        plain.student.conditional([0], [0.3]).log_density(x[:, :1]),
    )
    torch.testing.assert_close(plain.marginal([1]).cdf(x[:, :1]), plain.student.marginal([1]).cdf(x[:, :1]))


def test_mass_is_one_over_categories_and_line() -> None:
    density = mixture(dim=1)
    line = torch.linspace(-400, 400, 100_001, dtype=F64)
    total = 0.0
    for first in range(2):
        for second in range(3):
            codes = torch.tensor([first, second], dtype=F64).expand(len(line), 2)
            rows = torch.cat([line.unsqueeze(-1), codes], -1)
            total += float(torch.trapezoid(density.log_density(rows).exp(), line))
    assert total == pytest.approx(1, abs=1e-5)


def test_a_gap_is_a_margin(rows: torch.Tensor) -> None:
    density = mixture()
    found = density.log_density(rows)
    for row, answer in zip(rows, found, strict=True):
        there = (~row.isnan()).nonzero().flatten().tolist()
        expected = density.marginal(there).log_density(row[there].unsqueeze(0)) if there else torch.zeros(1)
        torch.testing.assert_close(answer.unsqueeze(0), expected.to(F64))


def test_a_marginal_of_a_marginal(rows: torch.Tensor) -> None:
    density, some = mixture(), rows[:, [1, 3]]
    twice = density.marginal([0, 1, 3]).marginal([1, 2])
    torch.testing.assert_close(twice.log_density(some), density.marginal([1, 3]).log_density(some))


@pytest.mark.parametrize("given", [[0], [2], [1, 2], [0, 1, 3], [2, 3]])
def test_conditional_times_marginal_is_the_joint(given: list[int]) -> None:
    density = mixture()
    row = density.sample(1, torch.Generator().manual_seed(2))
    rest = [c for c in range(4) if c not in given]
    joint = density.log_density(row)
    product = density.marginal(given).log_density(row[:, given])
    product = product + density.conditional(given, row[0, given]).log_density(row[:, rest])
    torch.testing.assert_close(joint, product)


def test_conditionals_of_many_rows_at_once_are_those_of_each() -> None:
    density = mixture()
    values = density.sample(5, torch.Generator().manual_seed(3))[:, [0, 2]]
    asked = density.sample(1, torch.Generator().manual_seed(4))[:, [1, 3]]
    together = density.conditional([0, 2], values).log_density(asked.expand(5, 1, 2)).squeeze(-1)
    single = [density.conditional([0, 2], value).log_density(asked) for value in values]
    torch.testing.assert_close(together, torch.cat(single))
    again = density.conditional([0], values[:, :1]).conditional([1], values[:, 1:])
    torch.testing.assert_close(again.log_density(asked.expand(5, 1, 2)).squeeze(-1), torch.cat(single))


def test_the_score_is_the_gradient_and_zero_elsewhere(rows: torch.Tensor) -> None:
    density = mixture()
    x = rows.clone().requires_grad_()
    log_density, score = density.estimate(x)
    gradient = torch.autograd.grad(log_density.sum(), x)[0]
    there = ~rows.isnan()
    there[:, 2:] = False
    torch.testing.assert_close(score[there], gradient[there])
    assert bool((score[~there] == 0).all())


def test_frequencies_of_draws() -> None:
    density = mixture()
    draws = density.sample(40_000, torch.Generator().manual_seed(0))
    for first in range(2):
        for second in range(3):
            share = float(((draws[:, 2] == first) & (draws[:, 3] == second)).double().mean())
            cell = torch.tensor([[torch.nan, torch.nan, first, second]], dtype=F64)
            expected = float(density.log_density(cell).exp())
            assert share == pytest.approx(expected, abs=4 * math.sqrt(expected / 40_000))
    below = float((draws[:, 0] < 0.5).double().mean())
    expected = float(density.marginal([0]).cdf(torch.tensor([[0.5]], dtype=F64)))
    assert below == pytest.approx(expected, abs=0.01)


def test_a_circle_has_no_seam_and_mass_one() -> None:
    one = torch.ones(2, dtype=F64)
    student = StudentMixture(
        (one / 2).log(), torch.tensor([[0.1], [4.0]], dtype=F64), 0.4 * one[:, None, None], 9 * one
    )
    circle = MixedMixture(student, (), (6.0,))
    line = torch.linspace(0, 6, 6001, dtype=F64).unsqueeze(-1)
    log_density, score = circle.estimate(line)
    assert float(torch.trapezoid(log_density.exp(), line[:, 0])) == pytest.approx(1, abs=1e-5)
    torch.testing.assert_close(log_density[0], log_density[-1], rtol=0, atol=1e-5)
    torch.testing.assert_close(score[0], score[-1], rtol=0, atol=1e-4)
    shares = torch.tensor([0.2, 0.7], dtype=F64)
    torch.testing.assert_close(circle.cdf(circle.quantile(shares)), shares)


def test_conditioning_on_a_circle_is_the_joint() -> None:
    plain = mixture()
    circle = MixedMixture(plain.student, plain.tables, (5.0, 0.0))
    row = torch.tensor([[4.9, 0.2, 1.0, 2.0]], dtype=F64)
    product = circle.marginal([0]).log_density(row[:, :1])
    product = product + circle.conditional([0], row[0, :1]).log_density(row[:, 1:])
    torch.testing.assert_close(circle.log_density(row), product)


def test_what_no_table_has_is_impossible() -> None:
    density = mixture()
    for code in (7.0, 0.5, -1.0):
        log_density, score = density.estimate(torch.tensor([[0.0, 0.0, code, 0.0]], dtype=F64))
        assert float(log_density) == -math.inf and bool((score == 0).all())
    with pytest.raises(DataError, match="no density"):
        density.conditional([2], [7.0])
    with pytest.raises(DataError, match="no order"):
        density.marginal([2]).cdf(torch.zeros(1, 1))
