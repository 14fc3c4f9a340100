"""What training minimizes: the loss of a network on a task."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from discoformer.core.fields import Estimate
from discoformer.models.attention.core import AttentionCore
from discoformer.models.network import Network
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

    def __init__(self, network: Network, recipe: Recipe) -> None:
        super().__init__()
        self.network, self.alpha = network, recipe.alpha

    def forward(self, task: Task) -> Loss:
        """The loss on a task, in the frame's coordinates."""
        frame = self.network.frame.fit(task.context)
        queries = frame.normalize(task.queries)
        size = task.context.shape[-2]
        estimate = self._estimate(queries[:, :size], queries, task)
        return task_loss(estimate, frame.normalize_estimate(task.truth), size, task.fresh, self.alpha)

    def _estimate(self, context: Tensor, queries: Tensor, task: Task) -> Estimate[Tensor]:
        """The core's answer at the queries, of which the first are the context itself."""
        core = self.network.core
        estimate: Estimate[Tensor]
        if not isinstance(core, AttentionCore):
            estimate = core.read(
                core.encode(context, slots=task.slots, refinements=task.refinements), queries
            )
            return estimate
        state, size = core.encode(context), context.shape[1]
        own = core.read_context(state)  # has passed the blocks already
        if queries.shape[1] == size:
            return own
        rest = core.read(state, queries[:, size:])
        assert own.log_density is not None
        assert rest.log_density is not None
        log_density = torch.cat([own.log_density, rest.log_density], -1)
        return Estimate(log_density, torch.cat([own.score, rest.score], -2))
