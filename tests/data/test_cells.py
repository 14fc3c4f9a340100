"""Cells and sheets as people write them, found by going through files of many kinds by hand."""

import datetime
import json
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from data.make_files import FRAME, KINDS, to_sheet

from discoformer.cli import main
from discoformer.columns.schema import infer_schema
from discoformer.core.checks import DataError
from discoformer.data.files import read_queries, read_table
from discoformer.data.reading import read_raw
from discoformer.data.writer import output_writer, style_of


def kinds_of(path: Path) -> dict[str, str]:
    table = read_raw(path)
    return {column.name: column.kind for column in infer_schema(table.frame, units=table.units)}


def test_lists_in_cells_are_left_out(tmp_path: Path) -> None:
    rows = [{"x": k + 0.5, "tags": ["a"] * (k % 3)} for k in range(20)]
    (tmp_path / "lists.jsonl").write_text("\n".join(map(json.dumps, rows)))
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "lists.parquet")
    for name in ("lists.jsonl", "lists.parquet"):
        assert kinds_of(tmp_path / name)["tags"] == "text"


ONE_COLUMN = {
    "US$ 1234.50": ("US$ 2.00", [1234.5, 2.0]),
    "R$ 12,50": ("R$ 2,25", [12.5, 2.25]),
    "₹1,23,456.00": ("₹99,456.50", [123456.0, 99456.5]),
    "70.5 kg": ("68 kg", [70.5, 68.0]),
    "-3,5°C": ("21,0°C", [-3.5, 21.0]),
    "1.200 zł": ("980 zł", [1200, 980]),
}


@pytest.mark.parametrize("first", ONE_COLUMN)
def test_signs_and_units_are_numbers(first: str, tmp_path: Path) -> None:
    second, values = ONE_COLUMN[first]
    (tmp_path / "signs.csv").write_text(f"a;b\n{first};x\n{second};y\n", encoding="utf-8")
    assert read_raw(tmp_path / "signs.csv").frame["a"].tolist() == values


def test_different_units_of_measure_are_labels(tmp_path: Path) -> None:
    (tmp_path / "sizes.csv").write_text("size,x\n" + "500 ml,1.5\n1 kg,2.5\n2 kg,3.25\n" * 9)
    assert kinds_of(tmp_path / "sizes.csv")["size"] == "category"


def test_times_of_the_day_are_a_circle_and_spans_are_not(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    times = [
        f"{h:02d}:{m:02d}" for h, m in zip(rng.integers(0, 24, 80), rng.integers(0, 60, 80), strict=True)
    ]
    times[3] = ""
    rows = [f"{time},{time},{k % 9}:0{k % 7}:11" for k, time in enumerate(times)]
    (tmp_path / "times.csv").write_text("\n".join(["departure,duration,lap", *rows]))
    assert kinds_of(tmp_path / "times.csv") == {
        "departure": "circular",
        "duration": "date",
        "lap": "date",
    }
    cells = read_raw(tmp_path / "times.csv").frame["departure"]
    assert cells[0] == datetime.time.fromisoformat(times[0])
    assert cells[3] is None


def test_queries_are_in_the_unit_of_the_sample_though_few_cells_do_not_tell_it(tmp_path: Path) -> None:
    (tmp_path / "sample.csv").write_text(
        "opens,day,x\n06:30,2026-01-01,1.5\n21:05,2026-01-05,2.5\n07:00,,3\n"
    )
    (tmp_path / "queries.csv").write_text("opens,day,x\n13:30,,1.5\n")
    sample = read_table(tmp_path / "sample.csv", plain=False)
    values = read_queries(tmp_path / "queries.csv", sample).values
    np.testing.assert_array_equal(values, [[13.5, np.nan, 1.5]])


@pytest.mark.parametrize(
    ("cell", "moment"),
    [("January 31 2026", "2026-01-31"), ("Jan 31 2026", "2026-01-31"), ("2026-03", "2026-03-01")],
)
def test_further_ways_to_write_dates(cell: str, moment: str, tmp_path: Path) -> None:
    (tmp_path / "dates.csv").write_text(f"when,x\n{cell},1.5\n,2.5\n")
    assert read_raw(tmp_path / "dates.csv").frame["when"][0] == pd.Timestamp(moment)


def test_names_of_months_stay_names(tmp_path: Path) -> None:
    (tmp_path / "wide.csv").write_text("2026-01,2026-02\n1.5,2\n2.5,3\n")
    assert read_raw(tmp_path / "wide.csv").names == ("2026-01", "2026-02")


@pytest.mark.parametrize("other", ["31.01.2026", "2026-02-30"])
def test_dates_that_no_format_fits_are_said_to_be_text(other: str, tmp_path: Path) -> None:
    (tmp_path / "dates.csv").write_text(f"when,x\n2026-01-01,1.5\n{other},2.5\n")
    with pytest.warns(UserWarning, match="column 'when': dates such as '2026-01-01', .* write them alike"):
        assert read_raw(tmp_path / "dates.csv").frame["when"][1] == other


def test_codes_keep_their_zeros_wherever_the_first_is(tmp_path: Path) -> None:
    codes = [*(f"{k}" for k in range(10115, 10515)), "02139"]
    rows = [f"{code},{k},{code if k % 9 else ''}" for k, code in enumerate(codes)]
    (tmp_path / "codes.csv").write_text("\n".join(["zip,n,gaps", *rows]))
    frame = read_raw(tmp_path / "codes.csv").frame
    assert frame["zip"].tolist() == codes
    assert frame["gaps"].tolist()[-1] == "02139"
    assert frame["n"].dtype.kind == "i"


WRITTEN = {
    "brackets": "gain;x\n($1,200.50);1\n$300.00;2\n",
    "space": "price;x\nCHF 54.50;1\nCHF 1'200.50;2\n",
    "minutes": "took;x\n01:30;1\n12:05;2\n",
    "clock": "opens;x\n06:30;1\n21:05;2\n;3\n",
    "months": "when;x\n2026-01;1\n2026-03;2\n",
    "whole": "n;x\n1;2.5\n;3.5\n4;0.5\n",
}


@pytest.mark.parametrize("case", WRITTEN)
def test_what_is_read_is_written_as_it_was(case: str, tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text(WRITTEN[case])
    raw = read_raw(tmp_path / "in.csv")
    with output_writer(tmp_path / "out.csv", raw.names, len(raw.frame), style_of(raw)) as write:
        write(raw.frame)
    assert (tmp_path / "out.csv").read_text() == WRITTEN[case]


def _with_cover(path: Path) -> None:
    with pd.ExcelWriter(path, engine="openpyxl") as book:
        pd.DataFrame({"Report": ["for us", "only"]}).to_excel(book, sheet_name="Cover", index=False)
        FRAME.to_excel(book, sheet_name="Data", index=False)
        FRAME[:5].to_excel(book, sheet_name="Other", index=False)


def test_a_cover_is_not_the_table_and_sheets_can_be_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("openpyxl")
    path = tmp_path / "book.xlsx"
    _with_cover(path)
    assert kinds_of(path) == KINDS
    assert "sheet 'Data' of 3" in str(read_raw(path).how)
    assert len(read_raw(path, sheet="Other").frame) == 5
    with pytest.raises(DataError, match="no sheet 'Otter', it has 'Cover', 'Data', 'Other'"):
        read_raw(path, sheet="Otter")
    assert main(["describe", str(path), "--sheet", "Other"]) == 0
    assert "5 rows" in capsys.readouterr().out
    (tmp_path / "a.csv").write_text("x\n1\n2\n")
    assert main(["describe", str(tmp_path / "a.csv"), "--sheet", "Other"]) == 2
    assert "--sheet is for workbooks" in capsys.readouterr().err


@pytest.mark.parametrize("suffix", [".xlsx", ".ods"])
def test_titles_above_a_table_are_left_out(suffix: str, tmp_path: Path) -> None:
    pytest.importorskip("openpyxl" if suffix == ".xlsx" else "odf")
    titled = pd.concat([FRAME.columns.to_frame().T, FRAME.astype(object)], ignore_index=True)
    titled.columns = ["Sales of 2026", *[""] * (FRAME.shape[1] - 1)]
    to_sheet(tmp_path / f"title{suffix}", titled)
    with pytest.warns(UserWarning, match=r"left out 1 row\(s\) above the names .*'Sales of 2026'"):
        table = read_raw(tmp_path / f"title{suffix}")
    assert table.names == tuple(FRAME.columns)
    assert "names in row 2" in str(table.how)
    assert len(table.frame) == len(FRAME)


def test_a_sheet_of_one_column_has_no_title(tmp_path: Path) -> None:
    pytest.importorskip("openpyxl")
    to_sheet(tmp_path / "one.xlsx", FRAME[["size"]])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(read_raw(tmp_path / "one.xlsx").frame) == len(FRAME)


def test_names_with_commas_are_given_in_quotes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.csv").write_text('"a,b",c\n1.5,2\n2.5,3\n')
    assert main(["describe", str(tmp_path / "a.csv"), "--columns", '"a,b"', "--json"]) == 0
    assert [column["name"] for column in json.loads(capsys.readouterr().out)["columns"]] == ["a,b"]
