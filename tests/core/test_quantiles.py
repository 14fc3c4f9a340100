"""Quantiles: where any increasing function is a share, to the last digit, in few steps."""

import math

import pytest
import torch
from helpers import F64
from scipy import stats
from torch import Tensor

from discoformer import DataError
from discoformer.core.quantiles import find_quantile

LIKE = torch.zeros((), dtype=F64)


def wide(share: Tensor) -> Tensor:
    """A bracket for everything, in any order."""
    return torch.tensor([1e6, -1e6], dtype=F64).expand(*share.shape, 2)


def test_closed_forms() -> None:
    shares = torch.tensor([1e-9, 0.1, 0.5, 0.9, 1 - 1e-9], dtype=F64)
    exponential = find_quantile(lambda x: -torch.expm1(-x.clamp_min(0)).squeeze(-1), wide, shares, LIKE)
    torch.testing.assert_close(exponential.squeeze(-1), -torch.log1p(-shares), rtol=1e-8, atol=1e-15)
    normal = find_quantile(lambda x: torch.special.ndtr(x).squeeze(-1), wide, shares, LIKE)
    torch.testing.assert_close(normal.squeeze(-1), torch.from_numpy(stats.norm.ppf(shares)))


def test_a_batch_of_functions_has_a_batch_of_quantiles() -> None:
    scale = torch.tensor([[1.0], [5.0]], dtype=F64)  # two laws
    shares = torch.tensor([[0.2, 0.4, 0.6], [0.1, 0.5, 0.9]], dtype=F64)
    found = find_quantile(lambda x: torch.special.ndtr(x.squeeze(-1) / scale), wide, shares, LIKE)
    assert found.shape == (2, 3, 1)
    torch.testing.assert_close(found.squeeze(-1), torch.special.ndtri(shares) * scale)


def test_shares_keep_their_digits_and_the_type_is_that_asked_for() -> None:
    assert find_quantile(lambda x: x.squeeze(-1), wide, [0.2, 0.7], LIKE).flatten().tolist() == [0.2, 0.7]
    single = find_quantile(lambda x: x.squeeze(-1), lambda s: wide(s).float(), [0.5], LIKE.float())
    assert single.dtype == torch.float32


def test_a_step_is_found_where_it_is() -> None:
    found = find_quantile(lambda x: (x.squeeze(-1) >= 3).to(F64), wide, [0.3, 0.99], LIKE)
    torch.testing.assert_close(found.flatten(), torch.tensor([3.0, 3.0], dtype=F64), rtol=1e-15, atol=0)


@pytest.mark.parametrize("share", [0.0, 1.0, -0.5, 2.0, math.nan, math.inf])
def test_shares_that_no_law_has_are_refused(share: float) -> None:
    with pytest.raises(DataError, match="above 0 and below 1"):
        find_quantile(lambda x: x.squeeze(-1), wide, [0.5, share], LIKE)


def test_a_bracket_that_ends_too_early_gives_its_end() -> None:
    found = find_quantile(lambda x: torch.special.ndtr(x * 1e-9).squeeze(-1), wide, [0.01, 0.99], LIKE)
    assert found.flatten().tolist() == [-1e6, 1e6]


@pytest.mark.parametrize(("scale", "most"), [(1.0, 20), (1e-3, 40)])
def test_few_questions_are_asked(scale: float, most: int) -> None:
    asked = 0

    def cdf(x: Tensor) -> Tensor:
        nonlocal asked
        asked += 1
        return torch.special.ndtr(x.squeeze(-1) / scale)

    find_quantile(cdf, lambda s: torch.tensor([-9.0, 9.0], dtype=F64).expand(*s.shape, 2), [0.05, 0.7], LIKE)
    assert asked < most  # halving takes sixty
