"""A prior of one's own: train a copy of the default on one family for a few minutes, and judge it.

    python examples/own_prior.py [MINUTES]

The family is a wave: x is normal, y = sin(3 x + phase) + noise, with another phase in every data set.
"""

import math
import sys

import torch

from discoformer import load_model
from discoformer.evaluation.known_truth import measure, prior_datasets
from discoformer.priors import OwnPrior, check_prior
from discoformer.training.finetune import finetune

NOISE = 0.15


class Waves:
    """A batch of waves: what can be drawn, and the exact log density."""

    def __init__(self, phase):
        self.phase = phase  # (batch, 1)

    def sample(self, n, generator=None):
        x, noise = torch.randn(2, len(self.phase), n, generator=generator, dtype=self.phase.dtype)
        return torch.stack([x, torch.sin(3 * x + self.phase) + NOISE * noise], -1)

    def log_density(self, points):
        x, y = points.unbind(-1)
        residual = (y - torch.sin(3 * x + self.phase.to(points))) / NOISE
        return -0.5 * (x.square() + residual.square()) - math.log(2 * math.pi * NOISE)


class WavePrior(OwnPrior):
    """Waves with a random phase."""

    def distributions(self, batch, dim, generator, dtype):
        return Waves(2 * math.pi * torch.rand(batch, 1, generator=generator, dtype=dtype))


minutes = float(sys.argv[1]) if len(sys.argv) > 1 else 5.0
prior = WavePrior()
check_prior(prior, dim=2)  # samples and log densities belong together

default = load_model("default")
tuned = finetune(default, prior, minutes=minutes, dims=(2,), sizes=(64, 256), lr=1e-3)
print(f"{tuned.steps} steps; log density per held-out row: {tuned.before:.3f} -> {tuned.after:.3f}")

errors = measure({"default": default, "fine-tuned": tuned.model}, prior_datasets(prior, 2, 128, 20, seed=7))
for name, error in errors.items():
    print(f"{name}: relative score error {100 * error.relative_score:.1f}%")
