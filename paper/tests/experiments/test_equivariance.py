"""Table 1: the maps."""

import numpy as np

from discoformer.methods import resolve
from discoformer_paper.experiments.equivariance import equivariance_errors


def test_kde_follows_every_map_but_rotations() -> None:
    errors = equivariance_errors(resolve("kde-scott").method, dim=2, size=64, trial=2)
    values = np.array([list(error.values()) for error in errors])
    assert (values[:4] < 1e-20).all() and (values[4:] > 1e-6).all()
