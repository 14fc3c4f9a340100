"""`discoformer estimate`: its answers are the field's, bad input is one line, files stay whole."""

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from helpers import BAD_FILES, EXACT, KERNEL, two_groups
from matplotlib.figure import Figure

from discoformer import DiScoFormer, SupportWarning
from discoformer.baselines.kde import KDE
from discoformer.cli import estimate, main
from discoformer.cli import estimate as command
from discoformer.data.files import FORMATS, Table, read_table, write_table
from discoformer.models.registry import load_model


def expected(context: np.ndarray, queries: np.ndarray, bandwidth: str | float = "scott") -> np.ndarray:
    """Rows of the output table: queries, log density, score."""
    return np.column_stack([queries, *KDE(bandwidth=bandwidth).fit(context).estimate(queries)])


@pytest.mark.parametrize("out", FORMATS)
@pytest.mark.parametrize("file", FORMATS)
def test_output_is_what_the_field_answers(data: Table, file: str, out: str, tmp_path: Path) -> None:
    write_table(data, tmp_path / f"data{file}")
    assert main([*KERNEL, str(tmp_path / f"data{file}"), "--out", str(tmp_path / f"out{out}")]) == 0
    result = read_table(tmp_path / f"out{out}")
    np.testing.assert_allclose(result.values, expected(data.values, data.values), rtol=1e-12)
    if out != ".npy":
        a, b = ("x0", "x1") if file == ".npy" else ("a", "b")
        assert result.names == (a, b, "log_density", f"score_{a}", f"score_{b}")


def test_chunks_do_not_change_the_answer(
    data: Table, csv: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(estimate, "CHUNK", 7)
    assert main([*KERNEL, str(csv), "--out", str(tmp_path / "out.npy")]) == 0
    np.testing.assert_allclose(np.load(tmp_path / "out.npy"), expected(data.values, data.values), rtol=1e-12)


@pytest.mark.parametrize("bandwidth", ["scott-full", "silverman", "loo", "0.5"])
def test_bandwidth_is_passed_on(data: Table, csv: Path, bandwidth: str, tmp_path: Path) -> None:
    assert main([*KERNEL, str(csv), "--bandwidth", bandwidth, "--out", str(tmp_path / "out.npy")]) == 0
    rule = 0.5 if bandwidth == "0.5" else bandwidth
    np.testing.assert_allclose(
        np.load(tmp_path / "out.npy"), expected(data.values, data.values, rule), rtol=1e-12
    )


def test_queries_are_answered_in_the_order_of_the_data(data: Table, csv: Path, tmp_path: Path) -> None:
    queries = np.array([[0.5, 10.0], [-1.0, 0.0], [50.0, 3.0]])
    write_table(Table(queries[:, ::-1], ("b", "a")), tmp_path / "queries.parquet")
    out = tmp_path / "out.csv"
    assert main([*KERNEL, str(csv), "--queries", str(tmp_path / "queries.parquet"), "--out", str(out)]) == 0
    result = read_table(out)
    assert result.names == ("b", "a", "log_density", "score_a", "score_b")  # the order of the queries
    order = [1, 0, 2, 3, 4]
    np.testing.assert_allclose(result.values[:, order], expected(data.values, queries), rtol=1e-12)


def test_columns_leave_text_out(data: Table, tmp_path: Path) -> None:
    frame = pd.DataFrame(data.values, columns=["a", "b"]).assign(name="text")
    frame.to_csv(tmp_path / "mixed.csv", index=False)
    out = tmp_path / "out.csv"
    assert main([*KERNEL, str(tmp_path / "mixed.csv"), "--columns", "b", "--out", str(out)]) == 0
    result = pd.read_csv(out)  # all columns of the input are there
    assert list(result.columns) == ["a", "b", "name", "log_density", "score_b"]
    answers = result[["b", "log_density", "score_b"]]
    np.testing.assert_allclose(answers, expected(data.values[:, [1]], data.values[:, [1]]), rtol=1e-12)


def test_json_is_one_object(
    data: Table, csv: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = str(tmp_path / "out.csv")
    assert main([*KERNEL, str(csv), "--json", "--out", out]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert (summary["n"], summary["d"]) == data.values.shape
    assert summary["out"] == out
    mean = expected(data.values, data.values)[:, 2].mean()
    assert summary["mean_log_density"] == pytest.approx(mean, rel=1e-12)


def test_summary_shows_the_extreme_rows(
    data: Table, csv: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*KERNEL, str(csv)]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    order = np.argsort(-KDE().fit(data.values).loo_log_density().numpy())
    shown = [int(row[0]) for row in rows if row and row[0].isdecimal() and row[1] != "rows,"]
    assert shown == [*order[:3], *order[::-1][:3]]
    assert [p.name for p in tmp_path.iterdir()] == ["data.csv"]


@pytest.mark.parametrize("columns", ["a", "a,b", "a,b,c"])
def test_plot_writes_a_picture(data: Table, columns: str, tmp_path: Path) -> None:
    values = np.column_stack([data.values, data.values[:, 0] ** 2])
    write_table(Table(values, ("a", "b", "c")), tmp_path / "data.csv")
    picture = tmp_path / "picture.png"
    assert main([*KERNEL, str(tmp_path / "data.csv"), "--columns", columns, "--plot", str(picture)]) == 0
    assert picture.read_bytes().startswith(b"\x89PNG")


def assert_refused(
    arguments: list[str], message: str, outputs: list[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    """One line on standard error, exit code 2, nothing else printed, existing outputs byte for byte."""
    for path in outputs:
        path.write_bytes(b"precious\x00")
    folder = {path.parent for path in outputs}
    before = {p for f in folder for p in f.iterdir()}
    assert main([*KERNEL, *arguments]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("discoformer: error: ")
    assert printed.err.count("\n") == 1
    assert message in printed.err
    assert all(path.read_bytes() == b"precious\x00" for path in outputs)
    assert {p for f in folder for p in f.iterdir()} == before


@pytest.mark.parametrize("case", BAD_FILES)
def test_bad_data_is_one_line(case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text, message = BAD_FILES[case]
    bad, out, plot = tmp_path / "bad.csv", tmp_path / "out.csv", tmp_path / "plot.png"
    bad.write_text(text)
    assert_refused([str(bad), "--out", str(out), "--plot", str(plot)], message, [out, plot], capsys)


@pytest.mark.parametrize("case", ["NaN", "inf", "strings", "empty", "header only"])
def test_bad_queries_are_one_line(
    case: str, csv: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text, message = BAD_FILES[case]
    bad, out = tmp_path / "bad.csv", tmp_path / "out.csv"
    bad.write_text(text)
    assert_refused([str(csv), "--queries", str(bad), "--out", str(out)], message, [out], capsys)


def test_unnamed_queries_match_the_chosen_columns_by_position(
    data: Table, csv: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    queries = np.array([[10.0, 0.5], [0.0, -1.0]])  # in the order of --columns
    np.save(tmp_path / "grid.npy", queries)
    (tmp_path / "grid.csv").write_text("10,0.5\n0,-1\n")
    out = tmp_path / "out.npy"
    for grid in ("grid.npy", "grid.csv"):
        options = ["--columns", "b,a", "--queries", str(tmp_path / grid), "--out", str(out)]
        assert main([*KERNEL, str(csv), *options]) == 0
        np.testing.assert_allclose(np.load(out), expected(data.values[:, ::-1], queries), rtol=1e-12)
    options[1] = "a"
    capsys.readouterr()
    assert_refused([str(csv), *options], "the queries have 2 column(s)", [out], capsys)


@pytest.mark.parametrize("values", [np.zeros((3, 1)), np.zeros((3, 3))])
def test_wrong_number_of_query_columns(
    values: np.ndarray, csv: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    np.save(tmp_path / "queries.npy", values)
    out = tmp_path / "out.csv"
    message = f"the queries have {values.shape[1]} column(s)"
    assert_refused(
        [str(csv), "--queries", str(tmp_path / "queries.npy"), "--out", str(out)], message, [out], capsys
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--bandwidth", "wide"], "bandwidth rule 'wide' is unknown"),
        (["--bandwidth", "-1"], "bandwidth must be positive"),
        (["--columns", "z"], "no column 'z'"),
        (["--queries", "none.csv"], "none.csv: no such file"),
        (["--model", "nothing"], "no model 'nothing'"),
        (["--bandwidth", "0.5", "--model", "default"], "leave out --model default or --bandwidth"),
        (["--view", "corner"], "add --plot"),
        (["--bounds", "z=0:"], "bounds name column 'z'"),
        (["--bounds", "a=0:"], "outside its bounds (0, inf)"),
        (["--bounds", "a=5:1"], "the first must be below the second"),
    ],
)
def test_bad_options_are_one_line(
    arguments: list[str], message: str, csv: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out.csv"
    assert_refused([str(csv), *arguments, "--out", str(out)], message, [out], capsys)


def test_bad_outputs_are_refused(csv: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "folder.csv").mkdir()
    cases = [
        ("--out", tmp_path / "none" / "out.csv", "its folder does not exist"),
        ("--out", tmp_path / "folder.csv", "a folder"),
        ("--out", tmp_path / "out.xlsx", "unknown format"),
        ("--out", csv, "is an input file"),
        ("--plot", tmp_path / "plot.gif", "pictures end in"),
        ("--plot", tmp_path / "none" / "plot.png", "its folder does not exist"),
    ]
    before = csv.read_bytes()
    for option, path, message in cases:
        assert_refused([str(csv), option, str(path)], message, [], capsys)
    assert csv.read_bytes() == before


def test_a_write_that_fails_keeps_the_old_file(
    csv: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: object, path: Path, **_: object) -> None:
        Path(path).write_bytes(b"half")
        raise OSError(28, "No space left on device", str(path))

    monkeypatch.setattr(pd.DataFrame, "to_csv", full)
    out = tmp_path / "out.csv"
    assert_refused([str(csv), "--out", str(out)], "No space left on device", [out], capsys)


@pytest.mark.parametrize("failing", ["out", "plot"])
def test_neither_output_is_replaced_when_the_other_fails(
    failing: str,
    csv: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def full(self: object, path: Path, **_: object) -> None:
        raise OSError(28, "No space left on device", str(path))

    owner, name = (Figure, "savefig") if failing == "plot" else (pd.DataFrame, "to_csv")
    monkeypatch.setattr(owner, name, full)
    out, plot = tmp_path / "out.csv", tmp_path / "plot.png"
    message = f"{failing}.{'png' if failing == 'plot' else 'csv'}: cannot be written: No space left"
    assert_refused([str(csv), "--out", str(out), "--plot", str(plot)], message, [out, plot], capsys)


def test_a_taken_name_is_refused_before_the_work(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(estimate, "fit_table", pytest.fail)
    (tmp_path / "data.csv").write_text(BAD_FILES["clashing name"][0])
    assert main([*KERNEL, str(tmp_path / "data.csv"), "--out", str(tmp_path / "out.csv")]) == 2
    assert BAD_FILES["clashing name"][1] in capsys.readouterr().err


def test_model_and_bounds_are_passed_on(data: Table, tmp_path: Path, model_path: Path) -> None:
    positive = Table(np.exp(data.values / [1.0, 100.0]), ("a", "b"))
    write_table(positive, tmp_path / "data.csv")
    out = tmp_path / "out.npy"
    arguments = [str(tmp_path / "data.csv"), "--model", str(model_path), "--out", str(out)]
    assert main(["estimate", *arguments, "--types", "continuous"]) == 0
    log_density, score = load_model(model_path).fit(positive.values).estimate(positive.values)
    np.testing.assert_allclose(
        np.load(out), np.column_stack([positive.values, log_density, score]), rtol=1e-9
    )
    write_table(Table(positive.values * [-1, 1], ("a", "b")), tmp_path / "queries.csv")
    queries = ["--queries", str(tmp_path / "queries.csv")]
    assert main(["estimate", *arguments, "--bounds", "a=0:,b=0:1e3", *queries]) == 0
    answers = np.load(out)
    assert np.isneginf(answers[:, 2]).all()
    assert (answers[:, 3:] == 0).all()


def test_mean_of_impossible_rows_is_still_json(
    csv: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_table(Table(np.full((2, 2), 1e6), ("a", "b")), tmp_path / "queries.csv")
    queries = ["--queries", str(tmp_path / "queries.csv"), "--bounds=-1e5:1e5"]
    assert main([*KERNEL, str(csv), "--json", *queries]) == 0
    printed = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    assert printed["mean_log_density"] is None


def test_columns_left_out_are_a_warning_of_one_line(
    data: Table, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    values = np.column_stack([data.values, np.ones(40), data.values.sum(1)])
    write_table(Table(values, ("a", "b", "one", "sum")), tmp_path / "data.csv")
    with warnings.catch_warnings():
        warnings.simplefilter("default", SupportWarning)
        picture = tmp_path / "picture.png"
        arguments = [str(tmp_path / "data.csv"), "--drop-dependent", "--plot", str(picture)]
        assert main([*KERNEL, *arguments]) == 0
    error = capsys.readouterr().err
    assert error.startswith("discoformer: warning: left out 'one' (constant) and 'sum' (linear")
    assert error.count("\n") == 1
    assert picture.exists()


@pytest.mark.parametrize("view", ["density", "corner", "outliers"])
def test_views(csv: Path, view: str, tmp_path: Path, model_path: Path) -> None:
    picture = tmp_path / "picture.svg"
    arguments = [str(csv), "--model", str(model_path), "--plot", str(picture), "--view", view]
    assert main(["estimate", *arguments]) == 0
    assert b"<svg" in picture.read_bytes()


@pytest.mark.parametrize("out", [".npy", ".parquet", ".csv"])
@pytest.mark.parametrize("data", ["x.npy", "folder"])
def test_the_command_streams_large_files(
    data: str,
    out: str,
    model_path: Path,
    tmp_path: Path,
    small_chunks: None,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    x = two_groups(1500)
    np.save(tmp_path / "x.npy", x)
    (tmp_path / "folder").mkdir()
    frame = pd.DataFrame(x, columns=["x0", "x1", "x2"])
    frame[:900].to_parquet(tmp_path / "folder" / "1.parquet")
    frame[900:].to_parquet(tmp_path / "folder" / "2.parquet")
    rest = ["--model", str(model_path)]
    assert main(["estimate", str(tmp_path / "x.npy"), *rest]) == 0
    printed = capsys.readouterr().out
    monkeypatch.setattr(command, "LARGE", 0)
    monkeypatch.setattr(command, "_in_memory", pytest.fail)
    assert main(["estimate", str(tmp_path / data), *rest]) == 0
    # which columns make a row unusual is asked of a fit without it where the sample is in memory
    streamed = capsys.readouterr().out
    assert [line.split()[:2] for line in streamed.splitlines()][:7] == [
        line.split()[:2] for line in printed.splitlines()
    ][:7]
    assert streamed.split("each by the fit")[0] == printed.split("each by the fit")[0]
    assert main(["estimate", str(tmp_path / data), *rest, "--out", str(tmp_path / f"out{out}")]) == 0
    expected = load_model(model_path).fit(x).estimate(x)
    result = read_table(tmp_path / f"out{out}")
    np.testing.assert_allclose(result.values, np.column_stack([x, *expected]), **EXACT)
    if out != ".npy":
        assert result.names == ("x0", "x1", "x2", "log_density", "score_x0", "score_x1", "score_x2")


def test_the_command_streams_queries_and_columns(
    model_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, y = two_groups(300), two_groups(80, seed=5)
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "y.npy", y)
    pd.DataFrame(y, columns=["x2", "x0", "x1"]).to_csv(tmp_path / "y.csv", index=False)
    monkeypatch.setattr(command, "LARGE", 0)
    monkeypatch.setattr(command, "_in_memory", pytest.fail)
    model = load_model(model_path)
    for queries in ("y.npy", "y.csv"):
        arguments = ["--queries", str(tmp_path / queries), "--model", str(model_path)]
        assert (
            main(["estimate", str(tmp_path / "x.npy"), *arguments, "--out", str(tmp_path / "out.npy")]) == 0
        )
        expected = model.fit(x).estimate(y)
        np.testing.assert_allclose(np.load(tmp_path / "out.npy"), np.column_stack([y, *expected]), **EXACT)
    some = ["--columns", "x2,x0", "--model", str(model_path), "--out", str(tmp_path / "out.npy")]
    assert main(["estimate", str(tmp_path / "x.npy"), *some]) == 0
    expected = model.fit(x[:, [2, 0]]).log_density(x[:, [2, 0]])
    np.testing.assert_allclose(np.load(tmp_path / "out.npy")[:, 2], expected, **EXACT)


def test_the_command_refuses_in_one_line_and_keeps_the_old_file(
    model_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "LARGE", 0)
    x = two_groups(200)
    out = tmp_path / "out.npy"
    out.write_text("old")
    bad = x.copy()
    bad[150, 2] = np.nan
    for values, message in (
        (np.column_stack([x, x[:, 0]]), "'x3' is constant or linear in the columns before"),
        (x[:2], "too few for a density"),
        (bad, "NaN at row 150, column 2"),
    ):
        np.save(tmp_path / "x.npy", values)
        assert main(["estimate", str(tmp_path / "x.npy"), "--model", str(model_path), "--out", str(out)]) == 2
        error = capsys.readouterr().err
        assert message in error
        assert error.count("\n") == 1
    np.save(tmp_path / "x.npy", x)
    arguments = ["--queries", str(tmp_path / "q.npy"), "--model", str(model_path), "--out", str(out)]
    np.save(tmp_path / "q.npy", bad)
    assert main(["estimate", str(tmp_path / "x.npy"), *arguments]) == 2
    assert "q.npy has NaN at row 150, column 2" in capsys.readouterr().err
    assert out.read_text() == "old"
    (tmp_path / "folder").mkdir()
    assert main(["estimate", str(tmp_path / "folder"), "--model", "kde-scott"]) == 2
    assert "a folder is streamed" in capsys.readouterr().err


def test_why_names_the_column_that_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(0)
    values = rng.normal(size=(100, 1)) + 0.1 * rng.normal(size=(100, 3))
    values[17, 1] += 5
    write_table(Table(values, ("a", "b", "c")), tmp_path / "data.csv")
    assert main([*KERNEL, str(tmp_path / "data.csv"), "--why"]) == 0
    assert "row 17: b = " in capsys.readouterr().out
    assert main([*KERNEL, str(tmp_path / "data.csv"), "--why", "--std", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["why"][0]["row"] == 17 and report["why"][0]["reasons"][0].startswith("b = ")
    assert report["mean_log_density_std"] > 0


@pytest.mark.parametrize(("flag", "source"), [("--std", "head"), ("--bootstrap", "bootstrap")])
def test_error_bars_of_the_default_by_either_source(flag: str, source: Any, tmp_path: Path) -> None:
    values, out = np.random.default_rng(0).normal(size=(80, 2)), tmp_path / "bars.npy"
    np.save(tmp_path / "data.npy", values)
    assert main(["estimate", str(tmp_path / "data.npy"), flag, "--out", str(out)]) == 0
    bars = DiScoFormer().fit(values).estimate(values, std=source)
    np.testing.assert_allclose(np.load(out)[:, 5], bars.log_density_std, rtol=1e-6)
    np.testing.assert_allclose(np.load(out)[:, 6:], bars.score_std, rtol=1e-6)


def test_the_bootstrap_is_announced(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    values = np.random.default_rng(0).normal(size=(80, 2))
    np.save(tmp_path / "data.npy", values)
    assert main([*KERNEL, str(tmp_path / "data.npy"), "--std", "--json"]) == 0
    assert capsys.readouterr().err == "discoformer: error bars by the bootstrap, from 24 more fits\n"


def test_a_heavy_row_does_not_vouch_for_itself(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(100, 2)), columns=["a", "b"])
    table.loc[0] = [7.0, -7.0]
    table["count"] = np.where(np.arange(100) == 0, 1e6, 1.0)
    table.to_csv(tmp_path / "data.csv", index=False)
    assert main(["estimate", str(tmp_path / "data.csv"), "--weights", "count", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["unusual"][0]["row"] == 0


def test_error_bars_are_written_beside_the_answers(data: Table, csv: Path, tmp_path: Path) -> None:
    out, picture = tmp_path / "bars.csv", tmp_path / "band.png"
    one = [*KERNEL, str(csv), "--std", "--out", str(out), "--columns", "a", "--plot", str(picture)]
    assert main(one) == 0
    table = read_table(out)
    assert table.names == ("a", "b", "log_density", "score_a", "log_density_std", "score_a_std")
    bars = DiScoFormer(model="kde-scott").fit(data.values[:, :1]).estimate(data.values[:, :1], std=True)
    np.testing.assert_allclose(table.values[:, 4], bars.log_density_std, rtol=1e-9)
    assert picture.stat().st_size > 0
