"""Pictures of what the heads attend to."""

from pathlib import Path

import numpy as np
import pytest
import torch
from helpers import attention_network, normal

from discoformer import KDE, DataError
from discoformer.models.registry import build_network
from discoformer.views import plot_attention


def test_each_head_has_a_panel_with_its_own_shares(tmp_path: Path) -> None:
    network, sample = attention_network("canonical"), normal(40, 3)
    panels = plot_attention(network, sample, 5, ["a", "$b", "c"], tmp_path / "heads.png", layer=-1)
    inside = network.frame.fit(sample).normalize(sample)
    maps = network.core.attention_maps(inside, inside[5:6], -1)[:, 0]
    assert len(panels) == len(maps) == 2
    for panel, weights in zip(panels, maps, strict=True):
        dots, cross = panel.collections
        np.testing.assert_allclose(np.sort(dots.get_array()), np.sort(weights / weights.max()))
        np.testing.assert_allclose(dots.get_offsets()[-1], sample[weights.argmax(), :2])
        np.testing.assert_allclose(cross.get_offsets()[0], sample[5, :2])
    assert (tmp_path / "heads.png").stat().st_size > 1000


def test_one_column_shows_shares_as_heights() -> None:
    core = {"kind": "attention", "dim": 1, "layers": 1, "width": 16, "heads": 2, "feedforward": 16}
    panel, *_ = plot_attention(build_network(core, "whiten").eval(), torch.randn(30, 1))
    assert panel.collections[0].get_offsets()[:, 1].max() == pytest.approx(1)


def test_what_has_no_attention_is_refused() -> None:
    with pytest.raises(DataError, match="KDE has no attention"):
        plot_attention(KDE(), normal(20, 2))
    for row in (-1, 40):
        with pytest.raises(DataError, match=f"row {row}: give one sample"):
            plot_attention(attention_network(), normal(40, 3), row)
    with pytest.raises(DataError, match="there is no layer 7"):
        plot_attention(attention_network(), normal(40, 3), layer=7)
