"""The claims of Figure 3."""

from typing import Any

import pytest

from discoformer_paper.experiments import quiver
from discoformer_paper.harness.ledger import Rows


@pytest.mark.parametrize("sparse", [0.1, 0.9])
def test_sparse_regions_are_where_a_network_helps_most(sparse: float, verdicts: Any) -> None:
    errors = {"attention-d2": (0.5, sparse), "kde-scott": (1.0, 1.0)}
    rows = Rows(
        {"n": "9", "seed": "0", "method": m, **dict(zip(quiver.PARTS, values, strict=True))}
        for m, values in errors.items()
    )
    assert verdicts(quiver.summary(rows, "default")) == [True, sparse < 0.5]
