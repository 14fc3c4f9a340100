"""The tables and figures: each runs, goes on where it stopped, and says the same twice."""

import csv
import platform
import re
from collections.abc import Iterator
from pathlib import Path
from time import monotonic

import numpy as np
import pytest
import torch
from discoformer_paper.contestants import Networks, fingerprint
from discoformer_paper.dimension_100 import DENSITY_ORACLE, ORACLE
from discoformer_paper.ledger import Ledger, Rows
from discoformer_paper.page import page_of, page_path
from discoformer_paper.provenance import minutes_ledger, record_minutes
from discoformer_paper.summary import OURS, number

from discoformer.baselines.gmm import GaussianMixtureBIC
from discoformer.cli import main
from discoformer.evaluation.held_out import PEERS
from discoformer.methods import _load, resolve
from discoformer.models import registry
from discoformer.models.registry import Card, build_network, save_model
from discoformer_paper import (
    NAMES,
    contestants,
    find,
    provenance,
)
from discoformer_paper.harness import open_folder

ROOT = Path(__file__).parent.parent
OUR_NAME = "whiten"  # of the file behind the fixture model_path
PICTURES = ("attention_kde", "attention_heads", "quiver", "relative_fisher", "sdkde_overview", "runtime")


@pytest.fixture(autouse=True)
def fast_rivals(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("gmm-full", "gmm-diag"):
        monkeypatch.setitem(PEERS, name, lambda: GaussianMixtureBIC(components=[1, 2]))


@pytest.fixture
def own_registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A package without weights, to be filled."""
    monkeypatch.setattr(registry, "_weights_folder", lambda: tmp_path / "weights")
    registry._registry.cache_clear()
    _load.cache_clear()  # networks of the same name
    yield
    registry._registry.cache_clear()
    _load.cache_clear()


def save_attention(path: Path, dim: int, seed: int) -> Path:
    core = {"kind": "attention", "dim": dim, "layers": 1, "width": 8, "heads": 2, "feedforward": 8}
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        save_model(build_network(core, "whiten"), Card(core, "whiten", dims=(dim, dim)), path)
    return path


def reproduce(*arguments: object) -> int:
    return main(["reproduce", *map(str, arguments)])


@pytest.mark.parametrize("name", NAMES)
def test_runs_and_goes_on_where_it_stopped(
    name: str,
    tmp_path: Path,
    model_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    out = tmp_path / "results"
    arguments = (name, "--quick", "--model", model_path, "--out", out)
    assert reproduce(*arguments) == 0
    experiment = find(name)
    rows = experiment.ledger(out).rows()
    assert OUR_NAME in rows.entries("method")
    assert (out / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    assert not (out / f"{name}.unfinished").exists()
    assert f"({experiment.source})" in capsys.readouterr().out
    assert f"`{name}`" in (tmp_path / "results.md").read_text(encoding="utf-8")

    (kept,) = minutes_ledger(out).rows()
    assert kept.key["experiment"] == name
    assert kept.values["rows"] == len(rows) and kept.values["workers"] == 1
    assert " min, on 1 process.\n" in (tmp_path / "results.md").read_text(encoding="utf-8")

    measured = (out / f"{name}.csv").read_text()
    monkeypatch.setattr(Ledger, "add", lambda *_: pytest.fail("measured again"))
    assert reproduce(*arguments) == 0
    assert f"{name}: 0 measured, {len(rows)} were there" in capsys.readouterr().out
    assert (out / f"{name}.csv").read_text() == measured

    assert page_of(out) == page_of(out) == (tmp_path / "results.md").read_text(encoding="utf-8")
    summary = experiment.summary(rows, OUR_NAME)
    assert any(not np.isnan(line.found.get(OURS, np.nan)) for line in summary.lines)

    for keep in (*({method} for method in rows.entries("method")), set(rows.entries("method")) - {OUR_NAME}):
        part = Rows(row for row in rows if row.key["method"].partition("@")[0] in keep)
        told = experiment.summary(part, OUR_NAME)
        told.table(OUR_NAME)
        told.worse(OUR_NAME)
        judged = [claim.evidence for claim in told.claims if claim.holds is not None]
        assert not any("–" in evidence for evidence in judged), "what was not measured is open"


def test_an_interrupted_run_goes_on(
    tmp_path: Path, model_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = ("score_vs_n", "--quick", "--model", model_path, "--out", tmp_path / "results")
    add, count = Ledger.add, 0

    def interrupted(self: Ledger, key: tuple[object, ...], values: dict[str, float]) -> dict[str, float]:
        nonlocal count
        count += 1
        if count > 5:
            raise KeyboardInterrupt
        return add(self, key, values)

    monkeypatch.setattr(Ledger, "add", interrupted)
    assert reproduce(*arguments) == 130
    kept = (tmp_path / "results/score_vs_n.csv").read_text()
    assert len(kept.splitlines()) == 1 + 5
    monkeypatch.setattr(Ledger, "add", add)
    assert reproduce(*arguments) == 0
    assert (tmp_path / "results/score_vs_n.csv").read_text().startswith(kept)
    assert not len(minutes_ledger(tmp_path / "results")), "only the time of a whole run is kept"


def test_minutes_are_those_of_the_last_whole_run_of_these_rows(tmp_path: Path, model_path: Path) -> None:
    out = tmp_path / "results"
    arguments = ("quiver", "--quick", "--model", model_path, "--out", out)
    reproduce(*arguments, "--seeds", 3)
    record_minutes(out, "quiver", {"rows": 1, "workers": 7, "minutes": 9.5}, "abc")
    assert "9.5 min" not in page_of(out), "the time of other rows"
    count = len(find("quiver").ledger(out))
    record_minutes(out, "quiver", {"rows": count, "workers": 7, "minutes": 9.5}, "abc")
    assert "9.5 min" not in page_of(out), "the time of another run"
    record_minutes(out, "quiver", {"rows": 1, "workers": 7, "minutes": 9.5}, "abc")
    reproduce(*arguments, "--seeds", 4)
    assert minutes_ledger(out).get("quiver") == {"rows": 1, "workers": 7, "minutes": 9.5}, "no whole run"
    (out / "quiver.csv").unlink()
    reproduce(*arguments)
    (kept,) = minutes_ledger(out).rows()
    assert kept.values["workers"] == 1 and f"all in {number(kept.values['minutes'])} min" in page_of(out)


def test_a_job_of_several_rows_fills_in_the_one_that_is_missing(tmp_path: Path, model_path: Path) -> None:
    out = tmp_path / "results"
    arguments = ("heavy_tails", "--quick", "--model", model_path, "--out", out)
    reproduce(*arguments)
    path = out / "heavy_tails.csv"
    rows = list(csv.DictReader(path.read_text().splitlines()))
    lines = path.read_text().splitlines(keepends=True)
    (gone, *_) = (i for i, row in enumerate(rows, 1) if row["steps"] == "2")
    path.write_text("".join(lines[:gone] + lines[gone + 1 :]))
    reproduce(*arguments)
    times = ("seconds", "run")
    again = list(csv.DictReader(path.read_text().splitlines()))
    assert [{k: v for k, v in row.items() if k not in times} for row in again] == [
        {k: v for k, v in row.items() if k not in times} for row in rows
    ]
    kept = [i for i in range(len(rows)) if i != gone - 1]
    assert [again[i]["seconds"] for i in kept] == [rows[i]["seconds"] for i in kept]


def test_new_weights_are_measured_again_and_rivals_are_kept(
    tmp_path: Path, model_path: Path, axis_path: Path
) -> None:
    network = tmp_path / "mine.safetensors"
    out = tmp_path / "results"
    lines = []
    for weights in (model_path, axis_path):
        network.write_bytes(weights.read_bytes())
        assert reproduce("whitening", "--quick", "--model", network, "--out", out) == 0
        with (out / "whitening.csv").open(newline="") as file:
            lines.append(list(csv.DictReader(file)))
    first, second = ({line["method"] for line in found} for found in lines)
    assert len(first) == len(second)
    assert {name.split("@")[0] for name in first} == {name.split("@")[0] for name in second}
    assert len(first & second) == len(first) - 1, "only ours has changed"
    kept = [line for line in lines[0] if "@" not in line["method"]]
    assert [line for line in lines[1] if "@" not in line["method"]] == kept, "times and runs included"


def test_missing_networks_are_left_out_with_one_line(
    own_registry: None, tmp_path: Path, model_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ("large_n", "heavy_tails", "--quick", "--model", model_path, "--out", tmp_path / "results")
    assert reproduce(*arguments) == 0
    errors = capsys.readouterr().err.splitlines()
    assert sorted(errors) == [
        f"without {name}: its weights are not in this package"
        for name in ("attention-d10", "attention-d2", "mixture")
    ]
    assert "–" in (tmp_path / "results.md").read_text(encoding="utf-8")


def test_networks_take_part_when_they_appear(own_registry: None, tmp_path: Path, model_path: Path) -> None:
    out = tmp_path / "results"
    for dim in (2, 10):
        registry.register(f"attention-d{dim}", save_attention(tmp_path / "core.safetensors", dim, 0))
    registry.register("mixture", model_path)
    names = ("large_n", "heavy_tails", "equivariance", "landau", *PICTURES)
    assert reproduce(*names, "--quick", "--model", model_path, "--out", out) == 0
    for name in names:
        assert any(m.startswith("attention-d") for m in find(name).ledger(out).rows().entries("method"))
    heavy = find("heavy_tails").ledger(out).rows()
    for method in ("attention-d2", "mixture"):
        before, after = (heavy.where(method=method, steps=steps).mean("score_mse") for steps in (0, 2))
        assert before != after, "test-time training moves the weights"
    heads = find("attention_heads").ledger(out).rows().where(method="attention-d2")
    assert heads.entries("head") == ["mean", "0", "1"]
    turned = find("equivariance").ledger(out).rows().where(map="rotation")
    for method in ("attention-d2", OUR_NAME):
        assert len(turned.where(method=method)) == find("equivariance").quick_seeds, "equally many trials"
    claim = find("equivariance").summary(find("equivariance").ledger(out).rows(), OUR_NAME).claims[0]
    assert claim.whose == "paper" and claim.holds


def test_every_table_and_figure_of_the_paper_has_an_experiment() -> None:
    found: dict[str, set[int]] = {"Table": set(), "Figure": set()}
    for name in NAMES:
        for kind, numbers in re.findall(r"(Table|Figure)s? (\d+(?: and \d+)?)", find(name).source):
            found[kind] |= set(map(int, numbers.split(" and ")))
    assert found == {"Table": set(range(1, 7)), "Figure": set(range(1, 16))}


def test_quick_and_full_results_are_never_in_one_folder(
    tmp_path: Path, model_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "results"
    arguments = ("whitening", "--model", model_path, "--out", out)
    assert reproduce(*arguments, "--quick") == 0
    assert "no results" in (tmp_path / "results.md").read_text(encoding="utf-8")
    files = {path: path.read_bytes() for path in tmp_path.rglob("*.*")}
    assert reproduce(*arguments) == 2
    assert "holds results of --quick: remove it" in capsys.readouterr().err
    runs = out / provenance.RUNS
    runs.write_text(runs.read_text().replace("quick", "full"))
    files[runs] = runs.read_bytes()
    assert reproduce(*arguments, "--quick") == 2
    assert "holds results of full size: give --quick another --out" in capsys.readouterr().err
    assert {path: path.read_bytes() for path in tmp_path.rglob("*.*")} == files
    assert reproduce("results", "--out", out) == 0
    assert "no results" not in (tmp_path / "results.md").read_text(encoding="utf-8")


def test_the_committed_page_is_that_of_the_committed_files() -> None:
    folder = ROOT / "docs" / "results"
    assert page_path(folder).read_text(encoding="utf-8") == page_of(folder)
    runs = provenance.read_runs(folder)
    used = {run for name in NAMES for run in find(name).ledger(folder).runs()}
    assert used | set(minutes_ledger(folder).runs()) == set(runs), "runs without lines, or lines without runs"


def test_numbers_read_off_a_figure_are_marked(tmp_path: Path, model_path: Path) -> None:
    out = tmp_path / "results"
    assert reproduce("quiver", "whitening", "--quick", "--model", model_path, "--out", out) == 0
    page = (tmp_path / "results.md").read_text(encoding="utf-8")
    assert "| ≈0.0077 | ≈0.153 |" in page and "| 0.107 |" in page
    assert "≈–" not in page


def test_page_only(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "results").mkdir()
    assert reproduce("results", "--out", tmp_path / "results") == 0
    page = (tmp_path / "results.md").read_text(encoding="utf-8")
    assert page.count("not run yet") == len(NAMES)
    assert "| :-- | :-- | --: | :-- | --: | --: |\n" in page, "columns of text are aligned to the left"
    assert page.index("## Not measured") > page.index(f"`{NAMES[-1]}`")
    assert "/" not in page.replace("`results/`", ""), "no path of this machine"


def test_list_writes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert reproduce("--list") == 0
    assert all(name in capsys.readouterr().out for name in NAMES[:1])
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["no_such_table"], "no experiment 'no_such_table': choose one of attention_kde"),
        ([], "nothing to do"),
        (["large_n", "--seeds", "0"], "--seeds 0: give at least 1"),
        (["large_n", "--workers", "0"], "--workers 0: give at least 1"),
        (["large_n", "--quick", "--model", "no such model"], "no model 'no such model'"),
    ],
)
def test_errors_are_one_line(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert reproduce(*arguments) == 2
    assert message in capsys.readouterr().err


def test_default_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with open_folder(None, quick=False) as folder:
        assert folder == Path("results")
    (tmp_path / "docs" / "results").mkdir(parents=True)
    with open_folder(None, quick=False) as folder:
        assert folder == Path("docs/results")
    with open_folder(None, quick=True) as folder:
        temporary = folder.parent
        assert temporary.exists() and tmp_path not in folder.parents
    assert not temporary.exists()


def test_provenance_names_no_host_and_no_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = provenance.machine()
    assert torch.__version__ in said and "/" not in said and platform.node() not in said.split()
    name = provenance.record_run(tmp_path, quick=True)
    assert provenance.record_run(tmp_path, quick=True) == name
    assert provenance.read_runs(tmp_path) == {name: (provenance.commit(), said, "quick")}
    monkeypatch.setattr(provenance, "_PACKAGE", tmp_path)
    assert provenance.commit().startswith("discoformer "), "not in a checkout of this project"


def test_fingerprints_tell_weights_apart_in_every_dimension(tmp_path: Path) -> None:
    paths = [save_attention(tmp_path / f"{seed}.safetensors", 3, seed) for seed in (0, 1)]
    first, second = (fingerprint(resolve(str(path)).method) for path in paths)
    assert first != second


def test_single_precision_has_the_same_identity(own_registry: None, tmp_path: Path, model_path: Path) -> None:
    registry.register("attention-d2", save_attention(tmp_path / "core.safetensors", 2, 0))
    networks = Networks(str(model_path))
    single, double = networks.core(2), networks.shipped("attention-d2")
    assert single is not None and double is not None
    assert single.identity == double.identity
    assert single.method.dtype == torch.float32 and double.method.dtype == torch.float64
    assert [found.label for found in networks.for_dim(2, contestants.CORE_SIZE + 1)] == [OUR_NAME]


def test_the_oracle_bandwidth_is_not_worse_than_scotts(tmp_path: Path, model_path: Path) -> None:
    assert reproduce("dimension_100", "--quick", "--model", model_path, "--out", tmp_path / "results") == 0
    rows = find("dimension_100").ledger(tmp_path / "results").rows()
    for oracle, value in ((ORACLE, "score_mse"), (DENSITY_ORACLE, "log_density_mse")):
        best, scott, other = (
            rows.where(method=method).values(value)
            for method in (oracle, "kde-scott", ORACLE if oracle == DENSITY_ORACLE else DENSITY_ORACLE)
        )
        assert (best <= scott + 1e-12).all() and (best <= other + 1e-12).all()


def test_everything_quick_with_the_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()  # the rivals as they are
    monkeypatch.chdir(tmp_path)
    start = monotonic()
    assert reproduce("all", "--quick") == 0
    assert monotonic() - start < 300
    assert not list(tmp_path.iterdir())
