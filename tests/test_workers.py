"""Jobs on several processes: the same lines as on one, and errors that are told."""

import multiprocessing
from pathlib import Path

import pytest
from discoformer_paper.contestants import Networks
from discoformer_paper.ledger import Ledger
from discoformer_paper.workers import Answer, measure_on_workers

from discoformer.cli import main
from discoformer.core.checks import DataError
from discoformer_paper import find, harness


def reproduce(*arguments: object) -> int:
    return main(["reproduce", *map(str, arguments)])


def test_workers_measure_the_same(tmp_path: Path, model_path: Path) -> None:
    files = []
    for workers in (1, 2):
        out = tmp_path / str(workers)
        arguments = ("equivariance", "--quick", "--model", model_path, "--out", out)
        assert reproduce(*arguments, "--workers", workers) == 0
        files.append((out / "equivariance.csv").read_text())
    assert files[0] == files[1]


def test_a_worker_that_cannot_work_says_why(tmp_path: Path) -> None:
    context = find("equivariance").context(tmp_path, Networks("no such model"), quick=True, seeds=None)
    with pytest.raises(DataError, match="no model 'no such model'"):
        list(measure_on_workers("equivariance", context, [0, 1], 2))


def test_a_killed_worker_is_told_and_ends_the_others(tmp_path: Path, model_path: Path) -> None:
    context = find("equivariance").context(tmp_path, Networks(str(model_path)), quick=True, seeds=None)
    answers = measure_on_workers("equivariance", context, [0, 1, 2, 3], 2)
    next(answers)
    for child in multiprocessing.active_children():
        child.kill()
    with pytest.raises(DataError, match="a worker was killed"):
        list(answers)
    for child in multiprocessing.active_children():
        child.join(10)
    assert not multiprocessing.active_children()


def test_workers_that_find_other_jobs_are_refused(
    tmp_path: Path, model_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(harness, "measure_on_workers", lambda *_: [Answer(0, [["another key"]], [{}])])
    arguments = ("equivariance", "--quick", "--model", model_path, "--out", tmp_path / "results")
    assert reproduce(*arguments, "--workers", 2) == 2
    assert "equivariance or its networks have changed" in capsys.readouterr().err


def test_lines_are_arranged_and_others_keep_their_places(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "x.csv", ("n",), ("error",))
    for n in (3, 9, 1, 2):
        ledger.add((n,), {"error": n / 2})
    ledger.arrange([(1,), (2,), (3,), (4,)])
    for found in (ledger, Ledger(tmp_path / "x.csv", ("n",), ("error",))):
        assert [(row.key["n"], row.values["error"]) for row in found.rows()] == [
            ("1", 0.5),
            ("9", 4.5),
            ("2", 1.0),
            ("3", 1.5),
        ]


def test_what_measures_times_runs_alone(
    tmp_path: Path, model_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(harness, "measure_on_workers", lambda *_: pytest.fail("beside others"))
    arguments = ("runtime", "--quick", "--model", model_path, "--out", tmp_path / "results")
    assert reproduce(*arguments, "--workers", 2) == 0
