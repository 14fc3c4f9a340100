"""What training minimizes: the loss of a network on a task."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from discoformer.core.fields import Estimate
from discoformer.models.attention.core import AttentionCore
from discoformer.models.mixture.axes import Axes
from discoformer.models.mixture.unified_network import UnifiedNetwork
from discoformer.models.network import Network
from discoformer.training.balance import Balance
from discoformer.training.config import Recipe
from discoformer.training.loss import Loss, task_loss
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
        self.network, self.alpha = network, recipe.alpha
        self.balance = balance if recipe.balance else None

    def forward(self, task: Task) -> Loss:
        """The loss on a task, in the frame's coordinates."""
        inside, axes = self._place(task)
        estimate = self._estimate(inside, axes)
        size = task.context.shape[-2]
        return task_loss(estimate, inside.truth, size, task.fresh, self.alpha, self.balance)

    def _place(self, task: Task) -> tuple[Task, Axes | None]:
        """The task in the frame's coordinates, and its axes where they count."""
        network = self.network
        if not isinstance(network, UnifiedNetwork):
            return task.inside(network.frame.fit(task.context)), None
        exact = task.to(torch.float64)  # columns may be all but collinear
        frame, axes = network.place(exact.context, axes=task.axes)
        return exact.inside(frame).to(network.dtype), None if axes is None else axes.to(network.dtype)

    def _estimate(self, task: Task, axes: Axes | None) -> Estimate[Tensor]:
        """The core's answer at the queries, of which the first are the context itself."""
        core = self.network.core
        if isinstance(core, AttentionCore):
            return _attend(core, task)
        mixture = core.encode(task.context, axes=axes, slots=task.slots, loops=task.loops)
        estimate: Estimate[Tensor] = core.read(mixture, task.queries)
        return estimate


def _attend(core: AttentionCore, task: Task) -> Estimate[Tensor]:
    state, size = core.encode(task.context), task.context.shape[1]
    own = core.read_context(state)  # has passed the blocks already
    if task.queries.shape[1] == size:
        return own
    rest = core.read(state, task.queries[:, size:])
    log_density = torch.cat([own.log_density, rest.log_density], -1)
    return Estimate(log_density, torch.cat([own.score, rest.score], -2))
