"""
A dask array, lazily
====================

``fit`` takes a dask array, and answers at a dask array are lazy dask arrays. With a ``dask.distributed``
client the same lines run on a cluster; without one, as here, in this process.
"""

import warnings

import dask.array as da
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_circles

from discoformer import DiScoFormer, RangeWarning
from discoformer.views import STYLE

plt.style.use(STYLE)
warnings.simplefilter("ignore", RangeWarning)  # the network was trained on up to 8192 rows
points, _ = make_circles(20_000, noise=0.06, factor=0.5, random_state=0)
sample = da.from_array(points, chunks=(2500, 2))
est = DiScoFormer().fit(sample)

# %%
# A map of the density: 200 x 200 points in blocks of 10,000. Nothing is computed before it is asked for.

x = np.linspace(-1.5, 1.5, 200)
grid = da.from_array(np.stack(np.meshgrid(x, x), -1).reshape(-1, 2), chunks=(10_000, 2))
lazy = da.exp(est.score_samples(grid)).reshape(200, 200)
print(lazy)
density = lazy.compute()

fig, ax = plt.subplots(figsize=(5.6, 4.6), layout="constrained")
image = ax.pcolormesh(x, x, density, cmap="viridis", rasterized=True)
ax.set(aspect="equal")
fig.colorbar(image, label="density")
plt.show()
