"""What is recorded along a run."""

from pathlib import Path

import pytest
import torch
from helpers import normal
from torch import Tensor

from discoformer import KDE, DataError, Estimate
from discoformer.particles import (
    SBTM,
    Calibrated,
    Carried,
    GaussianClosure,
    Landau,
    Oracle,
    OrnsteinUhlenbeck,
    integrate,
    landau_start,
    match_moments,
)
from discoformer.particles.oracles import MethodOracle, as_oracle
from discoformer.priors import gaussian


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
