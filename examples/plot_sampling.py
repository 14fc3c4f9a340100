"""
New rows that look like the old ones
====================================

``sample`` draws from the fitted density, exactly. Here are the wines, and as many that no one has
bottled.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_wine

from discoformer import DiScoFormer
from discoformer.views import STYLE

plt.style.use(STYLE)
columns = ["flavanoids", "color_intensity", "proline"]
wine = load_wine(as_frame=True).data[columns]
est = DiScoFormer(bounds=(0, None)).fit(wine)  # no column can be negative
new = est.sample(len(wine), random_state=0)
print(wine.corr().round(2), new.corr().round(2), sep="\n\n")

# %%
# Clusters, their tilt and the empty corners are those of the sample.

fig, panels = plt.subplots(2, 2, figsize=(8, 6.4), sharex=True, sharey="row", layout="constrained")
for side, (title, table) in enumerate({"real": wine, "synthetic": new}.items()):
    for row, column in enumerate(columns[1:]):
        panels[row, side].plot(
            table["flavanoids"], table[column], "o", markersize=3.5, alpha=0.6, color=f"C{side}"
        )
        panels[row, 0].set_ylabel(column)
    panels[0, side].set_title(title)
    panels[1, side].set_xlabel("flavanoids")
plt.show()

# %%
# Margins, too: the lines are the distribution functions of the 178 rows and of 5000 draws.

many = est.sample(5000, random_state=1)
fig, panels = plt.subplots(1, 3, figsize=(9, 2.8), sharey=True, layout="constrained")
for ax, column in zip(panels, columns, strict=True):
    for name, table in {"real": wine, "synthetic": many}.items():
        ax.plot(np.sort(table[column]), np.linspace(0, 1, len(table)), label=name)
    ax.set_xlabel(column)
panels[0].set_ylabel("share below")
panels[0].legend()
plt.show()
