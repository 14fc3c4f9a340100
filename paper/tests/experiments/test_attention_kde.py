"""The claims of Figure 1."""

from typing import Any

import pytest

from discoformer_paper.experiments import attention_kde
from discoformer_paper.harness.contestants import core_name, network_name
from discoformer_paper.harness.ledger import Rows


@pytest.mark.parametrize("plain", [None, 0.95, 0.5])
def test_what_is_built_in_is_no_finding(plain: float | None, verdicts: Any) -> None:
    """Kernels of a core that has them from the start show nothing, either way."""
    correlations = {core_name(1): 1.0} | ({} if plain is None else {network_name("plain", 1): plain})
    rows = Rows(
        {"d": "1", "layer": "0", "method": m, **dict.fromkeys(attention_kde.VALUES, value)}
        for m, value in correlations.items()
    )
    told = verdicts(attention_kde.summary(rows, "default"))
    assert told == [None if plain is None else plain >= attention_kde.HIGH] * 2


def test_the_plane_decides_where_it_was_measured() -> None:
    cases = {"d=1": (0.5, 0.1), "d=2": (0.05, 0.1)}
    assert attention_kde.in_plane(cases) == {"d=2": (0.05, 0.1)}
    assert attention_kde.in_plane({"d=1": (0.5, 0.1)}) == {"d=1": (0.5, 0.1)}
