"""The claims of Figure 8."""

import pytest

from discoformer_paper.experiments import sdkde_histogram
from discoformer_paper.experiments.sdkde_variants import RULES
from discoformer_paper.harness.ledger import Rows

CORE = "attention-d1"


@pytest.mark.parametrize(
    "worse", [None, ("kde", "plain"), ("kde", "empirical"), (CORE, "direct"), (CORE, "autograd")]
)
def test_the_best_approximation_has_no_rival_of_any_kind(worse: tuple[str, str] | None) -> None:
    """The claim fails as soon as one variant is better than SD-KDE with the learned score."""
    variants = [("kde", "plain", "scott"), *((name, "direct", "none") for name in ("ours", CORE))]
    for rule in RULES:
        variants += [("kde", "empirical", rule), ("exact", "score", rule)]
        variants += [(name, kind, rule) for name in ("ours", CORE) for kind in ("score", "autograd")]
    rows = []
    for method, variant, rule in variants:
        error = 1.0 if variant == "score" and rule == "scott" else 0.5 if rule == "sd-kde" else 2.0
        error = 0.9 if (method, variant) == worse else error
        key = {"n": "2048", "seed": "0", "method": method, "variant": variant, "rule": rule}
        rows.append({**key, "ise": error})
    best, below = sdkde_histogram.summary(Rows(rows), "ours").claims
    assert (best.verdict == "shown") is (worse is None)
    assert (below.verdict == "shown") is (worse is None or worse[0] != "kde")
    assert " of 2;" in below.evidence  # by either rule
