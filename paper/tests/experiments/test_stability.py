"""Theorem B.2: what one point changes."""

import pytest
import torch

from discoformer.core.fields import Field, Method
from discoformer.priors import LocationScaleMixture
from discoformer_paper.experiments import stability
from discoformer_paper.harness.contestants import Contestant
from discoformer_paper.harness.labels import OURS
from discoformer_paper.harness.ledger import Rows
from discoformer_paper.harness.problems import gmm_problem


@pytest.mark.parametrize("power", [-1.0, -0.5])
def test_stability_is_a_change_that_falls_with_n(power: float) -> None:
    rows = Rows(
        {"setting": "diagonal", "d": str(dim), "n": str(n), "seed": "0", "method": method}
        | {"square": n ** (2 * power), "largest": 3 * n**power, "score_square": 4.0}
        for dim in stability.DIMS
        for n in stability.SIZES
        for method in ("default", "kde-scott", f"attention-d{dim}")
    )
    summary = stability.summary(rows, "default")
    found = {line.what: line.found[OURS] for line in summary.lines}
    assert found["d=2, n=1024, usual"] == pytest.approx(1024**power / 2)
    assert found["d=2, n=1024, largest"] == pytest.approx(3 * 1024**power / 2)
    assert found["d=10, slope, largest"] == pytest.approx(power)
    assert [claim.verdict for claim in summary.claims] == ["shown" if power == -1.0 else "not shown"] * 2
    assert {claim.whose for claim in summary.claims} == {"assumption"}


def test_one_point_moves_a_mean_by_its_share() -> None:
    class Mean(Method):
        """Minus the distance from the mean, as the score of a Gaussian is."""

        def _fit(self, context: torch.Tensor, weights: torch.Tensor | None) -> Field:
            center = context.mean(0).unsqueeze(0)
            return LocationScaleMixture(torch.ones(1).double(), center, torch.ones_like(center))

    problem = gmm_problem("diagonal", 2, 200, fresh=stability.TRIALS)
    found = stability.measure(problem, Contestant("mean", "mean", Mean()), 3)
    sample, new, _ = problem.draw(3)
    old = sample[stability.WATCHED : stability.WATCHED + stability.TRIALS]
    moved = (new - old).norm(dim=-1) / 200
    assert found["largest"] == pytest.approx(float(moved.max()))
    assert found["square"] == pytest.approx(float(moved.square().mean()))
