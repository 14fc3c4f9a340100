"""Rows with other cells are ranked the same whatever the units of the columns are."""

import numpy as np
import pandas as pd
import pytest
import torch

from discoformer import DensityDetector, DiScoFormer
from discoformer.api.fitting import fit_sample
from discoformer.columns.kinds import ColumnKind
from discoformer.core.fields import as_density
from discoformer.detection.common_scale import common_scale, on_scale

RNG = np.random.default_rng(0)
A = np.where(RNG.random(200) < 0.3, 0.0, RNG.gamma(3, size=200))
Y = RNG.normal(size=200)


def table(unit: float) -> pd.DataFrame:
    return pd.DataFrame({"a": A * unit, "y": Y})


def test_units_do_not_decide_which_rows_stand_out() -> None:
    """Rows with a gap or at an atom rank the same whatever the unit of the column is."""
    kinds = [ColumnKind(atoms=(0.0,)), ColumnKind()]
    values = np.column_stack([A, Y])
    values[::10, 1] = np.nan
    orders = []
    for unit in (1.0, 1000.0):
        rows = values * [unit, 1.0]
        field = as_density(fit_sample(rows, "default", kinds=kinds).field)
        scale = common_scale(field, rows, kinds)
        assert scale is not None
        orders.append(on_scale(scale, field.log_density(rows), rows))
    np.testing.assert_allclose(*orders, atol=0.2)  # gaps are filled by other draws; the units differ by 7
    assert common_scale(field, np.ones((5, 2)), [ColumnKind(), ColumnKind()]) is None


@pytest.mark.parametrize("unit", [1.0, 1e-4, 1e4])
def test_a_far_value_beside_an_atom_is_odd_in_every_unit(unit: float) -> None:
    est = DiScoFormer().fit(table(unit))
    far = pd.DataFrame({"a": [0.0, 3.0 * unit], "y": [6.5, 6.5]})
    assert est.p_value(far).tolist() == [1 / 201, 1 / 201]
    assert est.level(far).tolist() == [0, 0] and (est.level(far, draws=4000) < 0.005).all()
    usual = pd.DataFrame({"a": [0.0, 2.0 * unit], "y": [0.0, 0.0]})
    assert (est.level(usual) > 0.2).all() and (est.p_value(usual) > 0.2).all()


def test_the_detector_ranks_masses_and_densities_on_one_scale() -> None:
    odd = [
        DensityDetector(contamination=0.02, model="default").fit(table(unit)).sample_scores_
        for unit in (1.0, 1e-4)
    ]
    np.testing.assert_allclose(*odd, atol=0.1)


def test_a_rare_value_with_a_density_counts_by_its_probability() -> None:
    rng = np.random.default_rng(1)
    a = np.where(rng.random(400) < 0.95, 0.0, rng.gamma(3, size=400))
    values = np.column_stack([a, rng.normal(size=400)])
    kinds = [ColumnKind(atoms=(0.0,)), ColumnKind()]
    field = as_density(fit_sample(values, "default", kinds=kinds).field)
    scale = common_scale(field, values, kinds)
    assert scale is not None
    found = field.log_density(torch.tensor([[0.0, 0.0], [2.0, 0.0]]).double()).numpy()
    common = on_scale(scale, found, np.array([[0.0, 0.0], [2.0, 0.0]]))
    assert 2 < common[0] - common[1] < 4  # log 19 is 2.9
