"""What benchmarks share: bars, ratios, and rivals that fail."""

from pathlib import Path

import numpy as np
import pytest

from discoformer.core.checks import DataError
from discoformer_paper.harness.benchmark import Session, benchmark, best_rival, ratio, run_fresh
from discoformer_paper.harness.ledger import Rows


def errors(*values: float) -> Rows:
    return Rows({"score_error": value, "score_square": 1.0} for value in values)


def test_a_missed_bar_shows_in_the_exit_code(tmp_path: Path) -> None:
    run = Session(tmp_path, 1)
    assert run.verdict() == 0
    assert run.bar("low", 1.0, 2.0) == "met"
    assert run.verdict() == 0
    assert run.of_model("mixture").bar("high", 1.0, 2.0, below=False) == "MISSED"
    assert run.verdict() == 1


def test_a_rival_that_failed_is_not_the_best() -> None:
    found = {"failed": errors(np.nan), "good": errors(0.1), "poor": errors(0.2), "ours": errors(0.0)}
    assert best_rival(found) == "good"
    assert best_rival(dict(reversed(found.items()))) == "good"
    assert best_rival(found, ["poor", "failed"]) == "poor"


def test_the_error_of_a_ratio_is_that_of_the_jackknife() -> None:
    ours, theirs = np.array([1.0, 2.0, 4.0]), np.array([3.0, 3.0, 5.0])
    value, error = ratio(errors(*ours), errors(*theirs))
    left_out = [np.delete(ours, i).sum() / np.delete(theirs, i).sum() for i in range(3)]
    assert value == pytest.approx(7 / 11)
    assert error == pytest.approx(np.std(left_out) * np.sqrt(2))
    assert np.isnan(ratio(errors(1.0), errors(2.0))[1])


def test_a_fresh_process_tells_its_answer_or_its_error() -> None:
    assert run_fresh("-c", "print(1 + 1)") == "2\n"
    with pytest.raises(DataError, match="the fresh process failed: ValueError: no"):
        run_fresh("-c", "raise ValueError('no')")


def test_options_that_make_no_sense_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    main = benchmark("text", first=True)(lambda run, args: None)
    with pytest.raises(SystemExit):
        main(["--first", "-1"])
    assert "give one from 0" in capsys.readouterr().err
    assert main(["--quick"]) == 0
