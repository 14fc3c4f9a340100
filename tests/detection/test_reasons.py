"""Reasons: exact for a normal law, the same for each row and in a batch, through margins and blends."""

import numpy as np
import pandas as pd
import torch

from discoformer import DiScoFormer
from discoformer.baselines.kde import KDE
from discoformer.columns.fit_recipe import FitRecipe
from discoformer.columns.kinds import ColumnKind
from discoformer.core.fields import as_density
from discoformer.detection.reasons import explain_rows, surprises
from discoformer.methods import resolve
from discoformer.models.mixture.student import StudentMixture

COVARIANCE = torch.tensor([[1.0, 0.8], [0.8, 2.0]], dtype=torch.float64)
ONE = torch.ones(1, dtype=torch.float64)
NORMAL = StudentMixture(0 * ONE, torch.zeros(1, 2).double(), COVARIANCE[None], 1e10 * ONE)
ROWS = torch.tensor([[0.3, -1.0], [2.0, -2.0]], dtype=torch.float64)


def test_surprises_of_a_normal_law_are_those_of_its_regression() -> None:
    slope, left = 0.8 / 2.0, 1.0 - 0.8**2 / 2.0
    law = torch.distributions.Normal(slope * ROWS[:, 1], left**0.5)
    torch.testing.assert_close(surprises(NORMAL, ROWS)[:, 0], -law.log_prob(ROWS[:, 0]), rtol=1e-6, atol=1e-6)
    reasons = explain_rows(NORMAL, ROWS, ROWS, share=0.9)
    np.testing.assert_allclose(reasons.expected[:, 0], slope * ROWS[:, 1], atol=1e-6)
    np.testing.assert_allclose(reasons.high[:, 0] - reasons.low[:, 0], 2 * 1.6449 * left**0.5, rtol=1e-4)
    assert reasons.together[1] > reasons.together[0] > 0  # signs disagree, and more so


def test_conditionals_at_many_rows_are_those_at_each() -> None:
    x = torch.randn(60, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    mixture = StudentMixture(
        torch.log_softmax(x[:4, 0], -1),
        x[:4],
        torch.eye(3).double().expand(4, 3, 3) + 0.3,
        4 + x[:4, 1].abs(),
    )
    for density in (mixture, KDE().fit(x)):
        batch = density.conditional([2, 0], x[:5, [2, 0]])
        shares = torch.tensor([0.2, 0.5]).double()
        together = batch.quantile(shares.expand(5, -1))
        for i in range(5):
            alone = density.conditional([2, 0], x[i, [2, 0]]).quantile(shares)
            torch.testing.assert_close(together[i], alone, rtol=1e-9, atol=1e-9)


def test_rows_of_the_sample_are_explained_by_a_fit_without_them() -> None:
    x = torch.randn(50, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    x[7, 1] = 9.0
    method = KDE(0.3)
    with_it = explain_rows(method.fit(x), x[7:8], x)
    without = explain_rows(method.fit(x), x[7:8], x, method=method)
    other = torch.cat([x[:7], x[8:]])
    torch.testing.assert_close(torch.tensor(without.surprise), surprises(method.fit(other), x[7:8]))
    assert without.excess[0, 1] > with_it.excess[0, 1] and without.high[0, 1] < 6


def test_labels_circles_and_gaps_have_reasons_too() -> None:
    rng = np.random.default_rng(0)
    label = rng.integers(0, 2, 200)
    x, hour = rng.normal(9.0 * label, 1.0), rng.normal(0.0, 1.5, 200) % 24
    table = torch.from_numpy(np.column_stack([label, x, hour, rng.normal(size=200)]))
    table[::7, 3] = torch.nan
    table[5] = torch.tensor([1.0, 0.0, 0.5, torch.nan])  # the label is wrong
    table[6] = torch.tensor([1.0, 9.0, 12.0, 0.3])  # and the hour here
    kinds = [
        ColumnKind("category", levels=2),
        ColumnKind(),
        ColumnKind("circular", period=24.0),
        ColumnKind(),
    ]
    recipe = FitRecipe(resolve("default").method, kinds=kinds)
    names = {0: "ab"}
    reasons = explain_rows(
        as_density(recipe.fit(table)),
        table[5:7],
        table,
        method=recipe,
        names=["label", "x", "hour", "y"],
        words=lambda j, value: names[j][int(value)] if j in names else f"{value:.0f}",
    )
    assert set(reasons.order[0, :2].tolist()) == {0, 1} and np.isnan(reasons.excess[0, 3])
    assert reasons.expected[:, 0].tolist() == [0, 1] and np.isnan(reasons.low[:, 0]).all()
    assert reasons.order[1, 0] == 2 and reasons.low[1, 2] > 12 > reasons.high[1, 2]  # across midnight
    assert any(line.startswith("label = b: a expected (+") for line in reasons.describe(0))
    assert reasons.describe(1)[0].startswith("hour = 12: ")


def test_columns_on_a_lattice_alone_have_quantiles_in_closed_form() -> None:
    """They carry a kind, but the density behind them knows nothing of gaps."""
    rng = np.random.default_rng(0)
    first = np.round(rng.normal(10, 2, 200), 1)
    frame = pd.DataFrame({"first": first, "second": np.round(2 * first + rng.normal(size=200), 1)})
    est = DiScoFormer().fit(frame)
    found = est.explain(frame[:3])
    assert (found.low <= found.expected).all() and (found.expected <= found.high).all()
    assert np.abs(found.expected[:, 1] - 2 * first[:3]).max() < 2


def test_the_reasons_of_a_column_with_atoms_do_not_depend_on_its_unit() -> None:
    rng = np.random.default_rng(0)
    income = np.where(rng.random(300) < 0.3, 0.0, rng.lognormal(10, 1, 300))
    table = pd.DataFrame({"income": income, "x": rng.normal(size=300)})
    first = DiScoFormer().fit(table).explain(table.head(5))
    for unit in (1e-3, 1e3):
        scaled = table.assign(income=unit * income)
        again = DiScoFormer().fit(scaled).explain(scaled.head(5))
        np.testing.assert_allclose(again.excess, first.excess, atol=1e-3)
        np.testing.assert_array_equal(again.order, first.order)
