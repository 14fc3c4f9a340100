"""Beginning from weights that are there already."""

import pytest
import torch
from helpers import F64

from discoformer import load_model
from discoformer.core.checks import DataError
from discoformer.models.registry import build_network
from discoformer.training.start import start_from


def test_weights_of_a_mixture_core_are_taken_over() -> None:
    """Where axes are uncorrelated both cores see the same: the new one starts near what the old one says."""
    core = {"kind": "unified", "layers": 6, "width": 64, "heads": 4, "loops": 0}
    net = build_network(core, "whiten")
    start_from(net, "mixture-axis")
    net.double()
    x = torch.randn(300, 2, dtype=F64, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        new = net(x, x).score
    old = load_model("mixture-axis")(x, x).score
    assert float((new - old).norm() / old.norm()) < 0.2
    with pytest.raises(DataError, match="has another core"):
        start_from(build_network({**core, "width": 32}, "whiten"), "mixture-axis")
