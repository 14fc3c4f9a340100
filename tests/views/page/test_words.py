"""What the first screen is made of: kinds of columns, unusual cells, dependence, sentences."""

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from discoformer.baselines.kde import KDE
from discoformer.columns.schema_column import ColumnSchema
from discoformer.models.mixture.student import StudentMixture
from discoformer.views.page.dependence import pair_information
from discoformer.views.page.folds import MOST, hold_out
from discoformer.views.page.kinds import DescribedColumn, describe_column
from discoformer.views.page.unusual import find_unusual

RNG = np.random.default_rng(0)
NORMAL = RNG.normal(size=400)


def kind_of(values: NDArray[np.generic]) -> DescribedColumn:
    """As of an array: nothing is known but the values."""
    return describe_column(np.asarray(values, dtype=np.float64), ColumnSchema("a", "continuous", ""))


@pytest.mark.parametrize(
    ("values", "kind", "remark"),
    [
        (np.full(9, 3.5), "constant", "always 3.5"),
        (np.arange(60) % 3, "count", "only 0, 1, 2"),
        (RNG.poisson(20, 200), "count", None),
        (NORMAL, "continuous", None),
        (np.round(NORMAL, 1), "lattice", "steps of 0.1"),
        (np.abs(NORMAL), "positive", "none negative"),
        (1 / (1 + np.exp(3 * NORMAL)), "bounded", "all within 0 and 1"),
        (np.where(NORMAL < 0, 0, NORMAL), "atoms", "0 in"),
        (np.exp(3 * NORMAL), "positive", "long tail to the right"),
    ],
)
def test_kinds_of_columns(values: NDArray[np.float64], kind: str, remark: str | None) -> None:
    found = kind_of(values)
    assert found.schema.kind == kind
    if remark is not None:
        assert any(remark in text for text in found.remarks)


def test_what_the_schema_says_counts() -> None:
    """Also against the values: the user may have said so."""
    known = ColumnSchema("day", "date", "dates", unit="days since 1970-01-01", resolution="D")
    found = describe_column(np.arange(30.0), known)
    assert (found.schema, found.date) == (known, "D")


def test_a_lone_negative_value_is_named() -> None:
    values = np.abs(NORMAL)
    values[7] = -1.0
    assert kind_of(values).lone == {7: -1.0}
    assert kind_of(NORMAL).lone == {}


def test_blame_does_not_depend_on_units() -> None:
    x = RNG.normal(size=(200, 3))
    x[11, 2] = 25.0
    units = np.array([1e-6, 1.0, 1e6])
    one, other = (find_unusual(KDE().fit(y), y, hold_out(KDE(), y)) for y in (x, x * units))
    assert [row.row for row in one.rows] == [row.row for row in other.rows]
    assert (one.rows[0].row, one.rows[0].column, one.errors) == (11, 2, 1)
    assert one.rows[0].excess == pytest.approx(other.rows[0].excess)
    expected = other.rows[0].expected
    assert expected is not None
    assert -4e6 < expected.low < expected.median < expected.high < 4e6


def test_a_long_tail_is_not_a_table_of_errors() -> None:
    x = np.random.default_rng(0).normal(size=(400, 2))
    x[:10, 1] = 50 * 1.3 ** np.arange(10)  # more than a stray value, each far from the next
    found = find_unusual(KDE(0.5).fit(x), x, hold_out(KDE(0.5), x))
    assert found.tails == [1]
    assert not any(row.error and row.column == 1 for row in found.rows)


def test_rows_beyond_the_sample_are_asked_too() -> None:
    x = RNG.normal(size=(MOST + 100, 1))
    x[-1] = 30.0
    held_out = hold_out(KDE(0.3), x)
    assert len(held_out.sample) == MOST
    assert held_out.ask(lambda field, part: field.log_density(part), x).shape == (MOST + 100,)
    found = find_unusual(KDE(0.3).fit(x), x, held_out)
    assert found.rows[0].row == len(x) - 1 and found.rows[0].error


def test_information_of_a_normal_pair_is_that_of_its_correlation() -> None:
    one = torch.ones(1, dtype=torch.float64)
    scale = torch.tensor([[[4.0, 1.2, 0.0], [1.2, 1.0, 0.0], [0.0, 0.0, 1.0]]], dtype=torch.float64)
    best, *others = pair_information(StudentMixture(0 * one, torch.zeros(1, 3).double(), scale, 1e7 * one))
    assert (best.first, best.second) == (0, 1)
    assert best.nats == pytest.approx(-0.5 * math.log(1 - 0.36), abs=4 * best.error)
    assert best.correlation == pytest.approx(0.6, abs=0.03)
    assert max(pair.nats for pair in others) < 0.01


@pytest.mark.parametrize("shift", [lambda x: x, lambda x: np.exp(x), lambda x: -(x**3)])
def test_information_sees_any_shape(shift: Callable[[NDArray[np.float64]], NDArray[np.float64]]) -> None:
    x = RNG.normal(size=(300, 2))
    x[:, 1] = shift(x[:, 0]) + 0.1 * x[:, 1]
    (pair,) = pair_information(KDE().fit(x))
    assert pair.correlation > 0.7
