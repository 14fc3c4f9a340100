"""
How good on the distributions that you expect?
==============================================

A prior is a distribution over distributions whose density and score are known. It is what a network is
trained on, and it tells how good a method is on the kind of data you expect. Here: thin tilted clusters,
three to five of them.
"""

import matplotlib.pyplot as plt
import numpy as np
import torch

from discoformer import KDE, load_model
from discoformer.baselines import GaussianMixtureBIC
from discoformer.priors import GMMPrior
from discoformer.views import STYLE

plt.style.use(STYLE)
prior = GMMPrior(modes=(3, 5), scale=(0.05, 1.0), covariance="rotated", weights="dirichlet")
generator = torch.Generator().manual_seed(1)
targets = [prior.draw(1, 2, generator, dtype=torch.float64) for _ in range(6)]

# %%
# Six distributions of this prior, each with 500 points.

samples = [target.sample(500, generator)[0] for target in targets]
fig, panels = plt.subplots(2, 3, figsize=(9, 5.6), layout="constrained")
for ax, sample in zip(panels.flat, samples, strict=True):
    ax.plot(*sample.T, "o", markersize=2, markeredgewidth=0, alpha=0.6)
    ax.set(aspect="equal", adjustable="datalim")
plt.show()

# %%
# The error of the score at the points, relative to the exact score. A mixture with as many components as BIC
# wants has the advantage here that the clusters are exactly Gaussian. To train a network of your own on such
# data, put the prior into a recipe: ``prior: {name: gmm, modes: [3, 5], covariance: rotated}``.

methods = {
    "kernel (Scott)": KDE("scott"),
    "kernel (leave one out)": KDE("loo"),
    "mixture by BIC": GaussianMixtureBIC(),
    "default network": load_model(),
}
errors = {
    name: [
        float((method.fit(x).score(x) - t.score(x)[0]).square().sum() / t.score(x).square().sum())
        for t, x in zip(targets, samples, strict=True)
    ]
    for name, method in methods.items()
}
fig, ax = plt.subplots(figsize=(7, 2.8), layout="constrained")
for row, found in enumerate(errors.values()):
    ax.plot(found, [row] * len(found), "o", color="C0", alpha=0.5, markeredgewidth=0)
    ax.plot(np.median(found), row, "|", color="C1", markersize=18, markeredgewidth=2.5)
ax.set(xscale="log", xlabel="relative score error, six distributions and their median", ylim=(-0.6, 3.6))
ax.set_yticks(range(len(errors)), list(errors))
plt.show()
