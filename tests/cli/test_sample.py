"""The command `discoformer sample`."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from discoformer.baselines.kde import KDE
from discoformer.cli import main, sample
from discoformer.data.files import FORMATS, Table, read_table


def test_sample_draws_rows_of_the_same_table(
    data: Table, csv: Path, tmp_path: Path, model_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, again = tmp_path / "new.csv", tmp_path / "again.npy"
    command = ["sample", str(csv), "--model", str(model_path), "--bounds", "a=-9:", "-n", "500"]
    assert main([*command, "--out", str(out), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["rows"] == 500
    drawn = read_table(out)
    assert drawn.names == data.names
    assert drawn.values.shape == (500, 2)
    assert drawn.values[:, 0].min() >= -9
    assert main([*command, "--out", str(again)]) == 0
    np.testing.assert_allclose(np.load(again), drawn.values, rtol=1e-12)
    assert main([*command, "--seed", "1", "--out", str(again)]) == 0
    assert not np.array_equal(np.load(again), drawn.values)
    capsys.readouterr()
    assert main(command) == 0
    shown = capsys.readouterr().out.splitlines()
    assert shown[0].split() == ["a", "b"]
    assert shown[-1] == "and 490 more: write them with --out"


@pytest.mark.parametrize("out", FORMATS)
def test_many_rows_are_drawn_in_pieces_that_follow_one_another(
    out: str, data: Table, csv: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One generator for all pieces, each a step of the bar; fewer pieces are the beginning of more."""
    steps = []
    monkeypatch.setattr(sample, "CHUNK", 7)
    monkeypatch.setattr(sample, "track", lambda counts, label: steps.append(list(counts)) or counts)
    command = ["sample", str(csv), "--model", "kde-scott", "--seed", "3", "--out"]
    assert main([*command, str(tmp_path / f"many{out}"), "-n", "18"]) == 0
    assert main([*command, str(tmp_path / f"few{out}"), "-n", "14"]) == 0
    assert steps == [[7, 7, 4], [7, 7]]
    field, generator = KDE().fit(data.values), torch.Generator().manual_seed(3)
    expected = np.concatenate([field.sample(count, generator) for count in (7, 7, 4)])
    many, few = (read_table(tmp_path / f"{name}{out}").values for name in ("many", "few"))
    np.testing.assert_allclose(many, expected, rtol=1e-12)
    np.testing.assert_array_equal(few, many[:14])


def test_sample_refuses_what_cannot_be_drawn(csv: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cases = [
        (["-n", "0"], "at least one row"),
        (["--out", str(csv)], "is an input file"),
    ]
    for arguments, message in cases:
        assert main(["sample", str(csv), "--model", "kde-scott", *arguments]) == 2
        assert message in capsys.readouterr().err


def test_names_that_look_like_formulas_can_be_made_harmless(tmp_path: Path, model_path: Path) -> None:
    table = tmp_path / "in.csv"
    table.write_text(
        "=cmd(),b\n" + "\n".join(f"{x},{y}" for x, y in np.random.default_rng(0).normal(size=(80, 2)))
    )
    for command in ("sample", "estimate"):
        for options, first in (([], "=cmd(),b"), (["--no-formulas"], "'=cmd(),b")):
            out = tmp_path / "out.csv"
            assert main([command, str(table), "--model", str(model_path), "--out", str(out), *options]) == 0
            assert out.read_text().startswith(first)


def test_whole_numbers_with_gaps_are_written_as_they_were_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = np.random.default_rng(0)
    ages = [f"{age}" if age % 7 else "" for age in rng.integers(18, 80, 80)]
    rows = [f"{age},{size:.2f}" for age, size in zip(ages, rng.normal(size=80), strict=True)]
    table = tmp_path / "ages.csv"
    table.write_text("\n".join(["age,size", *rows]) + "\n")
    assert main(["sample", str(table), "-n", "20", "--json"]) == 0
    drawn = json.loads(capsys.readouterr().out)["rows"]
    assert all(isinstance(row["age"], int) for row in drawn)
    assert main(["sample", str(table), "-n", "20", "--out", "-"]) == 0
    lines = capsys.readouterr().out.splitlines()[1:]
    assert [line.split(",")[0] for line in lines] == [str(row["age"]) for row in drawn]
    assert main(["estimate", str(table), "--out", "-"]) == 0
    lines = capsys.readouterr().out.splitlines()[1:]
    assert [line.split(",")[0] for line in lines] == ages
