"""A sample in chunks is the sample: what is summed does not depend on how."""

from pathlib import Path

import pytest
import torch
from helpers import (
    F64,
    gmm_sample,
    mixture_network,
    two_groups,
)

from discoformer import load_model
from discoformer.models.mixture import sample as sample_module
from discoformer.models.mixture import student as student_module
from discoformer.models.mixture import unified
from discoformer.models.registry import load_network


def test_sample_in_chunks_equals_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    net, x = mixture_network(), gmm_sample(300, 3)
    weights = torch.rand(300, dtype=F64)
    for w in (None, weights):
        whole = net.encode(x, w).log_density(x)
        with monkeypatch.context() as patch, torch.no_grad():
            patch.setattr(sample_module, "_CHUNK", 20_000)
            patch.setattr(sample_module, "_LEAST", 20)
            patch.setattr(student_module, "_BUDGET", 20_000)
            for keep in (0, sample_module._KEEP):
                patch.setattr(sample_module, "_KEEP", keep)
                torch.testing.assert_close(net.encode(x, w).log_density(x), whole, rtol=1e-10, atol=1e-10)


def test_of_many_rows_all_settle_what_a_part_decided(
    model_path: Path, many: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    core, x = load_network(model_path).core, torch.from_numpy(two_groups(3000))
    few = sample_module.InMemory(x.unsqueeze(0)).few(core.deciding).points[0]
    idle = ~(x.unsqueeze(1) == few).all(-1).any(-1)
    mirrored = torch.where(idle.unsqueeze(-1), -x, x)  # of the same radius, so the same rows decide
    assert int(idle.sum()) == 2750
    for settle, same in ((0, True), (1, False)):
        monkeypatch.setattr(unified, "SETTLE", settle)
        before, after = (core.encode(y).mean for y in (x, mirrored))
        assert torch.equal(before, after) == same


def test_nothing_tracked_is_cut_into_chunks_even_with_gradients_on(
    model_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = []
    whole = sample_module.slot_statistics
    monkeypatch.setattr(
        sample_module, "slot_statistics", lambda phi, *rest: sizes.append(phi.shape[-1]) or whole(phi, *rest)
    )
    monkeypatch.setattr(sample_module, "_CHUNK", 100_000)
    assert torch.is_grad_enabled()
    load_model(model_path).fit(two_groups(3000))
    assert max(sizes) < 400
