"""
Fill a gap by what the other columns say
========================================

``conditional`` gives the density of the columns that are missing, given those that are there. Its draws
fill a gap without pretending to know more than the data: their spread is the uncertainty of the answer.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_wine

from discoformer import DiScoFormer
from discoformer.views import STYLE

plt.style.use(STYLE)
columns = ["alcohol", "flavanoids", "color_intensity", "proline"]
wine = load_wine(as_frame=True).data[columns].sample(frac=1, random_state=0)
known, gaps = wine.iloc[:140], wine.iloc[140:]  # pretend that proline is missing in the last 38 rows

# %%
# One fit to the complete rows; then, for every row with a gap, 200 draws of what is missing.

est = DiScoFormer(bounds={"proline": (0, None)}).fit(known)
rest = columns[:3]
draws = np.array(
    [est.conditional(rest, row).sample(200, random_state=0)["proline"] for row in gaps[rest].to_numpy()]
)
low, middle, high = np.quantile(draws, [0.05, 0.5, 0.95], axis=1)
truth = gaps["proline"].to_numpy()
inside = ((truth >= low) & (truth <= high)).mean()
error, usual = np.abs(truth - middle).mean(), np.abs(truth - known["proline"].median()).mean()
print(f"mean error {error:.0f}, with the median of the column {usual:.0f}; {inside:.0%} in the 90% intervals")

# %%
# Each line is the interval that holds nine in ten of the draws.

order = np.argsort(truth)
fig, ax = plt.subplots(figsize=(7, 4), layout="constrained")
place = np.arange(len(order))
ax.vlines(place, low[order], high[order], color="#cfd8de", linewidth=5)
ax.plot(place, middle[order], "o", markersize=4, label="median of the draws")
ax.plot(place, truth[order], "x", label="what was left out")
ax.axhline(
    known["proline"].median(), color="#5a6872", linewidth=1, linestyle="--", label="median of the column"
)
ax.set(xlabel="rows with a gap, ordered by the truth", ylabel="proline", xticks=[])
ax.legend()
plt.show()
