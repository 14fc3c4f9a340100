"""Estimate the density of a real data set, list its most typical and most unusual rows, draw it.

    python examples/quickstart.py [PICTURE]

The picture goes to out/quickstart.png unless another name is given.
"""

import sys
from pathlib import Path

from sklearn.datasets import load_wine

from discoformer import DiScoFormer
from discoformer.views import plot_density

columns = ["flavanoids", "color_intensity"]
wine = load_wine(as_frame=True).data[columns]

est = DiScoFormer().fit(wine)
table = wine.join(est.estimate(wine))

print(f"wine: {len(table)} rows, mean log density {table['log_density'].mean():.3f}\n")
print("most typical rows", table.nlargest(3, "log_density").round(3).to_string(), sep="\n")
print("\nmost unusual rows", table.nsmallest(3, "log_density").round(3).to_string(), sep="\n")

picture = Path(sys.argv[1] if len(sys.argv) > 1 else "out/quickstart.png")
picture.parent.mkdir(parents=True, exist_ok=True)
plot_density(est.field_, wine.to_numpy(), columns, picture)
print(f"\nwrote {picture}")
