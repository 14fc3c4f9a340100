"""Score-based transport modeling."""

import torch
from helpers import normal
from torch import Tensor

from discoformer.particles import (
    SBTM,
    landau_start,
)


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
