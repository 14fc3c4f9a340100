"""Tables, sentences on where ours is worse, and claims."""

import math
from dataclasses import replace

import pytest

from discoformer_paper.harness.labels import CORE, GMM, KDE, OURS, PUBLISHED
from discoformer_paper.harness.measured import pooled_ratio
from discoformer_paper.harness.summary import Line, Summary, judge, slope


def test_summary_says_where_ours_is_worse() -> None:
    lines = [
        Line("small", {PUBLISHED: 1.0, OURS: 2.0, KDE: 4.0, GMM: 0.5}),
        Line("large", {PUBLISHED: 3.0, OURS: 2.0, KDE: 4.0, GMM: float("nan")}),
        Line("rounding", {PUBLISHED: 0.0, OURS: 1e-20, KDE: 1e-30}),
    ]
    summary = Summary("error", lines, reasons={GMM: "it knows"}, floor=1e-16)
    header, rows = summary.table("default")
    assert header == ["", "published", "paper's core", "default", "KDE", "GMM-BIC", "ratio"]
    assert [row[-1] for row in rows] == ["4", "0.5", "1"]
    assert rows[1][2] == rows[1][5] == "–"
    assert summary.worse("default") == [
        "small: default has 2; published has 1 and GMM-BIC has 0.5 (it knows)."
    ]
    assert summary.core_worse() == []
    close = Summary("error", [Line("small", {PUBLISHED: 1.2341, CORE: 1.2345, OURS: 1.2346})])
    assert close.worse("default") == [
        "small: default has 1.235; published has 1.234 and paper's core has 1.234 "
        "(a network for this dimension alone)."
    ]
    assert close.core_worse() == ["small: paper's core has 1.2345 here; published has 1.2341."]
    (told,) = replace(close, caveat="of other data").core_worse()
    assert told == "small: paper's core has 1.2345 here; published has 1.2341 (of other data)."
    assert "published has 1.234 (of other data) and" in replace(close, caveat="of other data").worse("x")[0]


def test_the_core_and_steeper_slopes_count_where_there_are_rivals() -> None:
    lines = [Line("error", {CORE: 1.0, OURS: 2.0, KDE: 3.0}), Line("slope", {OURS: -0.5, KDE: -0.75})]
    summary = Summary("error", lines, rivals=(KDE,), reasons={CORE: "it knows"})
    assert [row[-1] for row in summary.table("default")[1]] == ["0.667", "–"]
    assert summary.worse("default") == [
        "error: default has 2; paper's core has 1 (it knows).",
        "slope: default has -0.5; KDE has -0.75.",
    ]
    assert Summary("error", lines, rivals=()).worse("default") == []


def test_the_closest_case_is_that_of_the_largest_ratio() -> None:
    claim = judge("ours", "text", {"far": (3.0, 38.0), "near": (61.0, 109.0)})
    assert claim.evidence == "2 of 2; closest near: 61 <= 109"
    claim = judge("ours", "text", {"far": (-0.9, -0.1), "near": (-0.3, -0.2)})
    assert claim.evidence == "2 of 2; closest near: -0.3 <= -0.2"


def test_claims_are_open_until_all_cases_are_measured() -> None:
    assert judge("paper", "text", {}).verdict == "not tested"
    assert judge("paper", "text", {"a": (1.0, 1.0)}).verdict == "shown"
    for missing in ((float("nan"), 1.0), (0.0, float("nan"))):
        claim = judge("paper", "text", {"a": (0.0, 1.0), "b": missing})
        assert claim.verdict == "not tested" and claim.evidence == "1 of 2; b: not measured"
        assert judge("paper", "text", {"a": (2.0, 1.0), "b": missing}).verdict == "not shown"


def test_what_is_within_a_standard_error_is_undecided_on_either_side() -> None:
    """By the difference of two methods on the same data sets, not by the spread of each."""
    sets = [str(i) for i in range(4)]
    theirs = pooled_ratio(sets, [1.0, 5.0, 9.0, 13.0])  # far apart
    close, far = (
        pooled_ratio(sets, [x + y for x, y in zip((1.0, 5.0, 9.0, 13.0), gaps, strict=True)])
        for gaps in ((0.3, -0.2, 0.3, -0.2), (0.3, 0.2, 0.3, 0.2))
    )
    assert judge("paper", "text", {"a": (close, theirs)}).verdict == "undecided"
    assert judge("paper", "text", {"a": (theirs, close)}).verdict == "undecided"
    assert judge("paper", "text", {"a": (far, theirs)}).verdict == "not shown"
    assert judge("paper", "text", {"a": (theirs, far)}).verdict == "shown"
    assert judge("paper", "text", {"a": (close, theirs), "b": (far, theirs)}).verdict == "not shown"
    assert "difference ± 0.029" in judge("paper", "text", {"a": (far, theirs)}).evidence


def test_slopes_are_those_of_logarithms() -> None:
    assert slope({float(n): 3 * n**-0.8 for n in (128, 256, 1024)}) == pytest.approx(-0.8)
    assert math.isnan(slope({128.0: 1.0}))
