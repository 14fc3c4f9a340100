"""What makes a row unusual, and how rows that have not the same cells are compared."""

import numpy as np

from discoformer.api.fitting import fit_sample
from discoformer.columns.kinds import ColumnKind
from discoformer.core.fields import as_density
from discoformer.views.reasons import common_scale, odd_columns, without_rows


def test_units_do_not_decide_which_rows_stand_out() -> None:
    """Rows with a gap or at an atom rank the same whatever the unit of the column is."""
    rng = np.random.default_rng(0)
    kinds = [ColumnKind(atoms=(0.0,)), ColumnKind()]
    values = np.column_stack(
        [np.where(rng.random(200) < 0.3, 0.0, rng.gamma(3, size=200)), rng.normal(size=200)]
    )
    values[::10, 1] = np.nan
    orders = []
    for unit in (1.0, 1000.0):
        table = values * [unit, 1.0]
        field = as_density(fit_sample(table, "default", kinds=kinds).field)
        scale = common_scale(field, table, kinds)
        assert scale is not None
        orders.append(field.log_density(table) + scale(table))
    np.testing.assert_allclose(*orders, atol=0.2)  # gaps are filled by other draws; the units differ by 7
    assert common_scale(field, np.ones((5, 2)), [ColumnKind(), ColumnKind()]) is None


def test_the_odd_column_is_named_by_a_fit_without_the_row() -> None:
    rng = np.random.default_rng(1)
    values = np.column_stack([rng.normal(size=(300, 2)), rng.integers(0, 2, 300)])
    values[7, 1] = 1e6
    fitted = fit_sample(
        values, "default", kinds=[ColumnKind(), ColumnKind(), ColumnKind("category", levels=2)]
    )
    density = without_rows(fitted, values, np.array([7]))
    assert density is not None
    assert odd_columns(density, values[[7]]) == [[1]]
