"""Fine-tuning: a copy of a network, trained for a few more minutes on data of one kind.

From a prior (`discoformer.priors.own`) the loss is that of training: the exact log density and score are
known.  From samples it is the likelihood of rows held out of each.  Either way the result is judged by the
likelihood of rows that neither training nor the fit has seen, and a copy that is no better is not returned.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor

from discoformer.core.checks import DataError, check_context, column_names
from discoformer.core.fields import Method, as_point_density
from discoformer.evaluation.known_truth import prior_datasets
from discoformer.methods import resolve
from discoformer.models.attention.core import AttentionCore
from discoformer.models.attention.network import AttentionNetwork
from discoformer.models.mixture.views import Views
from discoformer.models.network import Network
from discoformer.models.registry import Card, save_model
from discoformer.priors import Prior
from discoformer.training.config import Recipe
from discoformer.training.objective import Objective
from discoformer.training.tasks import draw_task, step_generator

__all__ = ["FineTuned", "finetune"]

_HELD_OUT = 0.2  # of the rows of a sample: for the judge, and again for the loss of a step
_LEAST_ROWS = 20  # of a sample: what is held out twice must be more than a row or two
_JUDGED = 20  # data sets of a prior that judge, for every dimension
_VALIDATION_SEED = 2_000_000

Pair = tuple[Tensor, Tensor]  # what is fitted, and where it is asked


class FineTuned(NamedTuple):
    """A model, and what its judge said; `save` writes a file that `load_model` reads.

    Attributes
    ----------
    model : the copy, or a copy of the original weights if training did not help
    before, after : mean log density per row of held-out rows, before training and after it
    steps : how many were taken
    card : the description that `save` writes, with the dimensions and sizes of all training
    """

    model: Method
    before: float
    after: float
    steps: int
    card: Card

    def save(self, path: str | Path) -> None:
        """Write the network, in float32, whole or not at all: `load_model` reads it by this path."""
        save_model(_take_apart(self.model)[0], self.card, path)


def finetune(
    model: str | Path | Method,
    data: Prior | Tensor | Sequence[Any],
    *,
    minutes: float = 5.0,
    steps: int | None = None,
    dims: Sequence[int] = (2,),
    sizes: tuple[int, int] = (64, 1024),
    lr: float = 5e-4,
    seed: int = 0,
) -> FineTuned:
    """Train a copy of a network on a prior, or on samples, and keep it if held-out likelihood says so.

    Parameters
    ----------
    model : a name, a path, or a loaded network; it is left untouched
    data : a `Prior`, or a sample (n, d), or several samples (n_i, d_i)
    minutes, steps : when to stop, whichever comes first
    dims, sizes : dimensions and range of sample sizes to draw from a prior
    lr : of AdamW; it falls to zero in a straight line
    seed : of all draws

    Examples
    --------
    >>> from discoformer.priors import GMMPrior
    >>> tuned = finetune("default", GMMPrior(modes=(2, 2)), steps=1, sizes=(32, 64))
    >>> tuned.steps, tuned.model.fit(torch.randn(50, 2)).dim
    (1, 2)
    """
    if not minutes > 0 or (steps is not None and steps < 1) or not lr > 0:
        raise DataError(f"minutes={minutes}, steps={steps}, lr={lr}: give positive numbers")
    resolved = resolve(model)
    method = resolved.method
    network, rebuild = _take_apart(method)
    trained = copy.deepcopy(network).to(torch.float32).requires_grad_(True)
    if isinstance(data, type) and issubclass(data, Prior):
        raise DataError(f"{data.__name__} is a class: give an object of it, {data.__name__}()")
    if isinstance(dims, int) or not all(isinstance(dim, int) for dim in dims):
        raise DataError(f"dims={dims!r}: give a list of whole numbers, such as [2]")
    if isinstance(data, Prior):
        loss = _prior_loss(trained, data, dims, sizes, seed)
        pairs = [pair for dim in sorted(set(dims)) for pair in _drawn(data, dim, sizes[1])]
        shapes = [(size, dim) for size in sizes for dim in dims]
    else:
        if isinstance(network, AttentionNetwork):  # a larger integral would pass for a better likelihood
            raise DataError("densities of this network are not normalized: give a prior, or tune 'default'")
        seen, pairs = _hold_out(data, seed)
        shapes = [(len(sample), sample.shape[-1]) for sample in seen]
        loss = _sample_loss(trained, seen, seed)
    before = _judge(method, pairs)
    taken = _train(trained, loss, minutes * 60, steps, lr)
    trained.to(network.dtype).eval().requires_grad_(False)
    after = _judge(rebuild(trained), pairs)
    best = trained if after > before else copy.deepcopy(network)
    record = {"finetuned": {"before": before, "after": after, "steps": taken}}
    return FineTuned(rebuild(best), before, after, taken, _card(network, shapes, resolved.card, record))


def _card(
    network: Network, shapes: Sequence[tuple[int, int]], former: Card | None, record: dict[str, Any]
) -> Card:
    """The card of a copy: the (n, d) it was tuned on, besides those of the original where they are known."""
    sizes, dims = map(list, zip(*shapes, strict=True))
    if former is not None:
        sizes, dims = [*sizes, *former.sizes], [*dims, *former.dims]
    kind = "attention" if isinstance(network.core, AttentionCore) else "unified"
    return Card(
        {"kind": kind},
        network.frame_name,
        dims=(min(dims), max(dims)),
        sizes=(min(sizes), max(sizes)),
        record=record,
    )


def _take_apart(method: Method) -> tuple[Network, Callable[[Network], Method]]:
    """The network inside a method, and how to put another one into its place."""
    if isinstance(method, Views):
        return method.network, lambda network: Views(cast(Any, network))
    if isinstance(method, Network):
        return method, lambda network: network
    raise DataError(f"a {type(method).__name__} is not a network: name one of `discoformer models`")


def _train(
    network: Network, loss: Callable[[int], Tensor], seconds: float, steps: int | None, lr: float
) -> int:
    """Steps of AdamW until the time or the number of them is over; returns how many."""
    optimizer = torch.optim.AdamW(network.parameters(), lr=lr, betas=(0.9, 0.98), weight_decay=0.0)
    started, step, share = time.monotonic(), 0, 0.0
    network.train()
    while share < 1:
        for group in optimizer.param_groups:
            group["lr"] = lr * (1 - share)
        with torch.enable_grad():
            optimizer.zero_grad()
            loss(step).backward()
        norm = torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        if bool(norm.isfinite()):
            optimizer.step()
        step += 1
        share = max((time.monotonic() - started) / seconds, step / steps if steps else 0.0)
    network.zero_grad()
    return step


def _prior_loss(
    network: Network, prior: Prior, dims: Sequence[int], sizes: tuple[int, int], seed: int
) -> Callable[[int], Tensor]:
    core = network.core
    described: dict[str, Any] = {"kind": "unified"}
    if isinstance(core, AttentionCore):
        described = {"kind": "attention", "dim": core.config.dim}
    recipe = Recipe(
        name="finetune",
        core=described,
        frame=network.frame_name,
        prior=prior.describe(),
        dims=list(dims),
        sizes=sizes,
        seed=seed,
    )
    objective = Objective(network, recipe)
    return lambda step: objective(draw_task(recipe, prior, step_generator(seed, 0, step))).total


def _drawn(prior: Prior, dim: int, size: int) -> list[Pair]:
    """Data sets of a prior, half of each to be fitted and half to be asked at."""
    data = prior_datasets(prior, dim, 2 * size, _JUDGED, _VALIDATION_SEED)
    return [(each.context[:size], each.context[size:]) for each in data]


def _hold_out(data: Any, seed: int) -> tuple[list[Tensor], list[Pair]]:
    """Rows to train on, and with them the rows that judge, of every sample."""
    several = isinstance(data, list | tuple) and bool(data) and getattr(data[0], "ndim", 0) == 2
    samples = [check_context(each, min_rows=_LEAST_ROWS).double() for each in (data if several else [data])]
    if any(sample.ndim != 2 for sample in samples):
        raise DataError("samples have more than two dimensions: give a list of samples (n, d)")
    for sample in samples:
        _refuse_repeats(sample)
    generator = torch.Generator().manual_seed(seed)
    pairs = [_split(sample, generator) for sample in samples]
    return [seen for seen, _ in pairs], pairs


def _refuse_repeats(sample: Tensor) -> None:
    """Spikes on values that repeat have no limit: every step would pass for an improvement."""
    repeats = [j for j, values in enumerate(sample.unbind(-1)) if 2 * len(values.unique()) < len(values)]
    if repeats:
        raise DataError(
            f"most values of {column_names(repeats)} repeat, and their likelihood has no limit: leave out "
            "copies of rows, counts and rounded columns"
        )


def _split(sample: Tensor, generator: torch.Generator) -> Pair:
    order = torch.randperm(len(sample), generator=generator).to(sample.device)
    held_out = max(2, round(_HELD_OUT * len(sample)))
    return sample[order[held_out:]], sample[order[:held_out]]


def _sample_loss(network: Network, samples: Sequence[Tensor], seed: int) -> Callable[[int], Tensor]:
    """Minus the mean log density of rows held out of a sample, one sample a step."""

    def loss(step: int) -> Tensor:
        context, queries = _split(samples[step % len(samples)], step_generator(seed, 0, step))
        return -_log_density(network, context, queries).mean() / context.shape[-1]

    return loss


@torch.no_grad()
def _judge(method: Method, pairs: Sequence[Pair]) -> float:
    """Mean log density per row of what was held out."""
    return float(torch.stack([_log_density(method, *pair).mean() for pair in pairs]).mean())


def _log_density(method: Method, context: Tensor, queries: Tensor) -> Tensor:
    """Not checked: weights that diverge lose before the judge instead of stopping everything."""
    return as_point_density(method.fit(context))._estimate(queries).log_density
