"""Regions of highest density hold their share, and are made of values that the column can have."""

import numpy as np
import pytest
import torch

from discoformer import DataError
from discoformer.baselines.kde import KDE
from discoformer.columns.fit_recipe import FitRecipe
from discoformer.columns.kinds import ColumnKind
from discoformer.core.fields import Density, as_density
from discoformer.functionals.masses import level_shares, mass_between, probability
from discoformer.functionals.regions import highest_density_region
from discoformer.methods import resolve

TWO = KDE(1.0).fit([[-9.0], [9.0], [9.0]])


def fit(values: np.ndarray, kind: ColumnKind) -> Density:
    return as_density(
        FitRecipe(resolve("default").method, kinds=[kind]).fit(torch.from_numpy(values[:, None]))
    )


@pytest.mark.parametrize("share", [0.3, 0.6, 0.95])
def test_regions_of_one_column_have_the_mass_they_say(share: float) -> None:
    region = highest_density_region(TWO, share)
    mass = sum(probability(TWO, {0: ends}).value for ends in region.intervals)
    assert mass == pytest.approx(share, abs=0.015)
    ends = torch.tensor(region.intervals).double().reshape(-1, 1)
    np.testing.assert_allclose(TWO.log_density(ends), region.log_density, atol=1e-6)
    assert len(region.intervals) == (1 if share == 0.3 else 2)
    with pytest.raises(DataError, match="between 0 and 1"):
        highest_density_region(TWO, 1.0)


@pytest.mark.parametrize("unit", [1.0, 1e-4])
def test_atoms_come_first_in_any_unit(unit: float) -> None:
    rng = np.random.default_rng(0)
    amounts = np.where(rng.random(200) < 0.3, 0.0, rng.gamma(2, 40, 200)) * unit
    field = fit(amounts, ColumnKind(atoms=(0.0,)))
    region = highest_density_region(field, 0.9)
    assert region.values == [0.0]
    mass = probability(field, {0: 0}).value
    mass += sum(probability(field, {0: ends}).value for ends in region.intervals if ends[0] > 0)
    assert mass == pytest.approx(0.9, abs=0.015) and all(low < high for low, high in region.intervals)
    few = highest_density_region(field, 0.2)
    assert few.values == [0.0] and few.intervals == []


def test_places_of_a_lattice_are_the_likeliest() -> None:
    field = fit(np.random.default_rng(0).poisson(3, 300) / 10, ColumnKind(step=0.1))
    region = highest_density_region(field, 0.8)
    places = [k / 10 for k in range(-3, 15)]
    mass = {x: probability(field, {0: x}).value for x in places}
    inside = [x for x in places if any(low <= x <= high for low, high in region.intervals)]
    held = sum(mass[x] for x in inside)
    assert all(end in places for ends in region.intervals for end in ends)
    assert held >= 0.8 > held - min(mass[x] for x in inside)
    assert min(mass[x] for x in inside) >= max(mass[x] for x in places if x not in inside)


def test_of_labels_the_likeliest_are_inside() -> None:
    field = fit(np.repeat([0.0, 1.0, 2.0], [20, 60, 40]), ColumnKind("category", levels=3))
    assert highest_density_region(field, 0.4).values == [1.0]
    region = highest_density_region(field, 0.7)
    assert region.values == [1.0, 2.0] and region.intervals == []


@pytest.mark.parametrize("step", [0.0, 1.0])
def test_a_region_of_a_circle_runs_across_the_seam(step: float) -> None:
    hours = np.random.default_rng(0).normal(0, 1.5, 300) % 24
    field = fit(hours.round() % 24 if step else hours, ColumnKind("circular", period=24.0, step=step))
    region = highest_density_region(field, 0.8)
    [(low, high)] = region.intervals
    assert low > 20 and high < 4
    assert probability(field, {0: (low, high)}).value == pytest.approx(0.8, abs=0.12 if step else 0.02)
    assert len(highest_density_region(field, 0.9999).intervals) <= 2


def test_atoms_of_a_lattice_are_values_of_its_region() -> None:
    """However far they are: -999 among ages, and a cap at the end of the ages."""
    rng = np.random.default_rng(0)
    ages = np.minimum(rng.normal(60, 15, 600).round(), 80)
    table = torch.tensor(np.where(np.arange(600) < 120, -999.0, ages)).double().unsqueeze(-1)
    kinds = [ColumnKind(atoms=(-999.0, 80.0), step=1.0)]
    density = as_density(FitRecipe(resolve("default").method, [(0.0, 80.0)], kinds=kinds).fit(table))
    region = highest_density_region(density, 0.6)
    assert set(region.values) == {-999.0, 80.0}
    assert all(20 < low <= high < 80 for low, high in region.intervals)
    held = sum(
        float(mass_between(density, kinds[0], *torch.tensor([[low], [high]]).double()))
        for low, high in region.intervals
    )
    shares = level_shares(density, kinds[0])
    assert held + sum(shares.values()) == pytest.approx(0.6, abs=0.05)
    assert shares[80.0] == pytest.approx(float((table == 80).double().mean()), abs=0.01)
    assert float(density.log_density(torch.tensor([[80.0]]).double()).exp()) == pytest.approx(
        float(mass_between(density, kinds[0], *torch.tensor([[80.0], [80.0]]).double())), abs=1e-6
    )
