"""Merging keeps what the sample says, commutes with maps of the data, and rests on what it says it does."""

import torch
from helpers import F64, gmm_sample, mixture_network, normal

from discoformer.core.frames import Axes
from discoformer.models.mixture.leave_one_out import ScaleEvidence
from discoformer.models.mixture.merge import Rule, merge, settle
from discoformer.models.mixture.sample import InMemory
from discoformer.models.mixture.student import StudentMixture
from discoformer.models.registry import load_network


def test_one_cluster_is_one_slot_with_its_moments() -> None:
    x = torch.randn(3, 2000, 2, generator=torch.Generator().manual_seed(0), dtype=F64)
    network = mixture_network()
    merged = merge(InMemory(x), network.core.encode(x, slots=6), None, Rule())
    alive = merged.log_weight > -40
    assert bool((alive.sum(-1) <= 3).all())
    mean = (merged.log_weight.exp().unsqueeze(-1) * merged.mean).sum(1)
    torch.testing.assert_close(mean, x.mean(1), rtol=0, atol=0.05)


def test_a_heavy_tail_is_one_slot_with_its_degrees_of_freedom() -> None:
    """Moments alone would keep a narrow and a wide slot at the same place."""
    generator = torch.Generator().manual_seed(0)
    normal = torch.randn(3000, 2, generator=generator, dtype=F64)
    chi = torch.randn(3000, 3, generator=generator, dtype=F64).square().sum(-1, keepdim=True)
    x = (normal / (chi / 3).sqrt()).unsqueeze(0)
    merged = merge(InMemory(x), mixture_network().core.encode(x, slots=6), None, Rule())
    main = merged.log_weight.argmax()
    assert float(merged.log_weight[0, main].exp()) > 0.95
    assert 2.3 < float(merged.nu[0, main]) < 4
    torch.testing.assert_close(merged.scale[0, main], torch.eye(2, dtype=F64), rtol=0, atol=0.15)


def test_a_step_on_gaussian_slots_is_that_of_scikit_learn() -> None:
    from sklearn.mixture import GaussianMixture

    x = torch.cat([gmm_sample(150, 2), gmm_sample(150, 2, seed=5) + 8])
    start = GaussianMixture(2, max_iter=200, tol=1e-12, reg_covar=0, random_state=0).fit(x.numpy())
    means, scales = torch.from_numpy(start.means_), torch.from_numpy(start.covariances_)
    mixture = StudentMixture(
        torch.from_numpy(start.weights_).log(), means, scales, torch.full((2,), 1e9, dtype=F64)
    ).map(lambda tensor: tensor.unsqueeze(0))
    found = settle(InMemory(x.unsqueeze(0)), mixture, None, 1, Rule())
    torch.testing.assert_close(found.mean[0], means, rtol=1e-5, atol=1e-5)
    weights = torch.from_numpy(start.weights_)
    torch.testing.assert_close(found.log_weight[0].exp(), weights, rtol=1e-6, atol=1e-6)
    assert found.evidence is not None
    torch.testing.assert_close(found.evidence.count.sum(), torch.tensor(300.0, dtype=F64))


def test_a_batch_is_its_samples_and_rotations_are_followed() -> None:
    network = mixture_network()
    x = torch.stack([gmm_sample(200, 2, seed) for seed in range(3)])
    x = network.frame.fit(x).normalize(x)
    both = merge(InMemory(x), network.core.encode(x), None, Rule())
    turn = torch.linalg.qr(torch.randn(2, 2, generator=torch.Generator().manual_seed(1), dtype=F64))[0]
    for k in range(3):
        alone = merge(InMemory(x[k : k + 1]), network.core.encode(x[k : k + 1]), None, Rule())
        own = both.map(lambda tensor, k=k: tensor[k : k + 1])
        torch.testing.assert_close(own.log_density(x[k : k + 1]), alone.log_density(x[k : k + 1]))
        turned = merge(InMemory(x[k : k + 1] @ turn), network.core.encode(x[k : k + 1] @ turn), None, Rule())
        torch.testing.assert_close(turned.log_density(x[k : k + 1] @ turn), alone.log_density(x[k : k + 1]))


def test_what_is_narrow_is_measured_about_its_mean() -> None:
    """Of repeated rows the scale is the floor: no bit of a second moment less a squared mean is left."""
    places = torch.tensor([[-1.3, 0.1], [0.7, 2.9], [1.1, -0.3]], dtype=F64)
    x = places.repeat_interleave(torch.tensor([9, 40, 21]), 0)
    flat = torch.full((3,), 3.0, dtype=F64)
    narrow = 1e-6 * torch.eye(2, dtype=F64).expand(3, 2, 2)
    start = StudentMixture(-flat.log(), places + 1e-3, narrow, 10 * flat).map(lambda t: t.unsqueeze(0))
    turn = torch.randperm(len(x), generator=torch.Generator().manual_seed(0))
    for given in (x, x.flip(0), x[turn]):
        found = settle(InMemory(given.unsqueeze(0)), start, None, 3, Rule())
        expected = 1e-8 * torch.eye(2, dtype=F64).expand(1, 3, 2, 2)
        torch.testing.assert_close(found.scale, expected, rtol=1e-13, atol=1e-21)
        torch.testing.assert_close(found.mean[0], places, rtol=1e-14, atol=1e-14)


def test_slots_along_a_diagonal_stay_apart_where_covariances_follow_the_axes() -> None:
    """Their union has a correlation, which the M-step would take away again: it is judged without."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(1, 500, 1, generator=generator, dtype=F64)
    x = x + 0.15 * torch.randn(1, 500, 5, generator=generator, dtype=F64)
    eye, one = torch.eye(5, dtype=F64), torch.ones(1, 4, dtype=F64)
    evidence = ScaleEvidence(one, one, 0.02 * one, 0.98 * one, 0 * one, 125 * one, 125 * one)
    mean = torch.linspace(-1.5, 1.5, 4, dtype=F64).view(1, 4, 1).expand(1, 4, 5)
    scale = (0.15 * eye).expand(1, 4, 5, 5)
    start = StudentMixture((one / 4).log(), mean, scale, 1e3 * one, evidence)
    axes = Axes(eye.unsqueeze(0), eye.unsqueeze(0), torch.zeros(1, dtype=F64))
    merged = merge(InMemory(x), start, axes, Rule())
    assert float(merged.log_density(x).sum()) > float(start.log_density(x).sum())


def test_rows_that_repeat_are_fitted_in_single_precision_with_gradients_too() -> None:
    """Sums in single precision left no slot with a scale: an IndexError."""
    network = load_network("default", torch.float32).requires_grad_(True)
    rows = normal(10, 2).repeat(6, 1)
    log_density = network.fit(rows).log_density(rows)
    assert bool(log_density.isfinite().all())
    log_density.mean().backward()
