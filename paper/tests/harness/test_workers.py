"""Jobs on several processes: the same lines as on one, and errors that are told."""

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from joblib.externals.loky import reusable_executor

from discoformer.core.checks import DataError
from discoformer_paper.experiments import find
from discoformer_paper.harness import runner
from discoformer_paper.harness.contestants import Networks
from discoformer_paper.harness.workers import _pool, measure_on_workers

Reproduce = Callable[..., int]


@pytest.fixture
def one_thread() -> Iterator[None]:
    """As in a worker: sums of several threads are rounded otherwise."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def test_workers_measure_the_same_and_keep_the_order(
    tmp_path: Path, model_path: Path, reproduce: Reproduce, one_thread: None
) -> None:
    files = []
    for workers in (1, 2):
        out = tmp_path / str(workers)
        arguments = ("equivariance", "--quick", "--model", model_path, "--out", out)
        assert reproduce(*arguments, "--workers", workers) == 0
        files.append((out / "equivariance.csv").read_text())
    assert files[0] == files[1]


def test_every_worker_has_one_thread() -> None:
    assert list(_pool(2)([(torch.get_num_threads, (), {})])) == [1]


# a race inside joblib: its thread may look for a job that was just called off, after our error is raised
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_worker_that_cannot_work_says_why(tmp_path: Path) -> None:
    context = find("equivariance").context(tmp_path, Networks("no such model"), quick=True, seeds=None)
    with pytest.raises(DataError, match="no model 'no such model'"):
        list(measure_on_workers(find("equivariance").run, context, [0, 1], 2))


@pytest.mark.filterwarnings("ignore:A worker stopped")
def test_a_killed_worker_is_told_in_one_line(tmp_path: Path, model_path: Path) -> None:
    context = find("equivariance").context(tmp_path, Networks(str(model_path)), quick=True, seeds=40)
    answers = measure_on_workers(find("equivariance").run, context, list(range(100)), 2)
    next(answers)
    for pid in list(reusable_executor._executor._processes):
        os.kill(pid, signal.SIGKILL)
    with pytest.raises(DataError, match="a worker was killed"):
        list(answers)


def test_workers_that_find_other_jobs_are_refused(
    tmp_path: Path,
    model_path: Path,
    reproduce: Reproduce,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(runner, "measure_on_workers", lambda *_: [(("another key",), {})])
    arguments = ("equivariance", "--quick", "--model", model_path, "--out", tmp_path / "results")
    assert reproduce(*arguments, "--workers", 2) == 2
    assert "equivariance or its networks have changed" in capsys.readouterr().err


def test_what_measures_times_runs_alone(
    tmp_path: Path, model_path: Path, reproduce: Reproduce, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "measure_on_workers", lambda *_: pytest.fail("beside others"))
    arguments = ("runtime", "--quick", "--model", model_path, "--out", tmp_path / "results")
    assert reproduce(*arguments, "--workers", 2) == 0
