"""The claims of Figure 14."""

from typing import Any

import pytest

from discoformer_paper.experiments import score_matching
from discoformer_paper.harness.ledger import Rows


@pytest.mark.parametrize("over", [50.0, 5.0])
def test_score_matching_is_easy_to_misfit_if_too_many_steps_are_worse(over: float, verdicts: Any) -> None:
    errors = {
        f"{loss}-{steps}": error
        for loss in score_matching.LOSSES
        for steps, error in ((10, 70.0), (100, 8.0), (1000, over))
    }
    rows = Rows(
        {"method": name, "sample_error": 1.0, "new_error": error, "seconds": 1.0}
        for name, error in errors.items()
    )
    assert verdicts(score_matching.summary(rows, "default"), "over-fit") == [over > 8]
