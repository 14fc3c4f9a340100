"""Shared fixtures: models that are small, random and on disk; trained weights are for test_shipped."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from browsing import Browser, start_browser

from discoformer.data.files import Table, write_table
from discoformer.models import registry
from discoformer.models.mixture import unified
from discoformer.models.registry import Card, build_network, save_model
from discoformer.scale import ranks, source

CORE = {"kind": "unified", "layers": 2, "width": 16, "heads": 2, "slots": 8}


def save_random(folder: Path, seed: int) -> Path:
    """A mixture network whose decisions are random, so that every path of its arithmetic matters."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        network = build_network(CORE, "whiten")
        for layer in network.core.layers:
            torch.nn.init.normal_(layer.decide.weight, std=0.3)
    path = folder / f"whiten-{seed}.safetensors"
    save_model(network, Card(CORE, "whiten", dims=(1, 64), sizes=(2, 10_000), record={"seed": seed}), path)
    return path


@pytest.fixture(scope="session")
def model_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Weights of a small random mixture network."""
    return save_random(tmp_path_factory.mktemp("weights"), 0)


@pytest.fixture(scope="session")
def other_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Weights of another one."""
    return save_random(tmp_path_factory.mktemp("weights"), 1)


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Streams of a few thousand rows come in many chunks."""
    monkeypatch.setattr(source, "CHUNK", 8 * 3 * 700)
    monkeypatch.setattr(ranks, "_FEW", 300)


@pytest.fixture
def many(monkeypatch: pytest.MonkeyPatch) -> None:
    """Samples of a few thousand rows are large: a part of them decides."""
    monkeypatch.setattr(unified.UnifiedCore, "deciding", 250)


@pytest.fixture
def two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def own_registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty registry in place of the shipped one."""
    monkeypatch.setattr(registry, "_weights_folder", lambda: tmp_path / "weights")
    monkeypatch.setattr(registry, "_further_folders", list)
    registry._registry.cache_clear()
    yield tmp_path / "weights"
    registry._registry.cache_clear()


@pytest.fixture
def data() -> Table:
    """A table of two columns."""
    return Table(np.random.default_rng(0).normal(size=(40, 2)) * [1.0, 100.0], ("a", "b"))


@pytest.fixture
def csv(data: Table, tmp_path: Path) -> Path:
    """The same as a file."""
    write_table(data, tmp_path / "data.csv")
    return tmp_path / "data.csv"


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """A real browser, for pages."""
    with start_browser(tmp_path_factory.mktemp("pages")) as browser:
        yield browser
