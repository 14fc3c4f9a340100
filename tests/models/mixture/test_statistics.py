"""Sums over a sample, by hand, against their definition and its autograd."""

import math

import numpy as np
import pytest
import torch
from helpers import F64, gmm_sample
from scipy import stats

from discoformer.models.mixture.lift import lift
from discoformer.models.mixture.slots import (
    Slots,
    log_density_of,
    make_slots,
    moments_of,
)
from discoformer.models.mixture.statistics import slot_scatter, slot_statistics


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
