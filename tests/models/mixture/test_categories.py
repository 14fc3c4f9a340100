"""Tables of probabilities per slot."""

import pytest
import torch

from discoformer.models.mixture.categories import Tally, category_scores, tally

F64 = torch.float64


def test_slots_alike_are_shrunk_to_all_rows_and_slots_apart_are_not() -> None:
    generator = torch.Generator().manual_seed(0)
    codes = torch.randint(0, 3, (300,), generator=generator)
    random = torch.nn.functional.one_hot(torch.randint(0, 5, (300,), generator=generator), 5).to(F64)
    alike, apart = tally(codes, random, 3), tally(codes, torch.nn.functional.one_hot(codes, 3).to(F64), 3)
    assert float(alike.pseudo) > 50 > 1 > float(apart.pseudo)
    torch.testing.assert_close(alike.log_table.exp().sum(-1), torch.ones(5, dtype=F64))


def test_a_row_that_is_left_out_changes_the_table_as_a_recount_does() -> None:
    codes = torch.tensor([0, 0, 1, 2, 1, 0])
    held = torch.rand(6, 2, generator=torch.Generator().manual_seed(1), dtype=F64)
    held = held / held.sum(-1, keepdim=True)
    own = tally(codes, held, 3)
    change = own.change(codes, held.mT, torch.ones(6, dtype=F64))
    keep = torch.arange(6) != 2
    fewer = tally(codes[keep], held[keep], 3)
    again = Tally(fewer.count, fewer.total, own.pseudo)
    torch.testing.assert_close(change[:, 2], again.log_table[:, 1] - own.log_table[:, 1])


def test_a_level_never_seen_is_rare_not_impossible() -> None:
    table = tally(torch.zeros(9, dtype=torch.long), torch.ones(9, 1, dtype=F64), 2).log_table.exp()
    assert 0 < float(table[0, 1]) < 0.1


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
