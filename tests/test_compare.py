"""Held-out comparison: what it computes, what the command prints, and that the benchmarks run."""

import csv
import json
import sys
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import norm
from sklearn import datasets
from sklearn.model_selection import KFold

from discoformer import DiScoFormer
from discoformer.baselines import KDE, GaussianMixtureBIC
from discoformer.cli import main
from discoformer.columns.bounds import Bounded
from discoformer.core.checks import DataError
from discoformer.data.datasets import REAL, gmm_dataset, real_dataset
from discoformer.evaluation.held_out import PEERS, held_out_log_likelihood, make_method

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


@pytest.fixture
def sample() -> np.ndarray:
    return np.random.default_rng(0).normal(size=(60, 2)) * [1.0, 100.0]


def test_every_row_is_held_out_once(sample: np.ndarray) -> None:
    result = held_out_log_likelihood(KDE(), sample, folds=4, seed=3)
    expected = np.full(60, np.nan)
    for inside, outside in KFold(4, shuffle=True, random_state=3).split(sample):
        expected[outside] = KDE().fit(sample[inside]).log_density(sample[outside])
    np.testing.assert_array_equal(result.log_density, expected)
    assert result.mean == pytest.approx(expected.mean())
    assert result.standard_error == pytest.approx(expected.std(ddof=1) / np.sqrt(60))


def test_one_component_is_the_gaussian_of_the_other_folds() -> None:
    x = np.random.default_rng(1).normal(size=(50, 1))
    one = GaussianMixtureBIC(components=[1])
    result = held_out_log_likelihood(one, x, folds=50)
    rest = [np.delete(x[:, 0], i) for i in range(50)]
    expected = [norm.logpdf(x[i, 0], r.mean(), r.std()) for i, r in enumerate(rest)]
    np.testing.assert_allclose(result.log_density, expected, rtol=1e-5)  # up to the 1e-6 in the variance


def test_differences_do_not_depend_on_the_units(sample: np.ndarray) -> None:
    methods = [KDE("loo"), GaussianMixtureBIC(components=[1, 2])]
    before = [held_out_log_likelihood(method, sample) for method in methods]
    after = [held_out_log_likelihood(method, 1e-3 * sample - 5.0) for method in methods]
    assert after[0].minus(after[1]) == pytest.approx(before[0].minus(before[1]), rel=1e-6)


@pytest.mark.parametrize("folds", [1, 61])
def test_impossible_folds_are_refused(sample: np.ndarray, folds: int) -> None:
    with pytest.raises(DataError, match="choose a number from 2 to 60"):
        held_out_log_likelihood(KDE(), sample, folds=folds)


def test_few_rows_are_compared_as_the_estimator_fits_them(model_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=(9, 8))
    result = held_out_log_likelihood(make_method(str(model_path)), x, folds=9)
    expected = [
        float(DiScoFormer(model=model_path).fit(np.delete(x, i, 0)).score_samples(x[[i]])[0])
        for i in range(9)
    ]
    np.testing.assert_allclose(result.log_density, expected, rtol=1e-9)


def test_real_data_is_what_scikit_learn_ships() -> None:
    shapes = {name: real_dataset(name).values.shape for name in REAL}
    assert shapes == {
        "iris": (150, 4),
        "wine": (178, 13),
        "diabetes": (442, 6),
        "breast_cancer": (569, 10),
        "digits": (1797, 8),
    }
    np.testing.assert_array_equal(real_dataset("iris").values, datasets.load_iris().data)
    np.testing.assert_array_equal(
        real_dataset("breast_cancer").values, datasets.load_breast_cancer().data[:, :10]
    )
    components = real_dataset("digits").values
    covariance = np.cov(components.T)
    np.testing.assert_allclose(covariance, np.diag(np.diag(covariance)), atol=1e-9)
    assert (np.diff(np.diag(covariance)) < 0).all()
    assert all(len(real_dataset(name).names) == shape[1] for name, shape in shapes.items())


@pytest.mark.parametrize("text", ["gmm:2,100", "gmm:0,100,3", "gmm:2,1,3", "gmm:2,100,3,4", "gmm:a,b,c"])
def test_bad_mixtures_say_how_to_write_them(text: str) -> None:
    with pytest.raises(DataError, match="write gmm:d,n,k"):
        gmm_dataset(text)


def compare(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict:
    assert main(["compare", *arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_json_has_the_numbers_of_the_library(
    sample: np.ndarray, tmp_path: Path, capsys: pytest.CaptureFixture[str], model_path: Path
) -> None:
    np.save(tmp_path / "data.npy", sample)
    methods = ["kde-scott", "gmm-diag", str(model_path)]
    result = compare(capsys, str(tmp_path / "data.npy"), "--methods", ",".join(methods), "--folds", "3")
    assert (result["n"], result["d"], result["columns"]) == (60, 2, ["x0", "x1"])
    rows = {row["method"]: row for row in result["rows"]}
    assert set(rows) == set(methods)
    held_out = {name: held_out_log_likelihood(make_method(name), sample, 3) for name in methods}
    best = max(held_out.values(), key=lambda one: one.mean)
    for name, one in held_out.items():
        assert rows[name]["log_likelihood"] == pytest.approx(one.mean)
        assert (rows[name]["behind_best"], rows[name]["behind_best_error"]) == pytest.approx(best.minus(one))
    means = [row["log_likelihood"] for row in result["rows"]]
    assert means == sorted(means, reverse=True)


def test_a_known_truth_shows_the_score_error(capsys: pytest.CaptureFixture[str]) -> None:
    result = compare(capsys, "gmm:2,200,2", "--methods", "kde-scott,bayes-gmm")
    rows = {row["method"]: row for row in result["rows"]}
    data = gmm_dataset("gmm:2,200,2")
    for name in ("kde-scott", "bayes-gmm"):
        difference = make_method(name).fit(data.context).score(data.context) - data.truth.score
        expected = difference.square().sum() / data.truth.score.square().sum()
        assert rows[name]["score_error"] == pytest.approx(float(expected))
    assert rows["truth"]["score_error"] == 0
    assert rows["truth"]["log_likelihood"] == pytest.approx(float(data.truth.log_density.mean()))


def test_table_and_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out.csv"
    arguments = ["iris", "--columns", "petal width (cm)", "--methods", "kde-scott,kde-loo", "--out", str(out)]
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
    arguments = ["iris", "gmm:2,60,1", "--methods", "kde-scott,kde-loo", "--folds", "3"]
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
    assert main(["compare", "iris", "none.csv", "--methods", "kde-scott"]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "none.csv: no such file" in printed.err


def test_bounds_are_for_all_methods(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Kernels that know where waiting times end describe them better, by the density within the bound."""
    waiting = np.random.default_rng(0).exponential(size=(200, 1))
    np.save(tmp_path / "wait.npy", waiting)
    arguments = ["compare", str(tmp_path / "wait.npy"), "--methods", "kde-scott", "--json"]
    found = []
    for option in ([], ["--bounds", "0:"]):
        assert main([*arguments, *option]) == 0
        found.append(json.loads(capsys.readouterr().out)["rows"][0]["log_likelihood"])
    expected = held_out_log_likelihood(Bounded(KDE(), (0, None)), waiting)
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
    assert main(["compare", str(tmp_path / "data.npy"), "--methods", "kde-scott"]) == 0
    assert "note: 'x1' has fewer than 10 distinct values" in capsys.readouterr().out


def test_a_method_that_fails_does_not_stop_the_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(PEERS, "broken", lambda: KDE(bandwidth=-1.0))
    assert main(["compare", "iris", "--methods", "kde-scott,broken"]) == 0
    printed = capsys.readouterr().out
    assert "broken failed: bandwidth must be positive" in printed
    assert main(["compare", "iris", "--methods", "broken"]) == 2
    assert "no method could be fitted; broken: bandwidth must be positive" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["none.csv", "--methods", "kde-scott"], "none.csv: no such file"),
        (["iris", "--methods", "no-such-method"], "kde-scott, kde-loo, gmm-full, gmm-diag, bayes-gmm, flow"),
        (["iris", "--columns", "z", "--methods", "kde-scott"], "no column 'z'"),
        (
            ["iris", "--folds", "1000", "--methods", "kde-scott"],
            "iris: 1000 folds of 150 rows: choose a number from 2 to 150 with --folds",
        ),
        (["gmm:2,100,3", "--columns", "x0", "--methods", "kde-scott"], "--columns does not go with gmm"),
        (["iris", "--out", "table.xlsx", "--methods", "kde-scott"], "written as .csv"),
        (["iris", "--out", "none/table.csv", "--methods", "kde-scott"], "its folder does not exist"),
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
    code = main(["compare", path, "--methods", "kde-scott", "--folds", str(folds)])
    printed = capsys.readouterr()
    assert code == (2 if message else 0)
    assert printed.err == (f"discoformer: error: {path}: {message}\n" if message else "")
    assert bool(printed.out) == (message is None)


@pytest.fixture
def benchmark_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """Benchmarks are scripts that import one another by name; they leave again after the test."""
    before = set(sys.modules)
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    yield
    for name in set(sys.modules) - before:
        if str(BENCHMARKS) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


@pytest.mark.parametrize(
    ("script", "tables"),
    [
        ("gmm", ["gmm_rotated", "gmm_diagonal", "gmm_large_n"]),
        ("dimensions", ["dimensions", "dimensions_100"]),
        ("families", ["families"]),
        ("real_data", ["real_data"]),
        ("laws", ["laws", "laws_equivariance"]),
        ("timing", ["timing"]),
        ("few_rows", ["few_rows"]),
        ("oracle_em", ["oracle_em"]),
        ("adaptation", ["adaptation"]),
    ],
)
def test_benchmarks_run_and_resume(
    script: str,
    tables: list[str],
    tmp_path: Path,
    model_path: Path,
    benchmark_path: None,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    module = import_module(script)
    few = {name: PEERS[name] for name in ("kde-scott", "gmm-full", "gmm-diag")}
    for name in ("kde-loo", "bayes-gmm"):  # the slow ones add nothing here
        few[name] = few["kde-scott"]
    few["gmm-full"] = few["gmm-diag"] = lambda: GaussianMixtureBIC(components=[1, 2])
    for name, peer in few.items():
        monkeypatch.setitem(PEERS, name, peer)
    arguments = ["--quick", "--model", str(model_path), "--results", str(tmp_path)]
    arguments += ["--exact", str(model_path)] if script == "laws" else []
    code, printed = module.main(arguments), capsys.readouterr().out
    assert "bars met" in printed or script in ("few_rows", "oracle_em")  # they have none
    assert code == ("MISSED" in printed)
    for table in tables:
        lines = (tmp_path / f"{table}.csv").read_text().splitlines()
        assert len(lines) > 1
        assert all(line.startswith("whiten@") for line in lines[1:])
    if script in ("laws", "timing", "few_rows", "adaptation"):
        return  # nothing to resume: these are measured in one run
    before = {path: path.read_text() for path in tmp_path.iterdir()}
    for name in few:
        monkeypatch.setitem(PEERS, name, lambda: pytest.fail("measured again"))
    assert module.main(arguments) == code
    assert {path: path.read_text() for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize("script", ["laws", "timing", "few_rows", "adaptation"])
def test_benchmarks_of_models_refuse_to_measure_peers(
    script: str, benchmark_path: None, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        import_module(script).main(["--quick", "--peers"])
    assert stopped.value.code == 2
    assert "error:" in capsys.readouterr().err


def test_a_stack_is_not_adapted(benchmark_path: None, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        import_module("adaptation").main(["--quick", "--model", "default"])
    assert "one network, not a stack" in capsys.readouterr().err


def test_a_peer_far_behind_is_not_measured_on_the_largest_samples(
    tmp_path: Path, benchmark_path: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    gmm, common = import_module("gmm"), import_module("common")
    for name in PEERS:
        monkeypatch.setitem(PEERS, name, lambda: GaussianMixtureBIC(components=[1]))
    monkeypatch.setitem(PEERS, "kde-loo", lambda: KDE(bandwidth=1e-3))  # a score of zero at every point
    monkeypatch.setattr(gmm, "LARGE", 256)
    run = common.Session(tmp_path, 1, "", "", None)  # one data set, of one component
    gmm.against_peers(run, "rotated", (2,), (64, 128, 256))
    printed = capsys.readouterr().out.splitlines()
    cells = {line.split()[1]: line.split()[2:] for line in printed if line.startswith("2 ")}
    assert "-" not in cells["64"] and "-" not in cells["128"]
    assert [cell == "-" for cell in cells["256"][: len(PEERS)]] == [name == "kde-loo" for name in PEERS]
    assert printed[-1].startswith("-: not measured")
    measured = {(row.key["n"], row.key["method"]) for row in run.peers.rows()}
    assert measured == {(n, name) for n in ("64", "128", "256") for name in PEERS} - {("256", "kde-loo")}
    run.measure(common.gmm_setting("rotated", 2, 256), ["kde-loo"])  # for another table
    gmm.against_peers(run, "rotated", (2,), (64, 128, 256))
    assert "not measured" not in capsys.readouterr().out


def test_the_best_of_all_peers_stands_beside_the_best_of_the_bar(
    tmp_path: Path, benchmark_path: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    families, common = import_module("families"), import_module("common")
    monkeypatch.setattr(families, "FAMILIES", {"ring": families.FAMILIES["ring"]})
    run = common.Session(tmp_path, 2, "ours", "ours@12ab", KDE(), first=3)
    run.seed = common.SEED + 3 * common.STEP
    errors = {name: 5.0 - place for place, name in enumerate(PEERS)} | {"ours@12ab": 1.5}
    for name, error in errors.items():
        for index in (3, 4):
            key = ("ring", 2, 64, common.SEED + common.STEP * index, name)
            values = dict.fromkeys(common.Pooled._fields, 10.0) | {"score_error": error}
            (run.peers if name in PEERS else run.models).add(key, values)
    families.table(run, (64,))
    with (tmp_path / "families_from_3.csv").open(newline="") as file:
        (line,) = csv.DictReader(file)
    assert (line["best rival"], line["ratio"], line["bar"]) == ("gmm-diag", "0.750", "met")
    assert (line["best peer"], line["ratio to best peer"]) == ("bayes-gmm", "1.500")


@pytest.mark.parametrize("script", ["families", "attention", "adaptation"])
def test_later_data_sets_get_a_table_of_their_own(
    script: str, tmp_path: Path, model_path: Path, benchmark_path: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in PEERS:
        monkeypatch.setitem(PEERS, name, KDE)
    module = import_module(script)
    arguments = ["--quick", "--model", str(model_path), "--results", str(tmp_path), "--datasets", "2"]
    arguments += ["--dims", "2"] if script == "attention" else []
    for first in ("0", "3"):
        module.main([*arguments, "--first", first])
    usual, later = ((tmp_path / f"{script}{end}.csv").read_text().splitlines()[1:] for end in ("", "_from_3"))
    assert len(usual) == len(later)
    assert not set(usual) & set(later)


def test_a_peer_that_failed_is_not_the_best(benchmark_path: None) -> None:
    common = import_module("common")

    def pooled(error: float) -> object:
        return common.Pooled(*(np.array([value]) for value in (error, 1.0, 0.0, 0.0, 0.0)))

    errors = {"failed": pooled(np.nan), "good": pooled(0.1), "poor": pooled(0.2), "ours": pooled(0.0)}
    assert common.best_peer(errors) == "good"
    assert common.best_peer(dict(reversed(errors.items()))) == "good"


def test_laws_hold_for_a_whitening_mixture(
    tmp_path: Path, model_path: Path, benchmark_path: None, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = [
        "--quick",
        "--results",
        str(tmp_path),
        "--model",
        str(model_path),
        "--exact",
        str(model_path),
    ]
    assert import_module("laws").main(arguments) == 0
    assert "MISSED" not in capsys.readouterr().out


def test_new_weights_are_measured_again(model_path: Path, axis_path: Path, benchmark_path: None) -> None:
    common = import_module("common")
    first, again, other = (
        common.fingerprint(make_method(str(path))) for path in (model_path, model_path, axis_path)
    )
    assert first == again
    assert first != other


def test_a_missed_bar_shows_in_the_exit_code(tmp_path: Path, benchmark_path: None) -> None:
    run = import_module("common").Session(tmp_path, 1, "", "", None)
    assert run.verdict() == 0
    assert run.bar("low", 1.0, 2.0) == "met"
    assert run.verdict() == 0
    assert run.bar("high", 1.0, 2.0, below=False) == "MISSED"
    assert run.verdict() == 1


def test_the_page_of_real_data_shows_the_table_of_the_benchmark(benchmark_path: None) -> None:
    module = import_module("real_data")
    text = module.PAGE.read_text(encoding="utf-8")
    assert text.split(module.BEGIN)[1].split(module.END)[0] == module.page_table(
        module.RESULTS / "real_data.csv"
    )


def test_the_page_of_real_data_is_made_from_the_file(tmp_path: Path, benchmark_path: None) -> None:
    """Numbers are those of the command, the best is bold, other models stay out, the rest stays."""
    module, common = import_module("real_data"), import_module("common")
    page = tmp_path / "page.md"
    page.write_text(f"before\n\n{module.BEGIN}gone\n{module.END}\nafter\n")
    module.write_page(tmp_path, page)
    assert "Not measured yet" in page.read_text()
    methods = {"other": KDE(9.0), "default": KDE(0.2)}
    for label, method in methods.items():
        run = common.Session(tmp_path, 1, label, f"{label}@12ab", method, seed=module.SEED)
        module.table(run, ["iris"], ["kde-scott", "kde-loo"])
    module.write_page(tmp_path, page)
    text = page.read_text()
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    assert "gone" not in text
    assert "other" not in text
    header, _, line = (row.strip("| ").split(" | ") for row in text.splitlines()[3:6])
    cells = dict(zip(header, line, strict=True))
    methods |= {name: make_method(name) for name in ("kde-scott", "kde-loo")}
    results = {name: held_out_log_likelihood(m, real_dataset("iris").values) for name, m in methods.items()}
    means = {name: result.mean for name, result in results.items()}
    best = max(("kde-scott", "kde-loo"), key=lambda name: means[name])
    lead, error = results["default"].minus(results[best])
    assert cells["ahead by"] == f"{lead:.3f} ± {error:.3f}"
    shown = ("default", "kde-scott", "kde-loo")
    assert [cells[name].strip("*") for name in shown] == [f"{means[name]:.3f}" for name in shown]
    assert [name for name in cells if "**" in cells[name]] == [max(shown, key=lambda name: means[name])]
    module.write_page(tmp_path, page)
    assert page.read_text() == text
