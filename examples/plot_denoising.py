r"""
Denoising by Tweedie's formula
==============================

If :math:`y = x + \sigma\varepsilon`, the best guess of :math:`x` is :math:`y + \sigma^2 s(y)`, where
:math:`s` is the score of the *noisy* data. Nothing about the clean data is needed: a fit to the noisy
sample is enough.
"""

import matplotlib.pyplot as plt
import numpy as np
import torch

from discoformer import KDE, DiScoFormer
from discoformer.priors import spiral
from discoformer.views import STYLE

plt.style.use(STYLE)
sigma = 0.25
clean = spiral(turns=1.5, width=0.05).sample(3000, torch.Generator().manual_seed(0)).numpy()
noisy = clean + sigma * np.random.default_rng(0).normal(size=clean.shape)

# %%
# The score of a kernel estimate is that of data with still more noise; it moves the points less than it
# should.

guesses = {"noisy": noisy}
for name, model in {"kernel estimate": KDE("scott"), "default network": "default"}.items():
    score = DiScoFormer(model=model).fit(noisy).score_function(noisy)
    guesses[name] = noisy + sigma**2 * score

fig, panels = plt.subplots(1, 3, figsize=(10, 3.7), sharex=True, sharey=True, layout="constrained")
for ax, (name, points) in zip(panels, guesses.items(), strict=True):
    error = np.sqrt(((points - clean) ** 2).sum(1).mean())
    ax.plot(*points.T, "o", markersize=1.8, markeredgewidth=0, alpha=0.5)
    ax.set(title=f"{name}: error {error:.3f}", aspect="equal")
plt.show()
