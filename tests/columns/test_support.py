"""Columns without a density of their own: named, left out, and put back into what is drawn."""

import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from helpers import fit_quietly

from discoformer import KDE, DiScoFormer, SupportWarning
from discoformer.columns.fit_recipe import FitRecipe
from discoformer.columns.support import divide
from discoformer.core.checks import DataError

RNG = np.random.default_rng(0)


def test_constant_and_collinear_columns_are_named_and_left_out(model_path: Path) -> None:
    import pandas as pd

    a, b = RNG.normal(size=(2, 80))
    frame = pd.DataFrame({"a": a, "one": 1.0, "b": 1e9 * b, "sum": 3 * a - 1e9 * b + 7})
    with pytest.warns(SupportWarning, match=r"left out 'one' \(constant\) and 'sum' \(linear in"):
        est = DiScoFormer(model=model_path).fit(frame)
    assert est.support_.tolist() == [True, False, True, False]
    alone = DiScoFormer(model=model_path).fit(frame[["a", "b"]])
    np.testing.assert_allclose(est.score_samples(frame), alone.score_samples(frame[["a", "b"]]), rtol=1e-12)
    score = est.score_function(frame)
    assert (score[["one", "sum"]] == 0).all(axis=None)
    np.testing.assert_allclose(score[["a", "b"]], alone.score_function(frame[["a", "b"]]), rtol=1e-8)


@pytest.mark.parametrize("value", [1.0, 0.1, 1e9, -1e-12])
@pytest.mark.parametrize("rows", [3, 300, 10_000])
def test_constants_are_found_whatever_their_value_and_number(value: float, rows: int) -> None:
    sample = np.column_stack([RNG.normal(size=rows), np.full(rows, value)])
    assert fit_quietly(DiScoFormer(model="kde-scott"), sample).support_.tolist() == [True, False]


def test_samples_satisfy_the_relation_of_the_data(model_path: Path) -> None:
    a, b = RNG.normal(size=(2, 80))
    est = fit_quietly(DiScoFormer(model=model_path), np.column_stack([a, b, a + b, np.full(80, 3.0)]))
    drawn = est.sample(50, random_state=0)
    np.testing.assert_allclose(drawn[:, 2], drawn[:, 0] + drawn[:, 1], atol=1e-10)
    np.testing.assert_allclose(drawn[:, 3], 3.0)


def test_queries_off_the_support_are_warned_of_once() -> None:
    a = RNG.normal(size=80)
    sample = np.column_stack([a, np.full(80, 3.0)])
    est = fit_quietly(DiScoFormer(model="kde-scott"), sample)
    assert np.isfinite(est.score_samples(sample)).all()  # no warning for the sample itself
    off = np.array([[0.0, 4.0]])
    with pytest.warns(SupportWarning, match="queries differ from what the sample has in column 1"):
        first = est.score_samples(off)
    assert est.score_samples(off) == first == est.score_samples([[0.0, 3.0]])


@pytest.mark.parametrize("noise", [1e-14, 1e-10, 1e-8, 1e-7, 1e-6, 1e-4])
def test_nearly_collinear_columns_always_get_an_answer(noise: float, model_path: Path) -> None:
    """There is no gap between what is left out and what can be whitened."""
    a, b, c = RNG.normal(size=(3, 200))
    sample = np.column_stack([a, b, a - b + noise * c, 1e6 + a])
    est = fit_quietly(DiScoFormer(model=model_path), sample)
    assert np.isfinite(est.score_samples(sample)).all()
    assert est.support_[:2].all()
    assert not est.support_[3]
    assert est.support_[2] == (noise > 3e-7)


def test_marginal_and_conditional_of_left_out_columns_are_refused(model_path: Path) -> None:
    a, b = RNG.normal(size=(2, 80))
    est = fit_quietly(DiScoFormer(model=model_path), np.column_stack([a, np.ones(80), b]))
    assert est.marginal([2]).n_features_in_ == 1
    assert est.conditional([0], [0.5]).n_features_in_ == 1
    for call in (lambda: est.marginal([1]), lambda: est.conditional([1], [1.0])):
        with pytest.raises(DataError, match="column 1: left out of the fit"):
            call()


def test_batches_share_their_support() -> None:
    batch = torch.randn(3, 20, 2, dtype=torch.float64)
    batch[1, :, 1] = 4.0
    with pytest.warns(SupportWarning):
        field = FitRecipe(KDE()).fit(batch)
    assert field.support == [0]
    with pytest.warns(SupportWarning, match="queries differ"):  # in the samples where it was no constant
        assert field.estimate(batch).score.shape == (3, 20, 2)


@pytest.mark.parametrize("noise", [0.0, 1e-10, 1e-8, 1e-6, 1e-2])
def test_a_batch_leaves_out_what_its_samples_leave_out_alone(noise: float) -> None:
    a, b, c = torch.from_numpy(RNG.normal(size=(3, 60)))
    fine = torch.from_numpy(RNG.normal(size=(60, 3)))
    nearly = torch.stack([a, b, a - 2 * b + noise * c], -1)
    weights = torch.rand(2, 60, dtype=torch.float64) + 0.1
    for share in (None, weights / weights.sum(-1, keepdim=True)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SupportWarning)
            alone = divide(nearly, None if share is None else share[1]).kept
            assert divide(torch.stack([fine, nearly]), share).kept == alone
    assert alone == ([0, 1] if noise < 1e-7 else [0, 1, 2])
