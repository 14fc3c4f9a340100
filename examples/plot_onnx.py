"""
A fitted density as an ONNX program
===================================

Log density and score of a fitted sample are plain tensor operations. ``export_read`` writes them to a
file that runs under onnxruntime, from C++, Java, JavaScript or a database, without this package.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import onnxruntime
import pandas as pd
from sklearn.datasets import load_wine

from discoformer import DiScoFormer
from discoformer.export import export_read
from discoformer.views import STYLE

plt.style.use(STYLE)
columns = ["flavanoids", "color_intensity"]
wine = load_wine(as_frame=True).data[columns]
est = DiScoFormer(bounds=(0, None)).fit(wine)

x, y = np.linspace(0.05, 5, 160), np.linspace(0.2, 14, 160)
points = np.stack(np.meshgrid(x, y), -1).reshape(-1, 2)
with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "wine.onnx"
    export_read(est.field_, path, columns=columns)
    print(f"{path.stat().st_size / 1e3:.0f} kB")
    log_density, score = onnxruntime.InferenceSession(path).run(None, {"queries": points})
worst = np.abs(log_density - est.score_samples(pd.DataFrame(points, columns=columns))).max()
print(f"largest difference of the log density: {worst:.1e}")

# %%
# Density and score as the file gives them.

fig, ax = plt.subplots(figsize=(6.5, 4.8), layout="constrained")
image = ax.pcolormesh(x, y, np.exp(log_density).reshape(160, 160), cmap="viridis", rasterized=True)
few = np.s_[8::16, 8::16]
arrows = score.reshape(160, 160, 2)[few] * [5, 14]
arrows /= np.sqrt(np.linalg.norm(arrows, axis=-1, keepdims=True))
grid = points.reshape(160, 160, 2)[few]
ax.quiver(
    *grid.reshape(-1, 2).T, *arrows.reshape(-1, 2).T, color="white", alpha=0.7, width=0.003, pivot="mid"
)
ax.set(xlabel=columns[0], ylabel=columns[1])
fig.colorbar(image, label="density")
plt.show()
