"""The objective: the paper's loss in data coordinates, less memory and less precision for the same answer."""

from typing import Any

import pytest
import torch

from discoformer.models.registry import build_network
from discoformer.priors import GMMPrior
from discoformer.training.config import Recipe
from discoformer.training.objective import Objective
from discoformer.training.tasks import Task, draw_task, step_generator

CORE = {"kind": "attention", "dim": 2, "layers": 2, "width": 16, "heads": 2, "feedforward": 32}
ONLY_Y = {"context_queries": False, "fresh": 0.0, "second": 1.0, "loss": "mse"}


def recipe(core: dict[str, Any] = CORE, frame: str = "whiten", **values: Any) -> Recipe:
    return Recipe(
        name="tiny", core=core, frame=frame, prior={"name": "gmm"}, sizes=(32, 32), tokens=64, **values
    )


def task_of(values: Recipe) -> Task:
    return draw_task(values, GMMPrior(), step_generator(0, 0, 0))


def objective(values: Recipe) -> Objective:
    torch.manual_seed(0)
    return Objective(build_network(values.core, values.frame), values)


@pytest.mark.parametrize("frame", ["whiten", "scatter", "canonical"])
def test_the_papers_loss_is_the_error_of_the_networks_own_answers(frame: str) -> None:
    values = recipe(CORE | {"dropout": 0.0}, frame, **ONLY_Y, alpha=0.25)
    measure, task = objective(values), task_of(values)
    log_density, score = measure.network(task.context, task.queries)
    expected = 0.25 * (log_density - task.truth.log_density).square().mean()
    expected = expected + 0.75 * (score - task.truth.score).square().sum(-1).mean()
    torch.testing.assert_close(measure(task).total, expected)


def test_recomputed_blocks_give_the_same_gradients() -> None:
    """With dropout, too: the same entries are left out on the way back."""
    gradients = []
    core = CORE | {"dropout": 0.1, "attention_dropout": 0.1}
    for recompute in (False, True):
        values = recipe(core, recompute=recompute)
        measure = objective(values).train()
        torch.manual_seed(1)
        measure(task_of(values)).total.backward()
        gradients.append(torch.cat([p.grad.flatten() for p in measure.parameters() if p.grad is not None]))
    torch.testing.assert_close(*gradients)


def test_mixed_precision_rounds_and_no_more() -> None:
    with torch.no_grad():
        exact, rounded = (
            float(objective(recipe(precision=precision)).eval()(task_of(recipe())).total)
            for precision in ("float32", "bfloat16")
        )
    assert exact != rounded
    assert abs(exact - rounded) < 0.02 * exact


@pytest.mark.parametrize(("estimates", "alpha"), [("score", 0.0), ("density", 1.0)])
def test_a_core_with_one_head_is_trained_by_its_own_error(estimates: str, alpha: float) -> None:
    for values in (ONLY_Y, {}):
        chosen = recipe(CORE | {"estimates": estimates}, **values, alpha=alpha)
        measure = objective(chosen)
        loss = measure(task_of(chosen))
        loss.total.backward()
        assert torch.isfinite(loss.total)
        assert all(p.grad is not None for p in measure.parameters())
