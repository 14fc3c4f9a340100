"""
Rows that count more than others
================================

A survey asked too many young people. With ``sample_weight`` every row counts as often as it should have
been asked, and the density is that of the population.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy import stats

from discoformer import DiScoFormer
from discoformer.views import STYLE

plt.style.use(STYLE)
rng = np.random.default_rng(0)
population = stats.norm(42, 13)
asked = stats.norm(33, 13)
age = asked.rvs(1500, random_state=rng)
weight = population.pdf(age) / asked.pdf(age)
effective = weight.sum() ** 2 / (weight**2).sum()
print(f"1500 rows, worth {effective:.0f} equal ones")

# %%
grid = np.linspace(-8, 90, 400)
fig, ax = plt.subplots(figsize=(7, 3.8), layout="constrained")
ax.fill_between(grid, population.pdf(grid), color="#cfd8de", label="population")
for label, weights in {"as asked": None, "weighted": weight}.items():
    est = DiScoFormer().fit(age[:, None], sample_weight=weights)
    ax.plot(grid, np.exp(est.score_samples(grid[:, None])), label=label)
ax.set(xlabel="age", ylabel="density", ylim=(0, None))
ax.legend()
plt.show()
