"""What makes a row unusual."""

import numpy as np

from discoformer.api.fitting import fit_sample
from discoformer.columns.kinds import ColumnKind
from discoformer.views.reasons import odd_columns, without_rows


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
