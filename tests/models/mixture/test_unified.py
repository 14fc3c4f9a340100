"""The unified mixture core: its laws, with random weights in float64."""

from pathlib import Path

import pytest
import torch
from helpers import F64, assert_same, gmm_sample

from discoformer import load_model
from discoformer.core.checks import DataError
from discoformer.core.fields import Density
from discoformer.models.mixture.unified import UnifiedConfig, UnifiedCore
from discoformer.models.mixture.unified_network import UnifiedNetwork
from discoformer.models.mixture.views import Views
from discoformer.models.registry import Card, build_network, load_network, save_model
from discoformer.scale.source import open_source
from discoformer.scale.stream import Stream


def network(axes: bool = True, **values: int) -> UnifiedNetwork:
    """A small core whose decisions are random, so that every path of the arithmetic matters."""
    torch.manual_seed(0)
    core = UnifiedCore(
        UnifiedConfig(**{"layers": 2, "width": 16, "heads": 2, "slots": 8, "loops": 2, **values})
    )
    for layer in core.layers:
        torch.nn.init.normal_(layer.decide.weight, std=0.3)
        torch.nn.init.normal_(layer.growth, std=0.1)
    return UnifiedNetwork(core, axes=axes).to(F64).requires_grad_(False).eval()


@pytest.mark.parametrize("d", [2, 3, 10])
def test_without_axes_every_affine_map_is_followed(d: int) -> None:
    net = network(axes=False)
    for rows in (40, 150):  # the first fewer than six per column in ten dimensions
        x, y = gmm_sample(rows, d), gmm_sample(40, d, seed=1)
        a = torch.randn(d, d, dtype=F64) + 2 * torch.eye(d, dtype=F64)
        before = net(x, y)
        after = net(x[torch.randperm(rows)] @ a + 3, y @ a + 3)
        log_det = torch.linalg.slogdet(a)[1]
        torch.testing.assert_close(after.log_density, before.log_density - log_det, rtol=1e-10, atol=1e-10)
        assert float((after.score @ a.mT - before.score).norm() / before.score.norm()) < 1e-10


@pytest.mark.parametrize("rows", [20, 150])
def test_with_axes_units_and_order_of_the_columns_are_followed(rows: int) -> None:
    net, x = network(), gmm_sample(rows, 4)
    columns = torch.tensor([2, 0, 3, 1])
    units = torch.tensor([1e-6, 1.0, -3.0, 1e6], dtype=F64)
    before = net(x, x)
    moved = x[:, columns] * units + 1
    after = net(moved, moved)
    shift = units.abs().log().sum()
    torch.testing.assert_close(after.log_density, before.log_density - shift, rtol=1e-8, atol=1e-8)
    torch.testing.assert_close(after.score * units, before.score[:, columns], rtol=1e-8, atol=1e-8)


def test_axes_can_be_switched_and_matter() -> None:
    net, x = network(), gmm_sample(100, 3)
    on = net(x, x).score
    net.axes = False
    assert not torch.allclose(net(x, x).score, on)


@pytest.mark.parametrize("axes", [False, True])
def test_score_is_the_gradient_of_the_log_density(axes: bool) -> None:
    field = network(axes).encode(gmm_sample(120, 3))
    y = gmm_sample(50, 3, seed=2).requires_grad_()
    log_density, score = field.estimate(y)
    torch.testing.assert_close(score, torch.autograd.grad(log_density.sum(), y)[0], rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("axes", [False, True])
def test_batch_equals_loop_and_equal_weights_are_none(axes: bool) -> None:
    net = network(axes)
    x = torch.stack([gmm_sample(60, 2, seed) for seed in range(3)])
    weights = torch.full((3, 60), 7.0, dtype=F64)
    batch = net.encode(x).log_density(x)
    torch.testing.assert_close(net.encode(x, weights).log_density(x), batch)
    for i in range(3):
        torch.testing.assert_close(net.encode(x[i]).log_density(x[i]), batch[i])


@pytest.mark.parametrize("axes", [False, True])
def test_rows_of_weight_zero_do_not_count_in_the_moments(axes: bool) -> None:
    """With one slot the start does not matter, so dropping rows and weighting them zero agree."""
    net, x = network(axes, slots=1), gmm_sample(80, 2)
    weights = (torch.arange(80) < 50).to(F64)
    torch.testing.assert_close(net.encode(x, weights).log_density(x), net.encode(x[:50]).log_density(x))


@pytest.mark.parametrize("axes", [False, True])
@pytest.mark.parametrize("deciding", [70, 8192])
def test_a_stream_answers_as_the_sample_in_memory(
    deciding: int, axes: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(UnifiedCore, "deciding", deciding)
    net = network(axes)
    for x in (gmm_sample(300, 3), gmm_sample(15, 3)):
        streamed = net.fit_stream(Stream(open_source(x.numpy())))
        assert_same(streamed.estimate(x), net.encode(x).estimate(x), 1e-8)


def test_slots_and_loops_are_chosen_at_run_time() -> None:
    x = gmm_sample(100, 1)
    chosen = network(slots=8).core.encode(x, slots=48, loops=0)
    built = network(slots=48, loops=0).core.encode(x)  # no weight depends on either
    assert chosen.log_weight.shape == (48,)
    torch.testing.assert_close(chosen.mean, built.mean)
    with pytest.raises(DataError, match="at least 1 slot, 0 loops"):
        network().core.encode(x, loops=-1)


def test_slots_can_be_emptied_without_harm() -> None:
    """A decision of -200 leaves a slot nothing; those that are left answer as if it were not there."""
    net, x = network(), gmm_sample(200, 2)
    layer = net.core.layers[-1]
    with torch.no_grad():
        layer.decide.weight[1] *= 200  # the decision on weights
    field = net.encode(x)
    assert float(field.base.parts[0].log_weight.exp().min()) < 1e-20
    log_density, score = field.estimate(x)
    assert bool(log_density.isfinite().all() & score.isfinite().all())


def test_weights_are_saved_and_loaded_with_their_kind(tmp_path: Path) -> None:
    net = build_network({"kind": "unified", "layers": 1, "width": 8, "heads": 2, "slots": 4}, "whiten")
    path = tmp_path / "one.safetensors"
    save_model(
        net, Card({"kind": "unified", "layers": 1, "width": 8, "heads": 2, "slots": 4}, "whiten"), path
    )
    loaded, x = load_network(path), gmm_sample(50, 2)
    assert isinstance(loaded, UnifiedNetwork) and loaded.axes
    assert isinstance(load_model(path), Views)
    torch.testing.assert_close(loaded(x, x).score, net.double()(x, x).score)
    with pytest.raises(DataError, match="must be whiten"):
        build_network({"kind": "unified"}, "standardize")


def test_the_answer_is_a_density_in_full() -> None:
    x = gmm_sample(100, 3)
    field = network().fit(x)
    assert isinstance(field, Density)
    assert field.sample(5).shape == (5, 3)
    assert field.conditional([0], x[0, :1]).dim == 2
