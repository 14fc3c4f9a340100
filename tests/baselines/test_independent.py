"""Independent columns: a sum of log densities of one column each."""

import numpy as np

from discoformer.baselines.independent import IndependentColumns
from discoformer.baselines.kde import KDE
from discoformer.columns.fit_recipe import FitRecipe
from discoformer.columns.kinds import ColumnKind
from discoformer.core.fields import as_point_density


def test_numbers_labels_and_gaps_add_up() -> None:
    rng = np.random.default_rng(0)
    table = np.column_stack([rng.normal(size=100), rng.integers(0, 3, 100)])
    table[::4, 0] = np.nan
    recipe = FitRecipe(KDE(), kinds=[ColumnKind(), ColumnKind("category", levels=3)])
    field = as_point_density(IndependentColumns(recipe).fit(table))
    log_density, score = field.estimate(table)
    there = ~np.isnan(table[:, 0])
    alone = KDE().fit(table[there][:, [0]])
    shares = (np.bincount(table[:, 1].astype(int), minlength=3) + 1 / 3) / 101
    expected = np.log(shares)[table[:, 1].astype(int)]
    expected[there] += alone.log_density(table[there][:, [0]])
    np.testing.assert_allclose(log_density, expected, rtol=1e-12)
    np.testing.assert_allclose(score[there, 0], alone.score(table[there][:, [0]])[:, 0])
    assert (score[:, 1] == 0).all() and (score[~there, 0] == 0).all()
