"""What the commands share: options, refusals in one line, columns left out."""

from pathlib import Path

import pytest
from helpers import BAD_FILES

from discoformer.cli import main


@pytest.mark.parametrize("command", ["sample", "report", "compare", "entropy", "fisher", "kl", "rfi"])
@pytest.mark.parametrize("case", ["n < d", "constant column", "collinear columns"])
def test_every_command_refuses_what_has_no_density(
    case: str, command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text, message = BAD_FILES[case]
    (tmp_path / "bad.csv").write_text(text)
    assert main([command, *[str(tmp_path / "bad.csv")] * (2 if command in ("kl", "rfi") else 1)]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert message in printed.err
    assert printed.err.count("\n") == 1


@pytest.mark.parametrize("bounds", ["a", "a=x:", "a=1", "a=0:1,b"])
def test_bounds_that_cannot_be_read_show_the_usage(
    bounds: str, csv: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["estimate", str(csv), "--bounds", bounds])
    assert "either side may be empty" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["sample", "compare"])
@pytest.mark.parametrize("seed", ["-1", "4294967296", "x"])
def test_seeds_that_no_generator_takes_show_the_usage(
    seed: str, command: str, csv: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        main([command, str(csv), f"--seed={seed}"])
    assert "give a whole number from 0 to 4294967295" in capsys.readouterr().err
