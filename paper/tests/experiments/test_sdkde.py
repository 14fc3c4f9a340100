"""The claims of Figure 9."""

import math

import pytest

from discoformer_paper.experiments import sdkde
from discoformer_paper.harness.contestants import core_name
from discoformer_paper.harness.ledger import Rows


def test_slopes_are_over_the_sizes_that_all_have() -> None:
    falling = {float(n): 1 / n if n <= 512 else 1.0 for n in sdkde.SIZES}
    short = {n: error**0.5 for n, error in falling.items() if n <= 512}
    assert sdkde.slopes({"long": falling, "short": short}) == pytest.approx({"long": -1, "short": -0.5})
    assert sdkde.slopes({"none": {}}) == pytest.approx({"none": math.nan}, nan_ok=True)


@pytest.mark.parametrize("exponent", [0.5, 1.0])
@pytest.mark.parametrize("mixture", ["gauss1", "laplace1"])
def test_the_claims_are_judged_by_scotts_rule(mixture: str, exponent: float) -> None:
    """SD-KDE falls faster than its rivals, or more slowly, and by the other rule it is best."""
    curves = {
        ("attention-d1", "score", "scott"): exponent,
        ("attention-d1", "direct", "none"): exponent - 0.1,
        ("kde", "plain", "scott"): 0.6,
        ("kde", "empirical", "scott"): 0.7,
        ("attention-d1", "score", "sd-kde"): 2.0,
    }
    rows = Rows(
        {"mixture": mixture, "n": str(n), "seed": "0", "method": method, "variant": variant, "rule": rule}
        | {"ise": (n / 128) ** -rate * (0.5 if variant == "direct" else 1.0)}
        for (method, variant, rule), rate in curves.items()
        for n in (128, 256, 512)
    )
    claims = [c.verdict for c in sdkde.summary(rows, "ours").claims if c.whose == "paper"]
    steep = "shown" if exponent > 0.7 else "not shown"
    assert claims == ([steep, steep, "shown", "shown"] if mixture == "gauss1" else ["not tested"] * 4)


@pytest.mark.parametrize("exact", [0.5, 2.0])
def test_a_mixture_on_which_the_exact_score_loses_is_not_judged(exact: float) -> None:
    errors = {
        ("exact", "score"): exact,
        (core_name(1), "score"): 3.0,
        ("kde", "plain"): 1.0,
        ("kde", "empirical"): 1.0,
    }
    rows = Rows(
        {
            "mixture": "gauss2",
            "n": "128",
            "seed": "0",
            "method": m,
            "variant": v,
            "rule": "scott",
            "ise": error,
        }
        for (m, v), error in errors.items()
    )
    summary = sdkde.summary(rows, "ours")
    assert summary.claims[0].verdict == ("not shown" if exact < 1 else "not tested")
    assert ["gauss2" in note for note in summary.notes] == [True] * (exact > 1)
