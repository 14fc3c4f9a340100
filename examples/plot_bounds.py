"""
Columns that cannot go everywhere
=================================

Waiting times are positive, shares lie between 0 and 1. Without being told, an estimate leaks over the
edge and is too low beside it. With ``bounds`` no mass is put outside, and the density is right up to the
edge.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy import stats

from discoformer import KDE, DiScoFormer
from discoformer.views import STYLE

plt.style.use(STYLE)
rng = np.random.default_rng(0)
laws = {
    "waiting times": (stats.expon(), (0, None), np.linspace(-0.8, 5, 500)),
    "shares": (stats.beta(0.8, 2), (0, 1), np.linspace(-0.2, 1.2, 500)),
}

fig, panels = plt.subplots(1, 2, figsize=(9.5, 3.6), layout="constrained")
for ax, (name, (law, bounds, grid)) in zip(panels, laws.items(), strict=True):
    sample = law.rvs(500, random_state=rng)[:, None]
    fits = {
        "kernel estimate": DiScoFormer(model=KDE("scott")).fit(sample),
        "network": DiScoFormer().fit(sample),
        "network with bounds": DiScoFormer(bounds=bounds).fit(sample),
    }
    ax.fill_between(grid, law.pdf(grid), color="#cfd8de", label="truth")
    for colour, (label, est) in zip(("C4", "C2", "C0"), fits.items(), strict=True):
        ax.plot(grid, np.exp(est.score_samples(grid[:, None])), color=colour, label=label)
    ax.set(xlabel=name, ylim=(0, 1.25 * law.pdf(np.quantile(sample, 0.03))), xlim=(grid[0], grid[-1]))
panels[0].set_ylabel("density")
panels[0].legend()
plt.show()
