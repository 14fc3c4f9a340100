"""Weights files: round trip, refusals, the registry of what is shipped."""

import hashlib
import json
import math
import os
from dataclasses import asdict, replace
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from discoformer import DiScoFormer
from discoformer.core.checks import DataError
from discoformer.models import registry
from discoformer.models.registry import (
    Card,
    build_network,
    list_models,
    load_model,
    load_network,
    read_card,
    register,
    save_model,
    write_card,
)
from discoformer.priors import GMMPrior

FURTHER_FOLDERS = registry._further_folders  # a fixture puts another in its place
CORE = {"kind": "unified", "layers": 1, "width": 16, "heads": 2, "slots": 4}


def test_round_trip(tmp_path: Path) -> None:
    network = build_network(CORE, "whiten")
    card = Card(CORE, "whiten", {"name": "gmm"}, (1, 4), (64, 256), {"steps": 7})
    path = tmp_path / "w.safetensors"
    save_model(network, card, path)
    found = read_card(path)
    assert found == replace(card, core=found.core) and found.core.items() >= CORE.items()
    assert found.core == {"kind": "unified", **asdict(network.core.config)}  # all that decides is in the card
    loaded = load_network(path)
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
    save_model(build_network(CORE, "whiten"), Card(CORE, "whiten"), path)
    write_card(Card({**CORE, "width": 32}, "whiten"), path)
    with pytest.raises(DataError, match="does not fit its own header: size mismatch"):
        load_model(path)
    for card in ("{", '{"core": {}}', '{"colour": 1, "dims": [1, 2], "sizes": [2, 2]}'):
        save_file({"a": torch.zeros(2)}, path, metadata={"format": registry._FORMAT, "card": card})
        with pytest.raises(DataError, match="damaged card"):
            load_model(path)
    with pytest.raises(DataError, match="no model 'nothing'"):
        load_model("nothing")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"core": [1, 2]}, "core is not a dict"),
        ({"core": None}, "core is not a dict"),
        ({"frame": ["whiten"]}, "frame is not a str"),
        ({"prior": [1]}, "prior is not a dict"),
        ({"record": 3}, "record is not a dict"),
        ({"dims": "ab"}, "ab is not a range"),
        ({"sizes": [64, 2]}, r"\[64, 2\] is not a range"),
        ({"core": {"kind": "unified", "heads": 0}}, "heads = 0 of a mixture core"),
        ({"core": {"kind": "unified", "heads": "4"}}, "heads = '4' of a mixture core"),
        ({"core": {"kind": "unified", "width": -64}}, "width = -64 of a mixture core"),
        ({"core": {**CORE, "slots": 0}}, "slots = 0 of a mixture core"),
        ({"core": {**CORE, "loops": -1}}, "loops = -1 of a mixture core"),
        ({"core": {**CORE, "width": 2**40}}, "core 'unified' cannot be built"),
        ({"core": {**CORE, "width": 10**400}}, "core 'unified' cannot be built"),
        ({"core": {**CORE, "width": 10_000, "layers": 100}}, "does not fit its own header"),
    ],
)
def test_cards_that_describe_no_network_are_refused(
    change: dict[str, object], message: str, tmp_path: Path
) -> None:
    path = tmp_path / "w.safetensors"
    card = {**asdict(Card(CORE, "whiten")), **change}
    save_file({"a": torch.zeros(2)}, path, metadata={"format": registry._FORMAT, "card": json.dumps(card)})
    with pytest.raises(DataError, match=message) as caught:
        load_model(path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("value", [math.nan, math.inf, 1])
def test_weights_that_are_not_finite_floating_numbers_are_refused(value: float, tmp_path: Path) -> None:
    path = tmp_path / "w.safetensors"
    tensors = build_network(CORE, "whiten").core.state_dict()
    tensors["start"] = torch.full((16,), value)
    card = json.dumps(asdict(Card(CORE, "whiten")))
    save_file(tensors, path, metadata={"format": registry._FORMAT, "card": card})
    with pytest.raises(DataError, match="start(, which)? is not made of finite floating numbers"):
        load_model(path)


def test_a_card_is_replaced_and_the_tensors_stay(tmp_path: Path, model_path: Path) -> None:
    path = tmp_path / "w.safetensors"
    path.write_bytes(model_path.read_bytes())
    card = replace(read_card(path), prior=GMMPrior(modes=(1, 4)).describe())
    write_card(card, path)
    assert read_card(path) == card
    before, after = load_file(model_path), load_file(path)
    assert before.keys() == after.keys()
    assert all(torch.equal(before[key], after[key]) for key in before)


class Trap:
    """Unpickling it leaves a file behind."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        return Path.touch, (self.path,)


def test_pickles_are_refused_and_not_opened(tmp_path: Path) -> None:
    path, sprung = tmp_path / "weights.pt", tmp_path / "sprung"
    torch.save({"weights": Trap(sprung)}, path)
    with pytest.raises(DataError, match="not a safetensors file"):
        load_model(path)
    assert not sprung.exists()
    torch.load(path, weights_only=False)
    assert sprung.exists()  # the trap works


def test_unknown_descriptions_are_refused() -> None:
    with pytest.raises(DataError, match="unknown core"):
        build_network({"kind": "magic"}, "whiten")
    with pytest.raises(DataError, match="unknown frame"):
        build_network(CORE, "sideways")
    with pytest.raises(DataError, match="cannot be built"):
        build_network({**CORE, "colour": 1}, "whiten")


def test_registered_weights_load_by_name(own_registry: Path, model_path: Path) -> None:
    register("one", model_path)
    register("two", model_path)
    digest = hashlib.sha256(model_path.read_bytes()).hexdigest()[:8]
    assert sorted(path.name for path in own_registry.iterdir()) == [
        f"one-{digest}.safetensors",
        "registry.json",
        f"two-{digest}.safetensors",
    ]
    x = torch.randn(40, 2, dtype=torch.float64)
    torch.testing.assert_close(load_model("one")(x, x), load_model(model_path)(x, x))


def test_weights_that_changed_or_are_gone_are_refused(own_registry: Path, model_path: Path) -> None:
    register("one", model_path)
    (path,) = own_registry.glob("one-*")
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    with pytest.raises(DataError, match="'one' do not match their checksum"):
        load_model("one")
    path.unlink()
    with pytest.raises(DataError, match="'one' are missing"):
        load_model("one")


def test_readers_never_see_a_registration_half_done(
    own_registry: Path, model_path: Path, other_path: Path
) -> None:
    """At every move of a file, and with a list that was read before, a name has weights that fit."""
    register("one", model_path)
    old = list_models()
    moves = 0
    replace = Path.replace

    def look(self: Path, target: Path) -> Path:
        nonlocal moves
        moved = replace(self, target)
        moves += 1
        load_model("one")  # by the list in memory
        registry._registry.cache_clear()
        load_model("one")  # by the list on disk
        return moved

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Path, "replace", look)
        register("one", other_path)
    assert moves == 2
    assert list_models() != old


def test_registering_keeps_what_another_process_registered(own_registry: Path, model_path: Path) -> None:
    register("one", model_path)
    stale = list_models()
    path = own_registry / "registry.json"
    listed = json.loads(path.read_text())
    path.write_text(json.dumps({**listed, "elsewhere": listed["one"]}))
    assert list_models() == stale
    register("two", model_path)
    assert list(list_models()) == ["elsewhere", "one", "two"]


@pytest.mark.parametrize("broken", ["weights", "list"])
def test_a_registration_that_fails_leaves_what_was_there(
    broken: str, own_registry: Path, model_path: Path, other_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    register("one", model_path)
    if broken == "list":
        monkeypatch.setattr(registry, "_listing", lambda *_: 1 / 0)
        name, problem = "one", ZeroDivisionError
    else:
        digest = hashlib.sha256(other_path.read_bytes()).hexdigest()[:8]
        (own_registry / f"two-{digest}.safetensors").mkdir()  # in the way: cannot be replaced by a file
        name, problem = "two", DataError
    before = {path: path.read_bytes() for path in own_registry.iterdir() if path.is_file()}
    with pytest.raises(problem):
        register(name, other_path)
    assert {path: path.read_bytes() for path in own_registry.iterdir() if path.is_file()} == before
    registry._registry.cache_clear()
    assert list(list_models()) == ["one"]
    load_model("one")


def test_the_package_holds_the_listed_weights_and_no_others() -> None:
    for folder in (registry._weights_folder(), *registry._further_folders()):
        listed = {entry["file"] for entry in registry._read_list(folder).values() if "file" in entry}
        assert {path.name for path in folder.glob("*.safetensors")} == listed


def test_other_distributions_add_weights_and_cannot_replace_ours(
    own_registry: Path, model_path: Path, other_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, theirs = tmp_path / "weights", tmp_path / "theirs"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(registry, "_weights_folder", lambda: theirs)
        register("one", other_path)
        register("two", other_path)
    register("one", model_path)
    with pytest.raises(DataError, match="no model 'two': choose one of one"):
        load_model("two")
    monkeypatch.setattr(registry, "_further_folders", lambda: [theirs])
    registry._registry.cache_clear()
    assert {name: card.record for name, card in list_models().items()} == {
        "one": read_card(model_path).record,
        "two": read_card(other_path).record,
    }
    load_model("two")
    register("three", model_path)
    assert set(json.loads((ours / "registry.json").read_text())) == {"one", "three"}, "only our own"


@pytest.mark.parametrize("value", ["math:no_such_name", "no_such_package:FOLDER", "math:pi"])
def test_a_broken_distribution_does_not_stop_ours(
    value: str, own_registry: Path, model_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    register("one", model_path)
    entry = EntryPoint("theirs", value, "discoformer.weights")
    monkeypatch.setattr(registry, "_further_folders", FURTHER_FOLDERS)
    monkeypatch.setattr(registry, "entry_points", lambda group: [entry])
    registry._registry.cache_clear()
    with pytest.warns(UserWarning, match=f"weights of '{value}' are left out"):
        load_model("one")


@pytest.mark.parametrize("name", ["x" * 5000, "x\0y"])
def test_names_that_no_file_can_have_are_not_there(name: str) -> None:
    with pytest.raises(DataError, match="no model 'x"):
        load_model(name)
    with pytest.raises(DataError, match="no model 'x"):
        DiScoFormer(model=name).fit(torch.randn(9, 1))


@pytest.mark.parametrize("file", ["", "..", "x" * 5000])
def test_listed_files_are_files_of_the_folder(file: str, own_registry: Path, model_path: Path) -> None:
    register("one", model_path)
    listing = own_registry / "registry.json"
    listing.write_text(json.dumps({"one": {"file": file, "sha256": "0"}}))
    registry._registry.cache_clear()
    with pytest.raises(DataError, match="is not in this folder|are missing"):
        load_model("one")


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(DataError, match="a folder, a device or a pipe"):
        load_model(tmp_path / "pipe")


def test_every_shipped_model_loads_and_matches_its_checksum() -> None:
    for name in list_models():
        network = load_model(name)
        core = list_models()[name].core
        dim = core.get("dim", 2)
        x = torch.randn(64, dim, dtype=torch.float64)
        log_density, score = network(x, x)
        assert bool(torch.isfinite(log_density).all())
        assert bool(torch.isfinite(score).all())


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.int64, "float32"])
def test_types_that_cannot_be_computed_in_are_refused_at_load(dtype: torch.dtype) -> None:
    with pytest.raises(DataError, match="give torch.float32 or torch.float64"):
        load_model("default", dtype)
