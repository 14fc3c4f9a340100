"""The numbers of a report."""

import numpy as np
import pytest

from discoformer.api.fitting import fit_sample
from discoformer.data.files import Table
from discoformer.views.page.summary import Comparison, effective_dimension, summarize

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("columns", [1, 5])
def test_effective_dimension_is_between_one_and_the_number_of_columns(columns: int) -> None:
    base = RNG.normal(size=(4000, columns))
    assert effective_dimension(base) == pytest.approx(columns, rel=0.02)
    if columns > 1:
        assert effective_dimension(base[:, :1] + 1e-3 * base) == pytest.approx(1, abs=1e-2)


def test_numbers_are_those_of_numpy_and_of_the_field() -> None:
    table = Table(RNG.normal(size=(50, 2)), ("a", "b"))
    fitted = fit_sample(table.values, "kde-scott")
    summary = summarize(table, fitted)
    assert [column.name for column in summary.columns] == ["a", "b"]
    assert summary.columns[1].third_quartile == np.quantile(table.values[:, 1], 0.75)
    assert summary.columns[0].largest == table.values[:, 0].max()
    log_density = fitted.field.log_density(table.values)
    listed = {row.row: row for row in summary.unusual.rows}
    assert set(np.argsort(log_density)[:10].tolist()) <= set(listed)
    for number, row in listed.items():
        assert row.log_density == log_density[number]
        assert row.values == tuple(table.values[number])


def test_methods_are_ranked_against_the_best() -> None:
    table = Table(RNG.normal(size=(50, 1)), ("a",))
    comparison = summarize(table, fit_sample(table.values, "gmm-full")).comparison
    assert isinstance(comparison, Comparison)
    means = [mean for _, (mean, _), _ in comparison.results]
    assert len(means) == 3
    assert means == sorted(means, reverse=True)
    for mean, (_, _, (behind, error)) in zip(means, comparison.results, strict=True):
        assert behind == pytest.approx(means[0] - mean)
        assert error >= 0
    assert set(comparison.wins) == {label for label, _, _ in comparison.results} - {comparison.own}
    assert all(0 <= share <= 1 for share in comparison.wins.values())
