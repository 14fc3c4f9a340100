"""Tables of probabilities per slot."""

import torch

from discoformer.models.mixture.tables import Tally, tally

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
