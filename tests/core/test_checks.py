"""Input checks: what is refused, and with which words."""

import numpy as np
import pandas as pd
import pytest
import torch

from discoformer.core.checks import DataError, check_context, check_points, check_weights

POINTS = torch.zeros(3, 2, dtype=torch.float64)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (np.zeros(3), "reshape one column"),
        (np.zeros((3, 0)), "no columns"),
        ([["a", "b"]], "not an array of numbers"),
        (np.array([["2020-01-01"]], dtype="datetime64[D]"), "holds dates"),
        (np.array([[1 + 2j]]), "not an array of numbers"),
        (torch.zeros(2, 2, dtype=torch.complex64), "complex"),
        (torch.zeros(2, 2).to_sparse(), "not a dense tensor"),
        (torch.zeros(2, 2, device="meta"), "not a dense tensor"),
        (np.array([[10**400]], dtype=object), "not an array of numbers"),
        (np.ma.masked_array([[1.0, 2.0]], mask=[[True, False]]), "row 0, column 0"),
        ([[1.0, 2.0], [3.0, np.inf]], "row 1, column 1"),
    ],
)
def test_points_that_are_refused(values: object, message: str) -> None:
    with pytest.raises(DataError, match=message):
        check_points(values, "context")


@pytest.mark.parametrize("sample", [np.full((2, 2), 1e200), torch.full((2, 2), 1e30)])
def test_samples_whose_squares_overflow_are_refused_but_queries_are_not(sample: object) -> None:
    check_points(sample, "queries")
    with pytest.raises(DataError, match="change the unit"):
        check_context(sample)


def test_points_keep_dtype_and_graph() -> None:
    x = torch.zeros(2, 2, requires_grad=True)
    assert check_points(x, "context") is x
    assert check_points([[True, False]], "context").dtype == torch.float64


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1.0, 2.0], "one per row"),
        (np.ones((5, 3)), "one per row"),
        (["a", "b", "c"], "not an array of numbers"),
        ([1.0, -1.0, 1.0], "not negative"),
        ([1.0, np.nan, 1.0], "finite"),
        ([0.0, 0.0, 0.0], "sum to zero"),
    ],
)
def test_weights_that_are_refused(weights: object, message: str) -> None:
    with pytest.raises(DataError, match=message):
        check_weights(weights, POINTS)


def test_weights_in_any_unit_and_container() -> None:
    expected = [0.25, 0.25, 0.5]
    for weights in ([1, 1, 2], pd.Series([8e307, 8e307, 1.6e308]), torch.tensor([1, 1, 2])):
        got = check_weights(weights, POINTS)
        assert got is not None
        assert got.tolist() == pytest.approx(expected)
    batch = check_weights([1, 1, 2], POINTS.expand(4, 3, 2))
    assert batch is not None
    assert batch.shape == (4, 3)
