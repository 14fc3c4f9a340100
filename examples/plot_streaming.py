"""
A file that is not in memory
============================

Give ``fit`` a path instead of an array. The file is read in chunks, a few passes of it, and the answer is
that of the same rows in memory. Here 300,000 rows are written to a temporary file first.
"""

import tempfile
import time
import warnings
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import torch

from discoformer import DiScoFormer, RangeWarning
from discoformer.priors import Banana, Warped, gaussian
from discoformer.views import STYLE, plot_density

plt.style.use(STYLE)
warnings.simplefilter("ignore", RangeWarning)  # the network was trained on up to 8192 rows
bend = Banana(torch.tensor(0.8, dtype=torch.float64), torch.tensor(1.0, dtype=torch.float64))
truth = Warped(gaussian(torch.zeros(2).double(), torch.diag(torch.tensor([1.0, 0.2])).double()), bend)

# %%
with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "rows.npy"
    np.save(path, truth.sample(300_000, torch.Generator().manual_seed(0)).numpy().astype(np.float32))
    start = time.perf_counter()
    est = DiScoFormer().fit(path)
    print(f"fitted {path.stat().st_size / 1e6:.1f} MB in {time.perf_counter() - start:.1f} s")
    rows = np.load(path, mmap_mode="r")[::600].astype(np.float64)

exact = truth.score(rows)
error = ((est.score_function(rows) - exact) ** 2).sum() / (exact**2).sum()
print(f"relative error of the score: {error:.2%}")

# %%
fig, ax = plt.subplots(figsize=(6.5, 4.8), layout="constrained")
plot_density(est.field_, rows, ["first", "second"], ax=ax)
plt.show()
