"""Real against expected values."""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pytest

from discoformer import DataError, DiScoFormer
from discoformer.views import plot_expected

X = np.random.default_rng(0).normal(size=(300, 1)) @ np.ones((1, 2))
X += 0.3 * np.random.default_rng(1).normal(size=X.shape)


def test_rows_beyond_their_interval_stand_out(tmp_path: Path) -> None:
    rows = np.r_[X[:40], [[0.0, 3.0]]]
    reasons = DiScoFormer(model="kde-scott").fit(X).explain(rows)
    axes = plot_expected(reasons, "x1")
    usual, odd = axes.collections[1:]
    assert len(usual.get_offsets()) + len(odd.get_offsets()) == 41
    assert odd.get_offsets()[-1].tolist() == [reasons.expected[40, 1], 3.0]
    plot_expected(reasons, "x0", tmp_path / "expected.png")
    assert (tmp_path / "expected.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(DataError, match="no column 'z': there are 'x0', 'x1'"):
        plot_expected(reasons, "z")
    plt.close("all")
