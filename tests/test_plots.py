"""Pictures come out for awkward samples too, and arrows stand upright on the contours."""

from pathlib import Path

import numpy as np
import pytest

from discoformer.baselines.kde import KDE
from discoformer.checks import DataError
from discoformer.plots import MASSES, _levels, plot_density

RNG = np.random.default_rng(0)

SAMPLES = {
    "two points": np.array([[0.0, 0.0], [1.0, 1.0]]),
    "far scales": RNG.normal(size=(50, 2)) * [1e-9, 1e9] + [0.0, 1e12],
    "an outlier": np.vstack([RNG.normal(size=(50, 2)), [[1e6, 1e6]]]),
    "ties": RNG.integers(0, 3, size=(60, 2)).astype(float),
    "one column": RNG.normal(size=(5, 1)),
    "many rows": RNG.normal(size=(5000, 1)),
    "eight columns": RNG.normal(size=(30, 8)),
}


@pytest.mark.parametrize("case", SAMPLES)
def test_awkward_samples_are_drawn(case: str, tmp_path: Path) -> None:
    sample = SAMPLES[case]
    path = tmp_path / "picture.png"
    plot_density(KDE().fit(sample), sample, path=path)
    assert path.read_bytes().startswith(b"\x89PNG")


def test_contours_hold_their_share_of_the_sample() -> None:
    log_density = RNG.normal(size=1000)
    levels, masses = _levels(log_density)
    assert masses == list(MASSES)
    for level, mass in zip(levels, masses, strict=True):
        assert np.mean(log_density >= level) == pytest.approx(mass, abs=1e-2)


def test_arrows_point_to_the_mode_of_a_gaussian_on_the_page() -> None:
    sample = np.random.default_rng(1).normal(size=(2000, 2)) * [1.0, 1000.0]
    figure = plot_density(KDE("scott").fit(sample), sample)
    (quiver,) = [c for c in figure.axes[0].collections if type(c).__name__ == "Quiver"]
    start = quiver.get_offsets() / np.ptp(sample, axis=0)
    arrow = np.column_stack([quiver.U, quiver.V])
    cosine = -(start * arrow).sum(1) / np.linalg.norm(start, axis=1) / np.linalg.norm(arrow, axis=1)
    far = np.linalg.norm(start, axis=1) > 0.15  # about one standard deviation
    assert far.sum() > 10
    assert np.quantile(cosine[far], 0.1) > 0.8


def test_unknown_picture_format_is_refused(tmp_path: Path) -> None:
    sample = SAMPLES["one column"]
    with pytest.raises(DataError, match="pictures end in"):
        plot_density(KDE().fit(sample), sample, path=tmp_path / "picture.gif")
