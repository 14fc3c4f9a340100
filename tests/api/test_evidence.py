"""Evidence where it is known: the error covers it, weights are draws, units shift it by their log."""

import math
import warnings

import numpy as np
import pytest

from discoformer import DataError, evidence, load_model, savage_dickey

NETWORK = load_model("default").network  # one view of a sample: quick
MIX = np.array([[1.0, 0.6], [0.0, 0.5]])


def _posterior(seed: int, rows: int = 1500) -> tuple[np.ndarray, np.ndarray, float]:
    normal = np.random.default_rng(seed).normal(size=(rows, 2))
    return normal @ MIX, -0.5 * (normal**2).sum(-1) + 7, 7 + math.log(2 * math.pi) + math.log(0.5)


def test_the_error_covers_the_truth() -> None:
    off = []
    for seed in range(5):
        samples, log_p, truth = _posterior(seed)
        log_z, error, _ = evidence(samples, log_p, model=NETWORK, seed=seed)
        assert error < 0.1
        off.append((log_z - truth) / error)
    assert np.abs(off).max() < 4
    assert np.mean(np.square(off)) < 4


def test_a_function_bridges_what_values_alone_cannot_see() -> None:
    normal = np.random.default_rng(0).normal(size=(1500, 6))
    samples = normal.copy()
    samples[:, 1::2] = samples[:, ::2] ** 2 + 0.2 * normal[:, 1::2]  # three thin bananas

    def log_p(x: np.ndarray) -> np.ndarray:
        residual = (x[:, 1::2] - x[:, ::2] ** 2) / 0.2
        return -0.5 * (x[:, ::2] ** 2 + residual**2).sum(-1)

    log_z, error, kept = evidence(samples, log_p, model=NETWORK)
    assert kept == (1.0, 1.0)
    assert abs(log_z - 3 * math.log(2 * math.pi * 0.2)) < 3 * error
    assert error < 0.2


def test_functions_weights_and_constants() -> None:
    samples, log_p, _ = _posterior(0)
    inverse = np.linalg.inv(MIX)
    by_values = evidence(samples, log_p, model=NETWORK)
    by_function = evidence(samples, lambda x: 7 - 0.5 * ((x @ inverse) ** 2).sum(-1), model=NETWORK)
    assert by_function.log_evidence == pytest.approx(by_values.log_evidence, abs=0.05)
    shifted = evidence(samples, log_p + 100, model=NETWORK)
    assert shifted.log_evidence == pytest.approx(by_values.log_evidence + 100, abs=1e-9)
    even = evidence(samples, log_p, weights=np.full(len(samples), 3.0), model="kde-scott")
    plain = evidence(samples, log_p, model="kde-scott")
    assert even.log_evidence == pytest.approx(plain.log_evidence, abs=1e-6)
    assert even.standard_error == pytest.approx(plain.standard_error, rel=1e-3)


def test_the_ratio_of_savage_and_dickey_is_that_of_densities() -> None:
    samples = np.random.default_rng(0).normal(size=(2000, 2))
    log_factor, error = savage_dickey(samples, [1], [0.5], -2.0, model=NETWORK)
    assert abs(log_factor - (-0.5 * math.log(2 * math.pi) - 0.125 + 2.0)) < max(4 * error, 0.1)
    assert 0 < error < 0.2


def test_bad_input_is_refused() -> None:
    samples, log_p, _ = _posterior(0, 50)
    with pytest.raises(DataError, match="a finite one for each of 50 rows"):
        evidence(samples, log_p[:-1], model="kde-scott")
    with pytest.raises(DataError, match="at least 20"):
        evidence(samples[:5], log_p[:5])
    with pytest.raises(DataError, match="give distinct numbers from 0 to 1"):
        savage_dickey(samples, [2], [0.0], 0.0)
    with pytest.raises(DataError, match="give one each"):
        savage_dickey(samples, [0], [0.0, 1.0], 0.0)


@pytest.mark.parametrize("columns", [[0, 0], ["a"], []])
def test_columns_that_are_none_are_refused(columns: list[object]) -> None:
    with pytest.raises(DataError, match="give distinct numbers from 0 to 1"):
        savage_dickey(_posterior(0, 50)[0], columns, [0.0, 0.0], 0.0)


@pytest.mark.parametrize("columns", [[True], True, 0.0, None, "a"])
def test_a_column_is_a_number_or_the_name_of_a_frame(columns: object) -> None:
    frame = pytest.importorskip("pandas").DataFrame(_posterior(0, 100)[0], columns=["a", "b"])
    with pytest.raises(DataError, match="give distinct numbers from 0 to 1"):
        savage_dickey(frame.to_numpy(), columns, 0.0, 0.0)
    by_name, by_number = (
        savage_dickey(frame, column, 0.5, 0.0, bounds=bounds, model="kde-scott")
        for column, bounds in (("b", {"b": (-9, 9)}), (1, {1: (-9, 9)}))
    )
    assert by_name == by_number


def test_at_a_bound_the_draws_are_mirrored() -> None:
    half, off = math.log(2) - 0.5 * math.log(2 * math.pi), []
    for seed in range(5):
        draws = np.abs(np.random.default_rng(seed).normal(size=(2000, 1)))
        found = savage_dickey(draws, 0, 0.0, 0.0, bounds=(0, None), model=NETWORK)
        off.append((found.value - half) / found.standard_error)
        below = savage_dickey(5 - 4 * draws, 0, 5.0, -math.log(4), bounds=(None, 5), model=NETWORK)
        np.testing.assert_allclose(below, found, atol=1e-6)
    assert np.abs(off).max() < 4
    assert np.mean(np.square(off)) < 4


def test_two_bounds_and_values_between_them() -> None:
    draws = np.random.default_rng(0).uniform(size=(2000, 2))
    corner, error = savage_dickey(draws, [0, 1], [0.0, 1.0], 0.0, bounds=(0, 1), model=NETWORK)
    assert abs(corner) < max(4 * error, 0.2) < 0.5
    middle, error = savage_dickey(draws, 1, 0.5, 0.0, bounds=(0, 1), model=NETWORK)
    assert abs(middle) < max(4 * error, 0.1) < 0.3


def test_a_value_where_draws_end_needs_bounds() -> None:
    draws = np.random.default_rng(0).normal(size=(500, 1))
    with pytest.raises(DataError, match=r"column 0 end at 0: give bounds=\{0: \(0, None\)\}"):
        savage_dickey(np.abs(draws), 0, 0.0, 0.0)
    with pytest.raises(DataError, match=r"end at 0: give bounds=\{0: \(None, 0\)\}"):
        savage_dickey(-np.abs(draws), 0, 0.0, 0.0)
    with pytest.raises(DataError, match="outside its bounds"):
        savage_dickey(np.abs(draws), 0, -1.0, 0.0, bounds=(0, None))
    with pytest.raises(DataError, match="outside its bounds"):
        savage_dickey(draws, 0, 0.0, 0.0, bounds=(0, None))
    for value in (draws.min(), draws.max() + 1):  # a tail is no end
        assert math.isfinite(savage_dickey(draws, 0, value, 0.0, model="kde-scott").value)


@pytest.mark.parametrize("value", [math.nan, "zero", None])
def test_a_value_that_is_no_number_is_refused(value: object) -> None:
    with pytest.raises(DataError, match="value is .*: give"):
        savage_dickey(_posterior(0, 50)[0], 0, value, 0.0)


@pytest.mark.parametrize("prior", ["uniform", math.exp])
def test_a_prior_density_is_its_value(prior: object) -> None:
    with pytest.raises(DataError, match="prior_log_density is .*: give numbers"):
        savage_dickey(_posterior(0, 50)[0], 0, 0.0, prior)  # type: ignore[arg-type]


@pytest.mark.parametrize("prior", [math.nan, -math.inf, [0.0], None])
def test_a_prior_density_that_is_no_number_is_refused(prior: object) -> None:
    with pytest.raises(DataError, match="give one finite number"):
        savage_dickey(_posterior(0, 50)[0], [0], [0.0], prior)  # type: ignore[arg-type]


def test_rows_of_weight_zero_do_not_count() -> None:
    samples, log_p, _ = _posterior(0, 400)
    weights = np.random.default_rng(0).exponential(size=400)
    weights[:150] = 0
    nowhere = np.where(weights > 0, log_p, -np.inf)  # as nested samplers leave it
    kept = weights > 0
    found = evidence(samples, nowhere, weights=weights, model="kde-scott")
    assert found == evidence(samples[kept], log_p[kept], weights=weights[kept], model="kde-scott")
    factor = savage_dickey(samples, [0], [0.0], -1.0, weights=weights, model="kde-scott")
    fewer = savage_dickey(samples[kept], [0], [0.0], -1.0, weights=weights[kept], model="kde-scott")
    np.testing.assert_allclose(factor, fewer, rtol=1e-9)


def test_no_evidence_where_there_is_none() -> None:
    x = np.random.default_rng(0).normal(size=(200, 2))
    with pytest.raises(DataError, match="leave them out"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        evidence(np.c_[x, np.ones(200)], lambda p: -0.5 * (p**2).sum(-1), model="kde-scott")

    def elsewhere(points):  # finite at the samples, and nowhere else
        known = (points[:, None] == x[None]).all(-1).any(-1)
        return np.where(known, 0.0, -np.inf)

    with pytest.raises(DataError, match="-inf at every draw"):
        evidence(x, elsewhere, model="kde-scott")
