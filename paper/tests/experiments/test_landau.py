"""The claims of Figure 11."""

from typing import Any

import pytest

from discoformer_paper.experiments import landau
from discoformer_paper.harness.contestants import core_name
from discoformer_paper.harness.ledger import Rows


@pytest.mark.parametrize("error", [0.03, 0.045, 0.06])
def test_a_plasma_is_judged_by_bounds_in_the_text(error: float, verdicts: Any) -> None:
    key = {"case": "maxwell-3", "start": "gaussian", "seed": "0", "time": "4"}
    rows = Rows(
        {**key, "method": method, **dict.fromkeys(landau.VALUES, value)}
        for method, value in ((core_name(3), error), ("sbtm", 0.02), ("kde", 0.1))
    )
    summary = landau.summary(rows, "default")
    assert verdicts(summary, "our bound: 2 times") == [error <= 0.04]
    assert verdicts(summary, "our bound: error 0.05") == [error <= 0.05]
    (evidence,) = (claim.evidence for claim in summary.claims if "our bound: 2 times" in claim.text)
    assert f"(SBTM 0.02): {error:g}" in evidence


def test_errors_are_compared_on_the_samples_that_both_have_run() -> None:
    cells = (("net", "0", 3.0), ("net", "1", 5.0), ("sbtm", "1", 1.0), ("sbtm", "2", 9.0))
    rows = Rows({"method": method, "seed": seed, "error": error} for method, seed, error in cells)
    assert list(landau.paired(rows, "net", "sbtm").values("gap")) == [4.0]
    times = Rows({"time": time, "error": error} for time, error in (("9", 1.0), ("10", 2.0), ("0.5", 3.0)))
    assert list(landau.at_end(times).values("error")) == [2.0], "the largest number, not the last text"
