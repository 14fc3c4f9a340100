"""
Densities given a column
========================

One fit answers many questions: ``conditional`` and ``marginal`` return estimators of the remaining
columns, in closed form, without another fit.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.datasets import load_wine

from discoformer import DiScoFormer
from discoformer.views import STYLE

plt.style.use(STYLE)
wine = load_wine(as_frame=True).data[["alcohol", "color_intensity", "proline"]]
est = DiScoFormer(bounds={"proline": (0, None)}).fit(wine)

# %%
# How much proline has a wine of so much alcohol? The colour does not matter here, so it is left out
# first.

grid = np.linspace(0, 1800, 400)
both = est.marginal(["alcohol", "proline"])
fig, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
left.plot(wine["alcohol"], wine["proline"], "o", color="#5a6872", markersize=3, alpha=0.6)
for place, alcohol in enumerate([12.0, 13.0, 14.0]):
    given = both.conditional("alcohol", alcohol)
    density = np.exp(given.log_density(pd.DataFrame({"proline": grid})))
    right.fill_between(grid, density, color=f"C{place}", alpha=0.12, linewidth=0)
    right.plot(grid, density, color=f"C{place}", label=f"alcohol = {alcohol:g}")
    left.axvline(alcohol, color=f"C{place}", linewidth=1.2)
left.set(xlabel="alcohol", ylabel="proline")
right.set(xlabel="proline", ylabel="density given alcohol", yticks=[], ylim=(0, None))
right.legend()
plt.show()
