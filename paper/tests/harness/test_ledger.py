"""Measurements on disk: what is kept, forgotten, arranged, and how rows are selected and averaged."""

from pathlib import Path

import numpy as np
import pytest

from discoformer.core.checks import DataError
from discoformer_paper.harness.ledger import Ledger, Rows


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
    for damaged in ("2,kde,much,abc\n", "2,kde,0.5\n", "2,kde,0.5,abc,more\n"):
        path.write_text(whole + damaged)
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


def test_lines_are_arranged_and_others_keep_their_places(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "x.csv", ("n",), ("error",))
    for n in (3, 9, 1, 2):
        ledger.add((n,), {"error": n / 2})
    ledger.arrange([(1,), (2,), (3,), (4,)])
    for found in (ledger, Ledger(tmp_path / "x.csv", ("n",), ("error",))):
        assert found.rows().entries("n") == ["1", "9", "2", "3"]
        assert list(found.rows().values("error")) == [0.5, 4.5, 1.0, 1.5]
    assert ledger.rows([(2,), (9,)]).entries("n") == ["2", "9"]


def test_what_is_recalled_is_measured_once(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "x.csv", ("n",), ("error",))
    assert ledger.recall((1,), lambda: {"error": 1 / 3}) == {"error": 0.33333333}
    assert ledger.recall((1,), lambda: pytest.fail("measured again")) == {"error": 0.33333333}


def test_rows_average_by_name_of_the_network(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "x.csv", ("n", "seed", "method"), ("error",))
    for n, seed, method, error in ((8, 0, "net@1", 1.0), (8, 1, "net@1", 3.0), (16, 0, "kde", 5.0)):
        ledger.add((n, seed, method), {"error": error})
    rows = ledger.rows()
    assert rows.where(method="net", n=8).mean("error") == 2.0
    assert rows.where(method="net").standard_error("error") == pytest.approx(1.0)
    assert rows.numbers("n") == [8, 16] and rows.entries("method") == ["net", "kde"]
    assert len(rows.where(method=["net", "kde"], seed={0})) == 2
    assert np.isnan(rows.where(n=4).mean("error"))
    assert rows.by("n", "error") == {8: 2.0, 16: 5.0}
    assert rows.columns({"ours": "net", "KDE": "kde"}, "error", 100) == {"ours": 200.0, "KDE": 500.0}


def test_rows_without_any_have_no_numbers(tmp_path: Path) -> None:
    rows = Ledger(tmp_path / "x.csv", ("n", "method"), ("error",)).rows()
    assert len(rows) == 0 and rows.numbers("n") == [] and rows.by("n", "error") == {}
    assert np.isnan(rows.where(method="kde").mean("error")) and np.isnan(Rows([]).mean("error"))
