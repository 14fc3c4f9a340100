"""What the mixture network returns is a distribution, in the units of the data."""

import math

import numpy as np
import pytest
import torch
from helpers import F64, gmm_sample, mixture_network, parameters
from scipy import stats

from discoformer.core.checks import DataError
from discoformer.core.pushforward import Pushforward


def field_of(d: int) -> Pushforward:
    field = mixture_network().encode(gmm_sample(150, d))
    assert isinstance(field, Pushforward)
    return field


def test_sample_follows_the_density() -> None:
    field = field_of(1)
    x = field.sample(4000, torch.Generator().manual_seed(0)).numpy()
    result = stats.kstest(x[:, 0], lambda t: field.cdf(t.reshape(-1, 1)).numpy())
    assert result.pvalue > 1e-3


def test_cdf_is_the_integral_of_the_density() -> None:
    field = field_of(1)
    grid = torch.linspace(-8, 8, 4001, dtype=F64).unsqueeze(-1)
    density = field.log_density(grid).exp()
    integral = torch.cumulative_trapezoid(density, dx=16 / 4000)
    torch.testing.assert_close((field.cdf(grid) - field.cdf(grid[:1]))[1:], integral, rtol=0, atol=1e-5)


def test_conditional_times_marginal_is_the_joint() -> None:
    field = field_of(3)
    y = gmm_sample(10, 3, seed=3)
    for row in y:
        joint = field.log_density(row.unsqueeze(0))
        given = field.marginal([2, 0]).log_density(row[[2, 0]].unsqueeze(0))
        rest = field.conditional([2, 0], row[[2, 0]]).log_density(row[[1]].unsqueeze(0))
        torch.testing.assert_close(given + rest, joint, rtol=1e-9, atol=1e-9)


def test_marginal_is_the_integral_of_the_joint() -> None:
    field = field_of(2)
    axis = torch.linspace(-60, 60, 20001, dtype=F64)
    for value in (-1.0, 0.5):
        line = torch.stack([torch.full_like(axis, value), axis], -1)
        integral = torch.trapezoid(field.log_density(line).exp(), axis)
        direct = field.marginal([0]).log_density(torch.tensor([[value]], dtype=F64)).exp()
        torch.testing.assert_close(integral, direct[0], rtol=1e-4, atol=1e-7)


def test_parameters_are_in_data_units() -> None:
    x = gmm_sample(150, 2) * torch.tensor([1e6, 1e-6], dtype=F64) + 1e3
    field = mixture_network().encode(x)
    weights, means, covariances = parameters(field)
    mean = (weights.unsqueeze(-1) * means).sum(0)
    draws = field.sample(200_000, torch.Generator().manual_seed(0))
    spread = draws.std(0) / math.sqrt(len(draws))
    assert bool(((draws.mean(0) - mean).abs() < 5 * spread).all())
    between = means - mean
    total = (weights[:, None, None] * (covariances + between[:, :, None] * between[:, None])).sum(0)
    assert float((draws.var(0) / total.diagonal()).sub(1).abs().max()) < 0.1


def test_wrong_columns_are_refused() -> None:
    field = field_of(2)
    with pytest.raises(DataError, match="distinct numbers from 0 to 1"):
        field.marginal([2])
    with pytest.raises(DataError, match="none is left"):
        field.conditional([0, 1], [0.0, 0.0])
    for wrong in (0.5, [0.5, 1.0], []):
        with pytest.raises(DataError, match="expected one for each of"):
            field.conditional([0], wrong)
    with pytest.raises(DataError, match="values are not numbers"):
        field.conditional([0], ["a"])
    with pytest.raises(DataError, match="values has a NaN"):
        field.conditional([0], [math.nan])
    with pytest.raises(DataError, match="needs one column, not 2"):
        field.cdf(np.zeros((3, 2)))
    with pytest.raises(DataError, match="1 column"):
        field.estimate(np.zeros((3, 1)))
