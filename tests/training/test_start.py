"""Beginning from weights that are there already."""

from pathlib import Path

import pytest
import torch

from discoformer.core.checks import DataError
from discoformer.models.registry import build_network, load_network
from discoformer.training.start import start_from


def test_weights_are_taken_over(model_path: Path) -> None:
    core = {"kind": "unified", "layers": 2, "width": 16, "heads": 2}
    network = build_network(core, "whiten")
    start_from(network, str(model_path))
    weights = load_network(model_path, dtype=torch.float32).core.state_dict()
    for key, tensor in network.core.state_dict().items():
        assert torch.equal(tensor, weights[key])
    with pytest.raises(DataError, match="has another core"):
        start_from(build_network({**core, "width": 32}, "whiten"), str(model_path))
