"""Every file of the folder is read to the right values and kinds, or refused in one line."""

import gzip
import io
import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from data.make_files import BAD, FRAME, GOOD, KINDS, to_sqlite, to_text

from discoformer import DiScoFormer
from discoformer.cli import main
from discoformer.columns.schema import infer_schema
from discoformer.core.checks import DataError
from discoformer.data.files import read_queries, read_table
from discoformer.data.numeric import used_schema
from discoformer.data.reading import read_raw


def test_there_are_many_files() -> None:
    assert len(GOOD) >= 45
    assert len(BAD) >= 30


def assert_same_cells(read: pd.Series, expected: pd.Series) -> None:
    """The same numbers, dates or texts, whatever they are held in; gaps in the same places."""
    assert read.isna().tolist() == expected.isna().tolist()
    read, expected = read.dropna(), expected.dropna()
    if expected.dtype.kind in "Mm":
        assert read.tolist() == expected.tolist()
    elif expected.dtype.kind in "iuf":
        np.testing.assert_array_equal(read.to_numpy(dtype=float), expected.to_numpy(dtype=float))
    elif expected.dtype.kind == "b":
        assert read.astype(bool).tolist() == expected.tolist()
    else:
        assert read.astype(str).tolist() == expected.astype(str).tolist()


@pytest.mark.parametrize("name", GOOD)
def test_files_are_read_to_the_right_values_and_kinds(name: str, tmp_path: Path) -> None:
    case = GOOD[name]
    if case.needs and find_spec(case.needs) is None:
        pytest.skip(f"needs {case.needs}")
    case.write(tmp_path / name)
    table = read_raw(tmp_path / name)
    assert len(table.frame) == len(case.expected)
    for column in case.expected:
        assert_same_cells(table.frame[column], case.expected[column])
    schema = infer_schema(table.frame, units=table.units)
    assert {column: schema[column].kind for column in case.kinds} == case.kinds
    assert table.named == case.named
    assert str(table.how).startswith(str(tmp_path / name))
    assert "\n" not in str(table.how)
    for word in case.how:
        assert word in str(table.how)


@pytest.mark.parametrize("name", BAD)
def test_broken_files_are_refused_in_one_line(name: str, tmp_path: Path) -> None:
    case = BAD[name]
    if case.needs and find_spec(case.needs) is None:
        pytest.skip(f"needs {case.needs}")
    case.write(tmp_path / name)
    before = (tmp_path / name).read_bytes() if (tmp_path / name).is_file() else None
    with pytest.raises(DataError) as caught:
        used_schema(read_raw(tmp_path / name, **case.options))
    message = str(caught.value)
    assert case.message in message
    assert "\n" not in message
    assert message.startswith(str(tmp_path / name))
    assert message.isprintable()
    if before is not None:
        assert (tmp_path / name).read_bytes() == before


def test_several_files_are_one_table(tmp_path: Path) -> None:
    FRAME[:20].to_parquet(tmp_path / "a.parquet")
    (tmp_path / "b.csv").write_text(to_text(FRAME[20:50][FRAME.columns[::-1]]))
    (tmp_path / "c.csv").write_text(to_text(FRAME[50:], sep=";", decimal=","))
    for paths in ([tmp_path / name for name in ("a.parquet", "b.csv", "c.csv")], tmp_path / "*.*"):
        table = read_raw(paths)
        for column in FRAME:
            assert_same_cells(table.frame[column], FRAME[column])
        assert [(Path(file).name, rows) for file, rows in table.sources] == [
            ("a.parquet", 20),
            ("b.csv", 30),
            ("c.csv", 10),
        ]
        kinds = {column.name: column.kind for column in infer_schema(table.frame)}
        assert kinds == KINDS


def test_files_of_different_columns_or_types_are_not_put_together(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x,y\n1,2\n")
    (tmp_path / "b.csv").write_text("x,z\n1,2\n")
    (tmp_path / "c.csv").write_text("x,y\n1,2026-01-01\n")
    with pytest.raises(DataError, match=r"b.csv: has columns 'x', 'z', but .*a.csv has 'x', 'y'"):
        read_raw([tmp_path / "a.csv", tmp_path / "b.csv"])
    with pytest.raises(DataError, match=r"c.csv: column 'y' is datetime64.*, but int64 in .*a.csv"):
        read_raw([tmp_path / "a.csv", tmp_path / "c.csv"])


def test_queries_choose_rows_and_columns(tmp_path: Path) -> None:
    to_sqlite(tmp_path / "two.db", a=FRAME.drop(columns="day"), b=FRAME[["size"]])
    table = read_raw(tmp_path / "two.db", "select size from a where orders > 2")
    assert_same_cells(table.frame["size"], FRAME["size"][FRAME["orders"] > 2].reset_index(drop=True))


def test_a_name_that_exists_is_no_pattern(tmp_path: Path) -> None:
    (tmp_path / "a[1].csv").write_text("x\n1\n")
    assert read_raw(tmp_path / "a[1].csv").names == ("x",)


@pytest.mark.parametrize(
    ("text", "message", "value"),
    [
        ("a;b\n1,234;x\n2,500;y\n", "commas as in '1,234' are read as decimal signs", 1.234),
        ("a\tb\n1,234\tx\n2,500\ty\n", "commas as in '1,234' are read as thousands", 1234.0),
        (
            "a,b\n01/02/2026,x\n03/04/2026,y\n",
            "'01/02/2026' are read as %m/%d/%Y",
            pd.Timestamp("2026-01-02"),
        ),
    ],
)
def test_what_can_be_read_in_two_ways_is_said(text: str, message: str, value: object, tmp_path: Path) -> None:
    (tmp_path / "doubt.csv").write_text(text)
    with pytest.warns(UserWarning, match=message):
        table = read_raw(tmp_path / "doubt.csv")
    assert table.frame["a"][0] == value


def test_queries_follow_the_columns_and_units_of_the_sample(tmp_path: Path) -> None:
    (tmp_path / "sample.csv").write_text(to_text(FRAME[["size", "day"]].assign(id=range(len(FRAME)))))
    (tmp_path / "queries.csv").write_text("note,day,size\nlate,01.02.2026,1.5\n")
    with pytest.warns(UserWarning, match=r"left out 'id' \(identifier: all different, and by its name\)"):
        sample = read_table(tmp_path / "sample.csv")
    queries = read_queries(tmp_path / "queries.csv", sample)
    assert queries.names == ("size", "day")
    assert queries.values.tolist() == [[1.5, 20485.0]]


def test_damaged_files_are_refused_in_one_line() -> None:
    """Two thousand of every kind, in a process of its own: damage can crash the libraries that read."""
    program = Path(__file__).parent / "damage_files.py"
    done = subprocess.run([sys.executable, str(program), "2000", "1"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    assert "2000 damaged files" in done.stdout


def _npy(shape: tuple[int, ...], descr: str = "<f8") -> bytes:
    header = {"descr": descr, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(file := io.BytesIO(), header)
    return file.getvalue() + bytes(100)


def _nested(metadata: bytes) -> bytes:
    """A parquet file with something else in the place of what pandas writes there."""
    table = pa.table({"a": [1.0, 2.0, 3.0], "b": [1.0, 5.0, 3.0]}).replace_schema_metadata(
        {"pandas": metadata}
    )
    pq.write_table(table, file := io.BytesIO())
    return file.getvalue()


def _zipped_array() -> bytes:
    np.savez(file := io.BytesIO(), np.zeros((5, 2)))
    return file.getvalue()


HOSTILE = {
    "rows.npy": _npy((10**12, 3)),
    "columns.npy": _npy((3, 10**12)),
    "negative.npy": _npy((-5, 3)),
    "pickle.npy": _npy((3, 2), "|O"),
    "nothing.npy": _npy((10**9, 3), "|V0"),
    "bomb.csv.gz": gzip.compress(b"1,2\n" * (17 * 2**20), 9),
    "columns.csv": (",".join(map(str, range(100_000))) + "\n").encode() * 2,
    "deep.json": b"[" * 100_000,
    "deep.jsonl": b'{"a":' * 50_000 + b"1" + b"}" * 50_000,
    "metadata.parquet": _nested(b"[" * 200_000),
    "index.parquet": _nested(b'{"index_columns": ["\\u001b[31m"], "columns": [{"name": null}]}'),
}


@pytest.mark.parametrize("name", [*HOSTILE, "loop.csv", "loop.npy", "loop.parquet", "pipe.csv"])
def test_hostile_files_end_in_one_line_and_code_2(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / name
    if name.startswith("loop"):
        path.symlink_to(path)
    elif name.startswith("pipe"):
        os.mkfifo(path)
    else:
        path.write_bytes(HOSTILE[name])
    for command in (["describe", str(path)], ["estimate", str(path), "--out", str(tmp_path / "out.csv")]):
        assert main(command) == 2
        said = capsys.readouterr().err
        assert said.startswith(f"discoformer: error: {path}")
        assert said.strip().isprintable()
        assert len(said) < 1100
    if path.suffix in (".npy", ".parquet") and name != "metadata.parquet" and name != "index.parquet":
        with pytest.raises(DataError, match=name):
            DiScoFormer(model="mixture").fit(path)


def test_an_archive_named_as_an_array_is_not_streamed(tmp_path: Path) -> None:
    (tmp_path / "x.npy").write_bytes(_zipped_array())
    with pytest.raises(DataError, match=r"x.npy: not an npy file"):
        DiScoFormer(model="mixture").fit(tmp_path / "x.npy")


def test_a_file_that_is_refused_does_not_abort_the_process(tmp_path: Path) -> None:
    (tmp_path / "index.parquet").write_bytes(HOSTILE["index.parquet"])
    command = [sys.executable, "-m", "discoformer", "describe", str(tmp_path / "index.parquet")]
    assert subprocess.run(command, capture_output=True).returncode == 2


_AGES = pd.DataFrame(
    {
        "age": pd.array([31, None, 45, 0, None, 62] * 10, dtype="Int64"),
        "size": [1.0, 2.0, None, 4.0, 7.0, 2.0] * 10,
        "name": list("abcdef") * 10,
    }
)
_SHEETS = {".xlsx": "openpyxl", ".ods": "odf"}


def _write_ages(path: Path) -> None:
    if path.suffix in _SHEETS:
        _AGES.to_excel(path, index=False, engine=_SHEETS[path.suffix])
    elif path.suffix == ".parquet":
        pq.write_table(pa.table({name: pa.array(_AGES[name]) for name in _AGES}), path)
    elif path.suffix == ".feather":
        pa.feather.write_feather(pa.table({name: pa.array(_AGES[name]) for name in _AGES}), path)
    elif path.suffix == ".db":
        to_sqlite(path, a=_AGES)
    elif path.suffix == ".duckdb":
        with duckdb.connect(str(path)) as connection:
            connection.sql("create table a as select * from _AGES")
    elif path.suffix in (".json", ".jsonl"):
        records = [
            {k: v for k, v in zip(_AGES, row, strict=True) if not pd.isna(v)}
            for row in _AGES.itertuples(index=False)
        ]
        lines = [json.dumps(record, default=int) for record in records]
        path.write_text("\n".join(lines) if path.suffix == ".jsonl" else f"[{','.join(lines)}]")
    else:
        path.write_text(_AGES.to_csv(index=False, na_rep=path.stem.partition("_")[2]))


@pytest.mark.parametrize(
    "name",
    ["a.csv", "a_NA.csv", "a_?.csv", "a.json", "a.jsonl", "a.xlsx", "a.ods"]
    + ["a.db", "a.duckdb", "a.parquet", "a.feather"],
)
def test_whole_numbers_with_gaps_are_whole_numbers(name: str, tmp_path: Path) -> None:
    _write_ages(tmp_path / name)
    frame = read_raw(tmp_path / name).frame
    assert str(frame["age"].dtype) == "Int64"
    assert frame["age"].equals(_AGES["age"])
    if Path(name).suffix not in _SHEETS:  # which do not tell 31 from 31.0
        assert frame["size"].equals(_AGES["size"])


def test_long_numbers_with_gaps_keep_all_their_digits(tmp_path: Path) -> None:
    (tmp_path / "long.csv").write_text("key,x\n123456789012345678,1\n,2\n123456789012345679,3\n")
    frame = read_raw(tmp_path / "long.csv").frame
    assert frame["key"].dropna().tolist() == [123456789012345678, 123456789012345679]


def test_numbers_with_signs_are_whole_if_they_are_written_so(tmp_path: Path) -> None:
    (tmp_path / "signs.csv").write_text("a;b;c\n1.200 EUR;5 %;2,0\n?;7,5 %;-\n980 EUR;1 %;3,0\n")
    frame = read_raw(tmp_path / "signs.csv").frame
    assert frame.dtypes.map(str).tolist() == ["Int64", "float64", "float64"]
