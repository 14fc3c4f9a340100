"""The training loop: draw, step, average, report, checkpoint; resumable at any step.

    discoformer train one --minutes 60
    torchrun --nproc-per-node 2 -m discoformer train one

A run lives in its own folder: `checkpoint.safetensors` (everything needed to continue), `log.jsonl` (one
line per report) and `weights.safetensors` (the averaged weights with their card).  The random numbers
of a step depend on seed, rank and step alone, so a resumed run continues the curve of an unbroken one.
"""

from __future__ import annotations

import copy
import json
import math
import os
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, cast

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel
from torch.optim.swa_utils import AveragedModel

from discoformer.core.atomic_files import locked
from discoformer.core.checks import DataError, printable
from discoformer.core.fields import Method
from discoformer.core.progress import follow
from discoformer.evaluation.known_truth import measure, prior_datasets
from discoformer.models.mixture.unified_network import UnifiedNetwork
from discoformer.models.network import Network
from discoformer.models.registry import Card, build_network, save_model
from discoformer.priors import GMMPrior, Prior, prior_from_config
from discoformer.priors.config import is_own
from discoformer.training.balance import Balance
from discoformer.training.checkpoint import check_progress, load_checkpoint, save_checkpoint
from discoformer.training.config import Recipe
from discoformer.training.loss import Loss
from discoformer.training.objective import Objective
from discoformer.training.optimizers import build_optimizers
from discoformer.training.start import start_from
from discoformer.training.tasks import Task, follow_tasks

__all__ = ["Trainer", "schedule"]

# What a resumed run may change.
_FREE = {"name", "start", "steps", "cycles", "decay", "validation", "report_dims", "report_sizes"}


def schedule(recipe: Recipe, step: int) -> float:
    """Factor of the learning rates: warm-up, constant, decay to a thousandth over the last ``decay`` steps.

    >>> values = {"name": "x", "core": {}, "frame": "whiten", "prior": {}, "warmup": 10, "decay": 500}
    >>> recipe = Recipe(**values, steps=1000)
    >>> [round(schedule(recipe, step), 3) for step in (0, 9, 400, 750, 999)]
    [0.1, 1.0, 1.0, 0.5, 0.002]
    >>> recipe = Recipe(**values, steps=2000, cycles=2)
    >>> [round(schedule(recipe, step), 3) for step in (750, 999, 1000, 1400, 1999)]
    [0.5, 0.002, 0.1, 1.0, 0.002]
    """
    length = recipe.steps // recipe.cycles
    step %= length
    rise = min(1.0, (step + 1) / max(1, recipe.warmup))
    fall = min(1.0, (length - step) / max(1, recipe.decay))
    return min(rise, max(fall, 1e-3))


class Trainer:
    """One run of a recipe in a folder, on a device; by default on a GPU if there is one.

    With ``resume`` it continues from the folder's checkpoint; the recipe's ``start`` is not read then.
    Tasks are drawn by this process, or ahead of time by ``workers`` others.
    A ``prior`` of your own (`discoformer.priors.own`) takes the place of the recipe's, also in reports if
    the recipe has no ``validation``.

    Examples
    --------
    >>> core = {"kind": "attention", "dim": 2, "layers": 1, "width": 8, "heads": 2, "feedforward": 8}
    >>> prior = {"name": "gmm"}
    >>> recipe = Recipe(name="mine", core=core, frame="whiten", prior=prior, sizes=(16, 32), tokens=64)
    >>> trainer = Trainer(recipe, Path("runs/mine"), "cpu")
    >>> trainer.train_step().total.shape, trainer.step  # `run` takes all steps and writes the folder
    (torch.Size([]), 1)
    """

    def __init__(
        self,
        recipe: Recipe,
        folder: Path,
        device: str | None = None,
        *,
        resume: bool = False,
        workers: int = 0,
        prior: Prior | None = None,
    ) -> None:
        if prior is not None:
            described = prior.describe()
            follows = is_own(described) and (
                "validation" not in recipe.model_fields_set or recipe.validation == recipe.prior
            )
            recipe = recipe.model_copy(
                update={"prior": described, **({"validation": described} if follows else {})}
            )
        self.recipe, self.folder = recipe, folder
        self.prior = prior_from_config(recipe.prior) if prior is None else prior
        self.validation = [
            self.prior if values == recipe.prior else prior_from_config(values)
            for values in recipe.validations
        ]
        self.device = _own_device() if device is None else _named_device(device)
        self.rank, self.world = _join_processes(self.device)
        torch.manual_seed(recipe.seed)
        self.network = build_network(recipe.core, recipe.frame)
        if recipe.start is not None and not resume:
            start_from(self.network, recipe.start, recipe.name)
        self.network.to(self.device)
        self.balance = Balance()
        objective = Objective(self.network, recipe, self.balance)
        self.loss: Callable[[Task], Loss] = objective
        if self.world > 1:  # averages the gradients of all processes
            self.loss = DistributedDataParallel(objective, broadcast_buffers=False)
        self._averaged = AveragedModel(self.network, multi_avg_fn=_running_mean(recipe.average))
        self._averaged.requires_grad_(False).eval()
        self.optimizers = build_optimizers(self.network, recipe)
        self.step = 0
        self.seconds = 0.0
        self.stopping = False
        self.running: dict[str, float] = {}  # running means for the log
        self._tasks_from = partial(follow_tasks, recipe, self.prior, self.rank, workers=workers)
        self._tasks = self._tasks_from(self.step)
        if resume:
            self.resume()

    # -- one step ----------------------------------------------------------------------------

    def train_step(self) -> Loss:
        """Draw a task, step the optimizer, move the average; returns this rank's loss."""
        task = next(self._tasks).to(self.device)
        torch.manual_seed((self.recipe.seed + 1) * 1_000_003 + self.step * 1009 + self.rank)  # dropout
        factor = schedule(self.recipe, self.step)
        for group in (group for optimizer in self.optimizers for group in optimizer.param_groups):
            group["lr"] = group["initial_lr"] * factor
        self.network.train()
        loss = self.loss(task)
        self.network.zero_grad(set_to_none=True)
        loss.total.backward()
        norm = torch.nn.utils.clip_grad_norm_(self.network.parameters(), self.recipe.clip)
        finite = bool(torch.isfinite(norm))
        if finite:
            for optimizer in self.optimizers:
                optimizer.step()
            self._averaged.n_averaged.fill_(self.step + 1)  # the start counts, and so do steps left out
            self._averaged.update_parameters(self.network)
        self._record(loss, float(norm), finite)
        self.step += 1
        return loss

    @property
    def average(self) -> Network:
        """The network with the running average of the weights."""
        return cast(Network, self._averaged.module)

    def _record(self, loss: Loss, norm: float, finite: bool) -> None:
        density, score = float(loss.density.detach()), float(loss.score.detach())
        values = {"density": density, "score": score, "norm": norm, "skipped": 1.0 - finite}
        for key, value in values.items():
            if math.isfinite(value):
                self.running[key] = 0.99 * self.running.get(key, value) + 0.01 * value

    # -- the run -----------------------------------------------------------------------------

    def run(self, minutes: float | None = None, report_minutes: float = 5.0) -> None:
        """Train to the recipe's last step, or for ``minutes``; report and checkpoint on the way."""
        started, before, next_report = time.monotonic(), self.seconds, report_minutes * 60
        recipe, first = self.recipe, self.rank == 0
        with ExitStack() as stack:
            if first:  # also tells before the first step whether the folder can be written to
                self.folder.mkdir(parents=True, exist_ok=True)
                stack.enter_context(locked(self.folder / "lock"))
            advance = stack.enter_context(
                follow(recipe.name, recipe.steps, first, unit="steps", done=self.step)
            )
            while self.step < recipe.steps:
                self.train_step()
                elapsed = time.monotonic() - started
                self.seconds = before + elapsed
                means = ((key, value) for key, value in self.running.items() if key != "skipped")
                advance(1, ", ".join(f"{key} {value:.4f}" for key, value in means))
                if self._together(self.stopping or (minutes is not None and elapsed > minutes * 60)):
                    break
                if self._together(elapsed > next_report):
                    next_report += report_minutes * 60
                    try:
                        self.report()
                    except (OSError, DataError) as error:  # such as a full disk: the next may work
                        print(f"no report at step {self.step}: {printable(str(error))}", file=sys.stderr)
            self.report()

    def stop(self) -> None:
        """End `run` after the step it is in."""
        self.stopping = True

    def report(self) -> None:
        """Validate the average, append a line to the log, write checkpoint and weights."""
        if self.rank == 0:
            line: dict[str, Any] = {"step": self.step, "minutes": round(self.seconds / 60, 2), **self.running}
            line["validation"] = self.validate()
            self.folder.mkdir(parents=True, exist_ok=True)
            with (self.folder / "log.jsonl").open("a") as file:
                file.write(json.dumps(line) + "\n")
            print(json.dumps(line), flush=True)
            self.save()

    def validate(self, datasets: int = 10, seed: int = 1_000_000) -> dict[str, float]:
        """Relative score error (%) of the averaged weights on the validation seeds, by (d, n).

        With several priors each is named, mixtures by their covariance; the unified core answers without
        axes, too.
        """
        recipe = self.recipe
        network = copy.deepcopy(self.average).to("cpu", torch.float64)
        methods: dict[str, Method] = {"": network}
        if isinstance(network, UnifiedNetwork):
            methods[" axes off"] = UnifiedNetwork(network.core, axes=False)
        errors = {}
        cells = product(self.validation, recipe.report_dims or sorted(set(recipe.dims)), recipe.report_sizes)
        for prior, dim, size in cells:
            name = prior.covariance if isinstance(prior, GMMPrior) else prior.name
            label = f"{name} " if len(self.validation) > 1 else ""
            data = prior_datasets(prior, dim, size, datasets, seed)
            for name, result in measure(methods, data).items():
                errors[f"{label}d{dim} n{size}{name}"] = round(100 * result.relative_score, 3)
        return errors

    def card(self) -> Card:
        """The card of the averaged weights as they are now."""
        recipe, minutes = self.recipe, round(self.seconds / 60, 1)
        return Card(
            core=recipe.core,
            frame=recipe.frame,
            prior=self.prior.describe(),
            dims=(min(recipe.dims), max(recipe.dims)),
            sizes=recipe.sizes,
            record={"recipe": recipe.model_dump(), "steps": self.step, "minutes": minutes},
        )

    def save(self) -> None:
        """Write the checkpoint and the averaged weights."""
        progress = {
            "step": self.step,
            "seconds": self.seconds,
            "running": self.running,
            "usual": self.balance.usual,
            "recipe": self.recipe.model_dump(),
        }
        save_checkpoint(
            self.folder / "checkpoint.safetensors", self.network, self.average, self.optimizers, progress
        )
        save_model(self.average, self.card(), self.folder / "weights.safetensors")

    def resume(self) -> None:
        """Continue from the folder's checkpoint."""
        path = self.folder / "checkpoint.safetensors"
        if not path.exists():
            raise DataError(f"nothing to resume: no checkpoint in {self.folder}")
        try:
            progress = load_checkpoint(path, self.network, self.average, self.optimizers)
            check_progress(progress)
            self.step, self.seconds = progress["step"], progress["seconds"]
            self._tasks = self._tasks_from(self.step)
            self.running = progress["running"]
            self.balance.usual = progress.get("usual", {})  # older checkpoints have none
        except (RuntimeError, TypeError, KeyError, ValueError) as error:
            reason = str(error).splitlines()[-1].strip()
            raise DataError(f"{path} is damaged or of another recipe: {reason}") from None
        if self.step > self.recipe.steps:
            raise DataError(f"{path} is at step {self.step}, but the recipe ends at {self.recipe.steps}")
        now = json.loads(json.dumps(self.recipe.model_dump()))
        before = progress.get("recipe", {})  # older checkpoints have none
        changed = [key for key in now.keys() & before.keys() - _FREE if now[key] != before[key]]
        if changed:
            raise DataError(
                f"{path} is of a recipe with another {', '.join(sorted(changed))}: "
                "put back what was there, or give the new recipe another name"
            )

    def _together(self, flag: bool) -> bool:
        """The first rank decides for all, so that no rank waits for one that has stopped."""
        if self.world == 1:
            return flag
        vote = torch.tensor(float(flag), device=self.device)
        dist.broadcast(vote, 0)
        return bool(vote)


def _running_mean(decay: float) -> Callable[[Any, Any, Any], None]:
    """mean <- keep * mean + (1 - keep) * weights, where keep grows from 1/20 to ``decay``."""

    def update(means: Sequence[Tensor], weights: Sequence[Tensor], count: Tensor) -> None:
        keep = min(decay, int(count) / (int(count) + 19))
        for mean, now in zip(means, weights, strict=True):
            mean.lerp_(now, 1 - keep)

    return update


def _own_device() -> torch.device:
    """This process's GPU, if there are any."""
    if not torch.cuda.is_available():
        return torch.device("cpu")
    return torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))


def _named_device(name: str) -> torch.device:
    """The device of that name, if this machine has it."""
    try:
        return torch.empty(0, device=name).device
    except (RuntimeError, AssertionError) as error:  # the latter from a torch that was built without it
        raise DataError(f"device {name!r} cannot be used: {str(error).splitlines()[0]}") from None


def _join_processes(device: torch.device) -> tuple[int, int]:
    """Rank and number of processes; joins the group that torchrun announced, if any."""
    world = int(os.environ.get("WORLD_SIZE", "1"))
    if world > 1 and not dist.is_initialized():
        dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
    return (dist.get_rank(), world) if world > 1 else (0, 1)
