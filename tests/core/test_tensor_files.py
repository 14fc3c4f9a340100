"""Weights, checkpoints and pickles vouch for themselves: damage is found, and said in one line."""

import json
import pickle
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from discoformer import DataError, DiScoFormer
from discoformer.core.atomic_files import locked
from discoformer.core.tensor_files import read_metadata, read_tensors, write_tensors
from discoformer.methods import resolve
from discoformer.models import registry
from discoformer.models.registry import Card, build_network, load_model, save_model
from discoformer.training.checkpoint import load_checkpoint, save_checkpoint
from discoformer.training.config import Recipe
from discoformer.training.loop import Trainer

CORE = {"kind": "attention", "dim": 2, "layers": 1, "width": 8, "heads": 2, "feedforward": 8}


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    save_model(build_network(CORE, "whiten"), Card(CORE, "whiten"), tmp_path / "w.safetensors")
    return tmp_path / "w.safetensors"


def test_a_single_flipped_bit_is_found(weights: Path) -> None:
    """Every bit of a number counts, also one that leaves a finite number."""
    load_model(weights)
    data = bytearray(weights.read_bytes())
    for place in range(len(data) - 400, len(data), 37):
        data[place] ^= 1
        weights.write_bytes(bytes(data))
        with pytest.raises(DataError, match="do not match their checksum"):
            load_model(weights)
        data[place] ^= 1


def test_a_flipped_bit_in_the_card_is_found(weights: Path) -> None:
    """The card decides answers, too: another number of loops is another network."""
    data = weights.read_bytes()
    card = json.dumps(read_metadata(weights)["card"]).encode()
    start = data.index(card)
    for place in range(start, start + len(card), 7):
        weights.write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
        with pytest.raises(DataError, match="damaged|was not written by"):
            load_model(weights)


def test_files_without_a_checksum_are_still_read(weights: Path) -> None:
    metadata = {key: text for key, text in read_metadata(weights).items() if "sha256" not in key}
    save_file(load_file(weights), weights, metadata=metadata)
    load_model(weights)


def test_numbers_that_are_none_are_neither_written_nor_read(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    write_tensors(path, {"x": torch.ones(3)}, {})
    with pytest.raises(DataError, match="would hold x, which is not made of finite"):
        write_tensors(path, {"x": torch.tensor([1.0, torch.nan])}, {})
    assert read_tensors(path)["x"].tolist() == [1, 1, 1]
    save_file({"x": torch.tensor([torch.inf])}, path)
    with pytest.raises(DataError, match="is damaged: x, which is not made of finite"):
        read_tensors(path)


@pytest.mark.parametrize("change", [{"layers": 10**9}, {"width": 2**40}, {"layers": 1e300}])
def test_sizes_are_checked_before_anything_is_built(change: dict[str, float], weights: Path) -> None:
    card = json.dumps(asdict(Card({**CORE, **change}, "whiten")))
    save_file(load_file(weights), weights, metadata={"format": registry._FORMAT, "card": card})
    with pytest.raises(DataError, match="does not fit its own header"):
        load_model(weights)


@pytest.fixture
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(registry, "_weights_folder", lambda: tmp_path / "weights")
    monkeypatch.setattr(registry, "_further_folders", list)
    registry._registry.cache_clear()
    (tmp_path / "weights").mkdir()
    yield tmp_path / "weights"
    registry._registry.cache_clear()


def test_names_cannot_leave_the_folder(own_folder: Path, weights: Path) -> None:
    with pytest.raises(DataError, match="a name without folders"):
        registry.register("../mine", weights)
    entry = {"file": "../w.safetensors", "sha256": "0"}
    (own_folder / "registry.json").write_text(json.dumps({"mine": entry}))
    registry._registry.cache_clear()
    with pytest.raises(DataError, match="is not in this folder"):
        load_model("mine")


def test_a_missing_file_stops_its_own_model_only(own_folder: Path, weights: Path) -> None:
    registry.register("one", weights)
    save_model(build_network(CORE, "standardize"), Card(CORE, "standardize"), weights)
    registry.register("two", weights)
    next(own_folder.glob("two-*")).unlink()
    assert resolve("one").card is not None
    with pytest.raises(DataError, match="'two' are missing"):
        resolve("two")


@pytest.mark.parametrize("text", ["", "[1]", '{"a": 1}', '{"a": {"file": 1}}', "[" * 10**5, "\x00"])
def test_a_damaged_registry_is_one_line(text: str, own_folder: Path) -> None:
    (own_folder / "registry.json").write_text(text)
    with pytest.raises(DataError, match=r"registry.json: damaged") as caught:
        load_model("mine")
    assert str(caught.value).isprintable()


def test_damaged_checkpoints_are_refused(tmp_path: Path) -> None:
    network, average = build_network(CORE, "whiten"), build_network(CORE, "whiten")
    path = tmp_path / "c.safetensors"
    save_checkpoint(path, network, average, [], {"step": 3})
    assert load_checkpoint(path, network, average, []) == {"step": 3}
    data = bytearray(path.read_bytes())
    data[-5] ^= 1
    path.write_bytes(bytes(data))
    with pytest.raises(DataError, match="do not match their checksum"):
        load_checkpoint(path, network, average, [])
    with torch.no_grad():
        next(network.parameters()).fill_(torch.nan)
    with pytest.raises(DataError, match="would hold network"):
        save_checkpoint(path, network, average, [], {"step": 4})


def _recipe() -> Recipe:
    return Recipe(
        name="mine",
        core=CORE,
        frame="whiten",
        prior={"name": "gmm"},
        dims=[2],
        sizes=(16, 32),
        tokens=64,
        steps=2,
        report_sizes=[32],
    )


@pytest.mark.parametrize(
    "change",
    [{"step": -5}, {"step": "1"}, {"step": 1.5}, {"seconds": float("nan")}, {"running": [1]}, {"recipe": []}],
)
def test_progress_that_is_none_is_refused(change: dict[str, object], tmp_path: Path) -> None:
    trainer = Trainer(_recipe(), tmp_path, "cpu")
    trainer.save()
    path = tmp_path / "checkpoint.safetensors"
    metadata = read_metadata(path)
    progress = {**json.loads(metadata["progress"]), **change}
    write_tensors(path, read_tensors(path), {"progress": json.dumps(progress)})
    with pytest.raises(DataError, match="is damaged or of another recipe") as caught:
        Trainer(_recipe(), tmp_path, "cpu", resume=True)
    assert str(caught.value).isprintable()


def test_one_run_in_a_folder_at_a_time(tmp_path: Path) -> None:
    trainer = Trainer(_recipe(), tmp_path, "cpu")
    with locked(tmp_path / "lock"), pytest.raises(DataError, match="in use by another process"):
        trainer.run()
    assert trainer.step == 0


def test_a_lock_follows_no_link_and_speaks_for_itself_only(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "folder").mkdir()
    for name in ("link", "folder", "no/such/folder"):
        with pytest.raises(DataError, match="cannot be written"), locked(tmp_path / name):
            pass
    assert not (tmp_path / "elsewhere").exists()
    with pytest.raises(PermissionError, match="of something else"), locked(tmp_path / "lock"):
        raise PermissionError("of something else")
    with locked(tmp_path / "lock"):
        pass


def test_a_report_that_cannot_be_written_does_not_end_the_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    trainer = Trainer(_recipe(), tmp_path, "cpu")
    monkeypatch.setattr(trainer, "validate", lambda: {})
    (tmp_path / "checkpoint.safetensors").mkdir()  # where a file belongs
    with pytest.raises(DataError, match="a folder, not a file"):
        trainer.run(report_minutes=0)
    assert trainer.step == 2
    assert capsys.readouterr().err.count("no report at step") == 2
    (tmp_path / "checkpoint.safetensors").rmdir()
    trainer.report()
    assert (tmp_path / "checkpoint.safetensors").is_file()


def test_pickles_of_another_format_are_refused() -> None:
    est = DiScoFormer(model="kde-scott").fit(np.random.default_rng(0).normal(size=(30, 2)))
    assert pickle.loads(pickle.dumps(est)).support_.all()
    state = est.__getstate__()
    for other in ({**state, "_format": 99}, {key: state[key] for key in state if key != "_format"}):
        with pytest.raises(DataError, match="or fit it again"):
            DiScoFormer().__setstate__(other)


@pytest.mark.filterwarnings("ignore:X .*feature names")
def test_a_fit_that_fails_leaves_the_estimator_as_it_was() -> None:
    rng = np.random.default_rng(0)
    sample = rng.normal(size=(30, 2))
    est = DiScoFormer(model="kde-scott").fit(sample)
    before = est.score_samples(sample)
    for wrong in (np.full((30, 3), np.nan), np.zeros((30, 3)), torch.zeros(30, 3), "none.npy", [["a"]]):
        with pytest.raises(ValueError):
            est.fit(wrong)
        np.testing.assert_array_equal(est.score_samples(sample), before)
        assert est.n_features_in_ == 2
    new = DiScoFormer(model="kde-scott")
    with pytest.raises(DataError):
        new.fit(np.zeros((30, 3)))
    assert not hasattr(new, "n_features_in_")
