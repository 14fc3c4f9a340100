"""The ablation of the shared backbone."""

from collections.abc import Callable

import pytest

from discoformer_paper.experiments import backbone
from discoformer_paper.harness.ledger import Rows


@pytest.mark.parametrize(("both", "verdict"), [(0.1, "shown"), (0.3, "not shown"), (None, "not tested")])
def test_two_heads_against_a_network_for_each(
    both: float | None, verdict: str, error_rows: Callable[..., Rows]
) -> None:
    errors = {("diagonal", 2, 256, "kde-scott"): 0.5}
    if both is not None:
        errors |= {("diagonal", 2, 256, backbone.NAMES[heads]): 0.2 for heads in ("score", "density")}
        errors |= {("diagonal", 2, 256, backbone.NAMES["both"]): both}
    (claim,) = backbone.summary(error_rows(errors), "default").claims
    assert claim.verdict == verdict
