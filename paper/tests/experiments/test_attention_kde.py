"""The claims of Figure 1."""

from typing import Any

import pytest

from discoformer_paper.experiments import attention_kde
from discoformer_paper.harness.ledger import Rows


@pytest.mark.parametrize("plain", [None, 0.95, 0.5])
def test_what_is_built_in_is_no_finding(plain: float | None, verdicts: Any) -> None:
    """Kernels of a core that has them from the start neither confirm nor contradict the paper."""
    correlations = {"attention-d1": 1.0} | ({} if plain is None else {attention_kde.PLAIN: plain})
    rows = Rows(
        {"d": "1", "layer": "0", "method": m, **dict.fromkeys(attention_kde.VALUES, value)}
        for m, value in correlations.items()
    )
    told = verdicts(attention_kde.summary(rows, "default"))
    assert told == [None if plain is None else plain >= attention_kde.HIGH] * 2
