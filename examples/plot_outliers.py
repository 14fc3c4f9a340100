"""
Rows that look like errors
==========================

A value can be wrong without being extreme. Here three rows of a clean table get a slip of the pen: a
weight in pounds, an age without its last digit, a child's height for an adult. Each number on its own is
one that its column has elsewhere. Only the combination is rare, and the log density says so.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from discoformer.evaluation.held_out import held_out_log_likelihood
from discoformer.methods import resolve
from discoformer.views import STYLE

plt.style.use(STYLE)
rng = np.random.default_rng(0)
age = rng.uniform(3, 60, 1000)
height = np.minimum(80 + 6.2 * age, 172) + rng.normal(0, 4, 1000)
weight = 22 * (height / 100) ** 2 * np.exp(rng.normal(0, 0.08, 1000))
people = pd.DataFrame({"age": age, "height": height, "weight": weight}).round(1)

planted = [17, 101, 512]
people.loc[17, "weight"] = 130.0  # pounds; the others are in kilograms
people.loc[101, "age"] = 5.0
people.loc[512, "height"] = 104.0

# %%
# A fit that has seen a row is too sure of it. So every row is asked of a fit to other rows, in ten folds.

held_out = held_out_log_likelihood(resolve("default").method, people, folds=10)
people["log_density"] = held_out.log_density
print(people.nsmallest(5, "log_density").round(1))

# %%
# The planted rows are marked.

fig, panels = plt.subplots(1, 2, figsize=(9.5, 3.8), layout="constrained")
usual = people.drop(planted)
for ax, (x, y) in zip(panels, [("age", "height"), ("height", "weight")], strict=True):
    dots = ax.scatter(usual[x], usual[y], s=12, c=usual["log_density"], cmap="viridis", vmin=-15, vmax=-8)
    ax.plot(people.loc[planted, x], people.loc[planted, y], "o", color="C1", markersize=7)
    for row in planted:
        ax.annotate(
            f"row {row}", people.loc[row, [x, y]], (7, 6), textcoords="offset points", fontweight="bold"
        )
    ax.set(xlabel=x, ylabel=y)
fig.colorbar(dots, ax=panels, label="log density of the others", extend="both")
plt.show()
