"""What the tests of streams and clusters share."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discoformer.models.mixture.stack import Stack
from discoformer.models.registry import load_model

EXACT = {"rtol": 1e-10, "atol": 1e-10}


def points(rows: int = 5000, dim: int = 3, seed: int = 0) -> NDArray[np.float64]:
    """Two correlated groups; more rows than the pool of landmarks unless fewer are asked for."""
    rng = np.random.default_rng(seed)
    group = rng.integers(0, 2, size=(rows, 1))
    return (rng.normal(size=(rows, dim)) * (1 - 0.6 * group) + 2 * group) @ rng.normal(size=(dim, dim))


def stack(model_path: Path, axis_path: Path) -> Stack:
    return Stack([load_model(path) for path in (model_path, axis_path)])  # type: ignore[list-item]


def assert_same_field(field: Any, other: Any, at: NDArray[np.float64], **tolerance: float) -> None:
    tolerance = tolerance or EXACT
    for one, two in zip(field.estimate(at), other.estimate(at), strict=True):
        np.testing.assert_allclose(one, two, **tolerance)
