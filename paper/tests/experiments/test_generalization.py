"""The bounds of Theorem B.2."""

import pytest
import torch

from discoformer_paper.experiments import generalization
from discoformer_paper.harness.contestants import core_name, rival
from discoformer_paper.harness.ledger import Rows


def test_distances_grow_with_the_share_and_vanish_without_it() -> None:
    nothing, some, all_of_it = (generalization.draw(share, 0) for share in (0.0, 0.2, 1.0))
    assert nothing.variation == pytest.approx(0, abs=1e-12)
    assert all(gap == pytest.approx(0, abs=1e-12) for gap in nothing.gap.values())
    assert some.variation == pytest.approx(0.2 * all_of_it.variation, rel=0.1), "D_TV is linear in the share"
    assert some.gap["score"] < all_of_it.gap["score"]


def test_the_terms_are_those_of_the_theorem() -> None:
    first, second = generalization.measure(rival("kde-scott"), 0.2, 64, 0)
    assert set(first) == set(generalization.VALUES)
    rows = Rows([{"seed": "0"} | second])
    terms = 2 * second["mixture_risk"] + 2 * second["gap"]
    constant = 8 * second["largest"] * (second["largest"] + second["change"])
    assert generalization.without_last(rows) == pytest.approx(terms)
    assert generalization.bound(rows) == pytest.approx(terms + constant * second["variation"])
    with torch.no_grad():
        assert second["risk"] <= generalization.bound(rows)


@pytest.mark.parametrize("risk", [1.0, 100.0])
def test_the_claim_is_that_the_risk_is_within_the_bound(risk: float) -> None:
    values = dict(risk=risk, mixture_risk=1.0, gap=2.0, variation=0.5, largest=1.0, change=2.0)  # bound 18
    rows = Rows(
        {"share": "0.2", "seed": "0", "method": core_name(2), "quantity": what} | values
        for what in generalization.QUANTITIES
    )
    verdicts = [claim.verdict for claim in generalization.summary(rows, "default").claims]
    assert verdicts == ["shown" if risk < 18 else "not shown"] * 2
