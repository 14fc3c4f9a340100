"""Remembered fits and answers are those of the method."""

from pathlib import Path

import torch

from discoformer.core.fields import Estimate, Method, PointDensity
from discoformer.methods import resolve
from discoformer_paper.experiments.heavy_tails import problem
from discoformer_paper.harness.adapters import Cached
from discoformer_paper.harness.problems import measure_errors


def test_remembered_fits_are_the_fits(model_path: Path) -> None:
    case, other = (problem("student", 40).draw(index) for index in (0, 1))
    method = resolve(str(model_path)).method
    cached = Cached(method)
    expected = measure_errors(method, case, "")["score_error"]
    for _ in range(2):
        assert measure_errors(cached, case, "")["score_error"] == expected
    both = Cached(method, fits=2)
    fields = [both.fit(c.context) for c in (case, other)]
    assert [both.fit(c.context) for c in (case, other)] == fields
    assert (
        measure_errors(cached, other, "")["score_error"] == measure_errors(method, other, "")["score_error"]
    )


class Counted(Method, PointDensity):
    """Counts how often it is fitted and asked."""

    dim = 1

    def __init__(self) -> None:
        self.fits = self.answers = 0

    def _fit(self, context: torch.Tensor, weights: torch.Tensor | None) -> "Counted":
        self.fits += 1
        return self

    def _estimate(self, queries: torch.Tensor) -> Estimate[torch.Tensor]:
        self.answers += 1
        return Estimate(queries[..., 0], self.fits * queries)


def test_remembered_answers_are_those_of_the_same_fit_and_points() -> None:
    counted = Counted()
    cached = Cached(counted, answers=True)
    x, y = torch.arange(6.0).double().reshape(2, 3, 1)
    for _ in range(2):
        assert torch.equal(cached.fit(x).score(x), x)
    assert (counted.fits, counted.answers) == (1, 1)
    assert torch.equal(cached.fit(x).score(y), y)
    assert torch.equal(cached.fit(y).score(y), 2 * y)
    assert (counted.fits, counted.answers) == (2, 3)
