"""The claims of Figure 4, left."""

from collections.abc import Callable
from typing import Any

import pytest

from discoformer_paper.experiments import score_vs_n
from discoformer_paper.harness.ledger import Rows


@pytest.mark.parametrize(
    ("exponent", "share", "expected"),
    [(0.5, 4.0, [True, True, True]), (0.1, 4.0, [True, False, True]), (0.5, 1.5, [True, True, False])],
)
def test_scaling_is_judged_in_n_and_in_d(
    exponent: float, share: float, expected: list[bool], error_rows: Callable[..., Rows], verdicts: Any
) -> None:
    """An error n^-exponent beside a larger one of KDE, in 10 dimensions by another factor than in one."""
    cells = [(d, n) for d in (1, 10) for n in (128, 4096)]
    core = {("k=3", d, n, f"attention-d{d}"): d * n**-exponent for d, n in cells}
    kde = {("k=3", d, n, "kde-scott"): d * n**-0.2 * 5 * (2.0 if d == 1 else share) for d, n in cells}
    assert verdicts(score_vs_n.summary(error_rows(core | kde), "default")) == expected
