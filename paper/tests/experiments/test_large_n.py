"""The claims of Table 2."""

from collections.abc import Callable
from typing import Any

import pytest

from discoformer_paper.experiments import large_n
from discoformer_paper.harness.ledger import Rows


@pytest.mark.parametrize("last", [0.01, 0.0204, 0.03])
def test_large_samples_are_judged_on_the_data_sets_of_the_core(
    last: float, error_rows: Callable[..., Rows], verdicts: Any
) -> None:
    core = {("diagonal", 2, 2**k, "attention-d2"): error for k, error in ((12, 0.04), (14, 0.02), (16, last))}
    kde = {("diagonal", 2, 2**k, "kde-scott"): 0.07 for k in (12, 14, 16)}
    other = error_rows(kde).frame.assign(seed="1", score_error=9.0)
    rows = Rows([*error_rows(core | kde).frame.to_dict("records"), *other.to_dict("records")])
    summary = large_n.summary(rows, "default")
    assert verdicts(summary, "d=2", "falling") == [last < 0.03], "0.0204 is 2% above 0.02"
    assert verdicts(summary, "d=10", "falling") == [None]
    assert verdicts(summary, "half of its error") == [False], "0.04 of 0.07, not of 9"
