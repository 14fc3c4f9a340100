"""The registry of methods: names, paths, and the range a network was trained for."""

import os
from pathlib import Path

import numpy as np
import pytest

from discoformer import DataError, DiScoFormer, RangeWarning, estimate
from discoformer.cli import main
from discoformer.core.fields import as_point_density
from discoformer.methods import METHODS, PEERS, describe_methods, resolve
from discoformer.models.registry import Card, build_network, save_model

RNG = np.random.default_rng(0)


def test_range_is_warned_of_once_per_fit(tmp_path: Path) -> None:
    core = {"kind": "unified", "layers": 1, "width": 16, "heads": 2, "slots": 4}
    path = tmp_path / "w.safetensors"
    card = Card(core, "whiten", dims=(1, 2), sizes=(64, 256))
    save_model(build_network(core, "whiten"), card, path)
    sample = RNG.normal(size=(40, 3))
    with pytest.warns(RangeWarning, match=r"40 rows \(trained on 64 to 256\) and 3 columns") as caught:
        DiScoFormer(model=path).fit(sample).score_samples(sample)
    assert len(caught) == 1
    with pytest.warns(RangeWarning):
        estimate(sample, model=path)
    DiScoFormer(model=path).fit(RNG.normal(size=(64, 2)))  # inside: silent


def test_weights_are_read_once(model_path: Path) -> None:
    assert resolve(str(model_path)).method is resolve(model_path).method
    with pytest.raises(DataError, match="give a name, a path or a method"):
        resolve(3)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", [name for name in METHODS if name != "flow"])
def test_a_name_is_the_same_method_everywhere(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    x = np.random.default_rng(1).normal(size=(60, 2)) * [1.0, 50.0]
    np.save(tmp_path / "x.npy", x)
    expected = as_point_density(resolve(name).method.fit(x)).log_density(x)
    np.testing.assert_allclose(DiScoFormer(model=name).fit(x).score_samples(x), expected, rtol=1e-12)
    np.testing.assert_allclose(estimate(x, model=name).log_density, expected, rtol=1e-12)
    out = tmp_path / "out.npy"
    assert main(["estimate", str(tmp_path / "x.npy"), "--model", name, "--out", str(out)]) == 0
    np.testing.assert_allclose(np.load(out)[:, 2], expected, rtol=1e-12)
    assert main(["compare", str(tmp_path / "x.npy"), "--model", name, "--folds", "2"]) == 0
    assert name in capsys.readouterr().out
    assert resolve(name).name == name and resolve(name).card is None


def test_every_name_is_in_the_help_and_in_the_refusal_of_another() -> None:
    assert set(PEERS) < set(METHODS)
    lines = [line.split()[0] for line in describe_methods().splitlines()]
    assert lines == ["default", *METHODS]
    with pytest.raises(DataError, match=f"no model 'kde'.*{', '.join(METHODS)}"):
        resolve("kde")


def test_a_file_that_was_written_anew_is_read_anew(tmp_path: Path) -> None:
    core = {"kind": "unified", "layers": 1, "width": 16, "heads": 2, "slots": 4}
    path, card = tmp_path / "w.safetensors", Card(core, "whiten", dims=(1, 2), sizes=(2, 256))
    save_model(build_network(core, "whiten"), card, path)
    first = resolve(path).method
    os.utime(path, ns=(1, 1))
    assert resolve(path).method is not first
