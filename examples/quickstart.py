"""Estimate the density of a real data set, list its most typical and most unusual rows, draw it.

    python examples/quickstart.py [PICTURE]

The picture goes to out/quickstart.png unless another name is given.
"""

import sys
from pathlib import Path

from sklearn.datasets import load_wine

from discoformer import KDE
from discoformer.plots import plot_density

columns = ["flavanoids", "color_intensity"]
wine = load_wine(as_frame=True).data[columns]
sample = wine.to_numpy()

field = KDE(bandwidth="scott").fit(sample)
log_density, score = field.estimate(sample)

table = wine.assign(log_density=log_density)
table[[f"score_{name}" for name in columns]] = score
print(f"wine: {len(table)} rows, mean log density {log_density.mean():.3f}\n")
print("most typical rows", table.nlargest(3, "log_density").round(3).to_string(), sep="\n")
print("\nmost unusual rows", table.nsmallest(3, "log_density").round(3).to_string(), sep="\n")

picture = Path(sys.argv[1] if len(sys.argv) > 1 else "out/quickstart.png")
picture.parent.mkdir(parents=True, exist_ok=True)
plot_density(field, sample, columns, picture)
print(f"\nwrote {picture}")
