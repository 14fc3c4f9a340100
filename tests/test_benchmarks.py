"""The benchmarks run, resume, and say what they measured."""

import csv
import sys
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

from discoformer.baselines import KDE, GaussianMixtureBIC
from discoformer.data.datasets import real_dataset
from discoformer.evaluation.held_out import PEERS, held_out_log_likelihood, make_method

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


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
