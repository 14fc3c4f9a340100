"""
Beside kernel density estimates
===============================

A kernel estimate has one bandwidth for the whole sample: wide enough for the broad cluster, it smears the
narrow ones. The network has no bandwidth. The truth is known here, so errors can be stated.
"""

import matplotlib.pyplot as plt
import numpy as np
import torch

from discoformer import KDE, load_model
from discoformer.priors import LocationScaleMixture
from discoformer.views import STYLE

plt.style.use(STYLE)
truth = LocationScaleMixture(
    weights=torch.tensor([0.5, 0.2, 0.2, 0.1], dtype=torch.float64),
    means=torch.tensor([[0.0, 0.0], [2.0, 1.5], [-2.0, 1.5], [0.0, -2.5]], dtype=torch.float64),
    std=torch.tensor([[1.0, 0.9], [0.15, 0.4], [0.4, 0.15], [0.9, 0.08]], dtype=torch.float64),
)
sample = truth.sample(1000, torch.Generator().manual_seed(0)).numpy()
fields = {
    "truth": truth,
    "kernel, Scott's rule": KDE("scott").fit(sample),
    "kernel, leave one out": KDE("loo").fit(sample),
    "default network": load_model().fit(sample),
}

# %%
# Colours are the same in all panels. The error is the mean squared error of the log density at the
# sample.

x = np.linspace(-3.6, 3.6, 150)
grid = np.stack(np.meshgrid(x, x), -1).reshape(-1, 2)
levels = np.linspace(-9, np.max(truth.log_density(grid)), 13)
fig, panels = plt.subplots(1, 4, figsize=(12, 3.4), sharey=True, layout="constrained")
for ax, (name, field) in zip(panels, fields.items(), strict=True):
    ax.contourf(x, x, field.log_density(grid).reshape(150, 150), levels, cmap="viridis_r", extend="max")
    error = np.mean((field.log_density(sample) - truth.log_density(sample)) ** 2)
    ax.set(title=name if field is truth else f"{name}: {error:.3f}", aspect="equal")
plt.show()
