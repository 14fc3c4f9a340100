"""
A plasma relaxes
================

Landau's equation moves particles by their score. Two streams of Maxwell molecules collide until their
velocities are the same in all directions. The network is fitted to the particles at every step. For Maxwell
molecules the covariance is known at all times: the dashed lines.
"""

import matplotlib.pyplot as plt
import torch

from discoformer import load_model
from discoformer.particles import Landau, integrate, landau_start, maxwell_covariance
from discoformer.views import STYLE, plot_relaxation

plt.style.use(STYLE)
start = landau_start("two-mode", 3).sample(400, torch.Generator().manual_seed(0))
run = integrate(Landau(), start, load_model(), dt=0.1, steps=100, frames=[0.0, 2.0, 5.0, 10.0])

exact = maxwell_covariance(run.covariance[0], run.times)
print(f"variance along the streams at the end: {run.covariance[-1, 0, 0]:.3f}, exact {exact[-1, 0, 0]:.3f}")
print(f"energy has changed by {float(run.energy[-1] / run.energy[0] - 1):.1e}")

# %%
fig, ax = plt.subplots(figsize=(9, 5.6), layout="constrained")
plot_relaxation(run, exact, ax=ax)
plt.show()
