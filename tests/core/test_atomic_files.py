"""Files written in one move."""

import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from discoformer.core.atomic_files import check_folder, replacing
from discoformer.core.checks import DataError
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


def test_a_planted_link_is_not_followed(tmp_path: Path) -> None:
    """Whatever name someone guesses: what is written is in a folder that only we can write to."""
    victim, path = tmp_path / "victim", tmp_path / "out.csv"
    victim.write_text("precious")
    (tmp_path / f".out.csv.{os.getpid()}.tmp").symlink_to(victim)
    with replacing(path) as temporary:
        folder = temporary.parent
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert not temporary.exists()
        temporary.write_text("new")
    assert (path.read_text(), victim.read_text()) == ("new", "precious")
    assert not folder.exists()


def test_of_many_writers_the_last_one_wins_whole(tmp_path: Path) -> None:
    path, failures = tmp_path / "out", []
    contents = {bytes([65 + k]) * (200_000 + k) for k in range(8)}

    def write(content: bytes) -> None:
        try:
            for _ in range(5):
                with replacing(path) as temporary, temporary.open("wb") as file:
                    for start in range(0, len(content), 10_000):
                        file.write(content[start : start + 10_000])
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=write, args=(content,)) for content in contents]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert path.read_bytes() in contents
    assert os.listdir(tmp_path) == ["out"]


def test_what_killed_processes_leave_behind_is_cleared_away(tmp_path: Path) -> None:
    program = (
        "import os, sys\nfrom discoformer.core.atomic_files import replacing\n"
        "with replacing(sys.argv[1]) as temporary:\n    temporary.write_text('half')\n    os._exit(9)"
    )
    subprocess.run([sys.executable, "-c", program, str(tmp_path / "out")], check=False)
    left = [name for name in os.listdir(tmp_path) if name.endswith(".tmp")]
    assert len(left) == 1
    other = left[0].replace(left[0].split("-")[1], "00000000")  # of another machine: not ours to judge
    (tmp_path / other).mkdir()
    with replacing(tmp_path / "out") as temporary:
        temporary.write_text("whole")
    assert sorted(os.listdir(tmp_path)) == sorted([other, "out"])


def test_long_names_devices_and_loops(tmp_path: Path) -> None:
    long = tmp_path / ("x" * 250 + ".csv")
    with replacing(long) as temporary:
        temporary.write_text("x")
    assert long.read_text() == "x"
    for path in (Path(os.devnull), tmp_path / "loop"):
        if path.name == "loop":
            path.symlink_to(path)
        with pytest.raises(DataError, match=path.name):
            check_folder(path)
        with pytest.raises(DataError, match=path.name), replacing(path) as temporary:
            temporary.write_text("x")
