"""A table that is written in pieces is the table."""

from pathlib import Path

import numpy as np
import pytest
from helpers import two_groups

from discoformer.data.files import FORMATS, Table, read_table, write_table
from discoformer.data.writer import table_writer


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
