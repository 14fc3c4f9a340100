"""Measurements on disk, and the claims that summaries judge by them."""

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from discoformer.checks import DataError
from discoformer.experiments import (
    heavy_tails,
    large_n,
    quiver,
    score_vs_modes,
    score_vs_n,
)
from discoformer.experiments.ledger import Ledger, Row, Rows
from discoformer.experiments.settings import gmm_setting, measure_errors, seed_of
from discoformer.experiments.summary import GMM, KDE, OURS, PUBLISHED, Line, Summary, every
from discoformer.fields import Field, Method

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


@pytest.mark.parametrize("last", [0.01, 0.03])
def test_large_samples_are_judged_on_the_data_sets_of_the_core(last: float) -> None:
    core = {("diagonal", 2, 2**k, "attention-d2"): error for k, error in ((12, 0.04), (14, 0.02), (16, last))}
    kde = {("diagonal", 2, 2**k, "kde-scott"): 0.07 for k in (12, 14, 16)}
    other = [Row({**row.key, "seed": "1"}, {**row.values, "score_error": 9.0}) for row in error_rows(kde)]
    summary = large_n.EXPERIMENT.summary(Rows([*error_rows(core | kde), *other]), OUR_NAME)
    assert verdicts(summary, "d=2", "falling") == [last < 0.02]
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
        core = {("k=3", d, n, f"attention-d{d}"): n**-exponent for d in (1, 10) for n in (128, 4096)}
        kde = {
            ("k=3", d, n, "kde-scott"): n**-exponent * (2.0 if d == 1 else share)
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
