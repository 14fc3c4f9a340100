"""Errors of methods that fail, and problems with answers at few or fresh points."""

import math

import pytest
import torch

from discoformer.core.checks import DataError
from discoformer.core.fields import Field, Method
from discoformer.methods import resolve
from discoformer_paper.harness.ledger import Rows
from discoformer_paper.harness.problems import gmm_problem, measure_errors, relative_error
from discoformer_paper.harness.summary import judge


def test_a_failed_fit_misses_its_bar_and_a_missing_one_leaves_it_open(
    capsys: pytest.CaptureFixture[str],
) -> None:
    case = gmm_problem("diagonal", 2, 20, modes=(1,)).draw(0)

    class Refusing(Method):
        def _fit(self, context: torch.Tensor, weights: torch.Tensor | None) -> Field:
            raise DataError("no")

    failed = measure_errors(Refusing(), case, "a label")
    assert "a label: failed: no" in capsys.readouterr().err
    assert relative_error(Rows([failed])) == math.inf
    assert (
        judge("ours", "below", {"n=1": (failed["score_mse"], 1.0), "n=2": (0.5, 1.0)}).verdict == "not shown"
    )
    assert judge("ours", "below", {"n=1": (math.nan, 1.0), "n=2": (0.5, 1.0)}).verdict == "not tested"


def test_few_points_are_the_first_and_have_their_exact_answers() -> None:
    whole, few = (gmm_problem("rotated", 3, 50, rows=rows).draw(1) for rows in (None, 10))
    assert torch.equal(few.context, whole.context) and torch.equal(few.queries, whole.context[:10])
    torch.testing.assert_close(few.truth.score, whole.truth.score[:10])
    errors = measure_errors(resolve("kde-scott").method, few, "")
    expected = resolve("kde-scott").method.fit(few.context).score(few.queries) - few.truth.score
    assert errors["score_error"] == pytest.approx(float(expected.square().sum()))
