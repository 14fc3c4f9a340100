"""`discoformer summary`: the numbers are those of the estimator."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from discoformer import DiScoFormer
from discoformer.cli import main

KDE = ["--model", "kde-scott"]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    a = rng.normal(size=200)
    frame = pd.DataFrame(
        {"a": a, "b": 5 + 2 * a + 0.1 * rng.normal(size=200), "c": rng.exponential(size=200)}
    )
    frame.to_csv(tmp_path / "data.csv", index=False)
    return tmp_path / "data.csv"


def test_summary_says_what_the_estimator_does(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["summary", str(file), *KDE, "--json", "--probability", "a=0:"]) == 0
    report = json.loads(capsys.readouterr().out)
    est = DiScoFormer(model="kde-scott").fit(pd.read_csv(file))
    for name, own in report["columns"].items():
        np.testing.assert_allclose(own["interval"], est.interval(0.9, name), rtol=1e-9)
        np.testing.assert_allclose(own["region"], est.region(0.9, name).intervals, rtol=1e-6)
    np.testing.assert_allclose([own["mean"] for own in report["columns"].values()], est.mean())
    assert report["probability"]["value"] == pytest.approx(est.probability({"a": (0, None)}).value)


def test_summary_given_values(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["summary", str(file), *KDE, "--given", "a=1"]) == 0
    printed = capsys.readouterr().out
    assert "given a = 1" in printed and "densest region" in printed
    assert main(["summary", str(file), *KDE, "--given", "a=1", "--json"]) == 0
    columns = json.loads(capsys.readouterr().out)["columns"]
    assert set(columns) == {"b", "c"} and columns["b"]["median"] == pytest.approx(7, abs=1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--share", "2"], "between 0 and 1"),
        (["--given", "z=1"], "no column 'z'"),
        (["--probability", "a=3:1"], "'a' from 3 to 1: give the lower end first"),
        (["--probability", "a=1:2:3"], "write low:high"),
        (["--probability", "a=x:"], "'x' is no number"),
    ],
)
def test_bad_questions_are_one_line(
    options: list[str], message: str, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["summary", str(file), *KDE, *options]) == 2
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1


def test_labels_dates_and_atoms_are_told_as_the_file_has_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "land": rng.choice(["DE", "FR"], 200, p=[0.7, 0.3]),
            "since": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 300, 200), "D"),
            "spent": np.where(rng.random(200) < 0.3, 0, rng.gamma(3, 20, 200)).round(2),
            "age": np.where(rng.random(200) < 0.1, np.nan, rng.normal(40, 9, 200).round()),
        }
    )
    frame.to_csv(tmp_path / "data.csv", index=False)
    assert main(["summary", str(tmp_path / "data.csv"), "--json"]) == 0
    columns = json.loads(capsys.readouterr().out)["columns"]
    assert columns["land"]["mode"] == "DE" and set(columns["land"]["shares"]) == {"DE", "FR"}
    assert columns["land"]["shares"]["DE"] == pytest.approx((frame["land"] == "DE").mean(), abs=0.02)
    assert "2024-01-01" < columns["since"]["median"] < "2024-12-31" and columns["spent"]["mode"] == 0
    assert main(["summary", str(tmp_path / "data.csv"), "--given", "land=de,since=2024-03-01"]) == 0
    printed = capsys.readouterr().out
    assert "given land = de, given since = 2024-03-01" in printed and "0 3" in printed
    for region, share in [
        ("land=FR:FR", (frame["land"] == "FR").mean()),
        ("spent=0", (frame["spent"] == 0).mean()),
        ("since=2024-03-01:", (frame["since"] >= "2024-03-01").mean()),
    ]:
        name = region.split("=")[0]
        command = [
            "summary",
            str(tmp_path / "data.csv"),
            "--columns",
            name,
            "--probability",
            region,
            "--json",
        ]
        assert main(command) == 0
        report = json.loads(capsys.readouterr().out)
        assert report["probability"]["value"] == pytest.approx(share, abs=0.04)
        assert report["mode"] == {name: report["columns"][name]["mode"]}
    assert main(["summary", str(tmp_path / "data.csv"), "--given", "land=UK"]) == 2
    assert "give one of 'DE', 'FR'" in capsys.readouterr().err
