"""Test-time training: fit a copy of the weights to the sample at hand, without labels.

The attention core predicts the log density T and the score S with two heads that need not agree.
For a sample unlike the training data their disagreement at the sample's own points,

    mean_i |S(C, q_i) - grad_q T(C, q_i)|^2,   context C held fixed, queries q = C,

is a loss that needs no ground truth.  It is computed in the frame's coordinates, so that adapting commutes
with every map of the data that the frame undoes.

The mixture core returns a normalized density whose score is its gradient.  It has a better loss without
ground truth: the cross-validated likelihood of the sample.
"""

from __future__ import annotations

import copy
import math
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from discoformer.core.checks import DataError, check_context, check_weights
from discoformer.core.fields import as_point_density
from discoformer.models.attention.core import AttentionCore, AttentionState
from discoformer.models.mixture.folds import by_radius, hold_out
from discoformer.models.mixture.unified import UnifiedCore
from discoformer.models.network import Network

__all__ = ["adapt", "adapt_consistency", "adapt_likelihood", "adapt_path", "consistency_loss"]

_CONSISTENCY_LR, _LIKELIHOOD_LR = 3e-4, 1e-4
_FOLDS = 4
_CHUNK_ELEMENTS = 2**21  # attention weights of a layer per chunk of queries: what stays in cache is fastest


def adapt(network: Network, context: Any, weights: Any = None, *, steps: int, **options: Any) -> Network:
    """A copy of ``network`` after ``steps`` on the loss of its core: consistency or likelihood.

    Options are those of `adapt_consistency` or `adapt_likelihood`, such as ``lr``.
    Of the default model, which looks several times, adapt the network and look again:
    ``Views(adapt(model.network, sample, steps=8))``.

    Examples
    --------
    >>> from discoformer import load_model
    >>> sample = torch.randn(30, 2)
    >>> adapt(load_model("default").network, sample, steps=1).fit(sample).score(sample).shape
    torch.Size([30, 2])
    """
    return _last(_rule(network)(network, context, weights, steps, **options), network)


def adapt_path(
    network: Network, context: Any, weights: Any = None, *, steps: int, **options: Any
) -> Iterator[Network]:
    """The copies that `adapt` returns for 0, 1, ..., ``steps``, at the cost of the last one.

    Examples
    --------
    >>> from discoformer import load_model
    >>> sample = torch.randn(30, 2)
    >>> copies = adapt_path(load_model("default").network, sample, steps=2)
    >>> [float(copy.fit(sample).score(sample).norm()) > 0 for copy in copies]
    [True, True, True]
    """
    for live in _rule(network)(network, context, weights, steps, **options):
        yield _finish(copy.deepcopy(live), network)


def consistency_loss(core: AttentionCore, state: AttentionState, queries: Tensor) -> Tensor:
    """Squared disagreement |S - grad T|^2 (..., m) of the two heads at ``queries`` (..., m, d).

    Differentiable in the weights and in the state, but not in the queries.

    Examples
    --------
    >>> from discoformer.models.attention.core import AttentionConfig
    >>> core = AttentionCore(AttentionConfig(dim=1, layers=1, width=8, heads=2, feedforward=8)).eval()
    >>> consistency_loss(core, core.encode(torch.randn(20, 1)), torch.zeros(3, 1)).shape
    torch.Size([3])
    """
    # The fused kernels have a first derivative only; the gradient of a gradient needs the plain one.
    with torch.enable_grad(), sdpa_kernel(SDPBackend.MATH):
        queries = queries.detach().requires_grad_()
        log_density, score = core.read(state, queries)
        assert log_density is not None
        # Queries do not see one another: the gradient of the sum holds every query's own gradient.
        (gradient,) = torch.autograd.grad(log_density.sum(), queries, create_graph=True)
    return (score - gradient).square().sum(-1)


def adapt_consistency(
    network: Network,
    context: Any,
    weights: Any = None,
    *,
    steps: int = 4,
    lr: float = _CONSISTENCY_LR,
    points: int | None = None,
) -> Network:
    """A copy of ``network`` after ``steps`` of test-time training on ``context``.

    Adam (no weight decay, no dropout) on the consistency loss at the context's own points.  Adam's
    step does not depend on the scale of the loss, which heavy tails make vary widely between samples.

    Parameters
    ----------
    network : a network with the attention core; it is left untouched
    context : array or tensor (..., n, d), a batch shares one copy of the weights
    weights : sample weights (..., n), optional
    steps : the paper finds 4 enough
    lr : learning rate
    points : how many of the context's points, drawn anew at every step, the loss is taken at; by default at
        all of them, as in the paper, which costs n^2 with a second derivative

    Returns
    -------
    Network, in evaluation mode

    Examples
    --------
    >>> from discoformer.models.registry import build_network
    >>> core = {"kind": "attention", "dim": 2, "layers": 1, "width": 8, "heads": 2, "feedforward": 8}
    >>> sample = torch.randn(30, 2)
    >>> adapt_consistency(build_network(core, "whiten"), sample).fit(sample).score(sample).shape
    torch.Size([30, 2])
    """
    return _last(_walk_consistency(network, context, weights, steps, lr, points), network)


def adapt_likelihood(
    network: Network,
    context: Any,
    weights: Any = None,
    *,
    steps: int = 8,
    lr: float = _LIKELIHOOD_LR,
    folds: int = _FOLDS,
) -> Network:
    """A copy of ``network`` after ``steps`` of ascent on the cross-validated likelihood of ``context``.

    Every step holds one fold out, encodes the rest and raises the mean log density of the fold.

    Parameters
    ----------
    network : a network with the mixture core; it is left untouched
    context : array or tensor (..., n, d), a batch shares one copy of the weights
    weights : sample weights (..., n), optional
    steps, lr : of Adam; one fold a step, in turn
    folds : parts of the sample, by `hold_out`

    Examples
    --------
    >>> from discoformer.models.registry import build_network
    >>> core = {"kind": "unified", "layers": 1, "width": 8, "heads": 2, "slots": 2}
    >>> sample = torch.randn(30, 2)
    >>> adapt_likelihood(build_network(core, "whiten"), sample, steps=1).fit(sample).score(sample).shape
    torch.Size([30, 2])
    """
    return _last(_walk_likelihood(network, context, weights, steps, lr, folds), network)


def _rule(network: Network) -> Callable[..., Iterator[Network]]:
    return _walk_consistency if isinstance(_core(network), AttentionCore) else _walk_likelihood


def _walk_consistency(
    network: Network,
    context: Any,
    weights: Any,
    steps: int,
    lr: float = _CONSISTENCY_LR,
    points: int | None = None,
) -> Iterator[Network]:
    """Yield the same copy before the first step and after each, while it changes."""
    if not isinstance(_core(network), AttentionCore):
        raise TypeError(
            "only the attention core has two heads to make consistent: "
            f"the score of a {type(network.core).__name__} is the gradient of its density already"
        )
    if network.core.config.estimates != "both":
        raise DataError("this network has one head: there are no two estimates to make consistent")
    _check_steps(steps, lr)
    adapted, core = _trainable_copy(network)
    if points is not None and points < 1:
        raise DataError(f"points = {points}: give one at least")
    sample = check_context(context).detach().to(adapted.dtype)
    mass = check_weights(weights, sample)
    sample = adapted.frame.fit(sample, mass).normalize(sample)  # as Network does
    optimizer = torch.optim.Adam(core.parameters(), lr=lr)
    generator = torch.Generator().manual_seed(0)
    yield adapted
    for _ in range(steps):
        optimizer.zero_grad()
        chosen = torch.randperm(sample.shape[-2], generator=generator)[:points].sort().values
        _backward(core, sample, mass, chosen.to(sample.device))
        optimizer.step()
        yield adapted


def _walk_likelihood(
    network: Network, context: Any, weights: Any, steps: int, lr: float = _LIKELIHOOD_LR, folds: int = _FOLDS
) -> Iterator[Network]:
    """Yield the same copy before the first step and after each, while it changes."""
    if not isinstance(_core(network), UnifiedCore):
        raise TypeError(f"only mixture cores are normalized, not {type(network.core).__name__}")
    _check_steps(steps, lr)
    adapted, core = _trainable_copy(network)
    points = check_context(context, min_rows=2 * folds).detach().to(adapted.dtype)
    mass = check_weights(weights, points)
    seen, unseen = hold_out(by_radius(points, mass), folds)
    optimizer = torch.optim.Adam(core.parameters(), lr=lr)
    yield adapted
    for step in range(steps):
        fold = step % folds
        optimizer.zero_grad()
        with torch.enable_grad():
            field = adapted._fit(seen.points[fold], None if seen.weights is None else seen.weights[fold])
            log_density = as_point_density(field).log_density(unseen.points[fold])
            counts = torch.ones_like(log_density) if unseen.weights is None else unseen.weights[fold]
            share = counts / counts.sum(-1, keepdim=True).clamp_min(torch.finfo(counts.dtype).tiny)
            (-(log_density * share).sum(-1).mean()).backward()
        optimizer.step()
        yield adapted


def _last(walk: Iterator[Network], network: Network) -> Network:
    return _finish(deque(walk, maxlen=1).pop(), network)


def _core(network: Network) -> Any:
    if not isinstance(network, Network):
        raise TypeError(
            f"a {type(network).__name__} is not a network: of several views adapt the network, "
            "Views(adapt(model.network, context, steps=8))"
        )
    return network.core


def _check_steps(steps: int, lr: float) -> None:
    if steps < 0:
        raise DataError(f"steps = {steps} must not be negative")
    if not lr > 0:
        raise DataError(f"lr = {lr} must be positive")


def _trainable_copy(network: Network) -> tuple[Network, Any]:
    """A copy in evaluation mode, and its core, whose weights may move."""
    adapted = copy.deepcopy(network).eval()
    return adapted, adapted.core.requires_grad_(True)


def _finish(adapted: Network, network: Network) -> Network:
    """Drop the gradients and track them only where the original does."""
    adapted.zero_grad()
    for parameter, original in zip(adapted.parameters(), network.parameters(), strict=True):
        parameter.requires_grad_(original.requires_grad)
    return adapted


def _backward(core: AttentionCore, points: Tensor, weights: Tensor | None, chosen: Any = slice(None)) -> None:
    """Accumulate the gradient of the mean loss at some of the points, a bounded number at a time.

    The keys and values of the context are detached, collect their gradient over the chunks, and pass it
    back through the context stream once.
    """
    *batch, n, _ = points.shape
    samples = math.prod(batch)
    mass = torch.full_like(points[..., 0], 1 / n) if weights is None else weights
    with torch.enable_grad():
        state = core.encode(points, weights)
        joined = [tensor for memory in state.memory for tensor in memory]
        cut = [tensor.detach().requires_grad_() for tensor in joined]
        memory = tuple(zip(cut[::2], cut[1::2], strict=True))
        rows = max(1, _CHUNK_ELEMENTS // (samples * core.config.heads * n))
        some, share_of = points[..., chosen, :], mass[..., chosen]
        share_of = share_of / share_of.sum(-1, keepdim=True)
        for queries, share in zip(some.split(rows, -2), share_of.split(rows, -1), strict=True):
            loss = consistency_loss(core, replace(state, memory=memory), queries)
            ((share * loss).sum() / samples).backward()
        torch.autograd.backward(joined, [tensor.grad for tensor in cut])
