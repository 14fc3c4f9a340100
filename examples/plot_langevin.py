r"""
Langevin dynamics with an estimated score
=========================================

The score is all that Langevin dynamics needs: :math:`dX = s(X)\,dt + \sqrt{2}\,dW` has the density as its
steady state. Points that start in one corner spread over the two moons that the sample shows.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_moons

from discoformer import DiScoFormer
from discoformer.views import STYLE

plt.style.use(STYLE)
sample, _ = make_moons(1000, noise=0.12, random_state=0)
est = DiScoFormer().fit(sample)

# %%
# Steps are small against the width of the moons. The score is asked for at all points at once.

rng = np.random.default_rng(0)
points = rng.normal([1.8, 1.2], 0.1, size=(500, 2))
dt, kept = 2e-3, {0: points}
for step in range(1, 601):
    points = points + dt * est.score_function(points) + np.sqrt(2 * dt) * rng.normal(size=points.shape)
    if step in (15, 100, 600):
        kept[step] = points

# %%
# Grey: the sample. Colour: the points, after some steps.

fig, panels = plt.subplots(1, 4, figsize=(11, 2.9), sharex=True, sharey=True, layout="constrained")
for ax, (step, cloud) in zip(panels, kept.items(), strict=True):
    ax.plot(*sample.T, "o", color="#cfd8de", markersize=2.5, markeredgewidth=0)
    ax.plot(*cloud.T, "o", color="C0", markersize=2.5, markeredgewidth=0, alpha=0.7)
    ax.set(title=f"{step} steps", aspect="equal")
plt.show()
