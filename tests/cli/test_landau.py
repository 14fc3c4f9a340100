"""`discoformer landau`: its history is the integrator's, runs resume, bad options are one line."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from discoformer import KDE
from discoformer.cli import main
from discoformer.data.files import read_table
from discoformer.particles import Calibrated, Landau, integrate, landau_start, maxwell_covariance
from discoformer.particles.choices import ORACLES

SMALL = ["--particles", "40", "--steps", "5", "--model", "kde-scott"]


def call(*arguments: object) -> int:
    return main(["landau", *map(str, arguments)])


def test_history_is_the_integrators(tmp_path: Path) -> None:
    out = tmp_path / "history.csv"
    assert call(*SMALL, "--seed", 3, "--out", out) == 0
    table = read_table(out)
    start = landau_start("gaussian", 3).sample(40, torch.Generator().manual_seed(3))
    run = integrate(Landau(), start, KDE(), dt=0.01, steps=5)
    reference = maxwell_covariance(run.covariance[0], run.times)
    columns = dict(zip(table.names, table.values.T, strict=True))
    for name, expected in (
        ("time", run.times),
        ("energy", run.energy),
        ("entropy", run.entropy),
        ("entropy_production", run.production),
        ("mean_2", run.mean[:, 1]),
        ("sigma_1_3", run.covariance[:, 0, 2]),
        ("reference_1_1", reference[:, 0, 0]),
        ("reference_2_2", reference[:, 1, 1]),
    ):
        np.testing.assert_allclose(columns[name], expected, rtol=1e-12, err_msg=name)


@pytest.mark.parametrize("oracle", ["kde-scott", "blob", "gaussian"])
@pytest.mark.parametrize("kernel", ["maxwell", "coulomb"])
def test_every_kernel_with_every_oracle(
    kernel: str, oracle: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    picture = tmp_path / "run.png"
    arguments = [*SMALL[:4], "--dim", 2, "--kernel", kernel, "--model", oracle, "--start", "two-mode"]
    assert call(*arguments, "--plot", picture, "--json") == 0
    summary = json.loads(capsys.readouterr().out)
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert summary["momentum_drift"] < 1e-12 and summary["energy_drift"] < 0.01
    assert summary["sigma_11"][1] < summary["sigma_11"][0], "the wide axis cools"
    assert (summary["entropy"][0] is None) == (oracle == "blob")


@pytest.mark.parametrize(
    ("oracle", "particles", "expected"),
    [("default", 210, "default, calibrated"), ("default", 209, "default"), ("kde-scott", 210, "kde-scott")],
)
def test_networks_are_calibrated_if_it_pays(
    oracle: str, particles: int, expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call("--particles", particles, "--steps", 1, "--model", oracle, "--json") == 0
    assert json.loads(capsys.readouterr().out)["model"] == expected


def test_calibrated_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "history.csv"
    assert call(*SMALL, "--calibrate", "--out", out, "--json") == 0
    assert json.loads(capsys.readouterr().out)["model"] == "kde-scott, calibrated"
    start = landau_start("gaussian", 3).sample(40, torch.Generator().manual_seed(0))
    run = integrate(Landau(), start, Calibrated(KDE()), dt=0.01, steps=5)
    table = read_table(out)
    found = table.values[:, list(table.names).index("sigma_1_1")]
    np.testing.assert_allclose(found, run.covariance[:, 0, 0], rtol=1e-12)


def test_help_names_every_oracle(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        call("--help")
    shown = " ".join(capsys.readouterr().out.split())
    assert ", ".join(ORACLES) in shown


def test_a_network_is_an_oracle(model_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("--particles", 40, "--steps", 2, "--model", model_path) == 0
    assert "largest error of Sigma_11" in capsys.readouterr().out


def test_resume(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    checkpoint, whole, parts = tmp_path / "run.npz", tmp_path / "whole.npy", tmp_path / "parts.npy"
    assert call(*SMALL, "--checkpoint", checkpoint) == 0
    assert call(*SMALL, "--checkpoint", checkpoint) == 2
    assert "add --resume to go on" in capsys.readouterr().err
    longer = ["--particles", 40, "--steps", 9, "--model", "kde-scott"]
    assert call(*longer, "--checkpoint", checkpoint, "--resume", "--out", parts) == 0
    assert call(*longer, "--out", whole) == 0
    seconds = 4
    same = [np.delete(np.load(path), seconds, axis=1) for path in (parts, whole)]
    np.testing.assert_array_equal(*same)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--particles", "3"], "--particles 3 are too few in 3 dimensions: give at least 4"),
        (["--particles", "7", "--calibrate"], "take more than 7"),
        (["--dim", "1"], "at least 2 axes"),
        (["--model", "nobody"], "no model 'nobody'"),
        (["--dt", "0"], "dt is 0"),
        (["--steps", "0"], "steps is 0"),
        (["--resume"], "resume needs the checkpoint"),
        (["--plot", "run.jpeg"], "pictures end in"),
        (["--out", "history.xlsx"], "unknown format"),
    ],
)
def test_bad_options_are_one_line(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(*SMALL, *arguments) == 2
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1
