"""The claims of Figures 12 and 13."""

from typing import Any

import pytest

from discoformer_paper.experiments import attention_heads
from discoformer_paper.harness.contestants import core_name, network_name
from discoformer_paper.harness.ledger import Rows


@pytest.mark.parametrize("reach", [1.0, 1.5])
def test_heads_that_look_everywhere_are_not_far(reach: float, verdicts: Any) -> None:
    heads = {network_name("plain", 1): reach, core_name(2): 3.0}
    rows = Rows(
        {"d": "1", "head": "0", "method": m, **dict.fromkeys(attention_heads.VALUES, value)}
        for m, value in heads.items()
    )
    assert verdicts(attention_heads.summary(rows, "default"), "far") == [reach > 1]
