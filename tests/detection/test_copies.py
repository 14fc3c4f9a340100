"""Copies of a row do not vouch for it; values that many rows share are left alone."""

import numpy as np
import pytest
import torch

from discoformer import DiScoFormer
from discoformer.detection.copies import copies


@pytest.mark.parametrize(("n", "d"), [(200, 1), (200, 10), (1000, 5)])
@pytest.mark.parametrize("columns", [1, None])
def test_three_sentinels_are_the_three_most_unusual_rows(n: int, d: int, columns: int | None) -> None:
    x = np.random.default_rng(0).normal(size=(n, d))
    x[[5, 50, 150], :columns] = -999_999.0
    assert sorted(np.argsort(DiScoFormer().fit(x).loo_log_density_)[:3]) == [5, 50, 150]


@pytest.mark.parametrize("d", [1, 10])
def test_a_row_far_outside_is_the_most_unusual(d: int) -> None:
    for far in (10.0, 1e5):
        x = np.random.default_rng(1).normal(size=(300, d))
        x[7] = far / np.sqrt(d)
        assert int(np.argmin(DiScoFormer().fit(x).loo_log_density_)) == 7


def test_without_copies_nothing_changes() -> None:
    x = np.random.default_rng(2).normal(size=(80, 2))
    est = DiScoFormer().fit(x)
    rows = torch.from_numpy(x)
    np.testing.assert_array_equal(est.loo_log_density_, est.field_.left_out(rows).numpy())


def test_gaps_are_equal_and_atoms_leave_one_by_one() -> None:
    nan = float("nan")
    assert copies(torch.tensor([[1.0, nan], [1.0, nan], [1.0, 2.0]])).tolist() == [2, 2, 1]
    rows = torch.arange(1000.0).unsqueeze(-1)
    rows[:9], rows[20:30] = -1.0, -2.0  # fewer than one in a hundred, and as many
    found = copies(rows)
    assert set(found[:9].tolist()) == {9} and set(found[20:30].tolist()) == {1}
