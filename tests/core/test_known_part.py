"""Queries with gaps: the margin of what is there, and its gradient."""

import pytest
import torch

from discoformer.baselines.kde import KDE
from discoformer.columns.fit_recipe import FitRecipe
from discoformer.core.fields import as_density
from discoformer.core.known_part import KnownPart
from discoformer.core.transforms import SupportWarning

X = torch.randn(60, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
NAN = torch.nan


def test_the_score_is_the_gradient_of_the_margin() -> None:
    rows = torch.tensor([[0.3, NAN, -0.2], [0.1, 0.2, 0.3], [NAN, NAN, NAN], [NAN, 1.0, NAN]]).double()
    field = KDE().fit(X)
    log_density, score = KnownPart(field).estimate(rows)
    margin = field.marginal([0, 2]).estimate(rows[:1, [0, 2]])
    torch.testing.assert_close(log_density[:1], margin.log_density)
    torch.testing.assert_close(score[:1, [0, 2]], margin.score)
    torch.testing.assert_close(log_density[1:2], field.log_density(rows[1:2]))
    assert float(log_density[2]) == 0.0 and not score[rows.isnan()].any()


def test_a_gap_in_a_column_left_out_of_the_fit_loses_nothing() -> None:
    sample = torch.cat([X, X.sum(-1, keepdim=True)], -1)
    with pytest.warns(SupportWarning):
        field = as_density(FitRecipe(KDE()).fit(sample))
    gap = sample[:2].clone()
    gap[:, 3] = NAN
    torch.testing.assert_close(KnownPart(field).log_density(gap), field.log_density(sample[:2]))
