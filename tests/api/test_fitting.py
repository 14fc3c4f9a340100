"""The one way in: what a fit is, what it keeps, and what it does not."""

import io
import math
import pickle
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from helpers import EXACT, assert_same_field, fit_quietly, normal, two_groups
from numpy.typing import NDArray

from discoformer import KDE, DataError, DensityDetector, DiScoFormer, PointDensity, RangeWarning, estimate
from discoformer.api.fitting import fit_sample, fit_stream
from discoformer.columns.bounds import FREE
from discoformer.columns.fit_recipe import FitRecipe
from discoformer.core.composed import PushedField
from discoformer.methods import METHODS, resolve
from discoformer.scale.source import open_source
from discoformer.scale.stream import Stream

pytestmark = pytest.mark.filterwarnings("ignore::discoformer.RangeWarning")

PLAIN = [name for name in METHODS if name != "flow"]  # which trains
POINTS = np.random.default_rng(0).normal(size=(80, 2)) @ np.array([[1.0, 0.6], [0.0, 0.8]])

KINDS: dict[str, Callable[[NDArray[np.float64]], Any]] = {
    "array": np.array,
    "float32": lambda x: np.array(x, dtype=np.float32),
    "tensor": torch.tensor,
    "frame": lambda x: pd.DataFrame(np.array(x), columns=["a", "b"]),
}


# -- numbers only -----------------------------------------------------------------------------


class ModulesSeen(pickle.Unpickler):
    """Loads as usual, and remembers which classes the file names."""

    def __init__(self, data: bytes) -> None:
        super().__init__(io.BytesIO(data))
        self.classes: list[type] = []

    def find_class(self, module: str, name: str) -> Any:
        found = super().find_class(module, name)
        if isinstance(found, type):
            self.classes.append(found)
        return found


def test_a_pickled_fit_is_small_and_holds_no_network() -> None:
    est = DiScoFormer().fit(POINTS)
    data = pickle.dumps(est)
    assert len(data) < 100_000
    reader = ModulesSeen(data)
    copy = reader.load()
    assert reader.classes and not any(issubclass(found, torch.nn.Module) for found in reader.classes)
    np.testing.assert_array_equal(copy.score_samples(POINTS), est.score_samples(POINTS))
    assert copy.entropy() == est.entropy()  # the name of the model is enough to fit again


@pytest.mark.parametrize("model", ["network", "default", "kde-scott", "gmm-diag"])
@pytest.mark.parametrize("bounds", [None, (-9, 9)])
def test_fits_of_every_density_are_small(model: str, bounds: Any, model_path: Path) -> None:
    table = np.column_stack([POINTS, np.ones(80)])
    est = DiScoFormer(model=str(model_path) if model == "network" else model, bounds=bounds)
    data = pickle.dumps(fit_quietly(est, table).field_)
    assert len(data) < 100_000
    np.testing.assert_array_equal(pickle.loads(data).score(table[:5]), est.field_.score(table[:5]))


@pytest.mark.parametrize("model", ["default", "attention-d2", *PLAIN])
def test_a_fit_is_printed_in_three_lines(model: str) -> None:
    field = fit_quietly(DiScoFormer(model=model), np.column_stack([POINTS, np.ones(80)])).field_
    assert isinstance(field, PushedField)
    lines = str(field).splitlines()
    assert len(lines) == 3 and max(map(len, lines)) < 110
    assert lines[0].endswith("in 3 column(s)")
    assert lines[1].startswith("  of ")
    assert lines[2] == "  left out: column 2"


# -- no aliasing ------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("model", ["network", "kde-scott", "attention-d2"])
def test_a_fit_does_not_see_what_becomes_of_the_sample(kind: str, model: str, model_path: Path) -> None:
    """Answers, draws and what fits again stay, whatever the caller writes into the sample afterwards."""
    name: Any = str(model_path) if model == "network" else model
    sample = KINDS[kind](POINTS)
    est = DiScoFormer(model=name).fit(sample)
    queries = KINDS[kind](POINTS[:7])
    before = est.score_samples(queries), est.entropy(), est.fisher_information(split="none")
    drawn = est.sample(5, random_state=0) if model != "attention-d2" else None
    if kind == "frame":
        sample.loc[:] = 1e3 * sample**2
    else:
        sample[...] = 1e3 * sample**2
    np.testing.assert_array_equal(est.score_samples(queries), before[0])
    assert est.entropy() == before[1]
    assert est.fisher_information(split="none") == before[2]
    if drawn is not None:
        np.testing.assert_array_equal(np.asarray(est.sample(5, random_state=0)), np.asarray(drawn))


@pytest.mark.parametrize("model", [*PLAIN, "default"])
def test_no_field_sees_what_becomes_of_the_sample(model: str) -> None:
    sample, weights = torch.tensor(POINTS), torch.ones(80, dtype=torch.float64)
    weighted = None if "gmm" in model else weights
    field = resolve(model).method.fit(sample, weighted)
    before = field.score(POINTS[:5])
    sample.fill_(0.0)
    weights.zero_()
    np.testing.assert_array_equal(field.score(POINTS[:5]), before)


# -- fits and refits --------------------------------------------------------------------------


def test_every_entrance_is_the_same_fit(model_path: Path, tmp_path: Path) -> None:
    x = two_groups(400)
    np.save(tmp_path / "x.npy", x)
    fitted = fit_sample(x, model_path)
    assert fitted.bounds == [FREE] * 3
    assert_same_field(fitted.field, DiScoFormer(model=model_path).fit(x).field_, x[:50])
    assert_same_field(fitted.field, resolve(model_path).method.fit(x), x[:50])
    streamed = fit_stream(Stream(open_source(tmp_path / "x.npy")), model_path)
    assert_same_field(streamed.field, fitted.field, x[:50])
    found, own = estimate(x, x[:50], model=model_path), fitted.field
    assert isinstance(own, PointDensity)
    np.testing.assert_allclose(found.log_density, own.log_density(x[:50]), **EXACT)


def test_a_refit_is_of_the_columns_that_carry_the_density() -> None:
    x = normal(60, 3).numpy()
    table = np.column_stack([np.exp(x[:, 0]), np.ones(60), x[:, 1:]])
    with pytest.warns(UserWarning, match="left out column 1"):
        fitted = fit_sample(table, "kde-scott", bounds=[(0, None), None, None, (-9, 9)])
    again = fitted.refit()
    assert isinstance(again, FitRecipe) and not again.drop
    assert again.bounds == [(0.0, math.inf), FREE, (-9.0, 9.0)]
    kept = table[:, fitted.field.support]
    whole, part = fitted.field, again.fit(kept)
    assert isinstance(whole, PointDensity) and isinstance(part, PointDensity)
    np.testing.assert_allclose(part.log_density(kept), whole.log_density(table), **EXACT)
    with pytest.raises(DataError, match="column 0: constant"):  # and none is left out on the way
        again.fit(np.column_stack([np.full(60, 2.0), kept[:, 1:]]))


def test_the_range_is_that_of_the_columns_that_are_left() -> None:
    """A network for two columns is in its range on three of which one is constant."""
    table = np.column_stack([POINTS, np.ones(80)])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", message="left out")
        warnings.filterwarnings("ignore", message=".*rows.*", category=RangeWarning)
        assert fit_sample(table, "attention-d2").field.support == [0, 1]


def test_a_method_takes_the_place_of_a_name() -> None:
    kernel = KDE("loo")
    assert fit_sample(POINTS, kernel).resolved == (kernel, "KDE", None)
    np.testing.assert_array_equal(
        fit_sample(POINTS, kernel).field.score(POINTS), fit_sample(POINTS, "kde-loo").field.score(POINTS)
    )


# A column with atoms that follows from another is left out as a whole.
RNG = np.random.default_rng(0)
NET = np.where(RNG.random(300) < 0.2, 0.0, RNG.lognormal(4, 1, 300))
TABLE = pd.DataFrame({"net": NET, "gross": 1.19 * NET, "x": RNG.normal(size=300)})


@pytest.mark.filterwarnings("ignore::discoformer.SupportWarning")
def test_every_verb_answers_as_without_the_column() -> None:
    fit, rest = DiScoFormer().fit(TABLE), DiScoFormer().fit(TABLE[["net", "x"]])
    assert fit.support_.tolist() == [True, False, True]
    rows, own = TABLE.head(3), TABLE[["net", "x"]].head(3)
    for verb in ("log_density", "level", "p_value", "discoveries"):
        np.testing.assert_allclose(getattr(fit, verb)(rows), getattr(rest, verb)(own))
    np.testing.assert_allclose(fit.explain(rows).excess[:, [0, 2]], rest.explain(own).excess)
    assert fit.entropy() == rest.entropy()
    mean, covariance = np.asarray(fit.mean()), np.asarray(fit.cov())
    assert mean[1] == pytest.approx(1.19 * mean[0], rel=0.02)
    assert covariance[0, 1] == pytest.approx(1.19 * covariance[0, 0], rel=0.05)
    assert np.isfinite(np.asarray(fit.conditional("net", 0.0).mean())).all()
    assert np.isfinite(DensityDetector().fit(TABLE).sample_scores_).all()


@pytest.mark.filterwarnings("ignore::discoformer.SupportWarning")
def test_draws_keep_the_relation_also_at_the_atom() -> None:
    drawn = DiScoFormer().fit(TABLE).sample(500, random_state=0)
    np.testing.assert_allclose(drawn["gross"], 1.19 * drawn["net"], atol=1e-9)
    assert (drawn["net"] == 0).mean() == pytest.approx(0.2, abs=0.06)


@pytest.mark.filterwarnings("ignore::discoformer.SupportWarning")
def test_where_only_the_numbers_follow_the_column_has_no_support_either() -> None:
    table = TABLE.assign(gross=np.where(NET == 0, 5.0, TABLE["gross"]))
    fit = DiScoFormer().fit(table)
    assert fit.support_.tolist() == [True, False, True]
    assert np.isfinite(np.asarray(fit.mean())).all() and np.isfinite(fit.level(table.head(3))).all()
