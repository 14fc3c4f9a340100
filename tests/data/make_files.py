"""A folder of small files as people have them, with what should be read from each; and broken ones.

    python tests/data/make_files.py FOLDER

`GOOD` are read to the right values and kinds, `BAD` are refused in one line.
"""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import sqlite3
import sys
import zipfile
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet

ROWS = 60
_RNG = np.random.default_rng(7)

FRAME = pd.DataFrame(
    {
        "size": _RNG.normal(3, 2, ROWS).round(3),
        "orders": _RNG.poisson(2.5, ROWS),
        "colour": _RNG.choice(["red", "green", "blue"], ROWS),
        "day": pd.Timestamp("2026-01-01")
        + pd.to_timedelta(_RNG.integers(0, 300, ROWS), "D").astype("m8[us]"),
        "paid": _RNG.random(ROWS) < 0.6,
    }
)
"""A column of each of five kinds."""
FRAME["day"] = FRAME["day"].astype("M8[us]")
KINDS = {"size": "continuous", "orders": "count", "colour": "category", "day": "date", "paid": "boolean"}
NUMBERS = FRAME[["size", "orders"]]
NUMBER_KINDS = {"size": "continuous", "orders": "count"}


@dataclass(frozen=True)
class Good:
    """A file, how to make it, and what is in it.

    Attributes
    ----------
    write : makes the file at a path
    expected : what must be read; columns that are not in it are not looked at
    kinds : of the columns, by name
    needs : a package without which it cannot be read
    named : whether the file names its columns
    how : what the line about the reading must say
    """

    write: Callable[[Path], Any]
    expected: pd.DataFrame
    kinds: dict[str, str]
    needs: str = ""
    named: bool = True
    how: tuple[str, ...] = ()


@dataclass(frozen=True)
class Bad:
    """A file that is refused, and what the message says."""

    write: Callable[[Path], Any]
    message: str
    needs: str = ""
    options: dict[str, Any] = field(default_factory=dict)


GOOD: dict[str, Good] = {}
BAD: dict[str, Bad] = {}


# -- text: separators, signs, encodings -------------------------------------------------------


def to_text(frame: pd.DataFrame = FRAME, **options: Any) -> str:
    """As csv, with dates as dates."""
    return str(frame.to_csv(**{"index": False, "date_format": "%Y-%m-%d", "lineterminator": "\n", **options}))


def text(value: str, encoding: str = "utf-8") -> Callable[[Path], Any]:
    """Writes this."""
    return lambda path: path.write_bytes(value.encode(encoding))


def cells(*rows: str, encoding: str = "utf-8") -> Callable[[Path], Any]:
    return text("\n".join(rows) + "\n", encoding)


for name, sign in {"comma": ",", "semicolon": ";", "tab": "\t", "bar": "|", "space": " "}.items():
    GOOD[f"{name}.csv"] = Good(text(to_text(sep=sign)), FRAME, KINDS)
GOOD["tab.tsv"] = Good(text(to_text(sep="\t")), FRAME, KINDS, how=("tsv", "utf-8"))
GOOD["table.txt"] = Good(text(to_text(sep="\t")), FRAME, KINDS)
GOOD["no_suffix"] = Good(text(to_text()), FRAME, KINDS)
GOOD["aligned.dat"] = Good(text(NUMBERS.to_string(index=False)), NUMBERS, NUMBER_KINDS, how=("spaces",))
GOOD["windows.csv"] = Good(text(to_text(lineterminator="\r\n")), FRAME, KINDS)
GOOD["old_mac.csv"] = Good(text(to_text(lineterminator="\r")), FRAME, KINDS)
GOOD["quoted.csv"] = Good(text(to_text(quoting=1)), FRAME, KINDS)
GOOD["row_labels.csv"] = Good(text(to_text(index=True)), FRAME, KINDS)
GOOD["trailing.csv"] = Good(text(to_text().replace("\n", ",\n")), FRAME, KINDS)
GOOD["no_names.csv"] = Good(
    text(to_text(NUMBERS, header=False)),
    NUMBERS.set_axis(["x0", "x1"], axis=1),
    {"x0": "continuous", "x1": "count"},
    named=False,
    how=("names none",),
)
GOOD["no_names_dates.csv"] = Good(
    text(to_text(FRAME[["day", "size"]], header=False)),
    FRAME[["day", "size"]].set_axis(["x0", "x1"], axis=1),
    {"x0": "date", "x1": "continuous"},
    named=False,
)
for name, encoding in {
    "utf8_mark": "utf-8-sig",
    "utf16": "utf-16",
    "utf16_big": "utf-16-be",
    "utf16_little": "utf-16-le",
    "latin1": "latin-1",
    "windows1252": "cp1252",
}.items():
    words = FRAME.rename(columns={"size": "größe"}).replace({"colour": {"red": "grün, süß"}})
    GOOD[f"{name}.csv"] = Good(
        text(to_text(words), encoding), words, {"größe": "continuous", "colour": "category"}
    )
GOOD["latin1_late.csv"] = Good(
    text("size,filler\n" + f"1.5,{'x' * 100}\n2.25,y\n" * 3000 + "2.5,süß\n", "latin-1"),
    pd.DataFrame({"size": [1.5, 2.25] * 3000 + [2.5]}),
    {"filler": "category"},
)
GOOD["decimal_comma.csv"] = Good(text(to_text(sep=";", decimal=",")), FRAME, KINDS, how=("decimal ','",))
GOOD["decimal_comma.tsv"] = Good(text(to_text(sep="\t", decimal=",")), FRAME, KINDS)
GOOD["decimal_comma_one_column.csv"] = Good(
    text(to_text(NUMBERS[["size"]], decimal=",", quoting=3, sep=";")),
    NUMBERS[["size"]],
    {"size": "continuous"},
)
GOOD["thousands.csv"] = Good(
    cells("a,b", '"1,234.5",7', '"12,000",8', "250,9", '"1,000,000",8'),
    pd.DataFrame({"a": [1234.5, 12000, 250, 1e6], "b": [7, 8, 9, 8]}),
    {},
)
GOOD["thousands_point.csv"] = Good(
    cells("a;b;c", "1.234,50;1.000;0,5", "12.000,00;2.500;1,5", "250,25;900;2,25"),
    pd.DataFrame({"a": [1234.5, 12000, 250.25], "b": [1000.0, 2500, 900], "c": [0.5, 1.5, 2.25]}),
    {},
)
GOOD["thousands_space.csv"] = Good(
    cells("a;b", "1 234,5;1", "12\u00a0000,25;2", "1\u202f000;3"),
    pd.DataFrame({"a": [1234.5, 12000.25, 1000], "b": [1, 2, 3]}),
    {},
)
GOOD["thousands_apostrophe.csv"] = Good(
    cells("a;b", "1'234.5;1", "12'000;2", "900;3"),
    pd.DataFrame({"a": [1234.5, 12000, 900], "b": [1, 2, 3]}),
    {},
)
_SHARES = _RNG.uniform(0, 100, ROWS).round(3)
GOOD["percent.csv"] = Good(
    cells(
        "share;x",
        *(f"{a:.3f} %;{b}".replace(".", ",") for a, b in zip(_SHARES, NUMBERS["size"], strict=True)),
    ),
    pd.DataFrame({"share": _SHARES, "x": NUMBERS["size"]}),
    {"share": "bounded", "x": "continuous"},
)
_PRICES = _RNG.exponential(900, ROWS).round(2)
GOOD["euro.csv"] = Good(
    cells("price;n", *(f"{x:,.2f} €;1".translate(str.maketrans(",.", ".,")) for x in _PRICES)),
    pd.DataFrame({"price": _PRICES}),
    {"price": "positive", "n": "constant"},
)
GOOD["dollar.csv"] = Good(
    cells("price,x", *(f'"${x:,.2f}",{y}' for x, y in zip(_PRICES, NUMBERS["size"], strict=True))),
    pd.DataFrame({"price": _PRICES}),
    {"price": "positive"},
)
GOOD["accounting.csv"] = Good(
    cells("gain;x", "(1,200.50);1", "300.00;2", "-75.25;3", "−8.00;4"),
    pd.DataFrame({"gain": [-1200.5, 300, -75.25, -8]}),
    {},
)
GOOD["exponents.csv"] = Good(
    cells("a,b", "1e-3,+5", "2.5E4,-7", ".5,6"), pd.DataFrame({"a": [1e-3, 2.5e4, 0.5], "b": [5, -7, 6]}), {}
)
_GAPS = NUMBERS.assign(size=NUMBERS["size"].where(NUMBERS.index % 7 != 3))
for name, marker in {
    "empty": "",
    "na": "NA",
    "null": "NULL",
    "sheet_na": "#N/A",
    "question": "?",
    "dash": "-",
    "unknown": "unknown",
    "division": "#DIV/0!",
}.items():
    GOOD[f"gap_{name}.csv"] = Good(text(to_text(_GAPS, na_rep=marker)), _GAPS, NUMBER_KINDS)
GOOD["gap_decimal_comma.csv"] = Good(
    text(to_text(_GAPS, na_rep="k.A.", sep=";", decimal=",")), _GAPS, NUMBER_KINDS
)
GOOD["comments.csv"] = Good(
    text("# made by hand\n# in 2026\n" + to_text().replace("\n", "\n# half\n", 1)), FRAME, KINDS
)
GOOD["savetxt.txt"] = Good(
    text("# size orders\n" + to_text(NUMBERS, sep=" ", header=False)), NUMBERS, NUMBER_KINDS
)
GOOD["hash_name.csv"] = Good(
    cells("#,name,x", "1,Ann,2.5", "2,Bo,3.5", "3,Cy,1.5"),
    pd.DataFrame({"#": [1, 2, 3], "name": ["Ann", "Bo", "Cy"], "x": [2.5, 3.5, 1.5]}),
    {"name": "identifier"},
)
GOOD["hash_cells.csv"] = Good(
    cells("x,tag", "1.5,#1", "2.5,#2", "4,#1"), pd.DataFrame({"tag": ["#1", "#2", "#1"]}), {"tag": "category"}
)

# -- dates ------------------------------------------------------------------------------------
_MOMENTS = FRAME["day"] + pd.to_timedelta(_RNG.integers(0, 86_400, ROWS), "s").astype("m8[us]")
for name, (form, exact) in {
    "german": ("%d.%m.%Y", False),
    "american": ("%m/%d/%Y", False),
    "british": ("%d/%m/%Y", False),
    "german_time": ("%d.%m.%Y %H:%M:%S", True),
    "american_time": ("%m/%d/%Y %I:%M:%S %p", True),
    "iso_time": ("%Y-%m-%dT%H:%M:%S", True),
    "words": ("%d %b %Y", False),
}.items():
    moments = _MOMENTS if exact else FRAME["day"]
    dated = pd.DataFrame({"when": moments, "x": FRAME["size"]})
    GOOD[f"date_{name}.csv"] = Good(
        text(to_text(dated.assign(when=moments.dt.strftime(form)))), dated, {"when": "date"}
    )
GOOD["date_zone.csv"] = Good(
    cells("when,x", "2026-03-01T10:00:00+02:00,1.5", "2026-03-02T11:30:00+02:00,2.5"),
    pd.DataFrame({"when": pd.to_datetime(["2026-03-01T10:00:00+02:00", "2026-03-02T11:30:00+02:00"])}),
    {"when": "date"},
)
GOOD["date_gaps.csv"] = Good(
    cells("when,x", "2026-03-01,1.5", ",2.5", "2026-03-05,4"),
    pd.DataFrame({"when": pd.to_datetime(["2026-03-01", None, "2026-03-05"])}),
    {"when": "date"},
)
GOOD["clock.csv"] = Good(
    cells("took;x", "01:30;1", "00:45:10;2", "12:00;3"),
    pd.DataFrame({"took": pd.to_timedelta(["01:30:00", "00:45:10", "12:00:00"])}),
    {"took": "date"},
)

# -- kinds of columns -------------------------------------------------------------------------
_N = 200
_UNIFORM = _RNG.random(_N)
COLUMNS: dict[str, tuple[Any, str]] = {
    "normal": (_RNG.normal(size=_N), "continuous"),
    "rounded": (_RNG.normal(10, 1, _N).round(1), "lattice"),
    "halves": (_RNG.integers(-20, 20, _N) / 2, "lattice"),
    "waiting": (_RNG.exponential(size=_N), "positive"),
    "fraction_used": (_UNIFORM, "bounded"),
    "pct_done": (100 * _UNIFORM, "bounded"),
    "spent": (np.where(_UNIFORM < 0.3, 0, _RNG.gamma(2, 30, _N)), "atoms"),
    "score_capped": (np.minimum(_RNG.normal(80, 20, _N), 100), "atoms"),
    "visits": (_RNG.poisson(3, _N), "count"),
    "age": (_RNG.integers(18, 90, _N), "count"),
    "year": (_RNG.integers(1990, 2026, _N), "lattice"),
    "rare": (_RNG.poisson(0.3, _N), "count"),
    "id": (_RNG.permutation(10**6)[:_N], "identifier"),
    "number": (np.arange(1000, 1000 + _N), "identifier"),
    "customerId": (_RNG.permutation(10**7)[:_N], "identifier"),
    "uuid": ([f"{_RNG.integers(2**60):016x}-a" for _ in range(_N)], "identifier"),
    "zip": ([f"{code:05d}" for code in _RNG.choice([1067, 10115, 20095], _N)], "category"),
    "city": (_RNG.choice(["Bonn", "Ulm", "Köln"], _N), "category"),
    "agrees": (_RNG.choice(["yes", "no"], _N), "boolean"),
    "flag": (_RNG.integers(0, 2, _N), "boolean"),
    "comment": ([" ".join(_RNG.choice(list("abcdefgh"), 9)) for _ in range(_N)], "text"),
    "hour": (_RNG.integers(0, 24, _N), "circular"),
    "month": (_RNG.integers(1, 13, _N), "circular"),
    "wind_direction": (_RNG.uniform(0, 360, _N), "circular"),
    "unit": (["cm"] * _N, "constant"),
    "zero": (np.zeros(_N), "constant"),
    "nothing": ([None] * _N, "constant"),
}
for name, (values, kind) in COLUMNS.items():
    column = pd.DataFrame({name: values, "other": _RNG.normal(size=_N)})
    read = column if kind != "constant" else column[["other"]]
    GOOD[f"kind_{name}.csv"] = Good(text(to_text(column)), read, {name: kind})
everything = pd.DataFrame({name: values for name, (values, _) in COLUMNS.items()})
GOOD["everything.csv"] = Good(
    text(to_text(everything, sep=";", decimal=","), "cp1252"),
    everything.drop(columns=["unit", "zero", "nothing"]),
    {name: kind for name, (_, kind) in COLUMNS.items()},
)

# -- packed -----------------------------------------------------------------------------------


def to_zip(path: Path, **members: str | bytes) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name.replace("_", "."), content)


_PLAIN = to_text().encode()
GOOD["packed.csv.gz"] = Good(
    lambda path: path.write_bytes(gzip.compress(_PLAIN)), FRAME, KINDS, how=("packed as gz",)
)
GOOD["packed.csv.bz2"] = Good(lambda path: path.write_bytes(bz2.compress(_PLAIN)), FRAME, KINDS)
GOOD["packed.csv.xz"] = Good(lambda path: path.write_bytes(lzma.compress(_PLAIN)), FRAME, KINDS)
GOOD["packed.csv.zst"] = Good(
    lambda path: path.write_bytes(pa.compress(_PLAIN, "zstd", asbytes=True)), FRAME, KINDS
)
GOOD["packed.zip"] = Good(lambda path: to_zip(path, table_csv=_PLAIN), FRAME, KINDS)
GOOD["packed.json.gz"] = Good(
    lambda path: path.write_bytes(
        gzip.compress(NUMBERS.to_json(orient="records", double_precision=15).encode())
    ),
    NUMBERS,
    NUMBER_KINDS,
)
GOOD["hidden_gzip.csv"] = Good(lambda path: path.write_bytes(gzip.compress(_PLAIN)), FRAME, KINDS)
GOOD["packed_utf16.csv.gz"] = Good(
    lambda path: path.write_bytes(gzip.compress(to_text(sep=";", decimal=",").encode("utf-16"))), FRAME, KINDS
)

# -- typed formats ----------------------------------------------------------------------------


def records(frame: pd.DataFrame = FRAME) -> list[dict[str, Any]]:
    """As json has them: dates as text, gaps as null."""
    plain: list[dict[str, Any]] = json.loads(
        frame.assign(
            **{c: frame[c].dt.strftime("%Y-%m-%d") for c in frame.columns if frame[c].dtype.kind == "M"}
        )
        .astype(object)
        .where(frame.notna(), None)
        .to_json(orient="records", double_precision=15)
    )
    return plain


def to_npz(path: Path, **arrays: Any) -> None:
    with path.open("wb") as file:
        np.savez(file, **arrays)


def to_sqlite(path: Path, **tables: pd.DataFrame) -> None:
    with closing(sqlite3.connect(path)) as connection:
        for name, frame in tables.items():
            frame.to_sql(name, connection, index=False)


def to_duckdb(path: Path) -> None:
    import duckdb

    with duckdb.connect(str(path)) as connection:
        connection.register("source", FRAME)
        connection.execute("create table sales as select * from source")


def to_sheet(path: Path, frame: pd.DataFrame = FRAME, **options: Any) -> None:
    frame.to_excel(path, engine="odf" if path.suffix == ".ods" else "openpyxl", **{"index": False, **options})


def to_ipc(path: Path, stream: bool) -> None:
    table = pa.Table.from_pandas(FRAME)
    make = pa.ipc.new_stream if stream else pa.ipc.new_file
    with make(str(path), table.schema) as writer:
        writer.write_table(table)


GOOD["records.json"] = Good(text(json.dumps(records())), FRAME, KINDS)
GOOD["lines.jsonl"] = Good(text("\n".join(map(json.dumps, records()))), FRAME, KINDS, how=("json lines",))
GOOD["lines.json"] = Good(text("\n".join(map(json.dumps, records()))), FRAME, KINDS)
GOOD["gaps.ndjson"] = Good(text("\n".join(map(json.dumps, records(_GAPS)))), _GAPS, NUMBER_KINDS)
GOOD["lists.json"] = Good(text(json.dumps(NUMBERS.to_dict("list"))), NUMBERS, NUMBER_KINDS)
GOOD["nested.json"] = Good(
    text('[{"a": {"b": 1.5, "c": "x"}}, {"a": {"b": 2.5, "c": "y"}}, {"a": {"b": 4, "c": "x"}}]'),
    pd.DataFrame({"a.b": [1.5, 2.5, 4], "a.c": ["x", "y", "x"]}),
    {"a.c": "category"},
)
GOOD["table.parquet"] = Good(lambda path: FRAME.to_parquet(path), FRAME, KINDS)
GOOD["indexed.parquet"] = Good(
    lambda path: FRAME.set_index("day", drop=False).rename_axis("label").to_parquet(path), FRAME, KINDS
)
GOOD["text_dates.parquet"] = Good(
    lambda path: FRAME.assign(day=FRAME["day"].dt.strftime("%Y-%m-%d")).to_parquet(path), FRAME, KINDS
)
GOOD["dates32.parquet"] = Good(
    lambda path: FRAME.assign(day=FRAME["day"].dt.date).to_parquet(path), FRAME, KINDS
)
GOOD["table.feather"] = Good(lambda path: FRAME.to_feather(path), FRAME, KINDS)
GOOD["table.arrow"] = Good(lambda path: to_ipc(path, stream=False), FRAME, KINDS)
GOOD["stream.arrow"] = Good(lambda path: to_ipc(path, stream=True), FRAME, KINDS)
GOOD["table.npy"] = Good(
    lambda path: np.save(path, NUMBERS.to_numpy()),
    NUMBERS.set_axis(["x0", "x1"], axis=1),
    {"x0": "continuous", "x1": "count"},
    named=False,
)
GOOD["records.npy"] = Good(lambda path: np.save(path, NUMBERS.to_records(index=False)), NUMBERS, NUMBER_KINDS)
GOOD["single.npz"] = Good(
    lambda path: to_npz(path, data=NUMBERS.to_numpy()),
    NUMBERS.set_axis(["x0", "x1"], axis=1),
    {"x0": "continuous", "x1": "count"},
    named=False,
)
GOOD["columns.npz"] = Good(
    lambda path: to_npz(path, size=NUMBERS["size"], orders=NUMBERS["orders"]), NUMBERS, NUMBER_KINDS
)
GOOD["table.db"] = Good(
    lambda path: to_sqlite(path, sales=FRAME.assign(day=FRAME["day"].dt.strftime("%Y-%m-%d"))),
    FRAME[["size", "orders", "colour", "day"]],
    {"day": "date"},
)
GOOD["table.duckdb"] = Good(to_duckdb, FRAME, KINDS, "duckdb")
GOOD["table.xlsx"] = Good(to_sheet, FRAME, KINDS, "openpyxl", how=("sheet 'Sheet1'",))
GOOD["offset.xlsx"] = Good(lambda path: to_sheet(path, startrow=3, startcol=2), FRAME, KINDS, "openpyxl")
GOOD["gaps.xlsx"] = Good(lambda path: to_sheet(path, _GAPS), _GAPS, NUMBER_KINDS, "openpyxl")
GOOD["no_names.xlsx"] = Good(
    lambda path: to_sheet(path, NUMBERS, header=False),
    NUMBERS.set_axis(["x0", "x1"], axis=1),
    {"x0": "continuous"},
    "openpyxl",
    named=False,
)
GOOD["signs.xlsx"] = Good(
    lambda path: to_sheet(path, pd.DataFrame({"price": [f"{x:.2f} €" for x in _PRICES]})),
    pd.DataFrame({"price": _PRICES}),
    {"price": "positive"},
    "openpyxl",
)
GOOD["table.ods"] = Good(to_sheet, FRAME, KINDS, "odf")


# -- broken -----------------------------------------------------------------------------------


def npy_claiming(shape: tuple[int, ...]) -> bytes:
    """An npy file that is all header."""
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, {"descr": "<f8", "fortran_order": False, "shape": shape})
    return file.getvalue() + bytes(64)


def write(content: bytes) -> Callable[[Path], Any]:
    return lambda path: path.write_bytes(content)


def to_null_ipc(path: Path) -> None:
    """A table of 2^31 - 1 rows of nothing, in a few bytes."""
    array = pa.Array.from_buffers(pa.null(), 2**31 - 1, [None])
    with pa.ipc.new_file(str(path), pa.schema([("a", pa.null())])) as writer:
        writer.write_batch(pa.record_batch([array], names=["a"]))


_NOISE = np.random.default_rng(3).integers(0, 256, 4000, dtype=np.uint8).tobytes()
_BOMB = 70 * 2**20
BAD |= {
    "empty.csv": Bad(write(b""), "the file is empty"),
    "blank.csv": Bad(write(b"\n \n\n"), "nothing but empty lines"),
    "names_only.csv": Bad(cells("a,b"), "no rows"),
    "long_line.csv": Bad(cells("a,b", "1,2", "3,4,5"), "Expected 2 fields in line 3, saw 3"),
    "short_line.csv": Bad(
        cells("a,b,c", "1,2,3", "4,5", "7,8,9"), "line 3 has 2 field(s), the first line has 3"
    ),
    "more_than_names.csv": Bad(cells("a,b", "1,2,3", "4,5,6"), "more fields than the header"),
    "title.csv": Bad(cells("Sales 2026", "a;b", "1;2", "3;4"), "remove the lines above the names"),
    "two_headers.csv": Bad(
        cells("a,b", "cm,kg", "1,2", "3,4", "5,6"), "two lines of names, the second is 'cm', 'kg'"
    ),
    "header_again.csv": Bad(
        cells("a,b", "1,2", "3,4", "a,b", "5,6"), "column 'a' holds text or dates, first at row 2 ('a')"
    ),
    "twice.csv": Bad(cells("a,b,a", "1,2,3", "4,5,6"), "two columns 'a': rename one of them"),
    "twice.json": Bad(text('[{"a": 1, "a": 2}]'), "two values for 'a'"),
    "open_quote.csv": Bad(cells("a,b", '1,"2', "3,4"), "cannot be read as csv"),
    "typo.csv": Bad(
        cells("a,b", "1,2", "3,tall", "5,1"), "column 'b' holds text or dates, first at row 1 ('tall')"
    ),
    "control.csv": Bad(
        cells("a,b", "1,2", "3,\x1b[31m" + "tall" * 20, "5,1"),
        "first at row 1 ('[31mtalltalltalltalltalltalltalltallt...')",
    ),
    "two_currencies.csv": Bad(
        cells("p;x", *(f"{sign}{x};{x}" for x in range(20) for sign in "$€")), "different signs of currency"
    ),
    "million_columns.csv": Bad(
        lambda path: path.write_text(
            ",".join(f"c{j}" for j in range(10**6)) + "\n" + ",".join("1" * 10**6) + "\n"
        ),
        "more than 10000 columns",
    ),
    "many_columns.npy": Bad(write(npy_claiming((2, 10**6))), "more than 10000 columns"),
    "binary.csv": Bad(write(_NOISE), "binary, not text"),
    "binary": Bad(write(_NOISE), "binary, not text"),
    "picture.csv": Bad(write(b"\x89PNG\r\n\x1a\n" + bytes(100)), "binary, not text"),
    "claims_rows.npy": Bad(write(npy_claiming((10**12, 3))), "do not fit into memory"),
    "claims_more.npy": Bad(write(npy_claiming((10**6, 3))), "its header claims shape (1000000, 3)"),
    "objects.npy": Bad(
        lambda path: np.save(path, np.array([{}, []], dtype=object), allow_pickle=True), "npy file"
    ),
    "deep.npy": Bad(lambda path: np.save(path, np.zeros((2, 2, 2))), "shape"),
    "uneven.npz": Bad(lambda path: to_npz(path, a=np.zeros(3), b=np.zeros(4)), "not columns of one length"),
    "claims_rows.arrow": Bad(to_null_ipc, "do not fit into memory"),
    "broken.parquet": Bad(write(b"PAR1" + _NOISE), "cannot be read as parquet"),
    "broken.feather": Bad(write(_NOISE), "cannot be read as feather"),
    "broken.json": Bad(text('[{"a": 1}, {"a": '), "broken json at line 1"),
    "scalar.json": Bad(text("3"), "is not a table"),
    "mixed.json": Bad(text('[{"a": 1}, 5]'), "record 1 is 5"),
    "deep.json": Bad(text("[" * 100_000 + "]" * 100_000), "too deep"),
    "broken.xlsx": Bad(write(_NOISE), "not a xlsx file", "openpyxl"),
    "broken.ods": Bad(lambda path: to_zip(path, a_txt="a"), "not a ods file", "odf"),
    "empty.xlsx": Bad(lambda path: to_sheet(path, pd.DataFrame()), "nothing in it", "openpyxl"),
    "twice.xlsx": Bad(
        lambda path: to_sheet(path, pd.DataFrame([["a", "a"], [1, 2]]), header=False),
        "two columns 'a'",
        "openpyxl",
    ),
    "old.xls": Bad(write(_NOISE), "save it as .xlsx"),
    "broken.csv.gz": Bad(write(gzip.compress(_PLAIN)[:-20]), "broken gz file"),
    "not.csv.gz": Bad(write(b"a,b\n1,2\n"), "is not a gz file"),
    "nothing.csv.gz": Bad(write(gzip.compress(b"")), "the file is empty"),
    "bomb.csv.gz": Bad(
        write(gzip.compress(b"1,2\n" * (_BOMB // 4))), "expands to more than 200 times its size"
    ),
    "bomb.csv.bz2": Bad(write(bz2.compress(bytes(_BOMB))), "expands to more than 200 times its size"),
    "bomb.zip": Bad(
        lambda path: to_zip(path, table_csv=b"1,2\n" * (_BOMB // 4)), "expands to more than 200 times"
    ),
    "bomb.xlsx": Bad(
        lambda path: to_zip(path, sheet_xml=bytes(_BOMB)), "expands to more than 200 times", "openpyxl"
    ),
    "bomb.npz": Bad(
        lambda path: to_zip(path, a_npy=npy_claiming((_BOMB // 8,)) + bytes(_BOMB)),
        "expands to more than 200",
    ),
    "two_files.zip": Bad(lambda path: to_zip(path, a_csv="a\n1\n", b_csv="a\n1\n"), "has 2 files in it"),
    "no_query.db": Bad(lambda path: to_sqlite(path, a=NUMBERS, b=NUMBERS), "name what to read with --query"),
    "broken_query.db": Bad(
        lambda path: to_sqlite(path, a=NUMBERS),
        "no such column: missing",
        options={"query": "select missing from a"},
    ),
    "write_query.db": Bad(
        lambda path: to_sqlite(path, a=NUMBERS), "the query failed", options={"query": "delete from a"}
    ),
    "query.csv": Bad(cells("a,b", "1,2"), "--query is for databases", options={"query": "select 1"}),
    "folder.csv": Bad(lambda path: path.mkdir(), "a folder, not a file"),
    "missing.csv": Bad(lambda path: None, "no such file"),
    "*.missing": Bad(lambda path: None, "no file fits this pattern"),
}


def make(folder: Path, cases: dict[str, Any] | None = None) -> list[Path]:
    """Write files into a folder; their paths."""
    paths = []
    for name, case in {**GOOD, **BAD, **(cases or {})}.items():
        case.write(folder / name)
        paths.append(folder / name)
    return paths


if __name__ == "__main__":
    target = Path(sys.argv[1])
    target.mkdir(parents=True, exist_ok=True)
    print(f"wrote {len(make(target))} files into {target}")
