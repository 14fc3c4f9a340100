"""The command as a whole: from a shell, with help, with a reader that leaves."""

import os
import subprocess
import sys
from pathlib import Path

from helpers import KERNEL

from discoformer.cli import estimate


def test_a_reader_that_has_seen_enough_ends_it_quietly(csv: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "discoformer", *KERNEL, str(csv)]
    done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True)
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, "")


def test_missing_file_from_a_shell(tmp_path: Path) -> None:
    command = "import sys; from discoformer.cli import main; sys.exit(main())"
    done = subprocess.run(
        [sys.executable, "-c", command, "estimate", "none.csv"], capture_output=True, text=True, cwd=tmp_path
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "discoformer: error: none.csv: no such file\n"


def test_help_has_examples_and_does_not_wait_for_torch() -> None:
    code = (
        "import sys; from discoformer.cli import main\n"
        "try: main(['--help'])\n"
        "finally: print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.endswith("False\n")
    assert "estimate" in done.stdout
    assert "examples:" in estimate.make_parser("estimate").format_help()
