"""Training of the error bars: features of many fits with exact truths, then a small network.

The tasks are those of a model's own recipe (prior, numbers of rows and columns), from seeds that its training
did not use.  Every task is fitted once, and its features are kept on disk: that takes most of the time, and
an interrupted run goes on where it stopped.  The head is then trained by the pinball loss at 90 %: of
log |error| / size, whose quantile is the logarithm of the half-width over the size.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from discoformer.core.fields import Method, as_point_density
from discoformer.core.tensor_files import read_tensors, write_tensors
from discoformer.models.error_bars import ErrorHead
from discoformer.models.mixture.error_features import error_features
from discoformer.priors import Prior, prior_from_config
from discoformer.training.config import Recipe
from discoformer.training.tasks import draw_task, step_generator

__all__ = ["ErrorBarRecipe", "TaskErrors", "collect", "train_head"]

_SHARE = 0.9
_SAVED = 100  # tasks in a file
_LEAST = 1e-12  # of an error under a logarithm


@dataclass(frozen=True)
class ErrorBarRecipe:
    """How a head is trained.

    Attributes
    ----------
    model : whose errors are learned
    recipe : of that model, for the prior and the sizes of the tasks
    tasks : number of fits
    queries : of each, a third of them fresh draws, a sixth from a second law, the others the sample's own
    width : of the hidden layers
    steps, batch, lr : of AdamW; the rate falls to zero along a cosine
    decay : of the weights
    held_out : share of the tasks that only judge
    seed : of tasks and start; the default's own training has seed 0
    """

    model: str = "default"
    recipe: str = "default"
    tasks: int = 4000
    queries: int = 48
    width: int = 32
    steps: int = 3000
    batch: int = 4096
    lr: float = 3e-3
    decay: float = 1e-2
    held_out: float = 0.1
    seed: int = 24


class TaskErrors(NamedTuple):
    """Features and errors of tasks (T) at queries (m); columns are flat (k), with the place of their row.

    Attributes
    ----------
    row : (T m, ROW_FEATURES)
    density : (T m,), log of error over size
    column : (k, COLUMN_FEATURES)
    score : (k,), log of error over size
    place : (k,), the row that a column belongs to
    task, column_task : (T m,) and (k,), the number of the task
    """

    row: Tensor
    density: Tensor
    column: Tensor
    score: Tensor
    place: Tensor
    task: Tensor
    column_task: Tensor

    def take(self, tasks: Tensor) -> TaskErrors:
        """Those of some tasks, marked (T,)."""
        rows, columns = tasks[self.task], tasks[self.column_task]
        place = (rows.cumsum(0) - 1)[self.place[columns]]
        return TaskErrors(
            self.row[rows],
            self.density[rows],
            self.column[columns],
            self.score[columns],
            place,
            self.task[rows],
            self.column_task[columns],
        )


def collect(
    setup: ErrorBarRecipe, recipe: Recipe, method: Method, folder: Path, report: Callable[[str], None] = print
) -> TaskErrors:
    """Errors and features of all tasks; what is in the folder already is not made again."""
    folder.mkdir(parents=True, exist_ok=True)
    recipe = recipe.model_copy(update={"max_batch": 1, "axes_off": 0.0})
    prior = prior_from_config(recipe.prior)
    found, start = [], time.perf_counter()
    for first in range(0, setup.tasks, _SAVED):
        path = folder / f"errors-{first}.safetensors"
        if not path.exists():
            numbers = range(first, min(first + _SAVED, setup.tasks))
            made = [_task(setup, recipe, prior, method, number) for number in numbers]
            write_tensors(path, _joined(made)._asdict(), {"format": "discoformer-errors"})
            report(f"{numbers[-1] + 1} of {setup.tasks} tasks, {time.perf_counter() - start:.0f} s")
        found.append(TaskErrors(**read_tensors(path)))
    return _joined(found)


def _joined(parts: list[TaskErrors]) -> TaskErrors:
    shifts = torch.tensor([len(part.row) for part in parts]).cumsum(0).tolist()
    moved = [
        part._replace(place=part.place + shift) for part, shift in zip(parts, [0, *shifts[:-1]], strict=True)
    ]
    return TaskErrors(*(torch.cat(tensors) for tensors in zip(*moved, strict=True)))


@torch.no_grad()
def _task(setup: ErrorBarRecipe, recipe: Recipe, prior: Prior, method: Method, number: int) -> TaskErrors:
    task = draw_task(recipe, prior, step_generator(setup.seed, 0, number)).to(torch.float64)
    fresh, second = setup.queries // 3, setup.queries // 6
    own = min(task.own, setup.queries - fresh - second)
    rows = [torch.arange(own), task.own + torch.arange(min(fresh, task.fresh))]
    left = task.queries.shape[-2] - task.own - task.fresh
    rows.append(task.own + task.fresh + torch.arange(min(second, left)))
    asked = torch.cat(rows)
    queries = task.queries[0, asked]
    field = as_point_density(method.fit(task.context[0]))
    sizes = error_features(field, queries)
    answer = field.estimate(queries)
    density = (answer.log_density - task.truth.log_density[0, asked]).abs() / sizes.log_density
    score = (answer.score - task.truth.score[0, asked]).abs() / sizes.score
    dim = queries.shape[-1]
    place = torch.arange(len(asked)).repeat_interleave(dim)
    return TaskErrors(
        sizes.row.float(),
        density.clamp_min(_LEAST).log().float(),
        sizes.column.flatten(0, 1).float(),
        score.flatten().clamp_min(_LEAST).log().float(),
        place,
        torch.full((len(asked),), number),
        torch.full((len(place),), number),
    )


def train_head(
    errors: TaskErrors, setup: ErrorBarRecipe, report: Callable[[str], None] = print
) -> tuple[ErrorHead, dict[str, float]]:
    """A head for these errors, and how often its intervals hold the truth in tasks that were held out."""
    torch.manual_seed(setup.seed)
    tasks = torch.zeros(int(errors.task.max()) + 1, dtype=torch.bool)
    tasks[: round(len(tasks) * (1 - setup.held_out))] = True
    train, judge = errors.take(tasks), errors.take(~tasks)
    head = ErrorHead(setup.width)
    both = torch.cat([train.row[train.place], train.column], -1)
    head.row.standardize(train.row)
    head.column.standardize(both)
    columns = torch.bincount(train.place, minlength=len(train.row))[train.place]
    for part, features, target, weight in (
        (head.row, train.row, train.density, torch.ones_like(train.density)),
        (head.column, both, train.score, 1 / columns),
    ):
        optimizer = torch.optim.AdamW(part.parameters(), lr=setup.lr, weight_decay=setup.decay)
        falling = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, setup.steps)
        for step in range(setup.steps):
            chosen = torch.randint(len(target), (setup.batch,))
            off = target[chosen] - part(features[chosen])
            loss = (weight[chosen] * _pinball(off)).sum() / weight[chosen].sum()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            falling.step()
            if step % 1000 == 999:
                report(f"step {step + 1}: pinball loss {float(loss.detach()):.4f}")
    return head, _coverage(head, judge)


def _pinball(off: Tensor) -> Tensor:
    return torch.maximum(_SHARE * off, (_SHARE - 1) * off)


@torch.no_grad()
def _coverage(head: ErrorHead, judge: TaskErrors) -> dict[str, float]:
    """Shares of log densities and scores inside, and the mean pinball losses."""
    density = judge.density - head.row(judge.row)
    score = judge.score - head.column(torch.cat([judge.row[judge.place], judge.column], -1))
    return {
        "log_density": float((density < 0).float().mean()),
        "score": float((score < 0).float().mean()),
        "log_density_loss": float(_pinball(density).mean()),
        "score_loss": float(_pinball(score).mean()),
    }
