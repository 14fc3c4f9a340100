"""Numbers with errors: those of the textbook, carried through arithmetic."""

import math
import pickle

import numpy as np
import pytest

from discoformer_paper.harness.measured import Measured, error_of, pooled_ratio

SETS = [str(i) for i in range(6)]
X = np.array([3.0, 1.0, 4.0, 1.5, 5.0, 9.0])
Y = np.array([2.0, 7.0, 1.0, 8.0, 2.5, 8.0])


def test_the_error_of_a_mean_is_that_of_the_textbook() -> None:
    found = pooled_ratio(SETS, X)
    assert found == pytest.approx(X.mean())
    assert error_of(found) == pytest.approx(X.std(ddof=1) / math.sqrt(6))
    assert error_of(found - pooled_ratio(SETS, Y)) == pytest.approx((X - Y).std(ddof=1) / math.sqrt(6))
    assert error_of(3 * found) == error_of(found * 3) == pytest.approx(3 * error_of(found))
    assert error_of(1 - found) == pytest.approx(error_of(found))


def test_data_sets_with_several_rows_count_once() -> None:
    twice = pooled_ratio([*SETS, *SETS], [*X, *X])
    assert (twice, error_of(twice)) == pytest.approx((X.mean(), error_of(pooled_ratio(SETS, X))))


def test_quotients_logarithms_and_pooled_ratios_agree_to_first_order() -> None:
    quotient, pooled = pooled_ratio(SETS, X) / pooled_ratio(SETS, Y), pooled_ratio(SETS, X, Y)
    assert quotient == pytest.approx(pooled)
    assert error_of(quotient) == pytest.approx(error_of(pooled), rel=0.2)  # the jackknife goes further
    a, b = pooled_ratio(SETS, X), pooled_ratio(SETS, Y)
    assert error_of(a.log() - b.log()) == pytest.approx(error_of(a / b) / (a / b))
    assert error_of(1 / a) == pytest.approx(error_of(a) / a**2)


def test_one_data_set_has_no_error_and_failures_are_carried_on() -> None:
    assert math.isnan(error_of(pooled_ratio(["1"], [3.0])))
    failed = pooled_ratio(SETS, [*X[:-1], math.inf])
    assert failed == math.inf and not error_of(failed) <= math.inf
    assert math.isnan(Measured(0.0, {}) / 0.0) and Measured(1.0, {}) / 0.0 == math.inf


def test_numbers_travel_between_processes() -> None:
    found = pickle.loads(pickle.dumps(pooled_ratio(SETS, X)))
    assert error_of(found) == error_of(pooled_ratio(SETS, X))
