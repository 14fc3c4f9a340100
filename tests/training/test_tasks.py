"""Tasks: decided by seed, rank and step, in the sizes of the recipe."""

import torch

from discoformer.priors import GMMPrior
from discoformer.training.config import Recipe
from discoformer.training.tasks import draw_task, step_generator

VALUES = {"name": "tiny", "core": {}, "frame": "whiten", "prior": {}, "sizes": (16, 64), "tokens": 128}


def test_task_draws_are_decided_by_seed_rank_and_step() -> None:
    recipe = Recipe(**VALUES, dims=[1, 2, 3])
    a, b = (draw_task(recipe, GMMPrior(), step_generator(0, 0, 5)) for _ in range(2))
    assert torch.equal(a.queries, b.queries)
    other = draw_task(recipe, GMMPrior(), step_generator(0, 1, 5))
    assert a.queries.shape != other.queries.shape or not torch.equal(a.queries, other.queries)
    size = a.context.shape[1]
    assert torch.equal(a.queries[:, :size], a.context)
    assert a.fresh > 0
    assert a.queries.shape[1] > size + a.fresh


def test_powers_of_two() -> None:
    recipe = Recipe(**VALUES, size_steps="power-of-two")
    sizes = {draw_task(recipe, GMMPrior(), step_generator(0, 0, i)).context.shape[1] for i in range(30)}
    assert sizes == {16, 32, 64}
