"""Rows at ranks: those that sorting would choose."""

from pathlib import Path

import numpy as np
import pytest
import torch
from helpers import two_groups

from discoformer.core.checks import DataError
from discoformer.core.frames import FRAMES
from discoformer.models.mixture.landmarks import even_ranks
from discoformer.scale import ranks
from discoformer.scale.ranks import generic_direction, rows_at_ranks, square_radius
from discoformer.scale.source import ArraySource, open_source
from discoformer.scale.stream import Stream


def test_rows_are_those_that_sorting_would_choose(small_chunks: None) -> None:
    x = torch.from_numpy(two_groups())
    with pytest.raises(DataError, match="a canonical frame needs the sample in memory"):
        Stream(open_source(x.numpy())).evenly("canonical", 600)
    for name, frame in (
        (name, kind.fit(x)) for name, kind in FRAMES.items() if name not in ("canonical", "scatter")
    ):
        order = frame.normalize(x).norm(dim=-1).argsort()
        chosen = order[even_ranks(5000, 600)]
        found = Stream(open_source(x.numpy())).evenly(name, 600)
        torch.testing.assert_close(found, x[chosen], rtol=0, atol=0)


@pytest.mark.parametrize("few", [1, 50, 2**18])
def test_ties_and_repeated_rows(few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranks, "_FEW", few)
    x = torch.from_numpy(np.random.default_rng(0).integers(-2, 3, size=(3000, 2)).astype(float))
    frame = FRAMES["identity"].fit(x)
    order = np.lexsort((x @ generic_direction(2), square_radius(x, frame)))
    asked = even_ranks(3000, 128)
    for rows in (x, x[torch.randperm(3000)]):
        found = rows_at_ranks(ArraySource(rows.numpy(), step=170), frame, asked)
        torch.testing.assert_close(found, x[order][asked], rtol=0, atol=0)


def test_affine_maps_choose_the_same_rows() -> None:
    x = two_groups()
    matrix = np.random.default_rng(3).normal(size=(3, 3))
    moved = Stream(open_source(x @ matrix + 5)).evenly("whiten", 512).numpy()
    chosen = Stream(open_source(x)).evenly("whiten", 512).numpy()
    np.testing.assert_allclose(moved, chosen @ matrix + 5, rtol=1e-10, atol=1e-10)


def test_a_radius_does_not_depend_on_the_rows_around(model_path: Path) -> None:
    x = torch.from_numpy(two_groups(1000, 7))
    frame = FRAMES["whiten"].fit(x)
    whole = square_radius(x, frame)
    for step in (1, 3, 64):
        parts = torch.cat([square_radius(part, frame) for part in x[:200].split(step)])
        assert torch.equal(parts, whole[:200])
    torch.testing.assert_close(whole, frame.normalize(x).square().sum(-1))
