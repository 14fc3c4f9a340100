"""Lattices: spread over bins, and masses of bins."""

import math

import pytest
import torch

from discoformer.columns.fit_recipe import FitRecipe
from discoformer.columns.kinds import CONTINUOUS, ColumnKind
from discoformer.columns.lattice import dequantize, log_mass
from discoformer.core.checks import DataError
from discoformer.core.fields import as_density
from discoformer.methods import resolve

F64 = torch.float64


def test_bins_are_filled_and_order_does_not_matter() -> None:
    counts = torch.tensor([[0.0, 1.0]] * 8 + [[3.0, 1.0]] * 2, dtype=F64)
    kinds = [ColumnKind(step=1.0)] * 2
    spread = dequantize(counts, None, kinds)
    assert float((spread - counts).abs().max()) < 0.5 and len(spread.unique(dim=0)) == 10
    torch.testing.assert_close(dequantize(counts.flip(0), None, kinds).sort(0).values, spread.sort(0).values)


def test_masses_of_bins_are_those_of_the_distribution_function() -> None:
    generator = torch.Generator().manual_seed(0)
    counts = torch.poisson(torch.full((400, 1), 3.0, dtype=F64), generator=generator)
    kinds = [ColumnKind(step=1.0)]
    density = as_density(FitRecipe(resolve("default").method, [(0.0, math.inf)], kinds=kinds).fit(counts))
    bins = torch.arange(12, dtype=F64).unsqueeze(-1)
    expected = density.cdf(bins + 0.5) - density.cdf(bins - 0.5)
    torch.testing.assert_close(log_mass(density, bins, kinds).exp(), expected, rtol=0, atol=0.01)
    with pytest.raises(DataError, match="2 kinds for 1 column"):
        log_mass(density, bins, [*kinds, CONTINUOUS])
