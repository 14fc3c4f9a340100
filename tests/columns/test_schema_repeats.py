"""Grids are found exactly, whatever the rounding of floats; atoms stand out of their neighbourhood."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discoformer.columns.schema_repeats import find_atoms, find_grid, without_heaps

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
