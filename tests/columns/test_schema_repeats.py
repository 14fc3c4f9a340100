"""Grids are found exactly, whatever the rounding of floats; atoms stand out of their neighbourhood."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from discoformer.columns.schema_repeats import find_atoms, find_caps, find_far, find_grid, without_heaps

STEPS = [1.0, 5.0, 0.1, 0.01, 0.25, 1 / 16, 2.54, 1e-6, 3e5, 1 / 3]


@settings(deadline=None)
@given(
    st.sampled_from(STEPS),
    st.integers(-1000, 1000),
    st.lists(st.integers(-2000, 2000), min_size=2, max_size=40, unique=True),
)
def test_the_step_is_the_greatest_common_divisor(step: float, shift: int, places: list[int]) -> None:
    steps = np.diff(np.sort(places))
    expected = step * math.gcd(*map(int, steps))
    values = np.sort(shift * step + np.array(places) * step)
    grid = find_grid(values)
    assert grid is not None
    assert grid.step == pytest.approx(expected, rel=1e-9)
    number = (values - grid.origin) / grid.step
    np.testing.assert_allclose(number, np.rint(number), atol=1e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rounding_errors_do_not_hide_a_grid(dtype: type) -> None:
    rng = np.random.default_rng(0)
    values = np.unique((rng.integers(-300, 300, 500) / 10).astype(dtype)).astype(np.float64)
    grid = find_grid(values, float(np.finfo(dtype).eps))
    assert grid is not None
    assert grid.step == pytest.approx(0.1, rel=1e-6)
    sums = np.unique([sum([0.1] * k) for k in range(1, 60)])  # errors that pile up
    assert find_grid(sums) is not None


def test_numbers_of_full_precision_are_on_no_grid() -> None:
    rng = np.random.default_rng(0)
    for size in (2, 3, 10, 1000):
        found = find_grid(np.sort(rng.normal(size=size)))
        assert found is None or size == 2  # two numbers are on the grid of their distance


@pytest.mark.parametrize("rows", [100, 1000, 10_000])
def test_smooth_samples_have_no_atoms(rows: int) -> None:
    for seed in range(20):
        rng = np.random.default_rng(seed)
        for values in (rng.normal(size=rows), rng.normal(size=rows).round(1), rng.poisson(30, rows)):
            assert find_atoms(*np.unique(values, return_counts=True)) == []


def test_atoms_are_found_wherever_they_are() -> None:
    rng = np.random.default_rng(0)
    values = np.concatenate([rng.normal(size=500), np.full(60, 0.3), np.full(90, -8.0)])
    distinct, counts = np.unique(values, return_counts=True)
    assert [distinct[place] for place in find_atoms(distinct, counts)] == [-8.0, 0.3]


def test_zeros_among_heaps_are_an_atom_and_heaps_alone_are_none() -> None:
    rng = np.random.default_rng(0)
    heaps = np.repeat(1000.0 * np.arange(1, 13), 60)  # round incomes
    others = np.concatenate([rng.gamma(2.0, 4000.0, 2000), heaps])
    for zeros, expected in ((0, []), (300, [0.0])):
        distinct, counts = np.unique(np.concatenate([np.zeros(zeros), others]), return_counts=True)
        assert [distinct[place] for place in without_heaps(find_atoms(distinct, counts), counts)] == expected


def unique(values: NDArray) -> tuple[NDArray, NDArray]:
    return np.unique(values, return_counts=True)


def step_of(values: NDArray) -> float:
    grid = find_grid(np.unique(values))
    return grid.step if grid else 0.0


SMOOTH = {
    "normal": lambda rng, n: rng.normal(size=n),
    "rounded": lambda rng, n: rng.normal(size=n).round(1),
    "rounded finely": lambda rng, n: rng.normal(0, 10, n).round(2),
    "few counts": lambda rng, n: rng.poisson(2, n),
    "many counts": lambda rng, n: rng.poisson(300, n),
    "long tail": lambda rng, n: rng.negative_binomial(0.8, 0.05, n),
    "geometric": lambda rng, n: rng.geometric(0.1, n),
    "prices": lambda rng, n: rng.lognormal(4, 1, n).round(),
    "uniform": lambda rng, n: rng.integers(0, 50, n),
    "drawn again": lambda rng, n: rng.choice(rng.normal(size=n), n),
    "very long tail": lambda rng, n: rng.pareto(1.0, n).round(),
}


@pytest.mark.parametrize("rows", [100, 1000, 10_000])
@pytest.mark.parametrize("name", SMOOTH)
def test_smooth_samples_have_neither_caps_nor_far_signs(name: str, rows: int) -> None:
    found = []
    for seed in range(50):
        values = SMOOTH[name](np.random.default_rng(seed), rows)
        distinct, counts = unique(values)
        assert find_far(distinct, counts) == []
        found += find_caps(distinct, counts, step_of(values))
    assert len(found) <= 1  # of a hundred ends


@pytest.mark.parametrize("rows", [200, 1000, 5000])
def test_a_cap_that_one_row_in_thirty_reaches_is_found(rows: int) -> None:
    rng = np.random.default_rng(1)
    for values in (rng.normal(size=rows), rng.normal(0, 100, rows).round(1), rng.gamma(2, 30, rows)):
        top = np.sort(values)[-rows // 30]
        capped = np.minimum(values, top)
        distinct, counts = unique(capped)
        assert find_caps(distinct, counts, step_of(capped)) == [len(distinct) - 1]


def test_top_coded_ages_and_extra_zeros_are_found_on_a_grid() -> None:
    rng = np.random.default_rng(2)
    ages = np.minimum(rng.normal(50, 18, 3000).round().clip(18), 85)
    distinct, counts = unique(ages)
    assert find_caps(distinct, counts, 1.0) == [0, len(distinct) - 1]
    visits = np.where(rng.random(3000) < 0.3, 0, rng.negative_binomial(2, 0.2, 3000))
    assert find_caps(*unique(visits), 1.0) == [0]


@pytest.mark.parametrize("far", [[-999.0], [-999.0, -998.0], [9999.0], [-9999.0, -999.0, 99999.0]])
def test_far_signs_are_found_at_either_end(far: list[float]) -> None:
    rng = np.random.default_rng(3)
    ages = rng.integers(18, 90, 400).astype(float)
    values = np.concatenate([ages, np.repeat(far, 6)])
    distinct, counts = unique(values)
    assert distinct[find_far(distinct, counts)].tolist() == sorted(far)
