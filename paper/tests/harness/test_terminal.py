"""Wide tables fold, and nothing is lost."""

import pytest

from discoformer_paper.harness.terminal import print_folded


def test_columns_that_do_not_fit_go_into_further_tables(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    header = ["line", *(f"column {i}" for i in range(9))]
    rows = [[f"row {j}", *(f"{i}.{j}" for i in range(9))] for j in range(2)]
    print_folded(header, rows)
    printed = capsys.readouterr().out
    assert max(map(len, printed.splitlines())) <= 40
    assert all(cell in printed for row in (header, *rows) for cell in row)
    assert printed.count("row 1") > 1
    print_folded(["line", "a column that is wider than all the room there is"], [["row", "1"]])
    assert "room there is" in capsys.readouterr().out
