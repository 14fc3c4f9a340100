"""Samples of different sizes, digested together where the method allows it.

Samples of one size are a batch.  So are those of nearly one size for a method that does not count copies
without weight (`Method.pads`): shorter ones are filled up with their own rows.  Answers are those of one
sample at a time.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from discoformer.api.fitting import fit_sample
from discoformer.columns.fit_recipe import FitRecipe
from discoformer.core.checks import DataError, check_points
from discoformer.core.fields import Estimate, as_point_density
from discoformer.data.containers import in_order_of
from discoformer.methods import Resolved, check_range, resolve, takes_kinds

__all__ = ["estimate_ragged", "is_ragged"]

_STRETCH = 1.5  # a sample is filled up to this many times its size at most: copies cost time


def is_ragged(samples: Any) -> bool:
    """Whether this is a list of samples, not a sample.

    >>> is_ragged([torch.zeros(3, 2), torch.zeros(4, 2)]), is_ragged([[0.0, 1.0], [2.0, 3.0]])
    (True, False)
    """
    return isinstance(samples, list | tuple) and any(getattr(x, "ndim", 0) == 2 for x in samples)


def estimate_ragged(samples: Sequence[Any], queries: Any, model: Any, weights: Any) -> list[Estimate[Any]]:
    """Log density and score of every sample at its own queries; see `discoformer.api.estimate`."""
    resolved = resolve(model)
    gaps = takes_kinds(resolved)
    tables = [in_order_of(samples[0], x) for x in samples]
    contexts = [check_points(x, f"sample {k}", min_rows=2, gaps=gaps) for k, x in enumerate(tables)]
    places, shares = contexts, [None] * len(contexts)
    if queries is not None:
        given = [in_order_of(samples[0], y) for y in _one_each(queries, len(contexts), "points")]
        places = [check_points(y, f"the points of sample {k}", gaps=gaps) for k, y in enumerate(given)]
    if weights is not None:
        shares = _one_each(weights, len(contexts), "weights")
    dim = contexts[0].shape[-1]
    for k, points in enumerate([*contexts, *places]):
        if points.ndim != 2 or points.shape[-1] != dim:
            what = "the points of " if k >= len(contexts) else ""
            raise DataError(
                f"{what}sample {k % len(contexts)}: shape {tuple(points.shape)}, expected (rows, {dim}): "
                "samples and points of one list need the same columns"
            )
    answers: dict[int, Estimate[Tensor]] = {}
    # their rows are not alike anyway
    alone = [k for k, share in enumerate(shares) if share is not None or _has_gaps(contexts[k], places[k])]
    for group in _groups([k for k in range(len(contexts)) if k not in alone], contexts, resolved):
        try:
            answers.update(_together(group, contexts, places, resolved))
        except DataError:  # one of them may have a column without a density: find out which
            alone += group
    for k in sorted(alone):
        with _naming(f"sample {k}"):
            field = fit_sample(contexts[k], model, weights=shares[k]).field
            answers[k] = as_point_density(field).estimate(places[k])
    kinds = samples if queries is None else queries
    return [_in_kind(answers[k], kind) for k, kind in enumerate(kinds)]


def _one_each(given: Any, count: int, what: str) -> list[Any]:
    """A list with something for every sample."""
    if not isinstance(given, list | tuple) or len(given) != count:
        raise DataError(f"{count} samples: give a list of as many {what}")
    return list(given)


def _has_gaps(*tensors: Tensor) -> bool:
    return any(bool(tensor.isnan().any()) for tensor in tensors)


@contextmanager
def _naming(what: str) -> Iterator[None]:
    """Errors and warnings say what they are about."""
    try:
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            yield
    except DataError as error:
        raise DataError(f"{what}: {error}") from None
    for warning in told:
        warnings.warn(f"{what}: {warning.message}", warning.category, stacklevel=5)


def _groups(numbers: list[int], contexts: Sequence[Tensor], resolved: Resolved) -> Iterator[list[int]]:
    """Numbers of the samples that go together, smaller ones first."""
    dim = contexts[0].shape[-1]
    group: list[int] = []
    for k in sorted(numbers, key=lambda k: len(contexts[k])):
        first, size = len(contexts[group[0] if group else k]), len(contexts[k])
        if group and not (size <= _STRETCH * first and resolved.method.pads(first, size, dim)):
            yield group
            group = []
        group.append(k)
    if group:
        yield group


def _together(
    group: Sequence[int], contexts: Sequence[Tensor], places: Sequence[Tensor], resolved: Resolved
) -> dict[int, Estimate[Tensor]]:
    rows = [len(contexts[k]) for k in group]
    size, dim = max(rows), contexts[group[0]].shape[-1]
    weights = None
    if min(rows) < size:
        real = torch.arange(size) < torch.tensor(rows).unsqueeze(-1)
        weights = real.to(contexts[group[0]])
    batch = torch.stack([_filled(contexts[k], size) for k in group])
    asked = torch.stack([_filled(places[k], max(len(places[k]) for k in group)) for k in group])
    field = as_point_density(FitRecipe(resolved.method, drop=False).fit(batch, weights))
    check_range(resolved, min(rows), dim)
    log_density, score = field.estimate(asked)
    return {
        k: Estimate(log_density[i, : len(places[k])], score[i, : len(places[k])]) for i, k in enumerate(group)
    }


def _filled(points: Tensor, size: int) -> Tensor:
    """The points, repeated from the first to this many rows."""
    return points[torch.arange(size, device=points.device) % len(points)]


def _in_kind(answer: Estimate[Tensor], like: Any) -> Estimate[Any]:
    if isinstance(like, Tensor):
        return answer
    return Estimate(answer.log_density.detach().cpu().numpy(), answer.score.detach().cpu().numpy())
