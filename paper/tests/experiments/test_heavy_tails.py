"""Tables 3 and 4: the families, test-time training, and the claims about it."""

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from discoformer import load_model
from discoformer.core.checks import DataError
from discoformer.models.network import Network
from discoformer_paper.experiments import heavy_tails
from discoformer_paper.harness.contestants import Contestant
from discoformer_paper.harness.labels import CORE
from discoformer_paper.harness.ledger import Rows


def test_heavy_tails_have_the_score_of_their_density() -> None:
    family = heavy_tails.IndependentStudentT(3.0)
    points = torch.randn(20, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    points.requires_grad_()
    log_density, score = family.estimate(points)
    (gradient,) = torch.autograd.grad(log_density.sum(), points)
    torch.testing.assert_close(score, gradient)
    laplace = heavy_tails.problem("laplace", 4000).draw(0)
    assert float(laplace.context.var()) == pytest.approx(2.0, rel=0.15), "scale one"
    torch.testing.assert_close(laplace.truth.score.abs(), torch.ones_like(laplace.context))


@pytest.mark.parametrize("adapted", [0.5, 2.0])
def test_test_time_training_is_compared_on_the_same_samples(
    adapted: float, error_rows: Callable[..., Rows], verdicts: Any
) -> None:
    core, kde = (("student", 2, 512, name) for name in ("attention-d2", "kde-scott"))
    rows = error_rows({core: 1.5, kde: 1.0}, steps="0").frame.to_dict("records")
    for steps in ("4", "8"):
        rows += error_rows({core: adapted}, steps=steps).frame.to_dict("records")
    rows.append(rows[0] | {"seed": "1", "score_mse": 99.0})
    summary = heavy_tails.summary(Rows(rows), "default")
    lines = {line.what: line.found for line in summary.lines}
    assert lines["Student-t(3), n=512, TTT 0, 1 of 2 samples"][CORE] == 1.5 / 2
    assert lines["Student-t(3), n=512, TTT 8, 1 of 2 samples"][CORE] == adapted / 2
    assert verdicts(summary, "Laplace") == [None]
    assert verdicts(summary, "8 steps") == verdicts(summary, "4 steps") == [adapted < 1]


def test_a_failed_adaptation_counts_as_failed_from_there_on(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, model_path: Path
) -> None:
    def break_down(network: Network, context: torch.Tensor, steps: int) -> Iterator[Network]:
        yield network
        raise DataError("no")

    monkeypatch.setattr(heavy_tails, "adapt_path", break_down)
    contestant = Contestant("net", "net@1", load_model(str(model_path)).network)
    job = heavy_tails.adapted_job(heavy_tails.problem("student", 64), contestant, 0, (0, 2, 4))
    before, *after = job.measure()
    assert [key[-1] for key in job.keys] == [0, 2, 4]
    assert math.isfinite(before["score_mse"]) and [found["score_mse"] for found in after] == [math.inf] * 2
    assert "net, student n=64, test-time training: failed: no" in capsys.readouterr().err
