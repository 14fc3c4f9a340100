"""The claims of Figure 4, right."""

from collections.abc import Callable
from typing import Any

from discoformer_paper.experiments import score_vs_modes
from discoformer_paper.harness.ledger import Rows


def test_more_modes_are_harder_and_no_jump_is_hidden(error_rows: Callable[..., Rows], verdicts: Any) -> None:
    def judged(error: Callable[[int], float]) -> list[bool | None]:
        rows = {(f"diagonal k={k}", 2, 2048, "attention-d2"): error(k) for k in score_vs_modes.MODES}
        found: list[bool | None] = verdicts(score_vs_modes.summary(error_rows(rows), "default"))
        return found

    assert judged(lambda k: 1 + k) == [True, True]
    assert judged(lambda k: 1 + k + 20 * (k > 10)) == [True, False]
    assert judged(lambda k: 30 - k) == [False, True]
