"""Particles: conservation laws, chunked equals naive, orders of the schemes, resumed equals unbroken."""

import itertools
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from discoformer import KDE, DataError, Estimate
from discoformer.particles import (
    BKW,
    SBTM,
    Calibrated,
    Carried,
    DoubleWell,
    Equation,
    ExactOracle,
    FokkerPlanck,
    GaussianClosure,
    Landau,
    Oracle,
    OrnsteinUhlenbeck,
    collisions,
    integrate,
    landau_start,
    match_moments,
    ornstein_uhlenbeck,
)
from discoformer.particles.figures import plot_relaxation
from discoformer.particles.oracles import MethodOracle, as_oracle
from discoformer.priors import gaussian

C = 1 / 24


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def pair_sum(v: Tensor, s: Tensor, gamma: float) -> Tensor:
    """-(1/n) sum_j A(v_i - v_j)(s_i - s_j) with the matrices A written out."""
    z, ds = v[:, None] - v, s[:, None] - s
    r2 = z.square().sum(-1)[..., None, None]
    power = torch.where(r2 > 0, r2, 1.0) ** (gamma / 2)
    a = C * power * (r2 * torch.eye(v.shape[-1], dtype=v.dtype) - z[..., :, None] * z[..., None, :])
    return -(a @ ds.unsqueeze(-1)).squeeze(-1).mean(1)


@pytest.mark.parametrize("dim", [2, 3, 7])
@pytest.mark.parametrize("gamma", [0.0, -3.0, -1.5])
def test_velocity_is_the_pair_sum(gamma: float, dim: int, monkeypatch: pytest.MonkeyPatch) -> None:
    v, s = normal(30, dim) + 5, normal(30, dim, seed=1)  # any scores, not only those of a density
    expected = pair_sum(v, s, gamma)
    for block in (7, 30, 64):  # blocks that do not divide n, that equal it, that exceed it
        monkeypatch.setattr(collisions, "_BLOCK", block)
        torch.testing.assert_close(Landau(gamma).velocity(v, s), expected, rtol=1e-10, atol=1e-12)


def test_maxwell_by_moments_equals_maxwell_by_pairs() -> None:
    v, s = normal(4, 50, 3), normal(4, 50, 3, seed=1)
    by_pairs = collisions.pair_velocity(v, s, 0.0, C)
    torch.testing.assert_close(collisions.maxwell_velocity(v, s, C), by_pairs, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("gamma", [0.0, -3.0])
def test_a_batch_is_its_samples(gamma: float) -> None:
    v, s = normal(2, 3, 20, 2), normal(2, 3, 20, 2, seed=1)
    batch = Landau(gamma).velocity(v, s)
    for i, j in itertools.product(range(2), range(3)):
        torch.testing.assert_close(batch[i, j], Landau(gamma).velocity(v[i, j], s[i, j]))


@pytest.mark.parametrize("gamma", [0.0, -3.0])
def test_momentum_and_energy(gamma: float) -> None:
    """Momentum stays; the energy rate is zero, so that Euler gains exactly dt^2 / 2 E|u|^2 a step."""
    start, equation = landau_start("two-mode", 3).sample(300, torch.Generator().manual_seed(0)), Landau(gamma)
    velocity = equation.velocity(start, KDE().fit(start).score(start))
    assert velocity.mean(0).abs().max() < 1e-15
    assert (velocity * start).sum(-1).mean().abs() < 1e-14
    dt = 0.1
    run = integrate(equation, start, KDE(), dt=dt, steps=3)
    assert (run.mean - run.mean[0]).abs().max() < 1e-12
    gain = 0.5 * dt**2 * velocity.square().sum(-1).mean()
    torch.testing.assert_close(run.energy[1] - run.energy[0], gain, rtol=1e-8, atol=1e-14)


def test_coinciding_particles_do_not_matter_to_each_other() -> None:
    v, s = normal(40, 3), normal(40, 3, seed=1)
    twice = Landau(-3.0).velocity(torch.cat([v, v]), torch.cat([s, s]))
    torch.testing.assert_close(twice[:40], Landau(-3.0).velocity(v, s), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("gamma", [0.0, -3.0])
def test_velocity_scales_with_the_units(gamma: float) -> None:
    """u(a v) = a^(g+1) u(v) because scores scale like 1/a: no absolute length hides in the guard."""
    v, s = normal(40, 3), normal(40, 3, seed=1)
    for a in (1e-6, 1e6):
        scaled = Landau(gamma).velocity(a * v, s / a) / a ** (gamma + 1)
        torch.testing.assert_close(scaled, Landau(gamma).velocity(v, s), rtol=1e-8, atol=1e-12)


def test_covariance_rate_of_maxwell_molecules() -> None:
    """On nodes with all moments of a Gaussian up to degree 5, dS/dt = -4dC (S - S_inf) to rounding."""
    node = [0.0, 0.0, 0.0, 0.0, 3**0.5, -(3**0.5)]  # Gauss-Hermite's weights as multiplicities
    standard = torch.tensor(list(itertools.product(node, repeat=3)), dtype=torch.float64)
    mix = normal(3, 3)
    v, precision = standard @ mix, torch.linalg.inv(mix.T @ mix)
    u = Landau().velocity(v, -v @ precision)
    rate = (u.T @ v + v.T @ u) / len(v)
    s = mix.T @ mix
    expected = -4 * 3 * C * (s - s.trace() / 3 * torch.eye(3, dtype=torch.float64))
    torch.testing.assert_close(rate, expected, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize(("dim", "start"), [(2, 8.4), (3, 5.5)])
def test_exact_scores_follow_the_exact_solution(dim: int, start: float) -> None:
    """With the BKW score, the covariance stays and the fourth moment grows as BKW's does."""
    points = BKW(start, dim).sample(4000, torch.Generator().manual_seed(0))
    points = match_moments(points, torch.zeros(dim), torch.eye(dim))
    oracle = ExactOracle(lambda t: BKW(t, dim))
    run = integrate(Landau(), points, oracle, dt=0.5, steps=12, time=start, scheme="heun")
    eye = torch.eye(dim, dtype=torch.float64)
    torch.testing.assert_close(run.covariance[-1], eye, rtol=0, atol=0.03)

    def fourth(t: float) -> float:  # E|v|^4 = d (d + 2) K (2 - K)
        k = 1 - np.exp(-2 * (dim - 1) * C * t)
        return float(dim * (dim + 2) * k * (2 - k))

    grown = run.points.square().sum(-1).square().mean() - points.square().sum(-1).square().mean()
    assert abs(grown - (fourth(start + 6) - fourth(start))) < 0.1 * (fourth(start + 6) - fourth(start))


def test_fokker_planck_energy_is_its_potential() -> None:
    x = normal(50, 3).requires_grad_()
    for equation in (OrnsteinUhlenbeck(2.0, center=torch.tensor([1.0, 0.0, 0.0])), DoubleWell(height=2.0)):
        assert equation.potential is not None
        (gradient,) = torch.autograd.grad(equation.energy(x) * len(x), x)
        torch.testing.assert_close(equation.drift(x.detach()), -gradient)


def test_diffusion_matrix() -> None:
    matrix = torch.tensor([[2.0, 0.5], [0.5, 1.0]], dtype=torch.float64)
    s = normal(5, 2)
    free = FokkerPlanck(torch.zeros_like, diffusion=matrix)
    torch.testing.assert_close(free.velocity(s, s), -s @ matrix)
    with pytest.raises(DataError, match="matrix has 2 columns, the particles 3"):
        free.velocity(normal(5, 3), normal(5, 3))


def test_steady_state_does_not_move() -> None:
    """In the double well at rest the score is -grad V / D, and nothing moves."""
    equation = DoubleWell(diffusion=0.5)
    x = normal(20, 2)
    assert equation.velocity(x, equation.drift(x) / 0.5).abs().max() < 1e-12


@pytest.mark.parametrize(("scheme", "order"), [("euler", 1), ("heun", 2)])
def test_order_of_the_schemes(scheme: str, order: int) -> None:
    """With the exact score, particles of a Gaussian keep to its standard deviation: 2^-order as dt halves."""
    start = gaussian(torch.zeros(1), 4 * torch.eye(1)).sample(50, torch.Generator().manual_seed(0)).double()
    law = gaussian(torch.zeros(1, dtype=torch.float64), 4 * torch.eye(1, dtype=torch.float64))
    oracle = ExactOracle(lambda t: ornstein_uhlenbeck(law, t))
    exact = start * ornstein_uhlenbeck(law, 1.0).std.item() / 2
    errors = []
    for steps in (20, 40):
        run = integrate(OrnsteinUhlenbeck(), start, oracle, dt=1 / steps, steps=steps, scheme=scheme)
        errors.append(float((run.points - exact).norm()))
    assert abs(np.log2(errors[0] / errors[1]) - order) < 0.15


def test_adaptive_steps_keep_their_tolerance_and_save_scores() -> None:
    law = landau_start("two-mode", 2)
    start = law.sample(50, torch.Generator().manual_seed(0))

    def solve(tolerance: float | None, steps: int) -> tuple[Tensor, int]:
        calls = []

        def score(points: Tensor, time: float) -> Tensor:
            calls.append(time)
            return ornstein_uhlenbeck(law, time).score(points)

        run = integrate(
            OrnsteinUhlenbeck(), start, score, dt=4 / steps, steps=steps, scheme="heun", tolerance=tolerance
        )
        assert len(run.times) == steps + 1
        return run.points, len(calls)

    exact, _ = solve(None, 500)
    errors, calls = [], []
    for tolerance in (1e-3, 1e-5):
        points, count = solve(tolerance, 4)
        errors.append(float((points - exact).square().mean().sqrt()))
        calls.append(count)
    assert errors[0] < 1e-2 and errors[1] < 2e-4
    assert calls[0] < calls[1]


def test_entropy_and_its_production() -> None:
    """For a Gaussian with matched moments the entropy changes by the integral of its production."""
    law = gaussian(torch.zeros(2, dtype=torch.float64), torch.diag(torch.tensor([4.0, 0.25]).double()))
    start = match_moments(
        law.sample(100, torch.Generator().manual_seed(0)), torch.zeros(2), torch.diag(law.std[0] ** 2)
    )
    run = integrate(OrnsteinUhlenbeck(), start, GaussianClosure(), dt=0.01, steps=100, scheme="heun")
    grown = torch.trapezoid(run.production, run.times)
    torch.testing.assert_close(run.entropy[-1] - run.entropy[0], grown, rtol=0, atol=1e-3)
    exact = 0.5 * torch.logdet(2 * torch.pi * torch.e * run.covariance[-1])
    torch.testing.assert_close(run.entropy[-1], exact)
    landau = integrate(Landau(), start, KDE(), dt=0.1, steps=3)
    assert bool((landau.production > 0).all()), "Landau never destroys entropy, whatever the score"


def test_entropy_is_nan_for_scores_alone() -> None:
    run = integrate(OrnsteinUhlenbeck(), normal(10, 2), lambda x, t: -x, dt=0.1, steps=2)
    assert bool(run.entropy.isnan().all()) and bool(run.production.isfinite().all())


class Failing(Oracle):
    """Interrupts the run at its k-th answer, like a Ctrl-C; otherwise another oracle."""

    def __init__(self, oracle: Oracle, k: int) -> None:
        self.oracle, self.left = oracle, k

    @property
    def name(self) -> str:
        return self.oracle.name

    def estimate(self, points: Tensor, time: float) -> Estimate[Tensor]:
        self.left -= 1
        if self.left < 0:
            raise KeyboardInterrupt
        return self.oracle.estimate(points, time)

    def state(self) -> dict[str, Tensor]:
        return self.oracle.state()

    def restore(self, state: dict[str, Tensor]) -> None:
        self.oracle.restore(state)


@pytest.mark.parametrize("kind", ["kde", "sbtm", "adaptive", "carried", "calibrated"])
def test_resumed_equals_unbroken(kind: str, tmp_path: Path) -> None:
    law = landau_start("gaussian", 2)
    start = law.sample(40, torch.Generator().manual_seed(0))
    options = {"scheme": "heun", "tolerance": 1e-4} if kind == "adaptive" else {}

    def oracle() -> Oracle:
        if kind == "sbtm":
            return SBTM(law, hidden=(8,), steps=3, start_steps=5)
        if kind == "carried":
            return Carried(KDE(), every=4)
        if kind == "calibrated":
            return Calibrated(Carried(KDE(), every=4))
        return as_oracle(KDE())

    common = {"dt": 0.2, "steps": 6, "frames": [0.0, 0.4, 1.2], **options}
    counted = Failing(oracle(), 10**6)
    unbroken = integrate(Landau(), start, counted, **common)
    path, half = tmp_path / "run.npz", (10**6 - counted.left) // 2
    with pytest.raises(KeyboardInterrupt):
        integrate(Landau(), start, Failing(oracle(), half), **common, checkpoint=path, save_seconds=0.0)
    resumed = integrate(Landau(), start, oracle(), **common, checkpoint=path, resume=True)
    for name in ("times", "mean", "covariance", "energy", "production", "frames", "frame_times", "points"):
        assert torch.equal(getattr(resumed, name), getattr(unbroken, name)), name
    assert torch.equal(resumed.entropy.nan_to_num(), unbroken.entropy.nan_to_num())

    longer = integrate(Landau(), start, oracle(), **{**common, "steps": 9}, checkpoint=path, resume=True)
    whole = integrate(Landau(), start, oracle(), **{**common, "steps": 9})
    assert torch.equal(longer.points, whole.points), "a finished run can go on"


def test_a_checkpoint_of_another_run_is_refused(tmp_path: Path) -> None:
    path, x = tmp_path / "run.npz", normal(10, 2)
    integrate(Landau(), x, KDE(), dt=0.1, steps=2, checkpoint=path)
    with pytest.raises(DataError, match="written with equation 'Landau Maxwell'"):
        integrate(Landau(-3.0), x, KDE(), dt=0.1, steps=3, checkpoint=path, resume=True)
    with pytest.raises(DataError, match="this run has 'Landau Maxwell C=1'"):
        integrate(Landau(strength=1.0), x, KDE(), dt=0.1, steps=3, checkpoint=path, resume=True)
    with pytest.raises(DataError, match="another start"):
        integrate(Landau(), normal(10, 2, seed=1), KDE(), dt=0.1, steps=3, checkpoint=path, resume=True)
    with pytest.raises(DataError, match="written with dt 0.1"):
        integrate(Landau(), x, KDE(), dt=0.2, steps=3, checkpoint=path, resume=True)
    with pytest.raises(DataError, match="written with oracle 'KDE'"):
        integrate(Landau(), x, GaussianClosure(), dt=0.1, steps=3, checkpoint=path, resume=True)
    with pytest.raises(DataError, match="at step 2 already"):
        integrate(Landau(), x, KDE(), dt=0.1, steps=1, checkpoint=path, resume=True)
    named = tmp_path / "named.npz"
    integrate(Landau(), x, MethodOracle(KDE(), "a"), dt=0.1, steps=2, checkpoint=named)
    with pytest.raises(DataError, match="written with oracle 'a', this run has 'b'"):
        integrate(Landau(), x, MethodOracle(KDE(), "b"), dt=0.1, steps=3, checkpoint=named, resume=True)
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(DataError, match="not a checkpoint"):
        integrate(Landau(), x, KDE(), dt=0.1, steps=3, checkpoint=path, resume=True)
    with pytest.raises(DataError, match="no checkpoint there"):
        integrate(Landau(), x, KDE(), dt=0.1, steps=3, checkpoint=tmp_path / "none.npz", resume=True)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"dt": 0.0}, "dt is 0.0"),
        ({"dt": float("nan")}, "dt is nan"),
        ({"time": float("inf")}, "time is inf"),
        ({"steps": 0}, "at least one"),
        ({"scheme": "leapfrog"}, "use 'euler' or 'heun'"),
        ({"tolerance": 1e-3}, "needs scheme='heun'"),
        ({"scheme": "heun", "tolerance": 0.0}, "must be positive"),
        ({"start": [[0.0, float("nan")], [1.0, 2.0]]}, "start has a NaN"),
        ({"start": [[0.0, 1.0]]}, "at least 2 are needed"),
        ({"start": [[0.0], [1.0]]}, "at least 2 dimensions"),
        ({"oracle": 7}, "no score oracle"),
        ({"oracle": lambda x, t: x[:1]}, "one score per particle"),
        ({"oracle": lambda x, t: x / 0}, "smaller dt or another oracle"),
        ({"resume": True}, "resume needs the checkpoint"),
    ],
)
def test_bad_input_is_one_clear_line(arguments: dict[str, object], message: str) -> None:
    given = {"start": normal(10, 2), "oracle": KDE(), "dt": 0.1, "steps": 1} | arguments
    with pytest.raises(DataError, match=message):
        integrate(Landau(), given.pop("start"), given.pop("oracle"), **given)


def test_bad_equations_are_refused() -> None:
    for build, message in (
        (lambda: Landau(strength=0.0), "must be positive"),
        (lambda: Landau(gamma=float("nan")), "0 for Maxwell"),
        (lambda: FokkerPlanck(torch.zeros_like, -1.0), "must not be negative"),
        (lambda: FokkerPlanck(torch.zeros_like, torch.tensor([[1.0, 2.0], [0.0, 1.0]])), "symmetric"),
        (lambda: OrnsteinUhlenbeck(rate=0.0), "only a positive one"),
        (lambda: DoubleWell(height=-1.0), "must be positive"),
        (lambda: SBTM(landau_start("gaussian", 2), steps=0), "positive steps"),
    ):
        with pytest.raises(DataError, match=message):
            build()


def test_a_batch_of_runs_is_its_runs() -> None:
    start = normal(2, 30, 2)
    batch = integrate(Landau(), start, KDE(), dt=0.1, steps=3)
    for b in range(2):
        single = integrate(Landau(), start[b], KDE(), dt=0.1, steps=3)
        torch.testing.assert_close(batch.points[b], single.points)
        torch.testing.assert_close(batch.entropy[:, b], single.entropy)
    with pytest.raises(DataError, match="this is a batch \\(2,\\)"):
        batch.table()
    with pytest.raises(DataError, match="one sample"):
        plot_relaxation(batch)


def test_ones_own_equation() -> None:
    """Twenty lines of the guide: the heat equation spreads a Gaussian by 2 D t."""

    class Heat(Equation):
        def velocity(self, points: Tensor, scores: Tensor) -> Tensor:
            return -0.5 * scores

    run = integrate(Heat(), normal(100, 2), GaussianClosure(), dt=0.01, steps=100, scheme="heun")
    expected = run.covariance[0] + torch.eye(2, dtype=torch.float64)
    torch.testing.assert_close(run.covariance[-1], expected, rtol=1e-4, atol=1e-4)
