"""A table that is written in pieces is the table."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from helpers import two_groups

from discoformer.data.files import FORMATS, Table, read_table, write_table
from discoformer.data.reading import read_raw
from discoformer.data.writer import output_writer, style_of, table_writer

TEXTS = {
    "semicolons": "day;price;share\n31.01.2026;1.234,50 €;12,5 %\n01.02.2026;-7,25 €;\n",
    "commas": "day,price,name\n2026-01-31,$1234.50,Ann\n2026-02-01,$7.25,Bo\n",
    "tabs": "span\tn\n01:30:00\t3\n00:00:10\t4\n",
    "spaces": "a b\n1.5 2\n3.5 4\n",
}


@pytest.mark.parametrize("suffix", FORMATS)
def test_a_table_in_pieces_is_the_table(suffix: str, tmp_path: Path) -> None:
    x = two_groups(50, 2)
    with table_writer(tmp_path / f"pieces{suffix}", suffix, ["a", "b"], rows=50) as write:
        for start in range(0, 50, 17):
            write(x[start : start + 17])
    write_table(Table(x, ("a", "b")), tmp_path / f"whole{suffix}")
    pieces, whole = (read_table(tmp_path / f"{name}{suffix}") for name in ("pieces", "whole"))
    assert pieces.names == whole.names
    np.testing.assert_array_equal(pieces.values, whole.values)


@pytest.mark.parametrize("case", TEXTS)
@pytest.mark.parametrize("suffix", [".csv", ".tsv"])
def test_tables_survive_reading_and_writing(case: str, suffix: str, tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text(TEXTS[case])
    raw = read_raw(tmp_path / "in.csv")
    out = tmp_path / f"out{suffix}"
    with output_writer(out, raw.names, len(raw.frame), style_of(raw, suffix)) as write:
        write(raw.frame.iloc[:1])
        write(raw.frame.iloc[1:])
    again = read_raw(out)
    pd.testing.assert_frame_equal(again.frame, raw.frame)
    assert again.units == raw.units
    if suffix == ".csv" and case == "semicolons":
        assert "1.234,50 €" in out.read_text() or "1.234,5 €" in out.read_text()
