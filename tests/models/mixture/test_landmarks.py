"""Landmarks do not depend on order or rotation."""

from pathlib import Path

import numpy as np
import pytest
import torch
from helpers import F64, gmm_sample
from models.mixture.ties import KINDS, differences

from discoformer import DiScoFormer
from discoformer.models.mixture.landmarks import farthest_points, pool_of


def test_landmarks_do_not_depend_on_order_or_rotation() -> None:
    x = gmm_sample(5000, 2)  # beyond the pool, so that the subsample is tested too
    rotation, _ = torch.linalg.qr(torch.randn(2, 2, dtype=F64))
    chosen = farthest_points(pool_of(x.unsqueeze(0)), 12)
    shuffled = farthest_points(pool_of(x[torch.randperm(5000)].unsqueeze(0)), 12)
    turned = farthest_points(pool_of((x @ rotation).unsqueeze(0)), 12)
    torch.testing.assert_close(shuffled, chosen)
    torch.testing.assert_close(turned, chosen @ rotation)


@pytest.mark.parametrize("number", range(len(KINDS)))
def test_neither_order_nor_the_last_bit_decides_where_there_are_ties(number: int) -> None:
    """Grids, mirror images, lattices, repeated rows: every way of giving the same sample, one answer."""
    for way, off in differences(number).items():
        assert off < 1e-6, way


@pytest.mark.slow
def test_many_samples_with_ties() -> None:
    assert max(max(differences(number).values()) for number in range(400)) < 1e-6


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::discoformer.RangeWarning")
def test_large_symmetric_samples_are_streamed_to_the_same_answer(tmp_path: Path) -> None:
    half = np.random.default_rng(0).normal(size=(18_000, 2))
    x = np.vstack([half, -half])
    np.save(tmp_path / "x.npy", x[::-1])
    whole = DiScoFormer().fit(x).score_samples(x[:50])
    for given in (x[np.random.default_rng(1).permutation(len(x))], tmp_path / "x.npy"):
        np.testing.assert_allclose(DiScoFormer().fit(given).score_samples(x[:50]), whole, atol=1e-6)
