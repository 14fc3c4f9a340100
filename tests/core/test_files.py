"""Files written in one move."""

from pathlib import Path

import numpy as np
import pytest

from discoformer.core.checks import DataError
from discoformer.core.files import replacing
from discoformer.data.files import Table, read_table, write_table


def test_a_failed_write_leaves_the_old_file_and_no_other(tmp_path: Path) -> None:
    path = tmp_path / "out.csv"
    path.write_bytes(b"precious")
    with (
        pytest.raises(DataError, match="out.csv: cannot be written: disk full"),
        replacing(path) as temporary,
    ):
        temporary.write_bytes(b"half")
        raise OSError(28, "disk full")
    assert path.read_bytes() == b"precious"
    assert [p.name for p in tmp_path.iterdir()] == ["out.csv"]


def test_a_private_file_stays_private(data: Table, tmp_path: Path) -> None:
    path = tmp_path / "out.csv"
    path.touch(mode=0o600)
    write_table(data, path)
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_written_link_stays_a_link(data: Table, tmp_path: Path) -> None:
    (tmp_path / "link.csv").symlink_to(tmp_path / "real.csv")
    write_table(data, tmp_path / "link.csv")
    assert (tmp_path / "link.csv").is_symlink()
    np.testing.assert_array_equal(read_table(tmp_path / "real.csv").values, data.values)
