"""Training tasks made on the fly: a batch of contexts with queries whose truth is known exactly."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from discoformer.core.fields import Estimate
from discoformer.core.transforms import Frame
from discoformer.priors import Prior, random_rotations
from discoformer.training.config import Recipe

__all__ = ["Task", "draw_task", "follow_tasks", "step_generator"]


class Task(NamedTuple):
    """A batch of contexts of one size and dimension.

    The queries are the context itself (unless ``own`` is zero), then ``fresh`` draws from the same
    distribution, then draws from a second one (the paper's Algorithm 1), whose far points teach the tails.

    Attributes
    ----------
    context : (B, n, d)
    queries : (B, m, d), the first ``own`` of them the context
    truth : exact log density (B, m) and score (B, m, d)
    own : n, or zero if the context's points are not asked for
    fresh : how many queries after the context come from the context's own distribution
    slots, loops : run-time sizes for a unified core, or None
    axes : whether the axes count (unified core)
    """

    context: Tensor
    queries: Tensor
    truth: Estimate[Tensor]
    own: int
    fresh: int
    slots: int | None
    loops: int | None = None
    axes: bool = True

    def to(self, where: torch.device | torch.dtype) -> Task:
        """The same task on a device, or in another precision."""
        truth = Estimate(self.truth.log_density.to(where), self.truth.score.to(where))
        return self._replace(context=self.context.to(where), queries=self.queries.to(where), truth=truth)

    def inside(self, frame: Frame) -> Task:
        """The same task in the coordinates of a frame."""
        context, queries = frame.normalize(self.context), frame.normalize(self.queries)
        return self._replace(context=context, queries=queries, truth=frame.normalize_estimate(self.truth))

    def turned(self, rotation: Tensor) -> Task:
        """The same task with every data set turned, x -> x Q with orthogonal Q (B, d, d)."""
        truth = self.truth._replace(score=self.truth.score @ rotation)
        return self._replace(context=self.context @ rotation, queries=self.queries @ rotation, truth=truth)


def step_generator(seed: int, rank: int, step: int) -> torch.Generator:
    """The random numbers of one step on one rank: a resumed run draws what an unbroken one would."""
    # SplitMix64's constant spreads neighbouring steps over the whole seed space.
    mixed = (seed * 1_000_003 + rank) * 0x9E3779B97F4A7C15 + step * 0xBF58476D1CE4E5B9
    return torch.Generator().manual_seed(mixed % 2**63)


def draw_task(recipe: Recipe, prior: Prior, generator: torch.Generator) -> Task:
    """Draw dimension, size, distribution and points of one training step.

    >>> from discoformer.priors import GMMPrior
    >>> sizes = {"sizes": (64, 64), "tokens": 512, "fresh": 0.5, "second": 0.25}
    >>> recipe = Recipe(name="x", core={}, frame="whiten", prior={}, dims=[2], **sizes)
    >>> task = draw_task(recipe, GMMPrior(), step_generator(seed=0, rank=0, step=0))
    >>> task.context.shape, task.queries.shape
    (torch.Size([8, 64, 2]), torch.Size([8, 112, 2]))
    """

    def uniform() -> float:
        return float(torch.rand((), generator=generator))

    dim = recipe.dims[int(uniform() * len(recipe.dims))]
    low, high = (math.log2(size) for size in recipe.sizes)
    if recipe.size_steps == "power-of-two":
        size = 2 ** (int(low) + int(uniform() * (int(high) - int(low) + 1)))
    else:
        size = round(2 ** (low + uniform() * (high - low)))
    size = max(size, 2 * dim + 2)
    batch = max(1, min(recipe.max_batch, recipe.tokens // size))
    own, other = prior.pair(batch, dim, generator)
    fresh, second = (math.ceil(part * size) if part > 0 else 0 for part in (recipe.fresh, recipe.second))
    parts = [own.sample(size + fresh, generator)]
    if second:
        parts.append(other.sample(second, generator))
    points = torch.cat(parts, -2)
    queries = points if recipe.context_queries else points[:, size:]
    task = Task(
        context=points[:, :size],
        queries=queries,
        truth=own.estimate(queries),
        own=size if recipe.context_queries else 0,
        fresh=fresh,
        slots=_draw(recipe.line_slots if dim == 1 and recipe.line_slots else recipe.slots, uniform()),
        loops=_draw(recipe.loops, uniform()),
        axes=uniform() >= recipe.axes_off,
    )
    return task.turned(random_rotations((batch,), dim, generator)) if recipe.rotate else task


def follow_tasks(recipe: Recipe, prior: Prior, rank: int, step: int, workers: int = 0) -> Iterator[Task]:
    """The tasks of a rank from a step on, drawn ahead by other processes if ``workers`` are given.

    A GPU is faster than one processor core draws data for it.  Who draws does not change what is drawn.

    >>> from discoformer.priors import GMMPrior
    >>> recipe = Recipe(name="x", core={}, frame="whiten", prior={}, sizes=(16, 16), tokens=32)
    >>> next(follow_tasks(recipe, GMMPrior(), rank=0, step=5)).context.shape
    torch.Size([2, 16, 2])
    """
    steps = range(step, recipe.steps)
    yield from DataLoader(_Tasks(recipe, prior, rank), batch_size=None, sampler=steps, num_workers=workers)


@dataclass(frozen=True)
class _Tasks(Dataset[Task]):
    """Tasks by step."""

    recipe: Recipe
    prior: Prior
    rank: int

    def __getitem__(self, step: int) -> Task:
        return draw_task(self.recipe, self.prior, step_generator(self.recipe.seed, self.rank, step))


def _draw(bounds: tuple[int, int] | None, uniform: float) -> int | None:
    return None if bounds is None else bounds[0] + int(uniform * (bounds[1] - bounds[0] + 1))
