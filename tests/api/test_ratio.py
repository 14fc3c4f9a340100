"""Density ratios: differences of log densities, bounded where they are relative."""

import numpy as np
import pandas as pd
import pytest
import torch

from discoformer import KDE, DataError, SupportWarning, estimate, ratio
from discoformer.columns.kinds import ColumnKind
from discoformer.columns.split import kinds_of
from discoformer.functionals import kl_divergence


def test_the_ratio_is_that_of_the_fits_and_the_relative_one_is_bounded() -> None:
    x, y = np.random.default_rng(0).normal(size=(2, 200, 2))
    points = 3 * np.random.default_rng(1).normal(size=(50, 2))
    plain = ratio(x + 1, y, model=KDE())
    expected = KDE().fit(x + 1).log_density(points) - KDE().fit(y).log_density(points)
    np.testing.assert_allclose(plain.log_ratio(points), expected, rtol=1e-10)
    np.testing.assert_allclose(plain(torch.from_numpy(points)).numpy(), plain(points), rtol=1e-12)
    relative = ratio(x + 1, y, relative=0.2, model=KDE())
    r = plain(points)
    np.testing.assert_allclose(relative(points), r / (0.2 * r + 0.8), rtol=1e-9)
    assert (relative(points) <= 5 + 1e-9).all()


def test_what_cannot_be_compared_is_refused() -> None:
    x = np.random.default_rng(0).normal(size=(50, 2))
    with pytest.raises(DataError, match="give the same columns"):
        ratio(x, x[:, :1], model=KDE())
    with pytest.raises(DataError, match="relative=1"):
        ratio(x, x, relative=1.0, model=KDE())


def test_weights_of_either_sample_are_those_of_its_fit() -> None:
    x, y = np.random.default_rng(0).normal(size=(2, 200, 2))
    heavy = np.random.default_rng(1).exponential(size=(2, 200))
    found = ratio(x, y, weights=(heavy[0], heavy[1]), model=KDE()).log_ratio(x[:9])
    expected = KDE().fit(x, heavy[0]).log_density(x[:9]) - KDE().fit(y, heavy[1]).log_density(x[:9])
    np.testing.assert_allclose(found, expected, rtol=1e-10)
    one = ratio(x, y, weights=(None, heavy[1]), model=KDE())
    np.testing.assert_allclose(one.numerator.log_density(x), KDE().fit(x).log_density(x), rtol=1e-10)
    with pytest.raises(DataError, match="give a pair"):
        ratio(x, y, weights=heavy[0], model=KDE())  # type: ignore[arg-type]
    with pytest.raises(DataError, match="expected one per row"):
        ratio(x, y, weights=(None, heavy[1][:9]), model=KDE())


def test_densities_of_other_columns_are_not_compared() -> None:
    x, y = np.random.default_rng(0).normal(size=(2, 50, 2))
    x[:, 1] = 1.0
    with pytest.raises(DataError, match=r"columns \[0\] and \[0, 1\]"), pytest.warns(SupportWarning):
        ratio(x, y, model=KDE())


def test_counts_are_found_in_both_samples_together() -> None:
    """In one sample alone a rare count may look like a measurement."""
    rng = np.random.default_rng(0)
    a, b = rng.poisson(3, (400, 1)).astype(float), rng.poisson(4, (300, 1)).astype(float)
    found = ratio(a, b)
    assert kinds_of(found.numerator) == kinds_of(found.denominator) == [ColumnKind(step=1.0)]
    usual = np.arange(1, 8)
    truth = 1 + usual * np.log(3 / 4)  # exp(-3) 3^k / (exp(-4) 4^k)
    np.testing.assert_allclose(found.log_ratio(usual[:, None].astype(float)), truth, atol=0.3)
    mean = float(found.log_ratio(a).mean())
    value, standard_error = kl_divergence(a, b, "default")
    assert abs(mean - value) < 3 * standard_error


def _frames() -> tuple[pd.DataFrame, pd.DataFrame]:
    rng = np.random.default_rng(0)
    return (
        pd.DataFrame({"a": rng.normal(size=60), "b": 5 + 3 * rng.normal(size=60)}),
        pd.DataFrame({"a": 0.5 + rng.normal(size=70), "b": 4 + 3 * rng.normal(size=70)}),
    )


def test_columns_of_frames_go_by_their_names() -> None:
    x, y = _frames()
    turned = y[["b", "a"]]
    np.testing.assert_array_equal(ratio(x, turned, model=KDE())(x.values), ratio(x, y, model=KDE())(x.values))
    assert kl_divergence(x, turned, KDE()) == kl_divergence(x, y, KDE())
    np.testing.assert_array_equal(estimate(x, turned, model=KDE()).score, estimate(x, y, model=KDE()).score)
    one, other = estimate([x, turned], [turned, x], model=KDE()), estimate([x, y], [y, x], model=KDE())
    for found, expected in zip(one, other, strict=True):
        np.testing.assert_array_equal(found.log_density, expected.log_density)


def test_frames_of_other_columns_are_refused() -> None:
    x, y = _frames()
    others = y.rename(columns={"b": "c"})
    for ask in (
        lambda: ratio(x, others, model=KDE()),
        lambda: kl_divergence(x, others, KDE()),
        lambda: estimate(x, others, model=KDE()),
        lambda: estimate([x, others], model=KDE()),
    ):
        with pytest.raises(DataError, match="'a', 'b', the other 'a', 'c': give the same columns of both"):
            ask()
