"""The command `discoformer compare`."""

import csv
import json
import math
import warnings
from pathlib import Path

import numpy as np
import pytest

from discoformer import SupportWarning
from discoformer.baselines import KDE
from discoformer.cli import main
from discoformer.columns.fit_recipe import FitRecipe
from discoformer.data.datasets import real_dataset
from discoformer.data.files import Table, write_table
from discoformer.evaluation.held_out import held_out_log_likelihood
from discoformer.evaluation.known_truth import gmm_dataset
from discoformer.methods import METHODS, Entry, resolve


def test_comparison_of_the_columns_that_are_left(
    data: Table, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_table(Table(np.column_stack([data.values, np.ones(40)]), ("a", "b", "one")), tmp_path / "data.csv")
    arguments = [
        "compare",
        str(tmp_path / "data.csv"),
        "--model",
        "kde-scott",
        "--json",
        "--drop-dependent",
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("default", SupportWarning)
        assert main(arguments) == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out)["columns"] == ["a", "b"]
    assert "left out 'one'" in printed.err
    assert main(["compare", "gmm:2,50,1", *arguments[2:]]) == 2
    assert "--drop-dependent does not go with gmm" in capsys.readouterr().err


@pytest.fixture
def sample() -> np.ndarray:
    return np.random.default_rng(0).normal(size=(60, 2)) * [1.0, 100.0]


def compare(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict:
    assert main(["compare", *arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_json_has_the_numbers_of_the_library(
    sample: np.ndarray, tmp_path: Path, capsys: pytest.CaptureFixture[str], model_path: Path
) -> None:
    np.save(tmp_path / "data.npy", sample)
    methods = ["kde-scott", "gmm-diag", str(model_path)]
    result = compare(capsys, str(tmp_path / "data.npy"), "--model", ",".join(methods), "--folds", "3")
    assert (result["n"], result["d"], result["columns"]) == (60, 2, ["x0", "x1"])
    rows = {row["method"]: row for row in result["rows"]}
    assert set(rows) == set(methods)
    held_out = {name: held_out_log_likelihood(resolve(name).method, sample, 3) for name in methods}
    best = max(held_out.values(), key=lambda one: one.mean)
    for name, one in held_out.items():
        assert rows[name]["log_likelihood"] == pytest.approx(one.mean)
        assert (rows[name]["behind_best"], rows[name]["behind_best_error"]) == pytest.approx(best.minus(one))
    means = [row["log_likelihood"] for row in result["rows"]]
    assert means == sorted(means, reverse=True)


def test_a_known_truth_shows_the_score_error(capsys: pytest.CaptureFixture[str]) -> None:
    result = compare(capsys, "gmm:2,200,2", "--model", "kde-scott,bayes-gmm")
    rows = {row["method"]: row for row in result["rows"]}
    data = gmm_dataset("gmm:2,200,2")
    for name in ("kde-scott", "bayes-gmm"):
        difference = resolve(name).method.fit(data.context).score(data.context) - data.truth.score
        expected = difference.square().sum() / data.truth.score.square().sum()
        assert rows[name]["score_error"] == pytest.approx(float(expected))
    assert rows["truth"]["score_error"] == 0
    assert rows["truth"]["log_likelihood"] == pytest.approx(float(data.truth.log_density.mean()))


def test_table_and_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out.csv"
    arguments = ["iris", "--columns", "petal width (cm)", "--model", "kde-scott,kde-loo", "--out", str(out)]
    assert main(["compare", *arguments]) == 0
    printed = capsys.readouterr().out
    with out.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["method"] for row in rows] == ["kde-loo", "kde-scott"]
    values = real_dataset("iris").values[:, [3]]
    assert float(rows[1]["log_likelihood"]) == pytest.approx(held_out_log_likelihood(KDE(), values).mean)
    assert f"{float(rows[1]['log_likelihood']):.3f}" in printed
    assert f"wrote {out}" in printed


def test_several_files_get_a_table_each_and_one_of_all(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out.csv"
    arguments = ["iris", "gmm:2,60,1", "--model", "kde-scott,kde-loo", "--folds", "3"]
    assert main(["compare", *arguments, "--out", str(out)]) == 0
    printed = capsys.readouterr().out
    assert "iris: 150 rows" in printed and "gmm:2,60,1: 60 rows" in printed
    with out.open(newline="") as file:
        rows = {(row["data"], row["method"]): row["log_likelihood"] for row in csv.DictReader(file)}
    assert len(rows) == 2 + 3  # the truth of the mixture is one more
    lines = [line.split() for line in printed.split("all: ")[1].splitlines()[2:]]
    assert lines[0] == ["data", "kde-scott", "kde-loo", "best"]
    for name, line in zip(("iris", "gmm:2,60,1"), lines[1:3], strict=True):
        values = [float(rows[name, method]) for method in ("kde-scott", "kde-loo")]
        assert line == [name, *(f"{v:.3f}" for v in values), ("kde-scott", "kde-loo")[np.argmax(values)]]
    both = compare(capsys, *arguments)["files"]
    assert [one["data"] for one in both] == ["iris", "gmm:2,60,1"]
    assert both[0] == {**compare(capsys, *arguments[:1], *arguments[2:]), "rows": both[0]["rows"]}


def test_all_files_are_read_before_the_work(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", "iris", "none.csv", "--model", "kde-scott"]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "none.csv: no such file" in printed.err


def test_bounds_are_for_all_methods(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Kernels that know where waiting times end describe them better, by the density within the bound."""
    waiting = np.random.default_rng(0).exponential(size=(200, 1))
    np.save(tmp_path / "wait.npy", waiting)
    arguments = ["compare", str(tmp_path / "wait.npy"), "--model", "kde-scott", "--json"]
    found = []
    for option in ([], ["--bounds", "0:"]):
        assert main([*arguments, *option]) == 0
        found.append(json.loads(capsys.readouterr().out)["rows"][0]["log_likelihood"])
    expected = held_out_log_likelihood(FitRecipe(KDE(), [(0, math.inf)]), waiting)
    assert found[1] == pytest.approx(expected.mean)
    assert found[1] > found[0]
    assert main([*arguments, "--bounds", "1:"]) == 2
    first = int(np.argmax(waiting < 1))
    assert f"at row {first}, outside its bounds (1, inf)" in capsys.readouterr().err
    assert main(["compare", "gmm:2,64,2", "--bounds", "0:"]) == 2
    assert "--bounds does not go with gmm:d,n,k" in capsys.readouterr().err


def test_columns_of_a_few_values_get_a_note(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(0)
    np.save(tmp_path / "data.npy", np.column_stack([rng.normal(size=50), rng.integers(0, 3, 50)]))
    assert main(["compare", str(tmp_path / "data.npy"), "--model", "kde-scott"]) == 0
    assert "note: 'x1' has fewer than 10 distinct values" in capsys.readouterr().out


def test_a_method_that_fails_does_not_stop_the_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(METHODS, "broken", Entry(lambda: KDE(bandwidth=-1.0), "never fits"))
    assert main(["compare", "iris", "--model", "kde-scott,broken"]) == 0
    printed = capsys.readouterr().out
    assert "broken failed: bandwidth must be positive" in printed
    assert main(["compare", "iris", "--model", "broken"]) == 2
    assert "no method could be fitted; broken: bandwidth must be positive" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["none.csv", "--model", "kde-scott"], "none.csv: no such file"),
        (["iris", "--model", "no-such-method"], "kde-scott, kde-loo, gmm-full, gmm-diag, bayes-gmm, flow"),
        (["iris", "--columns", "z", "--model", "kde-scott"], "no column 'z'"),
        (
            ["iris", "--folds", "1000", "--model", "kde-scott"],
            "iris: 1000 folds of 150 rows: choose a number from 2 to 150 with --folds",
        ),
        (["gmm:2,100,3", "--columns", "x0", "--model", "kde-scott"], "--columns does not go with gmm"),
        (["iris", "--out", "table.xlsx", "--model", "kde-scott"], "written as .csv"),
        (["iris", "--out", "none/table.csv", "--model", "kde-scott"], "its folder does not exist"),
    ],
)
def test_bad_options_are_one_line(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compare", *arguments]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("discoformer: error: ")
    assert printed.err.count("\n") == 1
    assert message in printed.err


@pytest.mark.parametrize(
    ("rows", "folds", "message"),
    [
        (4, 5, "5 folds of 4 rows: choose a number from 2 to 4 with --folds"),
        (3, 2, "2 folds of 3 rows: choose a number from 3 to 3 with --folds"),
        (2, 2, "2 rows are too few to hold some out, give at least 3"),
        (4, 2, None),
        (3, 3, None),
    ],
)
def test_few_rows_name_the_option_to_change(
    rows: int, folds: int, message: str | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is not refused can be fitted: every fold leaves two rows."""
    np.save(tmp_path / "data.npy", np.array([1.0, 2.0, 4.0, 7.0])[:rows, None])
    path = str(tmp_path / "data.npy")
    code = main(["compare", path, "--model", "kde-scott", "--folds", str(folds)])
    printed = capsys.readouterr()
    assert code == (2 if message else 0)
    assert printed.err == (f"discoformer: error: {path}: {message}\n" if message else "")
    assert bool(printed.out) == (message is None)


def test_tables_with_labels_and_gaps_have_peers_that_know_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = np.random.default_rng(0)
    label = rng.integers(0, 2, 90)
    size = rng.normal(4.0 * label, 1.0).round(3).astype(str)
    size[::7] = ""
    rows = [f"{'ab'[one]},{number},{rng.normal():.3f}" for one, number in zip(label, size, strict=True)]
    (tmp_path / "mixed.csv").write_text("\n".join(["label,size,other", *rows]))
    files = [str(tmp_path / "mixed.csv"), "iris"]
    assert main(["compare", *files, "--model", "default,kde-scott", "--folds", "2"]) == 0
    mixed, iris, both = capsys.readouterr().out.split("log-likelihood per held-out row")[1:]
    for word in ("default", "combination", "independent"):
        assert word in mixed
    assert "combination is a Gaussian mixture for every combination of labels" in mixed
    assert "left out, since they need numbers without gaps: kde-scott" in mixed
    assert "combination" not in iris
    header = both.splitlines()[2].split()
    assert header[0] == "data" and header[-1] == "best"
    assert set(header[1:-1]) == {"default", "combination", "independent", "kde-scott"}
