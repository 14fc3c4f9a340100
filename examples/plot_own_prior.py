"""
A network for one kind of data
==============================

Who always meets the same kind of data can say so: a class that draws distributions of this kind, with their
exact log density, is enough to train a copy of the default. Here: waves. x is normal, y follows a sine of it
with some noise, and every data set has another phase.
"""

import math
import sys

import matplotlib.pyplot as plt
import torch

from discoformer import load_model
from discoformer.evaluation.known_truth import measure, prior_datasets
from discoformer.priors import OwnPrior, check_prior
from discoformer.training.finetune import finetune
from discoformer.views import STYLE

plt.style.use(STYLE)
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


prior = WavePrior()
check_prior(prior, dim=2)  # samples and log densities belong together

# %%
# The score comes by autograd. `finetune` trains a copy and leaves the default alone; rows that it has not
# seen judge whether the copy is better. This page takes 60 steps, a few seconds;
# ``python plot_own_prior.py 5`` trains for five minutes.

default = load_model("default")
how_long = {"minutes": float(sys.argv[1])} if len(sys.argv) > 1 else {"steps": 60}
tuned = finetune(default, prior, **how_long, dims=(2,), sizes=(64, 256), lr=1e-3)
print(f"{tuned.steps} steps; log density per held-out row: {tuned.before:.3f} -> {tuned.after:.3f}")

# %%
# Both on twenty new waves with 128 points each: the error of the score, relative to the exact one.

methods = {"default": default, "fine-tuned": tuned.model}
for name, error in measure(methods, prior_datasets(prior, 2, 128, 20, seed=7)).items():
    print(f"{name}: relative score error {100 * error.relative_score:.1f}%")

# %%
# And on one of them, as pictures.

sample, wave, _ = next(prior_datasets(prior, 2, 128, 1, seed=7))
x, y = torch.meshgrid(torch.linspace(-3.5, 3.5, 150), torch.linspace(-1.8, 1.8, 100), indexing="xy")
grid = torch.stack([x, y], -1).reshape(-1, 2).double()
densities = {"exact": wave.log_density(grid[None])[0]}
densities |= {name: method.fit(sample).log_density(grid) for name, method in methods.items()}
fig, panels = plt.subplots(1, 3, figsize=(9, 2.8), layout="constrained", sharey=True)
for ax, (name, log_density) in zip(panels, densities.items(), strict=True):
    ax.contourf(x, y, log_density.exp().reshape(x.shape), levels=12, cmap="Blues")
    ax.plot(*sample.T, "o", markersize=2, markeredgewidth=0, color="C1")
    ax.set(title=name, xlabel="x", xlim=(-3.5, 3.5))
panels[0].set_ylabel("y")
plt.show()
