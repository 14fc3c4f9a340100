"""Consolidation: merging by likelihood, and expectation-maximization as it is in the books."""

import numpy as np
import torch
from sklearn.mixture import GaussianMixture

from discoformer.core.frames import Whiten
from discoformer.models.mixture.consolidate import (
    _cheapest,
    _costs,
    _merge,
    consolidate,
    converge,
    drop_dead,
    widen,
)
from discoformer.models.mixture.sample import InMemory
from discoformer.models.mixture.student import StudentMixture
from discoformer.priors import GMMPrior

F64 = torch.float64


def points(n: int = 600, d: int = 2, modes: int = 3, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    prior = GMMPrior(modes=(modes, modes), covariance="rotated", weights="equal")
    return prior.draw(1, d, generator, dtype=F64).sample(n, generator)


def start(x: torch.Tensor, slots: int, nu: float = 1e6) -> StudentMixture:
    mean = x[:, :: x.shape[1] // slots][:, :slots]
    flat = torch.ones(1, slots, dtype=F64)
    scale = 0.5 * torch.eye(x.shape[-1], dtype=F64).expand(1, slots, -1, -1)
    return StudentMixture(-np.log(slots) * flat, mean, scale, nu * flat)


def test_converged_mixture_is_that_of_scikit_learn() -> None:
    x = points()
    ours = converge(InMemory(x), start(x, 3), steps=400)
    theirs = GaussianMixture(3, means_init=ours.mean[0].numpy(), tol=1e-10, max_iter=1000, reg_covar=0.0).fit(
        x[0]
    )
    order = np.argsort(theirs.means_[:, 0])
    index = ours.mean[0, :, 0].argsort()
    # One pseudo-point of the pooled scale in 200 points: half a percent.
    np.testing.assert_allclose(ours.mean[0, index], theirs.means_[order], atol=0.02)
    np.testing.assert_allclose(ours.scale[0, index], theirs.covariances_[order], atol=0.03)


def test_the_number_of_modes_is_found() -> None:
    for modes in (1, 3, 6):
        x = points(4000, 5, modes, seed=modes)
        found = drop_dead(consolidate(InMemory(x), start(x, 16)))
        assert found.log_weight.shape[-1] == modes
        torch.testing.assert_close(found.log_weight.exp().sum(), torch.tensor(1.0, dtype=F64))


def test_widened_scales_have_unbiased_inverses_and_fit_new_points_better() -> None:
    """Standard normal, 30 columns: the inverse has a mean diagonal of one, not of n / (n - d - 1)."""
    narrow, wide, gains = [], [], []
    for seed in range(20):
        x = torch.randn(2, 100, 30, dtype=F64, generator=torch.Generator().manual_seed(seed))
        one = torch.ones(1, 1, dtype=F64)
        mixture = StudentMixture(
            0 * one, x[:1].mean(1, keepdim=True), x[0].T.cov(correction=0)[None, None], 1e9 * one
        )
        wider = widen(mixture, 100 * one)
        for kept, field in ((narrow, mixture), (wide, wider)):
            kept.append(float(torch.linalg.inv(field.scale).diagonal(dim1=-2, dim2=-1).mean()))
        gains.append(float((wider.log_density(x[1:]) - mixture.log_density(x[1:])).mean()))
    assert abs(np.mean(narrow) - 100 / 68) < 0.03  # the mean has cost one more degree of freedom
    assert abs(np.mean(wide) - 69 / 68) < 0.03
    assert min(gains) > 0
    few = widen(mixture, 10 * one)  # fewer points than columns: twice, not infinitely often
    torch.testing.assert_close(few.scale, 2 * mixture.scale)


def test_a_union_keeps_weight_mean_and_covariance() -> None:
    x = points()
    before = start(x, 4)
    after = drop_dead(_merge(before, *_cheapest(_costs(before), torch.tensor([True]))))

    def moments(m: StudentMixture) -> tuple[torch.Tensor, ...]:
        w = m.log_weight.exp()[..., None]
        mean = (w * m.mean).sum(1)
        second = (w[..., None] * (m.scale + m.mean[..., None] * m.mean[..., None, :])).sum(1)
        return w.sum(1), mean, second

    assert after.log_weight.shape == (1, 3)
    for one, other in zip(moments(before), moments(after), strict=True):
        torch.testing.assert_close(one, other)


def test_batch_is_loop_and_rotation_carries_over() -> None:
    x = torch.cat([points(seed=1, modes=2), points(seed=2, modes=5)])
    both = consolidate(InMemory(x), start(x[:1], 8).map(lambda t: t.repeat(2, *[1] * (t.dim() - 1))))
    turn = torch.linalg.qr(torch.randn(2, 2, dtype=F64, generator=torch.Generator().manual_seed(0)))[0]
    for i in range(2):
        alone = consolidate(InMemory(x[i : i + 1]), start(x[:1], 8))
        torch.testing.assert_close(both.estimate(x).score[i], alone.estimate(x[i : i + 1]).score[0])
        turned = start(x[:1], 8).transform(turn, torch.zeros(1, 2, dtype=F64))
        rotated = consolidate(InMemory(x[i : i + 1] @ turn), turned)
        torch.testing.assert_close(
            rotated.estimate(x[i : i + 1] @ turn).score, alone.estimate(x[i : i + 1]).score @ turn
        )


def test_ties_and_empty_slots_stay_finite() -> None:
    x = points(40).round()
    x[:, 20:] = x[:, :1]
    mixture = converge(InMemory(x), consolidate(InMemory(x), start(x, 8)), steps=5)
    assert all(bool(torch.isfinite(t).all()) for t in (mixture.log_weight, mixture.mean, mixture.scale))
    assert bool(torch.isfinite(mixture.estimate(x).score).all())


def test_scales_do_not_collapse_under_heavy_tails() -> None:
    """Low degrees of freedom and uneven weights starve a slot of a direction, a little more in every step."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(18, 3, generator=generator, dtype=F64)
    weights = torch.rand(18, generator=generator, dtype=F64).log().neg() ** 8
    weights = weights / weights.sum()
    sample = InMemory(Whiten().fit(x, weights).normalize(x)[None], weights[None])
    mixture = start(sample.points, 1, nu=4.0)
    for _ in range(40):
        mixture = converge(sample, mixture, steps=1)
    assert torch.linalg.eigvalsh(mixture.scale).min() > 1e-9
