"""Pictures come out for awkward samples too, and arrows stand upright on the contours."""

from collections.abc import Iterator
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
import torch
from helpers import attention_network

from discoformer import DiScoFormer
from discoformer.baselines.kde import KDE, KDEField
from discoformer.core.checks import DataError
from discoformer.models.registry import load_model
from discoformer.views import plot, plot_corner, plot_density, plot_levels, plot_outliers
from discoformer.views.levels import SHARES, region_edges
from discoformer.views.panels import figure_of
from discoformer.views.plots import VIEWS

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


@pytest.fixture(autouse=True)
def close_figures() -> Iterator[None]:
    yield
    plt.close("all")


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("case", SAMPLES)
def test_awkward_samples_are_drawn(case: str, view: str, tmp_path: Path) -> None:
    sample = SAMPLES[case]
    path = tmp_path / "picture.png"
    if view == "levels" and sample.shape[1] > 2:
        with pytest.raises(DataError, match="one or two columns"):
            plot(KDE().fit(sample), sample, path=path, view=view)
        return
    plot(KDE().fit(sample), sample, path=path, view=view)
    assert path.read_bytes().startswith(b"\x89PNG")


def test_columns_and_pairs_have_their_panels(model_path: Path) -> None:
    """With marginals: their densities, and no colour bar; without: points coloured by the density."""
    sample = RNG.normal(size=(60, 3))
    mixture = plot_corner(load_model(model_path).fit(sample), sample, ["a", "b", "c"])
    assert len(figure_of(mixture[0, 0]).axes) == 9
    assert [[len(axes.lines) for axes in row] for row in mixture] == np.eye(3).tolist()
    points = plot_corner(attention_network().fit(sample), sample, ["a", "b", "c"])
    assert len(figure_of(points[0, 0]).axes) == 10
    assert [axes.get_xlabel() for axes in points[-1]] == ["a", "b", "c"]


def test_diagonal_of_the_corner_is_the_marginal_density(model_path: Path) -> None:
    sample = RNG.normal(size=(60, 3))
    field = load_model(model_path).fit(sample)
    x, density = plot_corner(field, sample)[1, 1].lines[0].get_data()
    np.testing.assert_allclose(density, np.exp(field.marginal([1]).log_density(np.asarray(x)[:, None])))


@pytest.mark.parametrize("view", VIEWS)
def test_dollars_in_names_are_no_formulas(view: str, tmp_path: Path) -> None:
    sample = RNG.normal(size=(20, 2))
    plot(KDE().fit(sample), sample, ["a$^$", "price in $"], tmp_path / "picture.svg", view=view)
    assert (tmp_path / "picture.svg").exists()


def test_outliers_are_the_rows_of_lowest_density() -> None:
    sample = RNG.normal(size=(50, 2))
    sample[17] = [9.0, -9.0]
    _, below = plot_outliers(KDE().fit(sample), sample, ["a", "b"])
    labels = [label.get_text() for label in below.get_yticklabels()]
    assert labels[0] == "row 17"
    assert len(labels) == 10


def test_cells_are_what_they_stand_for() -> None:
    """Labels and dates by name, numbers in digits that tell those of a column apart; gaps are dashes."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "near": 123456 + rng.normal(size=120),
            "day": pd.Timestamp("2026-01-01") + pd.to_timedelta(rng.integers(0, 400, 120), unit="D"),
            "label": rng.choice(["ale$", "beer"], 120),
        }
    )
    frame.loc[3, "near"] = 123470.25
    frame.loc[5, "near"] = np.nan
    est = DiScoFormer().fit(frame)
    words = est.explain(frame[:1]).words
    _, below = plot_outliers(est.field_, est._sample, list(frame.columns), words=words)
    shown = [text.get_text() for text in below.texts]
    assert shown[0].startswith("123470.25\n(12345")
    assert all(text.startswith("202") and text[4] == "-" for text in shown[1::3])
    assert {text.split("\n")[0] for text in shown[2::3]} <= {r"ale\$", "beer"}
    plain = plot_outliers(KDE().fit(frame[["near"]].dropna()), frame[["near"]].dropna())[1]
    assert len({text.get_text().split("\n")[0] for text in plain.texts}) == 10


def test_the_densest_region_is_the_strongest() -> None:
    """Shares of fresh rows in the regions are those that they say; the darkest colour is the densest."""
    sample = np.random.default_rng(0).normal(size=(400, 2))
    field = KDE().fit(sample)
    edges = region_edges(field)
    fresh = field.sample(4000, torch.Generator().manual_seed(5))
    share = [float((field.log_density(fresh) >= edge).double().mean()) for edge in edges]
    np.testing.assert_allclose(share, SHARES, atol=0.02)
    axes = plot_levels(field, sample, ["a", "b"])
    colours = axes.collections[0].get_facecolor()
    assert (np.diff(np.asarray(colours)[:, :3].sum(1)) < 0).all()
    named = [text.get_text() for text in axes.get_legend().get_texts()]
    assert named[:3] == ["50% of the mass", "90% of the mass", "99% of the mass"]
    outside = int((field.log_density(sample) < edges[0]).sum())
    assert named[3] == f"{outside} of 400 rows outside"


def test_a_wild_value_does_not_hide_the_others() -> None:
    sample = np.vstack([RNG.normal(size=(99, 2)), [[1e9, 0.0]]])
    axes = plot_density(KDE().fit(sample), sample)
    assert np.ptp(axes.get_xlim()) < 20
    assert axes.get_title(loc="left") == "outside the picture: 1 of 100 rows"


def test_a_far_cluster_is_no_wild_value() -> None:
    sample = np.concatenate([RNG.normal(size=(95, 1)), 1e3 + RNG.normal(size=(5, 1))])
    axes = plot_density(KDE().fit(sample), sample)
    assert axes.get_xlim()[1] > 1e3
    assert axes.get_title(loc="left") == ""


def test_unknown_view_is_refused() -> None:
    sample = SAMPLES["one column"]
    with pytest.raises(DataError, match="view='cube' is unknown"):
        plot(KDE().fit(sample), sample, view="cube")


def test_arrows_point_to_the_mode_of_a_gaussian_on_the_page() -> None:
    sample = np.random.default_rng(1).normal(size=(2000, 2)) * [1.0, 1000.0]
    axes = plot_density(KDE("scott").fit(sample), sample)
    (quiver,) = [c for c in axes.collections if type(c).__name__ == "Quiver"]
    start = quiver.get_offsets() / np.ptp(sample, axis=0)
    arrow = np.column_stack([quiver.U, quiver.V])
    cosine = -(start * arrow).sum(1) / np.linalg.norm(start, axis=1) / np.linalg.norm(arrow, axis=1)
    far = np.linalg.norm(start, axis=1) > 0.15  # about one standard deviation
    assert far.sum() > 10
    assert np.quantile(cosine[far], 0.1) > 0.8


def test_unknown_picture_format_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sample = SAMPLES["one column"]
    field = KDE().fit(sample)
    monkeypatch.setattr(KDEField, "_estimate", pytest.fail)  # it is refused before the work
    with pytest.raises(DataError, match="pictures end in"):
        plot_density(field, sample, path=tmp_path / "picture.gif")


@pytest.mark.parametrize(("view", "panels"), [("density", 1), ("corner", 4), ("outliers", 2)])
def test_pictures_go_where_the_caller_wants_them(view: str, panels: int) -> None:
    """Everything is in the place of the given axes, and the neighbour is left alone."""
    sample = RNG.normal(size=(40, 2))
    figure, (left, right) = plt.subplots(1, 2, layout="constrained")
    drawn = np.ravel(plot(KDE().fit(sample), sample, view=view, ax=right))
    figure.canvas.draw()
    assert len(drawn) == panels and all(figure_of(axes) is figure for axes in drawn)
    assert min(axes.get_position().x0 for axes in drawn) > left.get_position().x1
    assert not left.has_data() and all(axes.has_data() for axes in drawn if axes.axison)


def test_only_pictures_that_are_not_written_belong_to_pyplot(tmp_path: Path) -> None:
    sample = SAMPLES["one column"]
    plot_density(KDE().fit(sample), sample, path=tmp_path / "picture.png")
    assert not plt.get_fignums()
    axes = plot_density(KDE().fit(sample), sample)
    assert plt.gcf() is figure_of(axes)


def test_axes_without_a_place_take_one_panel_only() -> None:
    sample = RNG.normal(size=(20, 2))
    axes = plt.figure().add_axes((0.1, 0.1, 0.8, 0.8))
    assert plot_density(KDE().fit(sample), sample, ax=axes) is axes
    with pytest.raises(DataError, match="no place in a grid"):
        plot_corner(KDE().fit(sample), sample, ax=axes)
