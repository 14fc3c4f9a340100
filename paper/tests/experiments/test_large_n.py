"""The claims of Table 2."""

from collections.abc import Callable
from typing import Any

import pytest

from discoformer_paper.experiments import large_n
from discoformer_paper.harness.contestants import core_name
from discoformer_paper.harness.ledger import Rows


@pytest.mark.parametrize("last", [0.01, 0.03])
def test_large_samples_are_judged_on_the_data_sets_of_the_core(
    last: float, error_rows: Callable[..., Rows], verdicts: Any
) -> None:
    core = {("diagonal", 2, 2**k, core_name(2)): error for k, error in ((12, 0.04), (14, 0.02), (16, last))}
    kde = {("diagonal", 2, 2**k, "kde-scott"): 0.03 for k in (12, 14, 16)}
    other = error_rows(kde).frame.assign(seed="1", score_error=9.0)
    rows = Rows([*error_rows(core | kde).frame.to_dict("records"), *other.to_dict("records")])
    summary = large_n.summary(rows, "default")
    assert verdicts(summary, "d=2", "falling") == [last < 0.02]
    assert verdicts(summary, "d=10", "falling") == [None]
    assert verdicts(summary, "below KDE") == [False], "0.04 against 0.03, not against 9"


def test_the_error_falls_on_the_data_sets_that_both_sizes_have() -> None:
    errors = {("4096", "1"): 4.0, ("4096", "2"): 1.0, ("16384", "1"): 3.0}
    rows = Rows(
        {"d": "2", "n": n, "seed": seed, "method": "net", "score_error": error, "score_square": 100.0}
        for (n, seed), error in errors.items()
    )
    assert large_n.falling(rows, 2, "net") == {"n=16384": (3.0, 4.0)}


def test_the_ratio_goes_on_where_a_rival_ends(error_rows: Callable[..., Rows]) -> None:
    found = {
        ("diagonal", 2, n, m): e for n in (2**14, 2**16) for m, e in (("default", 0.1), ("kde-scott", 0.2))
    }
    rows = error_rows(found | {("diagonal", 2, 2**14, "gmm-diag"): 0.01})
    _, lines = large_n.summary(rows, "default").table("default")
    assert [line[-1] for line in lines if line[0] in ("d=2, n=2^14", "d=2, n=2^16")] == ["0.5", "0.5"]
