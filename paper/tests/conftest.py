"""What the tests share: small random networks on disk, rivals that are fast, and short ways to ask."""

import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch

from discoformer.baselines.gmm import GaussianMixtureBIC
from discoformer.cli import main
from discoformer.core.fields import Method
from discoformer.methods import METHODS, PEERS, _load
from discoformer.models import registry
from discoformer.models.registry import Card, build_network, save_model
from discoformer_paper.harness.ledger import Rows
from discoformer_paper.harness.problems import seed_of
from discoformer_paper.harness.summary import Summary

HOLDS = {"shown": True, "not shown": False, "undecided": None, "not tested": None}
BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
MIXTURE = {"kind": "unified", "layers": 2, "width": 16, "heads": 2, "slots": 8}


def save_mixture(folder: Path, name: str, seed: int) -> Path:
    """A mixture network whose decisions are random, so that every path of its arithmetic matters."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        network = build_network(MIXTURE, "whiten")
        for layer in network.core.layers:
            torch.nn.init.normal_(layer.decide.weight, std=0.3)
    path = folder / f"{name}.safetensors"
    save_model(network, Card(MIXTURE, "whiten", dims=(1, 64), sizes=(2, 10_000)), path)
    return path


@pytest.fixture(scope="session")
def model_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Weights of a small random mixture network; its name is "whiten"."""
    return save_mixture(tmp_path_factory.mktemp("weights"), "whiten", 0)


@pytest.fixture(scope="session")
def other_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Weights of another one."""
    return save_mixture(tmp_path_factory.mktemp("weights"), "other", 1)


@pytest.fixture
def save_attention(tmp_path: Path) -> Callable[[int, int], Path]:
    """Save a small random Transformer of some dimension, by a seed."""

    def save(dim: int, seed: int) -> Path:
        core = {"kind": "attention", "dim": dim, "layers": 1, "width": 8, "heads": 2, "feedforward": 8}
        path = tmp_path / f"attention-{dim}-{seed}.safetensors"
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            save_model(build_network(core, "whiten"), Card(core, "whiten", dims=(dim, dim)), path)
        return path

    return save


@pytest.fixture
def own_registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An installation without weights, to be filled."""
    monkeypatch.setattr(registry, "_weights_folder", lambda: tmp_path / "weights")
    monkeypatch.setattr(registry, "_further_folders", list)
    registry._registry.cache_clear()
    _load.cache_clear()  # networks of the same name
    yield
    registry._registry.cache_clear()
    _load.cache_clear()


@pytest.fixture
def replace_rival(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, Callable[[], Method]], None]:
    """Put another method behind the name of a rival."""

    def replace(name: str, make: Callable[[], Method]) -> None:
        monkeypatch.setitem(METHODS, name, METHODS[name]._replace(make=make))

    return replace


@pytest.fixture
def fast_rivals(replace_rival: Callable[[str, Callable[[], Method]], None]) -> None:
    """Mixtures that search for one or two components only; kernels and Bayesian mixtures by Scott's rule."""
    scott = METHODS["kde-scott"].make
    for name in PEERS:
        mixture = name in ("gmm-full", "gmm-diag")
        replace_rival(name, (lambda: GaussianMixtureBIC(components=[1, 2])) if mixture else scott)


@pytest.fixture
def reproduce() -> Callable[..., int]:
    """`discoformer reproduce` with these arguments; returns its exit code."""
    return lambda *arguments: main(["reproduce", *map(str, arguments)])


@pytest.fixture
def verdicts() -> Callable[..., list[bool | None]]:
    """Verdicts on the paper's claims that have all of these words."""

    def find(summary: Summary, *words: str) -> list[bool | None]:
        claims = [claim for claim in summary.claims if claim.whose == "paper"]
        return [HOLDS[claim.verdict] for claim in claims if all(word in claim.text for word in words)]

    return find


@pytest.fixture
def error_rows() -> Callable[..., Rows]:
    """Rows of one data set for each setting, d, n and method: a sum of squared errors over a sum of one."""

    def make(errors: dict[tuple[str, int, int, str], float], **more: str) -> Rows:
        return Rows(
            {"setting": setting, "d": str(d), "n": str(n), "seed": str(seed_of(4)), "method": method, **more}
            | dict.fromkeys(("score_error", "score_mse", "log_density_mse"), error)
            | {"score_square": 1.0}
            for (setting, d, n, method), error in errors.items()
        )

    return make


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Any]]:
    """Import a benchmark: a script that imports others by name.  All leave again after the test."""
    before = set(sys.modules)
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    yield import_module
    for name in set(sys.modules) - before:
        if str(BENCHMARKS) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]
