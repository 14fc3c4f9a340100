"""Tasks: decided by seed, rank and step, in the sizes of the recipe."""

import torch

from discoformer.priors import GMMPrior
from discoformer.training.config import Recipe
from discoformer.training.tasks import Task, draw_task, follow_tasks, step_generator

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


def test_other_processes_draw_the_same_tasks() -> None:
    recipe = Recipe(**VALUES, steps=8)

    def tasks(workers: int) -> list[Task]:
        return list(follow_tasks(recipe, GMMPrior(), rank=1, step=5, workers=workers))

    for mine, theirs in zip(tasks(0), tasks(2), strict=True):
        assert torch.equal(mine.queries, theirs.queries)
        assert torch.equal(mine.truth.score, theirs.truth.score)
        assert isinstance(theirs, Task)
        assert mine[4:] == theirs[4:]


def test_queries_from_a_second_distribution_alone() -> None:
    recipe = Recipe(**VALUES, context_queries=False, fresh=0.0, second=1.0, loss="mse")
    task = draw_task(recipe, GMMPrior(), step_generator(0, 0, 0))
    assert task.queries.shape == task.context.shape
    assert not torch.isclose(task.queries, task.context).any()
    assert (task.own, task.fresh) == (0, 0)


def test_turned_data_sets_have_turned_scores() -> None:
    """Each data set by its own Q: inner products of points, and of points with scores, stay."""
    recipe = Recipe(**VALUES, dims=[3])
    plain, turned = (
        draw_task(Recipe(**recipe.model_dump() | {"rotate": rotate}), GMMPrior(), step_generator(0, 0, 3))
        for rotate in (False, True)
    )
    for points in ("context", "queries"):
        before, after = getattr(plain, points), getattr(turned, points)
        assert not torch.allclose(before, after)
        torch.testing.assert_close(after @ turned.truth.score.mT, before @ plain.truth.score.mT)
    torch.testing.assert_close(turned.truth.log_density, plain.truth.log_density)
    q = torch.linalg.lstsq(plain.context, turned.context).solution
    assert not torch.allclose(q[0], q[1])
