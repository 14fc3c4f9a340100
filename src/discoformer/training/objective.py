"""What training minimizes: the loss of a network on a task."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from discoformer.core.fields import Estimate
from discoformer.core.frames import Axes
from discoformer.core.transforms import Frame
from discoformer.models.attention.core import AttentionCore
from discoformer.models.mixture.unified_network import UnifiedNetwork
from discoformer.models.network import Network
from discoformer.training.balance import Balance
from discoformer.training.config import Recipe
from discoformer.training.loss import Loss, mse_loss, relative_loss
from discoformer.training.tasks import Task

__all__ = ["Objective"]


class Objective(nn.Module):
    """The recipe's loss of a network, as a module: `DistributedDataParallel` follows calls of modules.

    Examples
    --------
    >>> from discoformer.models.registry import build_network
    >>> from discoformer.priors import GMMPrior
    >>> from discoformer.training.tasks import draw_task, step_generator
    >>> core = {"kind": "attention", "dim": 2, "layers": 1, "width": 8, "heads": 2, "feedforward": 8}
    >>> recipe = Recipe(name="mine", core=core, frame="whiten", prior={"name": "gmm"}, sizes=(16, 32))
    >>> task = draw_task(recipe, GMMPrior(), step_generator(seed=0, rank=0, step=0))
    >>> Objective(build_network(core, "whiten"), recipe)(task).total.shape
    torch.Size([])
    """

    def __init__(self, network: Network, recipe: Recipe, balance: Balance | None = None) -> None:
        super().__init__()
        self.network, self.alpha, self.mse = network, recipe.alpha, recipe.loss == "mse"
        self.balance = balance if recipe.balance else None
        self.mixed = recipe.precision == "bfloat16"
        if recipe.recompute:
            network.core.recompute = True

    def forward(self, task: Task) -> Loss:
        """The loss on a task."""
        frame, axes = self._place(task)
        inside = task.to(frame.center.dtype).inside(frame).to(self.network.dtype)
        with torch.autocast(task.context.device.type, torch.bfloat16, enabled=self.mixed):
            estimate = self._estimate(inside, axes)
        estimate = Estimate(*(part.to(self.network.dtype) for part in estimate))
        if self.mse:
            return mse_loss(
                frame.to(self.network.dtype).denormalize_estimate(estimate), task.truth, self.alpha
            )
        near = task.own + task.fresh
        return relative_loss(estimate, inside.truth, near, self.alpha, self._weigh(task.context))

    def _weigh(self, context: Tensor) -> Callable[[str, Tensor], Tensor] | None:
        balance, (_, size, dim) = self.balance, context.shape
        return None if balance is None else lambda name, errors: balance(name, errors, dim, size)

    def _place(self, task: Task) -> tuple[Frame, Axes | None]:
        """The frame of the context, and its axes where they count."""
        network, exact = self.network, task.context.to(torch.float64)  # columns may be all but collinear
        if not isinstance(network, UnifiedNetwork):
            return network.frame.fit(exact), None
        frame, axes = network.place(exact, axes=task.axes)
        return frame, None if axes is None else axes.to(network.dtype)

    def _estimate(self, task: Task, axes: Axes | None) -> Estimate[Tensor]:
        """The core's answer at the queries, of which the first may be the context itself."""
        core = self.network.core
        if isinstance(core, AttentionCore):
            return _attend(core, task)
        mixture = core.encode(task.context, axes=axes, slots=task.slots, loops=task.loops)
        estimate: Estimate[Tensor] = core.read(mixture, task.queries)
        return estimate


def _attend(core: AttentionCore, task: Task) -> Estimate[Tensor]:
    state = core.encode(task.context)
    if not task.own:
        return core.read(state, task.queries)
    own = core.read_context(state)  # has passed the blocks already
    if task.queries.shape[1] == task.own:
        return own
    rest = core.read(state, task.queries[:, task.own :])
    log_density = torch.cat([own.log_density, rest.log_density], -1)
    return Estimate(log_density, torch.cat([own.score, rest.score], -2))
