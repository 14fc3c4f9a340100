"""Weights files: round trip, refusals, the registry of what is shipped."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from discoformer.checks import DataError
from discoformer.models import registry
from discoformer.models.registry import (
    Card,
    build_network,
    list_models,
    load_model,
    read_card,
    register,
    register_stack,
    save_model,
)

CORE = {"kind": "mixture", "layers": 1, "width": 16, "heads": 2, "slots": 4}


def test_round_trip(tmp_path: Path) -> None:
    network = build_network(CORE, "whiten")
    card = Card(CORE, "whiten", {"name": "gmm"}, (1, 4), (64, 256), {"steps": 7})
    path = tmp_path / "w.safetensors"
    save_model(network, card, path)
    assert read_card(path) == card
    loaded = load_model(path)
    x = torch.randn(50, 2, dtype=torch.float64)
    torch.testing.assert_close(loaded(x, x), network.double()(x, x))
    assert not any(p.requires_grad for p in loaded.parameters())
    assert load_model(path, dtype=torch.float32).dtype == torch.float32


def test_damaged_and_foreign_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "w.safetensors"
    save_model(build_network(CORE, "whiten"), Card(CORE, "whiten"), path)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DataError, match="damaged"):
        load_model(path)
    path.write_bytes(b"not weights at all")
    with pytest.raises(DataError, match="not a safetensors file"):
        load_model(path)
    save_file({"a": torch.zeros(2)}, path)
    with pytest.raises(DataError, match="not written by discoformer"):
        load_model(path)
    save_model(build_network(CORE, "whiten"), Card({**CORE, "width": 32}, "whiten"), path)
    with pytest.raises(DataError, match="does not fit its own header"):
        load_model(path)
    with pytest.raises(DataError, match="no model 'nothing'"):
        load_model("nothing")


def test_unknown_descriptions_are_refused() -> None:
    with pytest.raises(DataError, match="unknown core"):
        build_network({"kind": "magic"}, "whiten")
    with pytest.raises(DataError, match="unknown frame"):
        build_network(CORE, "sideways")
    with pytest.raises(DataError, match="cannot be built"):
        build_network({**CORE, "colour": 1}, "whiten")


@pytest.fixture
def own_registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty registry in place of the shipped one."""
    monkeypatch.setattr(registry, "_weights_folder", lambda: tmp_path / "weights")
    registry._registry.cache_clear()
    yield tmp_path / "weights"
    registry._registry.cache_clear()


def test_registered_weights_and_stacks_load_by_name(own_registry: Path, model_path: Path) -> None:
    register("one", model_path)
    register("two", model_path)
    register_stack("both", ["one", "two"])
    assert sorted(path.name for path in own_registry.iterdir()) == [
        "one.safetensors",
        "registry.json",
        "two.safetensors",
    ]
    x = torch.randn(40, 2, dtype=torch.float64)
    torch.testing.assert_close(load_model("one")(x, x), load_model(model_path)(x, x))
    assert len(load_model("both").members) == 2  # type: ignore[union-attr]
    assert list_models()["both"].core == {"kind": "stack", "members": ["one", "two"]}
    with pytest.raises(DataError, match="not shipped: three"):
        register_stack("more", ["one", "three"])


@pytest.mark.parametrize("broken", ["weights", "list"])
def test_a_registration_that_fails_leaves_what_was_there(
    broken: str, own_registry: Path, model_path: Path, axis_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    register("one", model_path)
    if broken == "list":
        monkeypatch.setattr(registry, "_listing", lambda *_: 1 / 0)
        name, problem = "one", ZeroDivisionError
    else:
        (own_registry / "two.safetensors").mkdir()  # in the way: cannot be replaced by a file
        name, problem = "two", DataError
    before = {path: path.read_bytes() for path in own_registry.iterdir() if path.is_file()}
    with pytest.raises(problem):
        register(name, axis_path)
    assert {path: path.read_bytes() for path in own_registry.iterdir() if path.is_file()} == before
    registry._registry.cache_clear()
    assert list(list_models()) == ["one"]
    load_model("one")


def test_every_shipped_model_loads_and_matches_its_checksum() -> None:
    for name in list_models():
        network = load_model(name)
        core = list_models()[name].core
        dim = core.get("dim", 2)
        x = torch.randn(64, dim, dtype=torch.float64)
        log_density, score = network(x, x)
        assert log_density is not None
        assert bool(torch.isfinite(log_density).all())
        assert bool(torch.isfinite(score).all())
