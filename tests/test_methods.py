"""The registry of methods: names, paths, and the range a network was trained for."""

from pathlib import Path

import numpy as np
import pytest

from discoformer import DiScoFormer
from discoformer.api.estimate import estimate
from discoformer.core.checks import DataError
from discoformer.methods import RangeWarning, resolve
from discoformer.models.registry import Card, build_network, save_model

RNG = np.random.default_rng(0)


def test_range_is_warned_of_once_per_fit(tmp_path: Path) -> None:
    core = {"kind": "mixture", "layers": 1, "width": 16, "heads": 2, "slots": 4}
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
