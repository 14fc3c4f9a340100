"""E- and M-steps over numbers, categories and gaps."""

import math

import numpy as np
import pytest
import torch
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture

from discoformer.models.mixture.gaps import look, patterns
from discoformer.models.mixture.leave_one_out import ScaleEvidence
from discoformer.models.mixture.mixed_em import MixedRows, e_step, first_guess, settle
from discoformer.models.mixture.student import StudentMixture

F64 = torch.float64
NORMAL = 1e13


def rows_of(
    points: torch.Tensor, codes: torch.Tensor | None = None, levels: tuple[int, ...] = ()
) -> MixedRows:
    codes = torch.empty(len(points), 0, dtype=torch.long) if codes is None else codes
    return MixedRows(points, codes, levels, torch.ones(len(points), dtype=F64))


def start_at(points: torch.Tensor, slots: int) -> StudentMixture:
    dim = points.shape[-1]
    eye = torch.eye(dim, dtype=F64).expand(slots, dim, dim)
    weight = torch.full((slots,), -math.log(slots), dtype=F64)
    return StudentMixture(weight, points[:slots], eye, torch.full((slots,), NORMAL, dtype=F64))


def test_one_round_is_that_of_scikit_learn() -> None:
    x = torch.randn(80, 2, generator=torch.Generator().manual_seed(0), dtype=F64)
    start = start_at(x, 3)
    sums = e_step(start, (), rows_of(x))
    peer = GaussianMixture(
        3, means_init=x[:3].numpy(), precisions_init=np.array([np.eye(2)] * 3), weights_init=[1 / 3] * 3,
        max_iter=1, reg_covar=0,
    )  # fmt: skip
    with pytest.warns(ConvergenceWarning):
        peer.fit(x.numpy())
    torch.testing.assert_close(sums.count / 80, torch.from_numpy(peer.weights_), rtol=1e-6, atol=0)
    torch.testing.assert_close(start.mean + sums.shift, torch.from_numpy(peer.means_), rtol=1e-6, atol=1e-9)
    covariance = sums.scatter / sums.count[:, None, None]
    torch.testing.assert_close(covariance, torch.from_numpy(peer.covariances_), rtol=1e-6, atol=1e-9)


def test_a_normal_law_with_gaps_is_recovered() -> None:
    generator = torch.Generator().manual_seed(0)
    root = torch.tensor([[1.0, 0.0, 0.0], [0.8, 0.6, 0.0], [-0.5, 0.3, 0.8]], dtype=F64)
    x = torch.randn(6000, 3, generator=generator, dtype=F64) @ root.T
    gap = torch.rand(6000, 3, generator=generator) < 0.3
    x[:, 2] = torch.where(gap[:, 2] | (x[:, 0] > 1) & ~gap[:, 0], torch.nan, x[:, 2])  # by what is seen
    x[:, 1] = torch.where(gap[:, 1], torch.nan, x[:, 1])
    normal, _ = first_guess(rows_of(x))
    torch.testing.assert_close(normal.scale[0], root @ root.T, rtol=0, atol=0.08)
    torch.testing.assert_close(normal.mean[0], torch.zeros(3, dtype=F64), rtol=0, atol=0.06)


def test_sums_over_parts_add() -> None:
    x = torch.randn(60, 3, generator=torch.Generator().manual_seed(1), dtype=F64)
    x[torch.rand(60, 3, generator=torch.Generator().manual_seed(2)) < 0.3] = torch.nan
    codes = (torch.arange(60) % 3).unsqueeze(-1)
    start, tables = start_at(x.nan_to_num(), 4), (torch.randn(4, 3, dtype=F64).log_softmax(-1),)
    whole = e_step(start, tables, rows_of(x, codes, (3,)))
    parts = [e_step(start, tables, rows_of(x[s], codes[s], (3,))) for s in (slice(0, 25), slice(25, 60))]
    for name in ("count", "mass", "first", "second", "present"):
        total = getattr(parts[0], name) + getattr(parts[1], name)
        torch.testing.assert_close(getattr(whole, name), total)


def test_without_categories_and_gaps_a_network_stays_where_it_is() -> None:
    x = torch.randn(50, 2, generator=torch.Generator().manual_seed(3), dtype=F64)
    rows, start = rows_of(x), start_at(x, 3)
    held = e_step(start, (), rows)
    much = torch.full((3,), 200.0, dtype=F64)  # as many pseudo-counts as keep every rest positive
    one = torch.ones(3, dtype=F64)
    evidence = ScaleEvidence(much, one, 0.7 * one, 0.3 * one, 0 * one, held.count, held.mass)
    start = StudentMixture(start.log_weight, start.mean, start.scale, start.nu, evidence)
    settled = settle(start, held.held, x, rows, (), 3).student
    torch.testing.assert_close(settled.log_weight, start.log_weight)
    torch.testing.assert_close(settled.mean, start.mean)
    torch.testing.assert_close(settled.scale, start.scale, rtol=0, atol=1e-6)


def test_categories_find_their_slots_and_can_be_left_out() -> None:
    generator = torch.Generator().manual_seed(4)
    codes = torch.randint(0, 2, (300, 1), generator=generator)
    x = torch.randn(300, 1, generator=generator, dtype=F64) + 3.0 * codes
    start = start_at(torch.tensor([[0.0], [3.0]], dtype=F64), 2)
    rows = rows_of(x, codes, (2,))
    mixed = settle(start, e_step(start, (), rows).held, x, rows, (), 20)
    assert float(mixed.tables[0].exp()[0, 0]) > 0.95 and float(mixed.tables[0].exp()[1, 1]) > 0.95
    table = torch.cat([x, codes.to(F64)], -1)
    inside, outside = mixed.log_density(table), mixed.left_out(table)
    assert 0 < float((inside - outside).mean()) < 0.1
    refits = []
    for row in range(0, 300, 30):
        keep = torch.arange(300) != row
        fewer = rows_of(x[keep], codes[keep], (2,))
        again = settle(start, e_step(start, (), fewer).held, x[keep], fewer, (), 20)
        refits.append(again.log_density(table[row : row + 1]))
    torch.testing.assert_close(outside[::30], torch.cat(refits), rtol=0, atol=0.02)


def test_patterns_and_looks_cover_every_row_once() -> None:
    x = torch.randn(40, 3, generator=torch.Generator().manual_seed(5), dtype=F64)
    x[torch.rand(40, 3, generator=torch.Generator().manual_seed(6)) < 0.4] = torch.nan
    for columns, rows in patterns(x).groups():
        there = ~x[rows].isnan()
        assert bool(there[:, columns].all()) and int(there.sum()) == len(rows) * len(columns)
    seen = torch.cat([part.rows for part in look(start_at(x.nan_to_num(), 2), x)])
    assert sorted(seen.tolist()) == list(range(40))
