"""Tables survive every format bit for bit, and unusable files are refused with a name and a place."""

import gzip
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from discoformer.core.checks import DataError
from discoformer.data.files import FORMATS, Table, read_sample, read_table, write_table


@pytest.fixture
def table() -> Table:
    rng = np.random.default_rng(0)
    values = rng.normal(size=(20, 3)) * 10.0 ** rng.integers(-12, 12, size=(20, 3))
    return Table(values, ("a", "b c", "ü"))


@pytest.mark.parametrize("suffix", FORMATS)
def test_written_table_reads_back_bit_for_bit(table: Table, suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"table{suffix}"
    write_table(table, path)
    back = read_table(path)
    np.testing.assert_array_equal(back.values, table.values)
    assert back.names == (("x0", "x1", "x2") if suffix == ".npy" else table.names)
    assert back.named == (suffix != ".npy")
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("suffix", FORMATS)
def test_columns_are_selected_in_the_order_asked_for(table: Table, suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"table{suffix}"
    write_table(table, path)
    names = ["x2", "x0"] if suffix == ".npy" else ["ü", "a"]
    chosen = read_table(path, names)
    assert chosen.names == tuple(names)
    np.testing.assert_array_equal(chosen.values, table.values[:, [2, 0]])


def test_integers_booleans_and_vectors_become_floats(tmp_path: Path) -> None:
    np.save(tmp_path / "vector.npy", np.arange(3))
    np.testing.assert_array_equal(read_table(tmp_path / "vector.npy").values, [[0.0], [1.0], [2.0]])
    pd.DataFrame({"flag": [True, False], "count": [1, 2]}).to_parquet(tmp_path / "mixed.parquet")
    np.testing.assert_array_equal(read_table(tmp_path / "mixed.parquet").values, [[1.0, 1.0], [0.0, 2.0]])


def test_text_without_header_loses_no_row(tmp_path: Path) -> None:
    path = tmp_path / "bare.csv"
    path.write_text("1,2\n3,4\n")
    bare = read_table(path)
    assert (bare.names, bare.named) == (("x0", "x1"), False)
    np.testing.assert_array_equal(bare.values, [[1.0, 2.0], [3.0, 4.0]])


@pytest.mark.parametrize(
    ("text", "column"), [("1,\n2,3\n4,5\n", "x1"), ("1,NA\n2,3\n", "x1"), ("nan,2\n1,3\n", "x0")]
)
def test_a_gap_in_the_first_line_does_not_make_it_a_header(text: str, column: str, tmp_path: Path) -> None:
    (tmp_path / "bare.csv").write_text(text)
    with pytest.raises(DataError, match=f"column '{column}' has a missing value at row 0"):
        read_table(tmp_path / "bare.csv")


@pytest.mark.parametrize("labels", ["0 1 2", "1 2 3", "Ann Bob Cy"])
def test_row_labels_are_not_data(labels: str, tmp_path: Path) -> None:
    pd.DataFrame({"a": [1.5, 2.5, 3.5]}, index=labels.split()).to_csv(tmp_path / "labelled.csv")
    assert read_table(tmp_path / "labelled.csv").names == ("a",)


def test_numbers_without_a_name_are_left_out_with_a_warning(tmp_path: Path) -> None:
    (tmp_path / "nameless.csv").write_text(",a\n0.5,1\n0.7,2\n")
    with pytest.warns(UserWarning, match=r"nameless.csv: the first column has no name.*name it to use it"):
        assert read_table(tmp_path / "nameless.csv").names == ("a",)


@pytest.mark.parametrize("header", ["a,b,\n", ""])
def test_lines_may_end_in_a_separator(header: str, tmp_path: Path) -> None:
    (tmp_path / "ends.csv").write_text(header + "1,2,\n3,4,\n")
    table = read_table(tmp_path / "ends.csv")
    assert table.names == (("a", "b") if header else ("x0", "x1"))
    np.testing.assert_array_equal(table.values, [[1.0, 2.0], [3.0, 4.0]])


def test_spaces_are_not_part_of_a_name(tmp_path: Path) -> None:
    (tmp_path / "spaces.csv").write_text("a, b c \n1, 2\n")
    assert read_table(tmp_path / "spaces.csv", ["b c"]).values.tolist() == [[2.0]]


@pytest.mark.parametrize("index", [True, False])
@pytest.mark.parametrize("columns", [2, 5])
def test_names_that_pandas_counts_are_no_row(index: bool, columns: int, tmp_path: Path) -> None:
    values = np.random.default_rng(0).normal(size=(4, columns))
    pd.DataFrame(values).to_csv(tmp_path / "counted.csv", index=index)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        table = read_table(tmp_path / "counted.csv")
    assert table.names == tuple(map(str, range(columns)))
    np.testing.assert_array_equal(table.values, values)
    expected = [] if index else [f"the first line, 0 to {columns - 1}, is read as the names of the columns"]
    assert [str(w.message).split("counted.csv: ")[1] for w in caught] == expected


def test_whole_numbers_under_a_counted_line_lose_no_row(tmp_path: Path) -> None:
    (tmp_path / "ranks.csv").write_text("0,1,2\n2,0,1\n1,2,0\n")
    with pytest.warns(UserWarning, match="the first line, 0 to 2, is read as a row of data"):
        table = read_table(tmp_path / "ranks.csv")
    assert (table.names, table.named) == (("x0", "x1", "x2"), False)
    assert table.values[0].tolist() == [0.0, 1.0, 2.0]


@pytest.mark.parametrize("separator", [";", "\t", "|"])
def test_semicolons_tabs_and_bars_separate_too(separator: str, tmp_path: Path) -> None:
    (tmp_path / "other.csv").write_text(f"a{separator}b\n1.5{separator}2\n")
    table = read_table(tmp_path / "other.csv")
    assert (table.names, table.values.tolist()) == (("a", "b"), [[1.5, 2.0]])


@pytest.mark.parametrize(
    ("name", "text"),
    [("comma.csv", "a;b\n1,5;2\n"), ("spaces.csv", "a b\n1.5 2\n"), ("tabs.tsv", "a,b\n1.5,2\n")],
)
def test_the_suffix_does_not_decide_on_the_separator(name: str, text: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text)
    assert read_table(tmp_path / name).values.tolist() == [[1.5, 2.0]]


def test_compressed_text_is_unpacked_whatever_its_suffix(tmp_path: Path) -> None:
    (tmp_path / "data.csv").write_bytes(gzip.compress(b"a,b\n1,2\n"))
    assert read_table(tmp_path / "data.csv").values.tolist() == [[1.0, 2.0]]


def test_byte_order_mark_is_not_part_of_a_name(tmp_path: Path) -> None:
    (tmp_path / "mark.csv").write_text("a,b\n1,2\n", encoding="utf-8-sig")
    assert read_table(tmp_path / "mark.csv").names == ("a", "b")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the file is empty"),
        ("\n\n", "nothing but empty lines"),
        ("   \n", "nothing but empty lines"),
        ("a,b\n", "no rows"),
        ("a,b\n1,2\n3,tall\n", r"column 'b' holds text or dates, first at row 1 \('tall'\)"),
        ("a,b\n1,2\n3,\n,\n", r"column 'b' has a missing value at row 1 .*3 in all"),
        ("a,b\n1,2\n3,nan\n", "column 'b' has a missing value at row 1"),
        ("a,b\n1,2\n-inf,4\n", "column 'a' has an infinite value at row 1"),
        ("a,b\n1,2,3\n4,5,6\n", "more fields than the header"),
        ("a,b\n1,2\n4,5,6\n", "cannot be read as csv: Expected 2 fields in line 3, saw 3"),
    ],
)
def test_unusable_text_names_the_place(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.csv"
    path.write_text(text)
    with pytest.raises(DataError, match=message) as caught:
        read_table(path)
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith(str(path))


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.array([["a", "b"]]), "real numbers"),
        (np.array([[1j]]), "real numbers"),
        (np.array([[None]]), "npy file"),
        (np.zeros((2, 2, 2)), "shape"),
        (np.array(1.0), "shape"),
        (np.zeros((0, 2)), "no rows"),
        (np.zeros((2, 0)), "no columns"),
        (np.array([[1.0, np.nan], [2.0, 3.0]]), "column 'x1' has a missing value at row 0"),
    ],
)
def test_unusable_arrays_are_refused(array: np.ndarray, message: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.npy"
    np.save(path, array)
    with pytest.raises(DataError, match=message):
        read_table(path)


def test_dates_are_not_read_as_nanoseconds(tmp_path: Path) -> None:
    pd.DataFrame({"day": pd.date_range("2026-01-01", periods=3)}).to_parquet(tmp_path / "days.parquet")
    assert read_table(tmp_path / "days.parquet").values.ravel().tolist() == [20454.0, 20455.0, 20456.0]


@pytest.mark.parametrize("suffix", [".npy", ".parquet"])
def test_garbage_is_refused(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"garbage{suffix}"
    path.write_bytes(b"\x00garbage\nmore garbage")
    with pytest.raises(DataError, match="npy file|cannot be read as parquet") as caught:
        read_table(path)
    assert "\n" not in str(caught.value)


def test_text_in_another_encoding_is_read(tmp_path: Path) -> None:
    (tmp_path / "latin.csv").write_bytes("größe\n1\n".encode("latin-1"))
    assert read_table(tmp_path / "latin.csv").names == ("größe",)


def test_paths_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "sheet.xls").write_text("a\n1\n")
    for name, message in [("none.csv", "no such file"), ("", "a folder"), ("sheet.xls", "save it as .xlsx")]:
        with pytest.raises(DataError, match=message):
            read_table(tmp_path / name)


def test_unknown_or_repeated_columns_are_refused(table: Table, tmp_path: Path) -> None:
    write_table(table, tmp_path / "table.csv")
    with pytest.raises(DataError, match="no column 'z', the file has 'a', 'b c', 'ü'"):
        read_table(tmp_path / "table.csv", ["a", "z"])
    with pytest.raises(DataError, match="twice"):
        read_table(tmp_path / "table.csv", ["a", "a"])


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([[1.0, 2.0]], "1 row.* at least 3 rows"),
        ([[1.0, 2.0, 3.0], [2.0, 5.0, 1.0]], "2 row.* at least 4 rows"),
        ([[1.0, 7.0], [2.0, 7.0], [4.0, 7.0]], "'x1' is constant or linear"),
        ([[1.0, 2.0], [2.0, 4.0], [4.0, 8.0 + 1e-9]], "'x1' is constant or linear"),
    ],
)
def test_a_sample_must_have_a_density(values: list[list[float]], message: str, tmp_path: Path) -> None:
    np.save(tmp_path / "sample.npy", np.array(values))
    with pytest.raises(DataError, match=message):
        read_sample(tmp_path / "sample.npy")


def test_a_sample_without_a_density_can_be_asked_for(tmp_path: Path) -> None:
    values = np.array([[1.0, 7.0, 3.0], [2.0, 7.0, 5.0]])
    np.save(tmp_path / "sample.npy", values)
    np.testing.assert_array_equal(read_sample(tmp_path / "sample.npy", drop_dependent=True).values, values)
    np.save(tmp_path / "sample.npy", values[:1])
    with pytest.raises(DataError, match="1 row"):
        read_sample(tmp_path / "sample.npy", drop_dependent=True)


def test_queries_match_by_name_or_by_position() -> None:
    data = Table(np.zeros((1, 2)), ("a", "b"))
    numbers = np.array([[1.0, 2.0]])
    assert Table(numbers, ("b", "a")).like(data).values.tolist() == [[2.0, 1.0]]
    assert Table(numbers, ("x0", "x1"), named=False).like(data).values.tolist() == [[1.0, 2.0]]
    with pytest.raises(DataError, match="2 column"):
        Table(numbers, ("a", "c")).like(data)
