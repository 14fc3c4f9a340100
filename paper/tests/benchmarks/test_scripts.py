"""The benchmarks run, resume, and say what they measured."""

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from discoformer.baselines import KDE, GaussianMixtureBIC
from discoformer.methods import PEERS
from discoformer.training.config import load_recipe
from discoformer_paper.harness.benchmark import Session
from discoformer_paper.harness.contestants import Contestant
from discoformer_paper.harness.problems import ERRORS, gmm_problem, seed_of

Load = Callable[[str], Any]


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
    load: Load,
    fast_rivals: None,
    replace_rival: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    module = load(script)
    if script == "adaptation":  # one family does
        monkeypatch.setattr(module, "FAMILIES", {"ring": module.FAMILIES["ring"]})
    arguments = ["--quick", "--model", str(model_path), "--out", str(tmp_path)]
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
    for name in PEERS:
        replace_rival(name, Refusing)
    assert module.main(arguments) == code
    assert {path: path.read_text() for path in tmp_path.iterdir()} == before


def test_the_cost_of_a_recipe_is_that_of_its_products(tmp_path: Path, load: Load) -> None:
    """A map of width w costs 2 w^2 a point, attention 4 n w, the way back twice; none of the last context."""
    module = load("training_cost")
    small = ["sizes=[512,512]", "tokens=1024", "core.layers=3"]
    recipe, again = (load_recipe(module.RECIPES[0], [*small, f"recompute={on}"]) for on in ("false", "true"))
    unit, attention = 2 * 1024 * recipe.core["width"] ** 2, 4 * 1024 * 512 * recipe.core["width"]
    forward = 3 * ((12 + 10) * unit + 2 * attention)  # queries need no keys and values
    backward = 2 * (forward - 10 * unit - attention)
    assert abs(module.operations(recipe) / (forward + backward) - 1) < 0.02
    assert abs(module.operations(again) / (2 * forward + backward) - 1) < 0.02
    assert module.memory(again) < module.memory(recipe)
    assert module.main(["--quick", "--out", str(tmp_path)]) == 0
    assert len((tmp_path / "training_cost.csv").read_text().splitlines()) == 2


def test_rates_are_tuned_on_seeds_of_their_own(
    tmp_path: Path, load: Load, save_attention: Callable[[int, int], Path]
) -> None:
    module = load("adaptation_rates")
    assert seed_of(module.VALIDATION + 100) < seed_of(0)
    path = save_attention(2, 0)
    assert module.main(["--quick", "--model", str(path), "--datasets", "1", "--out", str(tmp_path)]) == 0
    _, *lines = csv.reader((tmp_path / "adaptation_rates.csv").read_text().splitlines())
    assert len(lines) == len(module.RATES) and [line[-1] for line in lines].count("best") == 1
    with pytest.raises(SystemExit, match="steps are taken by one network"):
        module.main(["--quick", "--model", "default-gmm", "--out", str(tmp_path)])


def test_naive_memory_grows_with_the_square_of_n(tmp_path: Path, load: Load) -> None:
    assert load("naive_memory").main(["--quick", "--out", str(tmp_path)]) == 0
    _, first, *carried = csv.reader((tmp_path / "naive_memory.csv").read_text().splitlines())
    assert 0.008 < float(first[2]) < 0.1, "a million pairs in the plane, four bytes each, twice"
    assert float(carried[1][2]) / float(carried[0][2]) == pytest.approx(4, rel=0.02)


class Refusing(KDE):
    """A rival that has been measured and must not be fitted again."""

    def fit(self, context: Any, weights: Any = None) -> Any:
        pytest.fail("measured again")


def test_what_is_no_network_is_not_adapted(load: Load) -> None:
    with pytest.raises(SystemExit, match="steps are taken by a network"):
        load("adaptation").main(["--quick", "--model", "kde-scott"])


def test_a_rival_far_behind_is_not_measured_on_the_largest_samples(
    tmp_path: Path,
    load: Load,
    replace_rival: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    gmm = load("gmm")
    for name in PEERS:
        replace_rival(name, lambda: GaussianMixtureBIC(components=[1]))
    replace_rival("kde-loo", lambda: KDE(bandwidth=1e-3))  # a score of zero at every point
    monkeypatch.setattr(gmm, "LARGE", 256)
    run = Session(tmp_path, 1)  # one data set, of one component
    run.ours = Contestant("ours", "ours@12ab", KDE())
    gmm.against_rivals(run, "rotated", (2,), (64, 128, 256))
    assert "\n-: not measured" in capsys.readouterr().out
    with (tmp_path / "gmm_rotated.csv").open(newline="") as file:
        cells = {line["n"]: line for line in csv.DictReader(file)}
    assert "-" not in cells["64"].values() and "-" not in cells["128"].values()
    assert [cells["256"][name] == "-" for name in PEERS] == [name == "kde-loo" for name in PEERS]
    frame = run.peers.rows().frame
    measured = set(zip(frame["n"], frame["method"], strict=True))
    assert measured == {(n, name) for n in ("64", "128", "256") for name in PEERS} - {("256", "kde-loo")}
    run.measure(gmm_problem("rotated", 2, 256), ["kde-loo"])  # for another table
    gmm.against_rivals(run, "rotated", (2,), (64, 128, 256))
    assert "not measured" not in capsys.readouterr().out


def test_the_best_of_all_rivals_stands_beside_the_best_of_the_bar(
    tmp_path: Path, load: Load, monkeypatch: pytest.MonkeyPatch
) -> None:
    families = load("families")
    monkeypatch.setattr(families, "FAMILIES", {"ring": families.FAMILIES["ring"]})
    run = Session(tmp_path, 2, first=3)
    run.ours = Contestant("ours", "ours@12ab", KDE())
    errors = {name: 5.0 - place for place, name in enumerate(PEERS)} | {"ours@12ab": 1.5}
    for name, error in errors.items():
        for index in (3, 4):
            key = ("ring", 2, 64, seed_of(index), name)
            values = dict.fromkeys(ERRORS, 10.0) | {"score_error": error}
            (run.peers if name in PEERS else run.models).add(key, values)
    families.table(run, (64,))
    with (tmp_path / "families_from_3.csv").open(newline="") as file:
        (line,) = csv.DictReader(file)
    assert (line["best rival"], line["ratio"], line["bar"]) == ("gmm-diag", "0.750", "met")
    assert (line["best peer"], line["ratio to best peer"]) == ("bayes-gmm", "1.500")


@pytest.mark.parametrize("script", ["families", "attention", "adaptation"])
def test_later_data_sets_get_a_table_of_their_own(
    script: str,
    tmp_path: Path,
    model_path: Path,
    load: Load,
    replace_rival: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in PEERS:
        replace_rival(name, KDE)
    module = load(script)
    if script != "attention":
        monkeypatch.setattr(module, "FAMILIES", {"ring": load("families").FAMILIES["ring"]})
    arguments = ["--quick", "--model", str(model_path), "--out", str(tmp_path), "--datasets", "2"]
    arguments += ["--dims", "2"] if script == "attention" else []
    for first in ("0", "3"):
        module.main([*arguments, "--first", first])
    usual, later = ((tmp_path / f"{script}{end}.csv").read_text().splitlines()[1:] for end in ("", "_from_3"))
    assert len(usual) == len(later)
    assert not set(usual) & set(later)


def test_laws_hold_for_a_whitening_mixture(
    tmp_path: Path, model_path: Path, load: Load, capsys: pytest.CaptureFixture[str]
) -> None:
    models = ["--model", str(model_path), "--exact", str(model_path)]
    assert load("laws").main(["--quick", "--out", str(tmp_path), *models]) == 0
    assert "MISSED" not in capsys.readouterr().out


@pytest.mark.parametrize("script", ["kde", "coulomb"])
def test_tables_without_a_model_have_the_committed_columns(script: str, tmp_path: Path, load: Load) -> None:
    module = load(script)
    module.main(["--quick", "--out", str(tmp_path), "--repeats", "1"])
    committed = Path(module.__file__).parent / "results" / f"{script}.csv"
    headers = [path.read_text().splitlines()[0] for path in (tmp_path / f"{script}.csv", committed)]
    assert headers[0] == headers[1]
