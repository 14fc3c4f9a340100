"""A sample in chunks is the sample: what is summed does not depend on how."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from helpers import (
    EXACT,
    F64,
    assert_same_field,
    gmm_sample,
    mixture_network,
    parameters,
    two_groups,
)
from scipy import stats

from discoformer import load_model
from discoformer.models.mixture import sample as sample_module
from discoformer.models.mixture import student as student_module
from discoformer.models.mixture import unified
from discoformer.models.mixture.lift import lift
from discoformer.models.mixture.sample import slot_scatter, slot_statistics
from discoformer.models.mixture.slots import (
    Slots,
    log_density_of,
    make_slots,
    moments_of,
)
from discoformer.models.mixture.unified_network import UnifiedNetwork
from discoformer.models.mixture.views import Views
from discoformer.models.registry import load_network
from discoformer.scale import source
from discoformer.scale.source import open_source
from discoformer.scale.stream import Stream, survey


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


def slots(m: int, d: int) -> Slots:
    generator = torch.Generator().manual_seed(m * 10 + d)

    def draw(*shape: int) -> torch.Tensor:
        return torch.rand(1, m, *shape, generator=generator, dtype=F64)

    root = draw(d, d) - 0.5
    scale = root @ root.mT + 0.3 * torch.eye(d, dtype=F64)
    return make_slots(torch.log_softmax(draw(), -1), 3 * draw(d) - 1, scale, 2.5 + 20 * draw(), 0.5 + draw())


def test_a_narrow_cluster_far_from_the_center_keeps_its_covariance() -> None:
    """Second moments minus squared means lose (distance / width)^2 of the precision: here 11 of 16 digits."""
    offset = torch.tensor([3.0, -2.0], dtype=F64)
    x = torch.cat([gmm_sample(100, 2) - 5, 1e-5 * gmm_sample(100, 2, seed=1) + offset])
    s = make_slots(
        torch.full((1, 2), math.log(0.5), dtype=F64),
        torch.stack([x[:100].mean(0), x[100:].mean(0)]).unsqueeze(0),
        torch.stack([torch.cov(x[:100].mT), torch.cov(x[100:].mT)]).unsqueeze(0),
        torch.full((1, 2), 1e9, dtype=F64),
        torch.ones(1, 2, dtype=F64),
    )
    found = moments_of(slot_statistics(lift(x).unsqueeze(0), 1 / 200, s), s).covariance[0, 1]
    expected = torch.cov(x[100:].mT, correction=0)
    assert float((found - expected).norm() / expected.norm()) < 1e-4


def test_scatter_about_means_is_the_covariance_of_the_moments() -> None:
    x, parameters = gmm_sample(40, 3).unsqueeze(0), slots(5, 3)
    weights = torch.rand(1, 40, generator=torch.Generator().manual_seed(0), dtype=F64)
    weights = weights / weights.sum()
    moments = moments_of(slot_statistics(lift(x), weights, parameters), parameters)
    scatter = slot_scatter(lift(x), x, weights, parameters, moments.mean)
    per_share = (1 + 3 / parameters.nu) / moments.share
    torch.testing.assert_close(per_share[..., None, None] * scatter, moments.covariance)


@pytest.mark.parametrize("brief", [False, True])
def test_moments_equal_the_definition_and_its_autograd(brief: bool) -> None:
    """The pass written by hand against a direct transcription with scipy-checked densities."""
    x = gmm_sample(40, 3).requires_grad_()
    inputs = tuple(t.requires_grad_() for t in slots(5, 3)[:5])
    parameters = make_slots(*inputs)._replace(brief=brief)
    weights = torch.rand(1, 40, dtype=F64)
    weights = weights / weights.sum()
    moments = moments_of(slot_statistics(lift(x).unsqueeze(0), weights, parameters), parameters)
    got = [moments.share, moments.log_mixture, moments.tail, moments.lifted]
    if not brief:
        got += log_density_of(moments, parameters)

    offset = x.unsqueeze(1) - parameters.mean[0]  # (n, M, d)
    distance = (offset.unsqueeze(-2) @ torch.linalg.inv(parameters.scale[0]) @ offset.unsqueeze(-1)).flatten(
        1
    )
    nu, d = parameters.nu[0], 3
    log_density = (
        torch.lgamma((nu + d) / 2)
        - torch.lgamma(nu / 2)
        - d / 2 * torch.log(nu * math.pi)
        - torch.logdet(parameters.scale[0]) / 2
        - (nu + d) / 2 * torch.log1p(distance / nu)
    )
    reference = stats.multivariate_t(
        parameters.mean[0, 0].detach().numpy(), parameters.scale[0, 0].detach().numpy(), float(nu[0].detach())
    )
    np.testing.assert_allclose(log_density[:, 0].detach(), reference.logpdf(x.detach().numpy()), rtol=1e-9)
    logits = log_density * parameters.temperature[0] + parameters.log_weight[0]
    r = torch.softmax(logits, -1)
    entropy = -(r * torch.log_softmax(logits, -1)).sum(-1, keepdim=True)
    mixture = torch.logsumexp(logits, -1, keepdim=True)
    u = (nu + d) / (nu + distance)
    w = r * weights[0].unsqueeze(-1)
    share, mass = w.sum(0), (w * u).sum(0)
    lifted = (w * u).mT @ lift(x).mT / mass.unsqueeze(-1)
    expected = [share, (w * mixture / d).sum(0) / share, mass / share, lifted]
    if not brief:
        columns = [(w * c).sum(0) / share for c in (entropy, log_density, log_density**2)]
        expected += [columns[0], columns[1], columns[2] - columns[1] ** 2]
    for a, b in zip(got, expected, strict=True):
        torch.testing.assert_close(a[0], b)

    probes = [torch.randn(b.shape, dtype=F64) for b in expected]
    gradients = [
        torch.autograd.grad(sum((a * p).sum() for a, p in zip(side, probes, strict=True)), (x, *inputs))
        for side in (got, expected)
    ]
    for a, b in zip(*gradients, strict=True):
        torch.testing.assert_close(a, b)


def test_statistics_add_over_chunks() -> None:
    phi = lift(gmm_sample(60, 2)).unsqueeze(0)
    weights = torch.full((1, 60), 1 / 60, dtype=F64)
    s = slots(4, 2)
    whole = slot_statistics(phi, 1 / 60, s)
    parts = [slot_statistics(phi[..., i : i + 13], weights[:, i : i + 13], s) for i in range(0, 60, 13)]
    torch.testing.assert_close(torch.stack(parts).sum(0), whole)


def test_moments_of_one_slot_are_the_samples() -> None:
    x = gmm_sample(80, 3)
    one = make_slots(
        torch.zeros(1, 1, dtype=F64),
        torch.zeros(1, 1, 3, dtype=F64),
        torch.eye(3, dtype=F64).expand(1, 1, 3, 3),
        torch.full((1, 1), 1e9, dtype=F64),
        torch.ones(1, 1, dtype=F64),
    )
    moments = moments_of(slot_statistics(lift(x).unsqueeze(0), 1 / 80, one), one)
    torch.testing.assert_close(moments.mean[0, 0], x.mean(0), rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(moments.covariance[0, 0], torch.cov(x.mT, correction=0), rtol=1e-6, atol=1e-6)


def test_weights_are_repetitions_in_the_sums() -> None:
    """Only the sums: weights are worth fewer points than as many rows, so what follows may differ."""
    x, s = gmm_sample(60, 2), slots(4, 2)
    counts = torch.arange(60) % 3
    weights = (counts / counts.sum()).to(F64).unsqueeze(0)
    repeated = lift(x.repeat_interleave(counts, 0)).unsqueeze(0)
    torch.testing.assert_close(
        slot_statistics(lift(x).unsqueeze(0), weights, s), slot_statistics(repeated, 1 / int(counts.sum()), s)
    )


def model_of(kind: str, path: Path) -> Any:
    network = load_network(path)
    assert isinstance(network, UnifiedNetwork)
    return {"axes": network, "no axes": network.without_axes(), "views": Views(network)}[kind]


KINDS = pytest.mark.parametrize("kind", ["axes", "no axes", "views"])


@KINDS
def test_streamed_is_in_memory(kind: str, model_path: Path, small_chunks: None) -> None:
    model, x = model_of(kind, model_path), two_groups()
    assert_same_field(model.fit_stream(Stream(open_source(x))), model.fit(x), x[:500])


def test_repeated_rows_streamed_are_in_memory(many: None, small_chunks: None) -> None:
    """Spikes are as narrow as rounding allows: log densities between them are around -200."""
    x = np.random.default_rng(0).integers(0, 5, size=(3000, 2)) * 1.0
    model, between = load_model("default"), x[:40] + 0.1
    whole = model.fit(x).estimate(torch.as_tensor(between)).log_density
    assert float(whole.mean()) < -100
    streamed = model.fit_stream(Stream(open_source(x[::-1]))).estimate(torch.as_tensor(between)).log_density
    torch.testing.assert_close(streamed, whole, rtol=0, atol=1e-6)


@KINDS
def test_of_many_rows_a_part_decides_streamed_or_not(kind: str, model_path: Path, many: None) -> None:
    model, x = model_of(kind, model_path), two_groups(3000)
    field = model.fit(x)
    assert_same_field(model.fit_stream(Stream(open_source(x))), field, x[:200])
    assert_same_field(model.fit(np.random.default_rng(1).permutation(x)), field, x[:200])
    assert_same_field(model.fit(x, np.full(3000, 2.0)), field, x[:200])


def test_affine_maps_change_the_answer_for_many_rows_by_the_jacobian(model_path: Path, many: None) -> None:
    x, model = two_groups(3000), model_of("no axes", model_path)
    matrix = np.random.default_rng(2).normal(size=(3, 3))
    found = model.fit(x @ matrix + 5).log_density(x[:200] @ matrix + 5)
    expected = model.fit(x).log_density(x[:200]) - np.linalg.slogdet(matrix)[1]
    np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-7)


def test_streamed_default_is_in_memory(small_chunks: None) -> None:
    model, x = load_model("default"), two_groups(4300, 2)
    assert_same_field(model.fit_stream(Stream(open_source(x))), model.fit(x), x[:500])


@pytest.mark.parametrize("chunk", [1, 97, 10_000])
def test_neither_chunks_nor_the_order_of_rows_change_the_answer(
    chunk: int, model_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = two_groups(4200 if chunk > 1 else 60)
    model = model_of("axes", model_path)
    expected = model.fit_stream(Stream(open_source(x)))
    monkeypatch.setattr(source, "CHUNK", 8 * 3 * chunk)
    shuffled = np.random.default_rng(1).permutation(x)
    for rows in (x, shuffled):
        assert_same_field(model.fit_stream(Stream(open_source(rows))), expected, x[:200])


def test_single_precision_of_the_network_is_kept(model_path: Path) -> None:
    model, x = load_network(model_path, dtype=torch.float32), two_groups()
    streamed = model.fit_stream(Stream(open_source(x)))
    assert streamed.base.log_weight.dtype == torch.float32
    assert_same_field(streamed, model.fit(x), x[:200], rtol=1e-3, atol=1e-3)


def test_data_far_from_the_origin(model_path: Path, small_chunks: None) -> None:
    x = two_groups()
    far = x + 1e9
    near = (far - 1e9).astype(np.float64)  # what is left of x at that distance
    found = survey(open_source(far)).moments
    torch.testing.assert_close(found.scale, torch.from_numpy(near.std(0)), rtol=1e-9, atol=0)
    torch.testing.assert_close(found.correlation, torch.from_numpy(np.corrcoef(near.T)), rtol=1e-9, atol=1e-9)
    model = load_model(model_path)
    streamed = model.fit_stream(Stream(open_source(far)))
    expected = model.fit(near).estimate(near[:200])
    for one, two in zip(streamed.estimate(far[:200]), expected, strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-5, atol=1e-5)


def test_units_of_all_sizes(model_path: Path) -> None:
    x = two_groups(400) * np.array([1e-120, 1.0, 1e120])
    model = load_model(model_path)
    np.testing.assert_allclose(
        model.fit_stream(Stream(open_source(x))).log_density(x), model.fit(x).log_density(x), **EXACT
    )


def test_threads_change_nothing(
    two_threads: None, model_path: Path, small_chunks: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sample_module, "_CHUNK", 200_000)
    model, x = load_network(model_path), two_groups()
    memory, streamed = model.fit(x), model.fit_stream(Stream(open_source(x)))
    torch.set_num_threads(1)
    for field, again in ((memory, model.fit(x)), (streamed, model.fit_stream(Stream(open_source(x))))):
        for one, two in zip(parameters(field), parameters(again), strict=True):
            assert torch.equal(one, two)
