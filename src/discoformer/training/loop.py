"""The training loop: draw, step, average, report, checkpoint; resumable at any step.

    discoformer train configs/mixture.yaml --minutes 60
    torchrun --nproc-per-node 2 -m discoformer train configs/mixture.yaml

A run lives in its own folder: `checkpoint.safetensors` (everything needed to go on), `log.jsonl` (one
line per report) and `weights.safetensors` (the averaged weights with their card).  The random numbers
of a step depend on seed, rank and step alone, so a resumed run continues the curve of an unbroken one.
"""

from __future__ import annotations

import copy
import dataclasses
import json
import math
import os
import sys
import time
from itertools import product
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from safetensors import SafetensorError
from torch import Tensor

from discoformer.core.checks import DataError
from discoformer.core.fields import Estimate, Method
from discoformer.core.frames import Frame
from discoformer.evaluation.known_truth import gmm_datasets, measure
from discoformer.models.mixture.axes import Axes
from discoformer.models.mixture.unified_network import UnifiedNetwork
from discoformer.models.registry import Card, build_network, save_model
from discoformer.priors import GMMPrior, prior_from_config
from discoformer.training.balance import Balance
from discoformer.training.checkpoint import load_checkpoint, save_checkpoint
from discoformer.training.config import Recipe
from discoformer.training.loss import Loss, task_loss
from discoformer.training.optimizers import build_optimizers
from discoformer.training.start import start_from
from discoformer.training.tasks import Task, draw_task, step_generator

__all__ = ["Trainer", "schedule"]

_FREE = {"steps", "cycles", "decay", "report_dims", "report_sizes"}  # what a resumed run may change


def schedule(recipe: Recipe, step: int) -> float:
    """Factor of the learning rates: warm-up, constant, decay to a thousandth over the last ``decay`` steps.

    >>> recipe = Recipe("x", {}, "whiten", {}, steps=1000, warmup=10, decay=500)
    >>> [round(schedule(recipe, step), 3) for step in (0, 9, 400, 750, 999)]
    [0.1, 1.0, 1.0, 0.5, 0.002]
    >>> recipe = dataclasses.replace(recipe, steps=2000, cycles=2)
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

    With ``resume`` it goes on from the folder's checkpoint, and does not need the recipe's ``start``.

    Examples
    --------
    >>> core = {"kind": "attention", "dim": 2, "layers": 1, "width": 8, "heads": 2, "feedforward": 8}
    >>> recipe = Recipe("mine", core, "whiten", {"name": "gmm"}, sizes=(16, 32), tokens=64)
    >>> trainer = Trainer(recipe, Path("runs/mine"), "cpu")
    >>> trainer.train_step().total.shape, trainer.step  # `run` takes all steps and writes the folder
    (torch.Size([]), 1)
    """

    def __init__(
        self, recipe: Recipe, folder: Path, device: str | None = None, *, resume: bool = False
    ) -> None:
        self.recipe, self.folder = recipe, folder
        self.prior = prior_from_config(recipe.prior)
        self.validation = [_validation_prior(values) for values in recipe.validations]
        self.device = _own_device() if device is None else _named_device(device)
        self.rank, self.world = _join_processes(self.device)
        torch.manual_seed(recipe.seed)
        self.network = build_network(recipe.core, recipe.frame)
        if recipe.start is not None and not resume:
            start_from(self.network, recipe.start)
        self.network.to(self.device)
        self.average = copy.deepcopy(self.network).requires_grad_(False).eval()
        self.optimizers = build_optimizers(self.network, recipe)
        self.step = 0
        self.seconds = 0.0
        self.stopping = False
        self.running: dict[str, float] = {}  # running means for the log
        self.balance = Balance()
        if resume:
            self.resume()

    # -- one step ----------------------------------------------------------------------------

    def train_step(self) -> Loss:
        """Draw a task, step the optimizer, move the average; returns this rank's loss."""
        torch.manual_seed((self.recipe.seed + 1) * 1_000_003 + self.step * 1009 + self.rank)  # dropout
        generator = step_generator(self.recipe.seed, self.rank, self.step)
        task = draw_task(self.recipe, self.prior, generator).to(self.device)
        factor = schedule(self.recipe, self.step)
        for group in (group for optimizer in self.optimizers for group in optimizer.param_groups):
            group["lr"] = group["initial_lr"] * factor
        self.network.train()
        loss = self.loss(task)
        self.network.zero_grad(set_to_none=True)
        loss.total.backward()
        self._average_gradients()
        norm = torch.nn.utils.clip_grad_norm_(self.network.parameters(), self.recipe.clip)
        finite = bool(torch.isfinite(norm))
        if finite:
            for optimizer in self.optimizers:
                optimizer.step()
            self._move_average()
        self._record(loss, float(norm), finite)
        self.step += 1
        return loss

    def loss(self, task: Task) -> Loss:
        """The recipe's loss of the network on a task, in the frame's coordinates."""
        size = task.context.shape[-2]
        if isinstance(self.network, UnifiedNetwork):
            # Frames in double precision: columns may be all but collinear.
            frame, axes = self.network.place(task.context.double(), axes=task.axes)
            inside = _inside(frame, task.to(torch.float64)).to(self.network.dtype)
            estimate = self._forward_unified(inside, axes)
        else:
            inside = _inside(self.network.frame.fit(task.context), task)
            estimate = self._forward(inside, size)
        balance = self.balance if self.recipe.balance else None
        return task_loss(estimate, inside.truth, size, task.fresh, self.recipe.alpha, balance)

    def _forward_unified(self, task: Task, axes: Axes | None) -> Estimate[Tensor]:
        axes = None if axes is None else axes.to(task.queries.dtype)
        core: Any = self.network.core
        mixture = core.encode(task.context, axes=axes, slots=task.slots, loops=task.loops)
        estimate: Estimate[Tensor] = core.read(mixture, task.queries)
        return estimate

    def _forward(self, task: Task, size: int) -> Estimate[Tensor]:
        core: Any = self.network.core
        context, queries = task.context, task.queries
        if self.recipe.core["kind"] == "mixture":
            mixture = core.encode(context, slots=task.slots, refinements=task.refinements)
            estimate: Estimate[Tensor] = core.read(mixture, queries)
            return estimate
        state = core.encode(context)
        own: Estimate[Tensor] = core.read_context(state)
        if queries.shape[1] == size:
            return own
        rest: Estimate[Tensor] = core.read(state, queries[:, size:])
        assert own.log_density is not None
        assert rest.log_density is not None
        log_density = torch.cat([own.log_density, rest.log_density], -1)
        return Estimate(log_density, torch.cat([own.score, rest.score], -2))

    def _average_gradients(self) -> None:
        if self.world > 1:
            for parameter in self.network.parameters():
                if parameter.grad is not None:
                    dist.all_reduce(parameter.grad)
                    parameter.grad /= self.world

    @torch.no_grad()
    def _move_average(self) -> None:
        keep = min(self.recipe.average, (1 + self.step) / (20 + self.step))
        for mean, now in zip(self.average.parameters(), self.network.parameters(), strict=True):
            mean.lerp_(now, 1 - keep)

    def _record(self, loss: Loss, norm: float, finite: bool) -> None:
        density, score = float(loss.density.detach()), float(loss.score.detach())
        values = {"density": density, "score": score, "norm": norm, "skipped": 1.0 - finite}
        for key, value in values.items():
            if math.isfinite(value):
                self.running[key] = 0.99 * self.running.get(key, value) + 0.01 * value

    # -- the run -----------------------------------------------------------------------------

    def run(self, minutes: float | None = None, report_minutes: float = 5.0) -> None:
        """Train to the recipe's last step, or for ``minutes``; report and checkpoint on the way."""
        started, next_report = time.monotonic(), report_minutes * 60
        before = self.seconds
        bar = ProgressLine(self.recipe.name, self.recipe.steps, enabled=self.rank == 0)
        while self.step < self.recipe.steps:
            self.train_step()
            elapsed = time.monotonic() - started
            self.seconds = before + elapsed
            bar.show(self.step, self.running)
            if self._together(self.stopping or (minutes is not None and elapsed > minutes * 60)):
                break
            if self._together(elapsed > next_report):
                next_report += report_minutes * 60
                self.report()
        bar.close()
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

        With several priors each is named by its covariance; the unified core answers without axes, too.
        """
        recipe = self.recipe
        network = copy.deepcopy(self.average).to("cpu", torch.float64)
        methods: dict[str, Method] = {"": network}
        if isinstance(network, UnifiedNetwork):
            methods[" axes off"] = UnifiedNetwork(network.core, axes=False)
        errors = {}
        cells = product(self.validation, recipe.report_dims or sorted(set(recipe.dims)), recipe.report_sizes)
        for prior, dim, size in cells:
            label = f"{prior.covariance} " if len(self.validation) > 1 else ""
            data = gmm_datasets(dim, size, datasets, seed, prior=prior)
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
            record={"recipe": dataclasses.asdict(recipe), "steps": self.step, "minutes": minutes},
        )

    def save(self) -> None:
        """Write the checkpoint and the averaged weights."""
        recipe = dataclasses.asdict(self.recipe)
        progress = {
            "step": self.step,
            "seconds": self.seconds,
            "running": self.running,
            "usual": self.balance.usual,
            "recipe": recipe,
        }
        save_checkpoint(
            self.folder / "checkpoint.safetensors", self.network, self.average, self.optimizers, progress
        )
        save_model(self.average, self.card(), self.folder / "weights.safetensors")

    def resume(self) -> None:
        """Go on from the folder's checkpoint."""
        path = self.folder / "checkpoint.safetensors"
        if not path.exists():
            raise DataError(f"nothing to resume: no checkpoint in {self.folder}")
        try:
            progress = load_checkpoint(path, self.network, self.average, self.optimizers)
            self.step, self.seconds = progress["step"], progress["seconds"]
            self.running = progress["running"]
            self.balance.usual = progress.get("usual", {})  # older checkpoints have none
        except (SafetensorError, RuntimeError, TypeError, KeyError, ValueError) as error:
            reason = str(error).splitlines()[-1].strip()
            raise DataError(f"{path} is damaged or of another recipe: {reason}") from None
        if self.step > self.recipe.steps:
            raise DataError(f"{path} is at step {self.step}, but the recipe ends at {self.recipe.steps}")
        now = json.loads(json.dumps(dataclasses.asdict(self.recipe)))
        before = progress.get("recipe", {})  # older checkpoints have none
        changed = [key for key in now.keys() & before.keys() - _FREE if now[key] != before[key]]
        if changed:
            raise DataError(
                f"{path} is of a recipe with another {', '.join(sorted(changed))}: "
                "put back what was there, or give the new recipe another name"
            )

    def _together(self, flag: bool) -> bool:
        """The first rank decides for all, so that no rank waits for another in vain."""
        if self.world == 1:
            return flag
        vote = torch.tensor(float(flag), device=self.device)
        dist.broadcast(vote, 0)
        return bool(vote)


class ProgressLine:
    """One line on a terminal with step, losses and the time that is left; silent elsewhere."""

    def __init__(self, name: str, steps: int, enabled: bool) -> None:
        self.name, self.steps = name, steps
        self.enabled = enabled and sys.stderr.isatty()
        self.started, self.first = time.monotonic(), -1

    def show(self, step: int, running: dict[str, float]) -> None:
        """Redraw at every tenth step."""
        if self.first < 0:
            self.first = step
        if not self.enabled or step % 10:
            return
        rate = (step - self.first + 1) / (time.monotonic() - self.started)
        left = (self.steps - step) / rate / 60
        losses = " ".join(f"{key} {value:.4f}" for key, value in running.items() if key != "skipped")
        print(f"\r{self.name} {step}/{self.steps} {losses} {left:.0f} min left ", end="", file=sys.stderr)

    def close(self) -> None:
        """End the line."""
        if self.enabled:
            print(file=sys.stderr)


def _validation_prior(values: dict[str, Any]) -> GMMPrior:
    prior = prior_from_config(values)
    if not isinstance(prior, GMMPrior):
        raise DataError("the validation prior must be a GMM prior")
    return prior


def _inside(frame: Frame, task: Task) -> Task:
    """The task in a frame's coordinates."""
    queries = frame.normalize(task.queries)
    context = queries[:, : task.context.shape[1]]
    return task._replace(context=context, queries=queries, truth=frame.normalize_estimate(task.truth))


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
