"""Measurements on disk, and the claims that summaries judge by them."""

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from discoformer_paper.contestants import Contestant
from discoformer_paper.ledger import Ledger, Row, Rows
from discoformer_paper.settings import gmm_setting, measure_errors, seed_of
from discoformer_paper.summary import CORE, GMM, KDE, OURS, PUBLISHED, Line, Summary, every

from discoformer import load_model
from discoformer.core.checks import DataError
from discoformer.core.fields import Field, Method
from discoformer.models.network import Network
from discoformer.priors import LocationScaleMixture
from discoformer_paper import (
    attention_heads,
    attention_kde,
    dimension_100,
    heavy_tails,
    landau,
    large_n,
    quiver,
    score_matching,
    score_vs_modes,
    score_vs_n,
    stability,
)

OUR_NAME = "default"


def test_ledger_survives_a_torn_line_and_names_a_damaged_one(tmp_path: Path) -> None:
    path = tmp_path / "file.csv"
    ledger = Ledger(path, ("n", "method"), ("error",), run="abc")
    ledger.add((1, "kde"), {"error": 1 / 3})
    whole = path.read_text()
    assert whole == "n,method,error,run\n1,kde,0.33333333,abc\n"
    path.write_text(whole + "2,kd")
    again = Ledger(path, ("n", "method"), ("error",), run="abc")
    assert len(again) == 1 and path.read_text() == whole
    assert again.get(1, "kde") == {"error": 0.33333333} == ledger.get(1, "kde")
    path.write_text(whole + "2,kde,much,abc\n")
    with pytest.raises(DataError, match="line 3 is damaged"):
        Ledger(path, ("n", "method"), ("error",), run="")
    with pytest.raises(DataError, match="has columns n, method, error, run: move it away"):
        Ledger(path, ("n",), ("error",))


def test_ledger_forgets_on_disk(tmp_path: Path) -> None:
    path = tmp_path / "file.csv"
    ledger = Ledger(path, ("method",), ("error",))
    for name in ("net@1", "net@2", "kde"):
        ledger.add((name,), {"error": 1.0})
    assert ledger.forget(lambda key: key["method"] == "net@1") == 1
    assert Ledger(path, ("method",), ("error",)).rows().entries("method") == ["net", "kde"]


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
    claim = every("ours", "text", {"far": (3.0, 38.0), "near": (61.0, 109.0)})
    assert claim.evidence == "2 of 2; closest near: 61 <= 109"
    claim = every("ours", "text", {"far": (-0.9, -0.1), "near": (-0.3, -0.2)})
    assert claim.evidence == "2 of 2; closest near: -0.3 <= -0.2"


def test_claims() -> None:
    assert every("paper", "text", {}).holds is None
    assert every("paper", "text", {"a": (1.0, 1.0)}).holds is True
    for missing in ((float("nan"), 1.0), (0.0, float("nan"))):
        claim = every("paper", "text", {"a": (0.0, 1.0), "b": missing})
        assert claim.holds is None and claim.evidence == "1 of 2; b: not measured"
        assert every("paper", "text", {"a": (2.0, 1.0), "b": missing}).holds is False


def error_rows(errors: dict[tuple[str, int, int, str], float], steps: int | None = None) -> Rows:
    """One data set for each setting, d, n and method, with this sum of squared errors over a sum of one."""
    return Rows(
        Row(
            {"setting": setting, "d": str(d), "n": str(n), "seed": str(seed_of(4)), "method": method}
            | ({} if steps is None else {"steps": str(steps)}),
            {"score_error": error, "score_square": 1.0, "score_mse": error, "log_density_mse": error},
        )
        for (setting, d, n, method), error in errors.items()
    )


def verdicts(summary: Summary, *words: str) -> list[bool | None]:
    """Of the paper's claims that have all of these words."""
    claims = [claim for claim in summary.claims if claim.whose == "paper"]
    return [claim.holds for claim in claims if all(word in claim.text for word in words)]


@pytest.mark.parametrize("last", [0.01, 0.0204, 0.03])
def test_large_samples_are_judged_on_the_data_sets_of_the_core(last: float) -> None:
    core = {("diagonal", 2, 2**k, "attention-d2"): error for k, error in ((12, 0.04), (14, 0.02), (16, last))}
    kde = {("diagonal", 2, 2**k, "kde-scott"): 0.07 for k in (12, 14, 16)}
    other = [Row({**row.key, "seed": "1"}, {**row.values, "score_error": 9.0}) for row in error_rows(kde)]
    summary = large_n.EXPERIMENT.summary(Rows([*error_rows(core | kde), *other]), OUR_NAME)
    assert verdicts(summary, "d=2", "falling") == [last < 0.03], "0.0204 is 2% above 0.02"
    assert verdicts(summary, "d=10", "falling") == [None]
    assert verdicts(summary, "half of its error") == [False], "0.04 of 0.07, not of 9"


def test_more_modes_are_harder_and_no_jump_is_hidden() -> None:
    def judged(error: Callable[[int], float]) -> list[bool | None]:
        rows = {(f"diagonal k={k}", 2, 2048, "attention-d2"): error(k) for k in score_vs_modes.MODES}
        return verdicts(score_vs_modes.EXPERIMENT.summary(error_rows(rows), OUR_NAME))

    assert judged(lambda k: 1 + k) == [True, True]
    assert judged(lambda k: 1 + k + 20 * (k > 10)) == [True, False]
    assert judged(lambda k: 30 - k) == [False, True]


def test_scaling_is_judged_in_n_and_in_d() -> None:
    def judged(exponent: float, share: float) -> list[bool | None]:
        """An error n^-exponent beside a larger one of KDE, which halves from the least n to the largest."""
        core = {("k=3", d, n, f"attention-d{d}"): n**-exponent for d in (1, 10) for n in (128, 4096)}
        kde = {
            ("k=3", d, n, "kde-scott"): n**-0.2 * 5 * (2.0 if d == 1 else share)
            for d in (1, 10)
            for n in (128, 4096)
        }
        scaled = {key: error * key[1] for key, error in (core | kde).items()}
        return verdicts(score_vs_n.EXPERIMENT.summary(error_rows(scaled), OUR_NAME))

    assert judged(0.5, 4.0) == [True, True, True]
    assert judged(0.1, 4.0) == [True, False, True]
    assert judged(0.5, 1.5) == [True, True, False]


@pytest.mark.parametrize("adapted", [0.5, 2.0])
def test_test_time_training_is_compared_on_the_same_samples(adapted: float) -> None:
    plain = {("student", 2, 512, "attention-d2"): 1.5, ("student", 2, 512, "kde-scott"): 1.0}
    rows = [*error_rows(plain, steps=0)]
    for steps in (4, 8):
        rows += error_rows({("student", 2, 512, "attention-d2"): adapted}, steps=steps)
    rows += [Row({**rows[0].key, "seed": "1"}, {**rows[0].values, "score_mse": 99.0})]
    summary = heavy_tails.EXPERIMENT.summary(Rows(rows), OUR_NAME)
    lines = {line.what: line.found for line in summary.lines}
    assert lines["Student-t(3), n=512, TTT 0, 1 of 2 samples"][CORE] == 1.5 / 2
    assert lines["Student-t(3), n=512, TTT 8, 1 of 2 samples"][CORE] == adapted / 2
    assert verdicts(summary, "Laplace") == [None]
    assert verdicts(summary, "8 steps") == verdicts(summary, "4 steps") == [adapted < 1]


def test_sparse_regions_are_where_a_network_helps_most() -> None:
    for sparse in (0.1, 0.9):
        errors = {"attention-d2": (0.5, sparse), "kde-scott": (1.0, 1.0)}
        rows = Rows(
            Row({"n": "9", "seed": "0", "method": m}, dict(zip(quiver.PARTS, values, strict=True)))
            for m, values in errors.items()
        )
        assert verdicts(quiver.EXPERIMENT.summary(rows, OUR_NAME)) == [True, sparse < 0.5]


@pytest.mark.parametrize("over", [50.0, 5.0])
def test_score_matching_is_easy_to_misfit_if_too_many_steps_are_worse(over: float) -> None:
    errors = {f"{loss}-{steps}": e for loss in score_matching.LOSSES for steps, e in ((10, 70.0), (100, 8.0))}
    errors |= {f"{loss}-1000": over for loss in score_matching.LOSSES}
    rows = Rows(
        Row({"method": name}, {"sample_error": 1.0, "new_error": error, "seconds": 1.0})
        for name, error in errors.items()
    )
    assert verdicts(score_matching.EXPERIMENT.summary(rows, OUR_NAME), "over-fit") == [over > 8]


@pytest.mark.parametrize("share", [6.0, 7.0])
def test_a_hundred_dimensions_are_judged_by_the_papers_factors(share: float) -> None:
    """With the oracle of each quantity: the other one's does not count."""
    errors = {"attention-d100": (1.0, 1.0), "kde-oracle": (share, 1.0), "kde-oracle-density": (1.0, 40.0)}
    rows = Rows(
        Row(
            {"setting": "diagonal", "d": "100", "method": name},
            {"score_mse": 100 * score, "log_density_mse": density},
        )
        for name, (score, density) in errors.items()
    )
    assert verdicts(dimension_100.EXPERIMENT.summary(rows, OUR_NAME)) == [share > 6.5]


def test_what_is_built_in_is_no_finding() -> None:
    """Kernels of a core that has them from the start neither confirm nor contradict the paper."""
    for plain in (None, 0.95, 0.5):
        correlations = {"attention-d1": 1.0} | ({} if plain is None else {attention_kde.PLAIN: plain})
        rows = Rows(
            Row({"d": "1", "layer": "0", "method": m}, dict.fromkeys(attention_kde.VALUES, value))
            for m, value in correlations.items()
        )
        told = verdicts(attention_kde.EXPERIMENT.summary(rows, OUR_NAME))
        assert told == [None if plain is None else plain >= attention_kde.HIGH] * 2


def test_heads_that_look_everywhere_are_not_far() -> None:
    for reach in (1.0, 1.5):
        heads = {attention_kde.PLAIN: reach, "attention-d2": 3.0}
        rows = Rows(
            Row({"d": "1", "head": "0", "method": m}, dict.fromkeys(attention_heads.VALUES, value))
            for m, value in heads.items()
        )
        assert verdicts(attention_heads.EXPERIMENT.summary(rows, OUR_NAME), "far") == [reach > 1]


@pytest.mark.parametrize("error", [0.03, 0.045, 0.06])
def test_a_plasma_is_judged_by_bounds_in_the_text(error: float) -> None:
    rows = Rows(
        Row(
            {"case": "maxwell-3", "start": "gaussian", "method": method, "seed": "0", "time": "4"},
            dict.fromkeys(landau.VALUES, value),
        )
        for method, value in (("attention-d3", error), ("sbtm", 0.02), ("kde", 0.1))
    )
    summary = landau.EXPERIMENT.summary(rows, OUR_NAME)
    assert verdicts(summary, "at most 2 times") == [error <= 0.04]
    assert verdicts(summary, "at most 0.05") == [error <= 0.05]
    (evidence,) = (claim.evidence for claim in summary.claims if "at most 2 times" in claim.text)
    assert f"(SBTM 0.02): {error:g}" in evidence


def test_rows_average_by_name_of_the_network() -> None:
    rows = Rows(
        Row({"n": n, "method": method}, {"error": error})
        for n, method, error in (("8", "net@1", 1.0), ("8", "net@1", 3.0), ("16", "kde", 5.0))
    )
    assert rows.where(method="net", n=8).mean("error") == 2.0
    assert rows.where(method="net").standard_error("error") == pytest.approx(1.0)
    assert rows.numbers("n") == [8, 16] and rows.entries("method") == ["net", "kde"]
    assert np.isnan(rows.where(n=4).mean("error"))


def test_a_failed_fit_misses_its_bar_and_a_missing_one_leaves_it_open(
    capsys: pytest.CaptureFixture[str],
) -> None:
    case = gmm_setting("diagonal", 2, 20, modes=(1,)).draw(0)

    class Refusing(Method):
        def _fit(self, context: torch.Tensor, weights: torch.Tensor | None) -> Field:
            raise DataError("no")

    failed = measure_errors(Refusing(), case, "a label")
    assert "a label: failed: no" in capsys.readouterr().err
    assert failed["score_error"] / failed["score_square"] == math.inf
    assert every("ours", "below", {"n=1": (failed["score_mse"], 1.0), "n=2": (0.5, 1.0)}).holds is False
    assert every("ours", "below", {"n=1": (math.nan, 1.0), "n=2": (0.5, 1.0)}).holds is None


def test_a_failed_adaptation_counts_as_failed_from_there_on(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, model_path: Path
) -> None:
    def break_down(network: Network, context: torch.Tensor, steps: int) -> Iterator[Network]:
        yield network
        raise DataError("no")

    monkeypatch.setattr(heavy_tails, "adapt_path", break_down)
    contestant = Contestant("net", "net@1", load_model(str(model_path)))
    job = heavy_tails.adapted_job(heavy_tails.setting("student", 64), contestant, 0, (0, 2, 4))
    before, *after = job.measure()
    assert [key[-1] for key in job.keys] == [0, 2, 4]
    assert math.isfinite(before["score_mse"]) and [found["score_mse"] for found in after] == [math.inf] * 2
    assert "net, student n=64, test-time training: failed: no" in capsys.readouterr().err


@pytest.mark.parametrize("power", [-1.0, -0.5])
def test_stability_is_a_change_that_falls_with_n(power: float) -> None:
    rows = Rows(
        Row(
            {"setting": "diagonal", "d": str(dim), "n": str(n), "seed": "0", "method": method},
            {"square": n ** (2 * power), "largest": 3 * n**power, "score_square": 4.0},
        )
        for dim in stability.DIMS
        for n in stability.SIZES
        for method in (OUR_NAME, "kde-scott", f"attention-d{dim}")
    )
    summary = stability.EXPERIMENT.summary(rows, OUR_NAME)
    found = {line.what: line.found[OURS] for line in summary.lines}
    assert found["d=2, n=1024, usual"] == pytest.approx(1024**power / 2)
    assert found["d=2, n=1024, largest"] == pytest.approx(3 * 1024**power / 2)
    assert found["d=10, slope, largest"] == pytest.approx(power)
    assert [claim.holds for claim in summary.claims] == [power == -1.0] * 2


def test_one_point_moves_a_mean_by_its_share() -> None:
    class Mean(Method):
        """Minus the distance from the mean, as the score of a Gaussian is."""

        def _fit(self, context: torch.Tensor, weights: torch.Tensor | None) -> Field:
            center = context.mean(0).unsqueeze(0)
            return LocationScaleMixture(torch.ones(1).double(), center, torch.ones_like(center))

    setting = gmm_setting("diagonal", 2, 200, fresh=stability.TRIALS)
    found = stability.measure(setting, Contestant("mean", "mean", Mean()), 3)
    sample, new, _ = setting.draw(3)
    old = sample[stability.WATCHED : stability.WATCHED + stability.TRIALS]
    moved = (new - old).norm(dim=-1) / 200
    assert found["largest"] == pytest.approx(float(moved.max()))
    assert found["square"] == pytest.approx(float(moved.square().mean()))
