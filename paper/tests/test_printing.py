"""The overview of all experiments is short, and its sums are those of the parts."""

import pytest

from discoformer_paper.experiments import NAMES, find
from discoformer_paper.harness.summary import Claim, Summary
from discoformer_paper.printing import print_overview


def test_the_overview_of_all_experiments_is_short(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    claims = [
        Claim("paper", "a", "shown", ""),
        Claim("paper", "b", "undecided", ""),
        Claim("ours", "c", "not shown", ""),
    ]
    print_overview([(find(name), Summary("error", [], claims), 7, 0.25) for name in NAMES])
    header, *lines = (line.split() for line in capsys.readouterr().out.splitlines())
    assert len(lines) < 10
    verdicts = ["shown", "not", "shown", "undecided", "not", "tested"]
    assert header == ["about", "rows", *verdicts, "met", "missed", "minutes"]
    assert lines[-1] == ["all", *map(str, (7 * 24, 24, 0, 24, 0, 0, 24)), "6.0"]
    sums = [sum(int(line[place]) for line in lines[:-1]) for place in range(1, 8)]
    assert sums == [int(cell) for cell in lines[-1][1:8]]
