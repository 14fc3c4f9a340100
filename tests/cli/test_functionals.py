"""The commands entropy, fisher, kl and rfi."""

import json
import warnings
from pathlib import Path

import numpy as np
import pytest
from helpers import FUNCTIONALS, normal

from discoformer import SupportWarning
from discoformer.baselines.kde import KDE
from discoformer.cli import main
from discoformer.data.files import Table, write_table
from discoformer.functionals import (
    entropy,
)


@pytest.mark.filterwarnings(
    "ignore::discoformer.functionals.ImpossibleWarning"
)  # both files hold the same rows
@pytest.mark.parametrize("command", ["entropy", "fisher", "kl", "rfi"])
def test_functionals_of_the_columns_that_are_left(
    command: str, data: Table, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """--drop-dependent gives what --columns gives for the others; for two files, those of both."""
    files = []
    for name, last in (("f", np.ones(40)), ("g", data.values[:, 0] ** 2)):
        table = Table(np.column_stack([data.values, data.values.sum(1), last]), ("a", "b", "sum", "last"))
        write_table(table, tmp_path / f"{name}.csv")
        files.append(str(tmp_path / f"{name}.csv"))
    arguments = [command, *files[: 1 + (command in ("kl", "rfi"))], "--model", "kde-scott", "--json"]
    assert main([*arguments, "--columns", "a,b"]) == 0
    expected = json.loads(capsys.readouterr().out)
    with warnings.catch_warnings():
        warnings.simplefilter("default", SupportWarning)
        assert main([*arguments, "--drop-dependent"]) == 0
    printed = capsys.readouterr()
    report = json.loads(printed.out)
    for number in ("value", "standard_error"):
        assert report.pop(number) == pytest.approx(expected.pop(number), rel=1e-12)
    assert report == expected
    assert printed.err.startswith("discoformer: warning: left out 'sum', 'last' (constant or linear")
    assert printed.err.count("\n") == 1


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str]:
    for name, seed in (("f", 0), ("g", 1)):
        np.save(tmp_path / f"{name}.npy", normal(40, 2, seed=seed).numpy())
    return str(tmp_path / "f.npy"), str(tmp_path / "g.npy")


@pytest.mark.parametrize("name", ["entropy", "fisher", "kl", "rfi"])
def test_command_line_prints_value_and_error(
    name: str, files: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    used = files[: 1 if name in ("entropy", "fisher") else 2]
    value, error = FUNCTIONALS[name](*(np.load(f) for f in files))
    assert main([name, *used, "--model", "kde-scott", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["value"], report["standard_error"]) == pytest.approx((value, error), rel=1e-12)
    assert (report["n"], report["d"], report["model"]) == ([40] * len(used), 2, "kde-scott")
    assert main([name, *used, "--model", "kde-scott"]) == 0
    assert f"{value:.6g} +- {error:.2g}" in capsys.readouterr().out


def test_command_line_takes_columns_and_splits(
    files: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert (
        main(["entropy", files[0], "--columns", "x1", "--split", "loo", "--model", "kde-scott", "--json"])
        == 0
    )
    expected = entropy(np.load(files[0])[:, 1:], KDE(), split="loo")
    assert json.loads(capsys.readouterr().out)["value"] == pytest.approx(expected.value, rel=1e-12)


@pytest.mark.parametrize("name", ["entropy", "kl"])
def test_the_bootstrap_changes_the_error_only(
    files: tuple[str, str], name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    used = files[: 1 if name == "entropy" else 2]
    found = []
    for more in ([], ["--bootstrap"]):
        main([name, *used, "--model", "kde-scott", "--json", *more])
        found.append(json.loads(capsys.readouterr().out))
    plain, again = found
    assert (plain["error"], again["error"]) == ("terms", "bootstrap")
    assert plain["value"] == pytest.approx(again["value"], abs=1e-9)
    assert 0 < again["standard_error"] != plain["standard_error"]
    main([name, *used, "--model", "kde-scott", "--bootstrap"])
    assert " by the bootstrap (" in capsys.readouterr().out


@pytest.mark.parametrize(
    "arguments", [["kl", "f", "nothing.csv"], ["rfi", "f", "wide"], ["entropy", "f", "--model", "x"]]
)
def test_command_line_errors_are_one_line(
    arguments: list[str], files: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    np.save(tmp_path / "wide.npy", normal(40, 3).numpy())
    known = {"f": files[0], "wide": str(tmp_path / "wide.npy")}
    assert main([known.get(a, a) for a in arguments]) == 2
    assert capsys.readouterr().err.count("\n") == 1
