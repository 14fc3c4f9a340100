"""
Entropy and divergences from samples
====================================

How far are two samples apart? The Kullback-Leibler divergence between normal distributions in three
dimensions is known, so the estimates can be checked. Each comes with a standard error.
"""

import matplotlib.pyplot as plt
import numpy as np

from discoformer import KDE, load_model
from discoformer.functionals import entropy, kl_divergence
from discoformer.functionals.neighbours import knn_kl_divergence
from discoformer.views import STYLE

plt.style.use(STYLE)
rng = np.random.default_rng(0)
network = load_model()
first = rng.normal(size=(500, 3))
print("entropy, exact", round(1.5 * np.log(2 * np.pi * np.e), 3))
print("entropy, found", entropy(first, network))

# %%
# The second sample is shifted, by up to two standard deviations: the divergence is half of the shift
# squared.

shifts = np.linspace(0, 2, 6)
methods = {
    "default network": lambda x, y: kl_divergence(x, y, network),
    "kernel estimate": lambda x, y: kl_divergence(x, y, KDE("loo")),
    "nearest neighbours": knn_kl_divergence,
}
others = [rng.normal(size=(500, 3)) + [shift, 0, 0] for shift in shifts]
fig, ax = plt.subplots(figsize=(6.5, 4), layout="constrained")
fine = np.linspace(0, 2, 100)
ax.plot(fine, fine**2 / 2, color="#5a6872", linewidth=1.2, linestyle="--", label="exact")
for place, (name, method) in enumerate(methods.items()):
    values, errors = zip(*(method(first, other)[:2] for other in others), strict=True)
    offset = 0.02 * (place - 1)
    ax.errorbar(shifts + offset, values, errors, fmt="o", markersize=4, capsize=2, label=name)
ax.set(xlabel="shift of the second sample", ylabel="Kullback-Leibler divergence")
ax.legend()
plt.show()
