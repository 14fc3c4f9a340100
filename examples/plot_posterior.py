r"""
A posterior from simulations
============================

Draw parameters from their prior, simulate data for each, and fit the *joint* density of both. Given what
was observed, the conditional density is the posterior: no likelihood is written down, nothing is trained,
and another observation costs nothing.

Here :math:`\theta \sim N(0, 1)` and :math:`x = \theta^2 + \varepsilon`. The sign of the parameter is
lost, so the posterior has two modes.
"""

import matplotlib.pyplot as plt
import numpy as np

from discoformer import DiScoFormer
from discoformer.views import STYLE

plt.style.use(STYLE)
rng = np.random.default_rng(0)
noise = 0.3
theta = rng.normal(size=4000)
x = theta**2 + noise * rng.normal(size=4000)
est = DiScoFormer().fit(np.column_stack([theta, x]))

# %%
# The exact posterior is known here, up to its normalization, which a sum over a grid gives.

grid = np.linspace(-2.5, 2.5, 401)
fig, panels = plt.subplots(1, 3, figsize=(9.5, 3), sharey=True, layout="constrained")
for ax, observed in zip(panels, [0.0, 1.0, 2.5], strict=True):
    exact = np.exp(-(grid**2) / 2 - (observed - grid**2) ** 2 / (2 * noise**2))
    exact /= exact.sum() * (grid[1] - grid[0])
    found = np.exp(est.conditional(1, observed).score_samples(grid[:, None]))
    ax.plot(grid, exact, color="#5a6872", linewidth=1.2, linestyle="--", label="exact")
    ax.plot(grid, found, label="from 4000 simulations")
    ax.set(title=f"x = {observed:g}", xlabel=r"$\theta$")
panels[0].set_ylabel("posterior density")
panels[0].legend(loc="upper center")
panels[0].set_ylim(0, None)
plt.show()
