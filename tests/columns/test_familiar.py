"""Draws of heaped columns have the values that the column has, as often as a new row would."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from discoformer import DiScoFormer
from discoformer.columns.familiar import Familiar

RNG = np.random.default_rng(0)
PRICES = np.array([0.99, 1.49, 1.99, 2.49, 4.99, 9.99])


def table(n: int = 400) -> pd.DataFrame:
    size = RNG.normal(size=n)
    price = PRICES[np.clip(np.digitize(size, [-1, -0.5, 0, 0.5, 1.2]), 0, 5)]
    return pd.DataFrame({"size": size, "price": price})


def test_values_that_all_come_again_are_all_that_is_drawn() -> None:
    frame = table()
    draws = DiScoFormer(types={"price": "positive"}).fit(frame).sample(500, random_state=0)
    within = draws["price"].between(PRICES[0], PRICES[-1])
    assert within.mean() > 0.8
    assert set(draws["price"][within]) <= set(PRICES)
    assert draws["size"].nunique() == 500


def test_as_many_draws_are_new_as_values_were_seen_once() -> None:
    """Half of the rows have one of six prices, the others a price of their own."""
    frame = table()
    own = RNG.random(len(frame)) < 0.5
    frame.loc[own, "price"] = RNG.uniform(1, 9.9, own.sum())
    draws = DiScoFormer(types={"price": "positive"}).fit(frame).sample(2000, random_state=0)
    seen = draws["price"].isin(PRICES).mean()
    assert seen == pytest.approx(1 - own.mean(), abs=0.08)


@pytest.mark.parametrize("types", ["continuous", {"price": "continuous"}])
def test_a_column_that_is_to_be_continuous_is_continuous(types: Any) -> None:
    frame = table()
    schema = DiScoFormer(types=types).fit(frame).schema_
    assert 1 not in Familiar.of(frame.to_numpy(), schema).values


def test_sums_stay_sums() -> None:
    """Moving values of columns that are linear in others would break what holds between them."""
    frame = pd.DataFrame(RNG.gamma(3, 20, (300, 2)), columns=["a", "b"])
    frame.loc[:99, "a"] = np.repeat([25.5, 70.125], 50)
    frame["both"] = frame["a"] + frame["b"]
    with pytest.warns(UserWarning, match="linear"):
        draws = DiScoFormer(types={"a": "positive"}).fit(frame).sample(300, random_state=0)
    assert DiScoFormer(types={"a": "positive"}).fit(frame[["a", "b"]]).sample(300)["a"].isin([25.5]).any()
    np.testing.assert_allclose(draws["a"] + draws["b"], draws["both"], rtol=1e-9)


@pytest.mark.parametrize(
    "draw",
    [
        lambda rng: rng.gamma(2, 50, 500).round(2),
        lambda rng: np.append(rng.lognormal(3, 1, 498), [4.25, 4.25]),
        lambda rng: rng.lognormal(9, 0.6, 500).round(),
    ],
)
def test_values_with_a_probability_of_their_own_are_drawn_as_often_as_that_says(draw: Any) -> None:
    rng = np.random.default_rng(3)
    frame = pd.DataFrame({"x": np.where(rng.random(500) < 0.25, 0.0, draw(rng))})
    estimator = DiScoFormer().fit(frame)
    share, count = estimator.shares("x")[0.0], 20_000
    drawn = float((estimator.sample(count, random_state=0)["x"] == 0).mean())
    assert abs(drawn - share) < 4 * np.sqrt(share * (1 - share) / count)
