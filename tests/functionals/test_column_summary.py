"""Summaries of columns of every kind say what the law of the column says."""

import math

import numpy as np
import pandas as pd
import pytest
import torch

from discoformer import DataError, DiScoFormer
from discoformer.columns.fit_recipe import FitRecipe
from discoformer.columns.kinds import ColumnKind
from discoformer.core.fields import Density, as_density
from discoformer.functionals.column_summary import column_summaries
from discoformer.functionals.modes import mode
from discoformer.methods import resolve

KINDS = [
    ColumnKind("category", levels=3),
    ColumnKind(atoms=(0.0,)),
    ColumnKind(step=1.0),
    ColumnKind("circular", period=24.0),
    ColumnKind(),
]


def table(turn: float = 0.0) -> np.ndarray:
    rng = np.random.default_rng(0)
    n = 240
    return np.column_stack(
        [
            rng.choice(3, n, p=[0.5, 0.3, 0.2]),
            np.where(rng.random(n) < 0.25, 0.0, 5 + rng.normal(size=n)),
            rng.poisson(4, n),
            (23.5 + turn + rng.normal(size=n)) % 24,
            rng.normal(size=n),
        ]
    )


def fit(rows: np.ndarray) -> Density:
    return as_density(FitRecipe(resolve("default").method, kinds=KINDS).fit(torch.from_numpy(rows)))


def test_every_kind_is_told_in_its_own_way() -> None:
    rows = table()
    label, amount, count, hour, number = column_summaries(fit(rows), 0.9)
    shares = np.bincount(rows[:, 0].astype(int)) / len(rows)
    assert sum(label.shares.values()) == pytest.approx(1)
    np.testing.assert_allclose(list(label.shares.values()), shares, atol=0.02)
    assert math.isnan(label.mean) and label.mode == shares.argmax()

    assert list(amount.shares) == [0.0] and amount.mode == 0
    assert amount.shares[0.0] == pytest.approx((rows[:, 1] == 0).mean(), abs=0.02)
    assert amount.interval[0] == 0 and amount.region[0] == (0, 0)
    assert all(low > 0.5 for low, _ in amount.region[1:])

    assert count.median == round(count.median) and all(
        end == round(end) for ends in count.region for end in ends
    )
    assert min(hour.mean % 24, -hour.mean % 24) < 0.8 and hour.std == pytest.approx(1, abs=0.3)
    low, high = hour.interval
    assert low > 18 and high < 6  # from the evening on to the morning
    assert number.shares == {} and number.interval[0] < number.median < number.interval[1]


def test_the_mode_of_a_column_is_that_of_its_margin() -> None:
    field = fit(table())
    for j, own in enumerate(column_summaries(field, 0.9)):
        assert own.mode == mode(field.marginal([j]))[0]


def test_a_summary_of_a_circle_turns_with_it() -> None:
    here, there = (column_summaries(fit(table(turn)), 0.9)[3] for turn in (0.0, 12.0))
    assert (there.mean - here.mean) % 24 == pytest.approx(12, abs=0.1)
    assert there.std == pytest.approx(here.std, abs=0.05)


def test_estimators_know_shares_of_labels_and_no_mean_of_them() -> None:
    rows = table()
    frame = pd.DataFrame({"land": np.array(["x", "y", "z"])[rows[:, 0].astype(int)], "value": rows[:, 4]})
    est = DiScoFormer().fit(frame)
    shares = est.shares("land")
    assert list(shares) == ["x", "y", "z"] and sum(shares.values()) == pytest.approx(1)
    assert np.isnan(est.mean()).tolist() == [True, False] and np.isnan(est.cov()).sum() == 3
    with pytest.raises(DataError, match="neither labels nor values"):
        est.shares("value")
