"""Scores of categories: their spread, and that rounding decides nothing about them."""

import pytest
import torch

from discoformer.models.mixture.category_scores import category_scores

F64 = torch.float64


@pytest.mark.parametrize("levels", [(2,), (3,), (5,), (2, 2), (3, 4)])
@pytest.mark.parametrize("seed", range(4))
def test_the_order_of_the_rows_decides_no_sign_and_no_axis(levels: tuple[int, ...], seed: int) -> None:
    """Levels of equal shares tie, and a single category has axes of equal spread only."""
    generator = torch.Generator().manual_seed(seed)
    codes = torch.cartesian_prod(*map(torch.arange, levels)).reshape(-1, len(levels)).repeat(20, 1)
    often = (
        torch.rand(len(codes), dtype=F64, generator=generator) if seed % 2 else torch.ones(len(codes)).to(F64)
    )
    turn = torch.randperm(len(codes), generator=generator)
    before, after = (category_scores(codes[k], levels, often[k], 4) for k in (torch.arange(len(codes)), turn))
    torch.testing.assert_close(after, before[turn], rtol=1e-8, atol=1e-8)
    share = (often / often.sum()).unsqueeze(-1)
    covariance = (share * before).mT @ before
    torch.testing.assert_close(covariance, torch.eye(len(covariance), dtype=F64), rtol=0, atol=1e-5)
