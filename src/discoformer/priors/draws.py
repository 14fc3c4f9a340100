"""Seeded draws the priors are made of, and the checks of their ranges."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from discoformer.core.checks import DataError

__all__ = [
    "Range",
    "check_choice",
    "check_modes",
    "check_number",
    "check_probability",
    "check_range",
    "flip",
    "log_uniform",
    "mixture_weights",
    "uniform",
]

Range = tuple[float, float]


def flip(probability: float, generator: torch.Generator | None) -> bool:
    """A coin that shows heads with this probability."""
    return float(torch.rand((), generator=generator)) < probability


def uniform(
    shape: tuple[int, ...], bounds: Range, generator: torch.Generator | None, dtype: torch.dtype
) -> Tensor:
    """Uniform numbers in ``bounds``."""
    low, high = bounds
    return low + (high - low) * torch.rand(shape, generator=generator, dtype=dtype)


def log_uniform(
    shape: tuple[int, ...], bounds: Range, generator: torch.Generator | None, dtype: torch.dtype
) -> Tensor:
    """Numbers whose logarithms are uniform between those of ``bounds``."""
    low, high = bounds
    return uniform(shape, (math.log(low), math.log(high)), generator, dtype).exp()


def mixture_weights(
    batch: int, k: int, dirichlet: float, generator: torch.Generator | None, dtype: torch.dtype
) -> Tensor:
    """Weights (batch, k): uniform on the simplex for a share ``dirichlet`` of the rows, 1/k in the others."""
    # Normalized exponentials are uniform on the simplex; the clamp keeps every weight positive.
    simplex = torch.empty(batch, k, dtype=dtype).exponential_(generator=generator)
    simplex = simplex.clamp_min(torch.finfo(dtype).eps)
    heads = torch.rand(batch, 1, generator=generator, dtype=dtype) < dirichlet
    return torch.where(heads, simplex / simplex.sum(-1, keepdim=True), 1 / k)


def check_modes(modes: tuple[int, int]) -> None:
    """Raise unless ``modes`` is a range of component counts."""
    if not (_is_pair(modes, int) and 1 <= modes[0] <= modes[1]):
        raise DataError(f"modes = {modes!r} must be two counts, smallest first, at least 1")


def check_range(name: str, bounds: Range) -> None:
    """Raise unless ``bounds`` is a range of positive numbers."""
    if not (_is_pair(bounds, (int, float)) and 0 < bounds[0] <= bounds[1] < math.inf):
        raise DataError(f"{name} = {bounds!r} must be two positive numbers, smallest first")


def check_number(name: str, value: float) -> None:
    """Raise unless ``value`` is finite and not negative."""
    if not (isinstance(value, int | float) and 0 <= value < math.inf):
        raise DataError(f"{name} = {value!r} must be a finite number, not negative")


def check_probability(name: str, value: float) -> None:
    """Raise unless ``value`` is a probability."""
    if not (isinstance(value, int | float) and 0 <= value <= 1):
        raise DataError(f"{name} = {value!r} must be a probability between 0 and 1")


def check_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    """Raise unless ``value`` is one of ``choices``."""
    if value not in choices:
        raise DataError(f"{name} = {value!r} is not one of {', '.join(choices)}")


def _is_pair(value: object, kind: type | tuple[type, ...]) -> bool:
    return isinstance(value, tuple) and len(value) == 2 and all(isinstance(v, kind) for v in value)
