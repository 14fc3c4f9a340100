"""Score oracles: what each is by definition, carried along and calibrated scores, refusals."""

import pytest
import torch
from torch import Tensor

from discoformer import KDE, DataError
from discoformer.core.frames import Whiten
from discoformer.particles import (
    SBTM,
    Blob,
    Calibrated,
    Carried,
    GaussianClosure,
    Landau,
    OrnsteinUhlenbeck,
    integrate,
    landau_start,
    ornstein_uhlenbeck_covariance,
)
from discoformer.particles.choices import choose_oracle
from discoformer.particles.oracles import as_oracle
from discoformer.priors import gaussian


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def test_blob_is_the_gradient_of_its_energy() -> None:
    """s_i = n dE/dx_i for E = sum_i w_i log (K * f)(x_i), with all particles moving in both sums."""
    x = normal(12, 2).requires_grad_()
    h = torch.tensor([0.6, 0.9], dtype=torch.float64)
    squares = ((x[:, None] - x) / h).square().sum(-1)
    energy = (torch.logsumexp(-0.5 * squares, 1)).mean()  # up to a constant
    (gradient,) = torch.autograd.grad(energy, x)
    points = x.detach()
    torch.testing.assert_close(Blob(h).fit(points).score(points), 12 * gradient)
    assert Blob(h).fit(points).estimate(points).log_density is None


def test_blob_takes_weights() -> None:
    """A particle of weight two is two particles."""
    x = normal(6, 2)
    doubled = Blob(0.7).fit(torch.cat([x, x[:1]])).score(x)
    weighted = Blob(0.7).fit(x, [2.0, 1, 1, 1, 1, 1]).score(x)
    torch.testing.assert_close(doubled, weighted)


def test_gaussian_closure_is_the_sample_gaussian() -> None:
    x = normal(3, 40, 2) @ normal(2, 2, seed=1)
    law = gaussian(x.mean(-2), torch.stack([torch.cov(s.T, correction=0) for s in x]))
    for ours, exact in zip(GaussianClosure().fit(x).estimate(x), law.estimate(x), strict=True):
        torch.testing.assert_close(ours, exact)


def test_carried_along_an_affine_map_is_fitted_anew() -> None:
    """Rotation, shear and shift of a batch: the carried answer is that of a fit of an equivariant method."""
    x = normal(2, 60, 3)
    moved = x @ normal(2, 3, 3, seed=1) + 5
    for method in (KDE("scott-full"), GaussianClosure(), Blob("scott-full")):
        oracle = Carried(method, every=2)
        oracle.estimate(x, 0.0)
        carried, anew = oracle.estimate(moved, 1.0), method.fit(moved).estimate(moved)
        torch.testing.assert_close(carried.score, anew.score)
        if anew.log_density is not None:
            torch.testing.assert_close(carried.log_density, anew.log_density)


def test_carried_is_fitted_when_it_is_due() -> None:
    x = [normal(30, 2, seed=k) for k in range(5)]  # no affine map leads from one to the other
    oracle = Carried(KDE(), every=2)
    for k, points in enumerate(x):
        anew = torch.equal(oracle.estimate(points, 0.0).score, KDE().fit(points).score(points))
        assert anew == (k % 2 == 0)
    with pytest.raises(DataError, match="at least one answer"):
        Carried(KDE(), every=0)
    with pytest.raises(DataError, match="no fit to carry on"):
        oracle.restore({"generator": torch.zeros(1)})


def test_carried_follows_a_relaxation() -> None:
    """Sigma of Landau's equation with a fit every 10 steps stays close to that with a fit at each."""
    start = landau_start("two-mode", 3).sample(200, torch.Generator().manual_seed(0))
    runs = [
        integrate(Landau(), start, oracle, dt=0.02, steps=50).covariance[:, 0, 0]
        for oracle in (KDE(), Carried(KDE(), every=10))
    ]
    assert (runs[0] - runs[1]).abs().max() < 0.02 * (runs[0][0] - runs[0][-1])


def test_calibrated_score_obeys_steins_identity() -> None:
    """Mean of f s^T is minus the mean gradient of f (by autograd), for f = 1, y, |y|^2 y in whitened y."""
    x = normal(2, 40, 3) @ normal(2, 3, 3, seed=1) + 7
    frame = Whiten().fit(x)
    white = frame.normalize(x)

    def tests(y: Tensor) -> Tensor:
        return torch.cat([torch.ones(1, dtype=y.dtype), y, y.square().sum() * y])

    for source in (KDE(), GaussianClosure(), lambda points, time: torch.sin(points)):
        answer = Calibrated(source).estimate(x, 0.0)
        _, score = frame.normalize_estimate(answer)
        for y, s in zip(white, score, strict=True):
            gradient = torch.stack([torch.func.jacrev(tests)(point) for point in y]).mean(0)
            moments = torch.stack([tests(point) for point in y]).mT @ s / len(y)
            torch.testing.assert_close(moments, -gradient, rtol=1e-9, atol=1e-9)


def test_calibrated_leaves_a_right_score_and_every_log_density() -> None:
    law = gaussian(torch.zeros(1, 2), torch.eye(2)[None])
    x = law.sample(20_000, torch.Generator().manual_seed(0))[0]
    plain, better = (make(KDE()).estimate(x[:500], 0.0) for make in (as_oracle, Calibrated))
    assert torch.equal(plain.log_density, better.log_density)
    exact = Calibrated(lambda points, time: -points).estimate(x, 0.0).score
    assert (exact + x).square().mean() < 1e-3


def test_calibrated_follows_affine_maps() -> None:
    """Whitening leaves a rotation open, and the test functions turn with it: scores change as covectors."""
    x, matrix = normal(60, 3), normal(3, 3, seed=1)
    before, after = (Calibrated(GaussianClosure()).estimate(y, 0.0).score for y in (x, x @ matrix + 5))
    assert (before - GaussianClosure().fit(x).score(x)).abs().max() > 0.01
    torch.testing.assert_close(after @ matrix.T, before)


def test_calibrated_moves_the_covariance_of_fokker_planck_exactly() -> None:
    """dS/dt = 2D I - 2 rate S needs E[s x'] = -I and nothing else, which a kernel estimate misses."""
    start = landau_start("two-mode", 2).sample(100, torch.Generator().manual_seed(0))
    errors = []
    for oracle in (KDE(), Calibrated(KDE())):
        run = integrate(OrnsteinUhlenbeck(2.0, 0.5), start, oracle, dt=0.02, steps=25, scheme="heun")
        exact = ornstein_uhlenbeck_covariance(run.covariance[0], run.times, 2.0, 0.5)
        errors.append(float((run.covariance - exact).abs().max()))
    assert errors[0] > 0.02 and errors[1] < 1e-3


def test_calibrated_refuses_what_it_cannot_do() -> None:
    angle = 2 * torch.pi * torch.rand(50, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    circle = torch.stack([angle.cos(), angle.sin()], -1)
    circle = torch.cat([circle, -circle])
    circle = torch.cat([circle, circle.flip(-1) * torch.tensor([1.0, -1.0])])  # white as it is
    for points, oracle, message in (
        (normal(5, 2), KDE(), "more than 5"),
        (circle, KDE(), "on one ellipsoid"),
        (circle @ normal(2, 2, seed=1), KDE(), "on one ellipsoid"),
        (normal(20, 2), lambda x, t: x[:1], "one score per particle"),
    ):
        with pytest.raises(DataError, match=message):
            Calibrated(oracle).estimate(points, 0.0)


def test_oracles_by_name() -> None:
    """A name that only begins like SBTM's is a model's."""
    law = landau_start("gaussian", 2)
    assert isinstance(choose_oracle("sbtm-1", law), SBTM)
    assert isinstance(choose_oracle("sbtm", law, calibrate=True), Calibrated)
    with pytest.raises(DataError, match="no model 'sbtm-2'"):
        choose_oracle("sbtm-2", law)


def test_sbtm_learns_the_start_and_stays_there() -> None:
    law = landau_start("gaussian", 2)
    x = torch.stack([law.sample(200, torch.Generator().manual_seed(seed)) for seed in (0, 1)])
    oracle = SBTM(law, hidden=(32,), start_steps=600, rate=5e-3)
    truth = law.score(x)

    def error() -> Tensor:
        return (oracle.estimate(x, 0.0).score - truth).square().sum((-2, -1)) / truth.square().sum((-2, -1))

    assert bool((error() < 0.01).all())
    assert bool((error() < 0.1).all()), "25 steps of score matching must not unlearn it"


def test_sbtm_networks_of_a_batch_do_not_see_each_other() -> None:
    """Changing one sample of a batch leaves the other's answers alone."""
    law = landau_start("gaussian", 2)
    answers = []
    for shift in (0.0, 3.0):
        x = torch.stack([normal(30, 2), normal(30, 2, seed=1) + shift])
        oracle = SBTM(law, hidden=(8,), start_steps=3, start_tolerance=1e-12)
        oracle.estimate(x, 0.0)
        answers.append(oracle.estimate(x, 0.1).score)
    torch.testing.assert_close(answers[0][0], answers[1][0], rtol=0, atol=1e-6)
    assert not torch.allclose(answers[0][1], answers[1][1])
