"""What the experiments on functionals, SD-KDE and score matching share: who takes part, and averages."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from discoformer.checks import DataError
from discoformer.fields import Method
from discoformer.models.registry import list_models, load_model
from discoformer.resolve import resolve

SEED = 5_000_000  # of these experiments; benchmarks, validation and particles have their own


def networks(model: str, dim: int) -> dict[str, Method]:
    """Our network and, where its weights are in the package, the paper's core for this dimension."""
    found: dict[str, Method] = {}
    try:
        found[model] = resolve(model).method
    except DataError as error:
        print(f"without {model!r}: {error}")
    attention = f"attention-d{dim}"
    if attention in list_models():
        found[attention] = load_model(attention)
    return found


def average(values: Sequence[float]) -> tuple[float, float]:
    """Mean and its standard error."""
    return float(np.mean(values)), float(np.std(values, ddof=1) / np.sqrt(len(values)))


def shown(mean: float, error: float) -> str:
    return "" if np.isnan(mean) else f"{mean:.4f} ({error:.4f})"
