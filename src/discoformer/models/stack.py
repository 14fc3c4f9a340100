"""Several mixture networks as one: their mixtures, weighted by held-out likelihood.

A mixture of mixtures is a mixture, so the stack returns the same closed-form field as its members.  The
weights maximize the likelihood of points that the members have not seen (stacking): cross-validation
costs a few more encodings, and tells in context which member's view of the data is the right one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import cast

import torch
from torch import Tensor, nn

from discoformer.checks import DataError, check_context, check_weights
from discoformer.fields import Estimate, Method
from discoformer.frames import Frame, Standardize
from discoformer.models.folds import fold_indices, split_fold
from discoformer.models.mixture_field import MixtureField
from discoformer.models.network import Network
from discoformer.models.student import StudentMixture

__all__ = ["Stack", "combine", "stacking_weights"]

_HELD_OUT = 4096  # at most this many points are used to weigh the members


class Stack(nn.Module, Method):
    """Mixture networks combined by stacking.

    Parameters
    ----------
    members : networks with the mixture core
    folds : parts the context is cut into to weigh the members
    """

    def __init__(self, members: Sequence[Network], folds: int = 4) -> None:
        super().__init__()
        self.members = cast("list[Network]", nn.ModuleList(members))
        self.folds = folds

    @property
    def dtype(self) -> torch.dtype:
        """Floating type of the weights, and of the arithmetic."""
        return next(self.parameters()).dtype

    def encode(self, context: Tensor, weights: Tensor | None = None) -> MixtureField:
        """Digest a context (..., n, d) once, to be read at any number of queries."""
        points = check_context(context).to(self.dtype)
        return self._fit(points, check_weights(weights, points))

    def read(self, field: MixtureField, queries: Tensor) -> Estimate[Tensor]:
        """Log density (..., m) and score (..., m, d) at ``queries`` (..., m, d)."""
        return field.estimate(queries)

    def forward(self, context: Tensor, queries: Tensor, weights: Tensor | None = None) -> Estimate[Tensor]:
        """`encode` and `read` in one call."""
        return self.read(self.encode(context, weights), queries)

    def for_few_rows(self) -> Stack:
        """The stack of what its members use instead."""
        return Stack([member.for_few_rows() for member in self.members], self.folds)

    def _fit(self, context: Tensor, weights: Tensor | None) -> MixtureField:
        context = context.to(self.dtype)
        weights = None if weights is None else weights.to(self.dtype)
        log_share = self._log_share(context, weights)
        fields = [cast(MixtureField, member._fit(context, weights)) for member in self.members]
        return combine(fields, log_share, Standardize().fit(context, weights))

    @torch.no_grad()
    def _log_share(self, context: Tensor, weights: Tensor | None) -> Tensor:
        """Log weights (..., K) of the members; equal where folds are too small or too tied to tell."""
        try:
            return stacking_weights(self._held_out(context, weights)).log()
        except DataError:
            return context.new_zeros(*context.shape[:-2], len(self.members)).log_softmax(-1)

    def _held_out(self, context: Tensor, weights: Tensor | None) -> Tensor:
        """Log densities (..., n, K) of points under members that were fitted without them."""
        parts = fold_indices(context, self.folds, limit=_HELD_OUT)
        answers = []
        for fold in range(self.folds):
            seen, unseen = split_fold(context, weights, parts, fold)
            columns = [m._fit(seen.points, seen.weights).log_density(unseen.points) for m in self.members]
            answers.append(torch.stack(columns, -1))
        return torch.cat(answers, -2)


def stacking_weights(log_density: Tensor, rounds: int = 200, prior: float = 1.0) -> Tensor:
    """Weights (..., K) that maximize the mean of log sum_k w_k exp(log_density (..., n, K)).

    ``prior`` counts of points are shared equally among the members: little evidence, equal weights.

    >>> held_out = torch.tensor([[0.0, -3.0], [0.0, -2.0], [-1.0, 0.0]], dtype=torch.float64)
    >>> stacking_weights(held_out).round(decimals=2).tolist()
    [0.74, 0.26]
    """
    size, count = log_density.shape[-2:]
    weights = log_density.new_full((*log_density.shape[:-2], count), 1 / count)
    for _ in range(rounds):  # expectation-maximization: the problem is concave
        share = torch.softmax(log_density + weights.unsqueeze(-2).log(), -1).sum(-2)
        weights = (share + prior / count) / (size + prior)
    return weights


def combine(fields: Sequence[MixtureField], log_share: Tensor, frame: Frame) -> MixtureField:
    """One field from several, weighted by exp(log_share) (..., K), in a common frame."""
    mixtures = []
    for index, field in enumerate(fields):
        moved = field.state.transform(
            field.frame.inverse @ frame.matrix, (field.frame.center - frame.center) @ frame.matrix
        )
        mixtures.append(replace(moved, log_weight=moved.log_weight + log_share[..., index, None]))
    state = StudentMixture(
        torch.cat([m.log_weight for m in mixtures], -1),
        torch.cat([m.mean for m in mixtures], -2),
        torch.cat([m.scale for m in mixtures], -3),
        torch.cat([m.nu for m in mixtures], -1),
    )
    return replace(fields[0], frame=frame, state=state)
