"""Error bars: right where the answer is known in closed form."""

import numpy as np
import pytest
import torch

from discoformer import DataError
from discoformer.baselines.kde import KDE
from discoformer.columns.fit_recipe import FitRecipe
from discoformer.columns.kinds import ColumnKind
from discoformer.core.fields import as_point_density
from discoformer.functionals.bootstrap import STRETCH, bootstrap
from discoformer.methods import resolve


def test_the_spread_of_a_kernel_estimate_is_that_of_its_mean() -> None:
    """At one point the kernel density is a mean over rows: its standard error has a formula."""
    x = torch.randn(400, 1, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    y = torch.tensor([[0.0], [1.5]]).double()
    method = KDE(0.4)
    spread = bootstrap(method, method.fit(x), x, y, fits=400)
    kernel = np.exp(-0.5 * ((y - x.mT).numpy() / 0.4) ** 2)
    expected = kernel.std(-1) / kernel.mean(-1) / 20
    np.testing.assert_allclose(spread.log_density / STRETCH.log_density, expected, rtol=0.12)


def test_weights_of_the_sample_count_and_one_fit_shows_nothing() -> None:
    x = torch.randn(100, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    share = torch.cat([torch.full((50,), 0.02), torch.zeros(50)]).double()
    method = KDE(0.5)
    half = bootstrap(method, method.fit(x, share), x, x[:3], weights=share)
    assert float(half.log_density.mean()) > float(
        bootstrap(method, method.fit(x), x, x[:3]).log_density.mean()
    )
    with pytest.raises(DataError, match="at least 2"):
        bootstrap(method, method.fit(x), x, x[:3], fits=1)


def test_labels_and_gaps_are_refitted_one_table_at_a_time() -> None:
    rng = np.random.default_rng(0)
    table = torch.from_numpy(np.column_stack([rng.integers(0, 2, 60), rng.normal(size=60)]))
    kinds = [ColumnKind("category", levels=2), ColumnKind()]
    recipe = FitRecipe(resolve("default").method, kinds=kinds)
    field = as_point_density(recipe.fit(table))
    spread = bootstrap(recipe, field, table, table[:3], fits=2)
    assert (
        (spread.log_density > 0).all() and (spread.score[:, 1] > 0).all() and (spread.score[:, 0] == 0).all()
    )
