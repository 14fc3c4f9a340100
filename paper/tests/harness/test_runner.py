"""Runs: each experiment runs, continues where it stopped, and says the same twice."""

import csv
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from discoformer.models import registry
from discoformer_paper.experiments import NAMES, find
from discoformer_paper.harness.contestants import NETWORKS, ONE_VIEW
from discoformer_paper.harness.labels import OURS
from discoformer_paper.harness.ledger import Ledger
from discoformer_paper.harness.provenance import RUNS, minutes_ledger, record_minutes
from discoformer_paper.harness.summary import number
from discoformer_paper.page import page_of

Reproduce = Callable[..., int]
OUR_NAME = "whiten"  # of the file behind the fixture model_path
PICTURES = ("attention_kde", "attention_heads", "quiver", "relative_fisher", "sdkde_overview", "runtime")

pytestmark = pytest.mark.usefixtures("fast_rivals")


@pytest.mark.parametrize("name", NAMES)
def test_runs_and_continues_where_it_stopped(
    name: str,
    tmp_path: Path,
    model_path: Path,
    reproduce: Reproduce,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    out = tmp_path / "results"
    arguments = (name, "--quick", "--model", model_path, "--out", out)
    assert reproduce(*arguments) == 0
    experiment = find(name)
    rows = experiment.ledger(out).rows()
    assert OUR_NAME in rows.entries("method")
    assert (out / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    assert not (out / f"{name}.unfinished").exists()
    assert f"({experiment.source})" in capsys.readouterr().out
    assert f"`{name}`" in (tmp_path / "results.md").read_text(encoding="utf-8")

    assert minutes_ledger(out).rows().entries("experiment") == [name]
    kept = minutes_ledger(out).get(name) or {}
    assert kept["rows"] == len(rows) and kept["workers"] == 1
    assert " min, on 1 process.\n" in (tmp_path / "results.md").read_text(encoding="utf-8")

    measured = (out / f"{name}.csv").read_text()
    monkeypatch.setattr(Ledger, "add", lambda *_: pytest.fail("measured again"))
    assert reproduce(*arguments) == 0
    assert f"{name}: 0 measured, {len(rows)} were there" in capsys.readouterr().out
    assert (out / f"{name}.csv").read_text() == measured

    assert page_of(out) == page_of(out) == (tmp_path / "results.md").read_text(encoding="utf-8")
    summary = experiment.summary(rows, OUR_NAME)
    assert any(not np.isnan(line.found.get(OURS, np.nan)) for line in summary.lines)

    methods = rows.entries("method")
    for keep in (*([method] for method in methods), [m for m in methods if m != OUR_NAME]):
        told = experiment.summary(rows.where(method=keep), OUR_NAME)
        told.table(OUR_NAME)
        told.worse(OUR_NAME)
        judged = [claim.evidence for claim in told.claims if claim.verdict != "not tested"]
        assert not any("–" in evidence for evidence in judged), "what was not measured is open"


def test_an_interrupted_run_continues(
    tmp_path: Path, model_path: Path, reproduce: Reproduce, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = ("score_vs_n", "--quick", "--model", model_path, "--out", tmp_path / "results")
    add, count = Ledger.add, 0

    def interrupted(self: Ledger, key: tuple[object, ...], values: dict[str, float]) -> dict[str, float]:
        nonlocal count
        count += 1
        if count > 5:
            raise KeyboardInterrupt
        return add(self, key, values)

    monkeypatch.setattr(Ledger, "add", interrupted)
    assert reproduce(*arguments) == 130
    kept = (tmp_path / "results/score_vs_n.csv").read_text()
    assert len(kept.splitlines()) == 1 + 5
    monkeypatch.setattr(Ledger, "add", add)
    assert reproduce(*arguments) == 0
    assert (tmp_path / "results/score_vs_n.csv").read_text().startswith(kept)
    assert not len(minutes_ledger(tmp_path / "results")), "only the time of a whole run is kept"


def test_minutes_are_those_of_the_last_whole_run_of_these_rows(
    tmp_path: Path, model_path: Path, reproduce: Reproduce
) -> None:
    out = tmp_path / "results"
    arguments = ("quiver", "--quick", "--model", model_path, "--out", out)
    reproduce(*arguments, "--seeds", 3)
    record_minutes(out, "quiver", {"rows": 1, "workers": 7, "minutes": 9.5}, "abc")
    assert "9.5 min" not in page_of(out), "the time of other rows"
    count = len(find("quiver").ledger(out))
    record_minutes(out, "quiver", {"rows": count, "workers": 7, "minutes": 9.5}, "abc")
    assert "9.5 min" not in page_of(out), "the time of another run"
    record_minutes(out, "quiver", {"rows": 1, "workers": 7, "minutes": 9.5}, "abc")
    reproduce(*arguments, "--seeds", 4)
    assert minutes_ledger(out).get("quiver") == {"rows": 1, "workers": 7, "minutes": 9.5}, "no whole run"
    (out / "quiver.csv").unlink()
    reproduce(*arguments)
    kept = minutes_ledger(out).get("quiver") or {}
    assert kept["workers"] == 1 and f"all in {number(kept['minutes'])} min" in page_of(out)


def test_a_job_of_several_rows_fills_in_the_one_that_is_missing(
    tmp_path: Path, model_path: Path, reproduce: Reproduce
) -> None:
    out = tmp_path / "results"
    arguments = ("heavy_tails", "--quick", "--model", model_path, "--out", out)
    reproduce(*arguments)
    path = out / "heavy_tails.csv"
    rows = list(csv.DictReader(path.read_text().splitlines()))
    lines = path.read_text().splitlines(keepends=True)
    (gone, *_) = (i for i, row in enumerate(rows, 1) if row["steps"] == "2")
    path.write_text("".join(lines[:gone] + lines[gone + 1 :]))
    reproduce(*arguments)
    times = ("seconds", "run")
    again = list(csv.DictReader(path.read_text().splitlines()))
    assert [{k: v for k, v in row.items() if k not in times} for row in again] == [
        {k: v for k, v in row.items() if k not in times} for row in rows
    ]
    kept = [i for i in range(len(rows)) if i != gone - 1]
    assert [again[i]["seconds"] for i in kept] == [rows[i]["seconds"] for i in kept]


def test_new_weights_are_measured_again_and_rivals_are_kept(
    tmp_path: Path, model_path: Path, other_path: Path, reproduce: Reproduce
) -> None:
    network = tmp_path / "mine.safetensors"
    out = tmp_path / "results"
    lines = []
    for weights in (model_path, other_path):
        network.write_bytes(weights.read_bytes())
        assert reproduce("whitening", "--quick", "--model", network, "--out", out) == 0
        with (out / "whitening.csv").open(newline="") as file:
            lines.append(list(csv.DictReader(file)))
    first, second = ({line["method"] for line in found} for found in lines)
    assert len(first) == len(second)
    assert {name.split("@")[0] for name in first} == {name.split("@")[0] for name in second}
    assert len(first & second) == len(first) - 1, "only ours has changed"
    kept = [line for line in lines[0] if "@" not in line["method"]]
    assert [line for line in lines[1] if "@" not in line["method"]] == kept, "times and runs included"


def test_missing_networks_are_left_out_with_one_line(
    own_registry: None,
    tmp_path: Path,
    model_path: Path,
    reproduce: Reproduce,
    capsys: pytest.CaptureFixture[str],
) -> None:
    arguments = ("large_n", "heavy_tails", "--quick", "--model", model_path, "--out", tmp_path / "results")
    assert reproduce(*arguments) == 0
    errors = capsys.readouterr().err.splitlines()
    assert sorted(errors) == [
        f"without {name}: its weights are not installed"
        for name in (NETWORKS["core"]["10"], NETWORKS["core"]["2"])
    ]
    assert "–" in (tmp_path / "results.md").read_text(encoding="utf-8")


def test_networks_take_part_when_they_appear(
    own_registry: None,
    tmp_path: Path,
    model_path: Path,
    reproduce: Reproduce,
    save_attention: Callable[[int, int], Path],
) -> None:
    out = tmp_path / "results"
    for dim in (2, 10):
        registry.register(f"attention-d{dim}", save_attention(dim, 0))
    names = ("large_n", "heavy_tails", "equivariance", "landau", *PICTURES)
    assert reproduce(*names, "--quick", "--model", model_path, "--out", out) == 0
    found = {name: find(name).ledger(out).rows() for name in names}
    for rows in found.values():
        assert any(method.startswith("attention-d") for method in rows.entries("method"))
    for method in ("attention-d2", f"{OUR_NAME}, {ONE_VIEW}"):
        at = found["heavy_tails"].where(method=method)
        before, after = (at.where(steps=steps).mean("score_mse") for steps in (0, 2))
        assert before != after, "test-time training moves the weights"
    assert found["attention_heads"].where(method="attention-d2").entries("head") == ["mean", "0", "1"]
    turned = found["equivariance"].where(map="rotation")
    for method in ("attention-d2", OUR_NAME):
        assert len(turned.where(method=method)) == find("equivariance").quick_seeds, "equally many trials"
    claim = find("equivariance").summary(found["equivariance"], OUR_NAME).claims[0]
    assert claim.whose == "paper" and claim.verdict == "shown"


def test_quick_and_full_results_are_never_in_one_folder(
    tmp_path: Path, model_path: Path, reproduce: Reproduce, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "results"
    arguments = ("whitening", "--model", model_path, "--out", out)
    assert reproduce(*arguments, "--quick") == 0
    assert "no results" in (tmp_path / "results.md").read_text(encoding="utf-8")
    files = {path: path.read_bytes() for path in tmp_path.rglob("*.*")}
    assert reproduce(*arguments) == 2
    assert "holds results of --quick: remove it" in capsys.readouterr().err
    runs = out / RUNS
    runs.write_text(runs.read_text().replace("quick", "full"))
    files[runs] = runs.read_bytes()
    assert reproduce(*arguments, "--quick") == 2
    assert "holds results of full size: give --quick another --out" in capsys.readouterr().err
    assert {path: path.read_bytes() for path in tmp_path.rglob("*.*")} == files
    assert reproduce("results", "--out", out) == 0
    assert "no results" not in (tmp_path / "results.md").read_text(encoding="utf-8")
