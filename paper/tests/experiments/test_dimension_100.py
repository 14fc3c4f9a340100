"""Table 5: oracles of the bandwidth, and the paper's factors."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from discoformer_paper.experiments import dimension_100, find
from discoformer_paper.experiments.dimension_100 import DENSITY_ORACLE, ORACLE
from discoformer_paper.harness.ledger import Rows


@pytest.mark.parametrize("share", [6.0, 7.0])
def test_a_hundred_dimensions_are_judged_by_the_papers_factors(share: float, verdicts: Any) -> None:
    """With the oracle of each quantity: the other one's does not count."""
    errors = {"attention-d100": (1.0, 1.0), ORACLE: (share, 1.0), DENSITY_ORACLE: (1.0, 40.0)}
    rows = Rows(
        {
            "setting": "diagonal",
            "d": "100",
            "method": name,
            "score_mse": 100 * score,
            "log_density_mse": density,
        }
        for name, (score, density) in errors.items()
    )
    assert verdicts(dimension_100.summary(rows, "default")) == [share > 6.5]


def test_the_oracle_bandwidth_is_not_worse_than_scotts(
    tmp_path: Path, model_path: Path, fast_rivals: None, reproduce: Callable[..., int]
) -> None:
    out = tmp_path / "results"
    assert reproduce("dimension_100", "--quick", "--model", model_path, "--out", out) == 0
    rows = find("dimension_100").ledger(out).rows()
    for oracle, other, value in (
        (ORACLE, DENSITY_ORACLE, "score_mse"),
        (DENSITY_ORACLE, ORACLE, "log_density_mse"),
    ):
        best, *others = (rows.where(method=name).values(value) for name in (oracle, other, "kde-scott"))
        assert all((best <= found + 1e-12).all() for found in others)
