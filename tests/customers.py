"""A messy table of customers as people have them: every kind of column, gaps, and cells that are wrong."""

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

LAND = np.array(["Austria", "Germany", "Italy", "Poland", "Switzerland"])
CURRENCY = {"Austria": "EUR", "Germany": "EUR", "Italy": "EUR", "Poland": "PLN", "Switzerland": "CHF"}

# Row and column of every cell that is wrong; a currency that the country does not have is a matter of two.
PLANTED: dict[int, tuple[str, ...]] = {
    17: ("age",),
    101: ("income",),
    214: ("currency", "country"),
    333: ("spent",),
    402: ("since",),
}


def customers(rows: int = 600, seed: int = 1) -> pd.DataFrame:
    """Dates, labels, truth values, counts, money with zeros, a clock, ratings in halves, a name per row."""
    rng = np.random.default_rng(seed)
    country = rng.choice(LAND, rows, p=[0.2, 0.4, 0.15, 0.15, 0.1])
    age = rng.normal(45, 13, rows).clip(18, 90).round()
    wealth = np.where(country == "Switzerland", 0.5, np.where(country == "Poland", -0.5, 0.0))
    income = np.exp(rng.normal(10.3, 0.35, rows) + wealth).round(-2)
    days = rng.gamma(2, 400, rows).clip(1, 3600).round()
    premium = rng.random(rows) < 1 / (1 + np.exp(-(np.log(income) - 10.4) * 3))
    spent = np.exp(rng.normal(3.2, 0.4, rows)) * (1 + days / 300) * np.where(premium, 3.0, 1.0)
    spent = np.where(rng.random(rows) < np.where(premium, 0.08, 0.4), 0.0, spent.round(2))
    frame = pd.DataFrame(
        {
            "customer": [f"C{10_000 + k}" for k in range(rows)],
            "country": country,
            "currency": [CURRENCY[name] for name in country],
            "since": np.datetime64("2024-12-31") - days.astype("timedelta64[D]"),
            "age": age,
            "income": income,
            "premium": np.where(premium, "yes", "no"),
            "spent": spent,
            "hour": _evenings(rng, rows),
            "rating": (2 * rng.normal(3.6 + 0.6 * premium, 0.7)).round().clip(2, 10) / 2,
        }
    )
    frame.loc[17, "age"] = 430
    frame.loc[101, "income"] *= 100
    frame.loc[214, ["country", "currency"]] = ["Germany", "PLN"]
    frame.loc[333, "spent"] = -250.0
    frame.loc[402, "since"] = np.datetime64("2031-05-01")
    safe = ~np.isin(np.arange(rows), list(PLANTED))
    for column, share in (("income", 0.08), ("rating", 0.25), ("country", 0.03)):
        lost: NDArray[np.bool_] = (rng.random(rows) < share) & safe
        frame.loc[lost, column] = None
    return frame


def _evenings(rng: np.random.Generator, rows: int) -> NDArray[Any]:
    """Hours of the day: in the evening and past midnight, some at noon."""
    late = rng.normal(21.5, 2.5, rows)
    return np.where(rng.random(rows) < 0.75, late, rng.normal(12.5, 1.0, rows)).round(2) % 24
