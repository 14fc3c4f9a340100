"""Several mixture networks as one: their mixtures, weighted by held-out likelihood.

Every member gives two mixtures: the one it encodes, and that one consolidated (see
`models.mixture.consolidate`), which is better the more points there are.  A mixture of mixtures is a
mixture, so the stack returns the same closed-form field as its members.  The weights maximize the
likelihood of points that were left out (stacking): cross-validation costs a few more encodings, and tells
in context which view of the data is the right one.  In many columns, mixtures as they were encoded keep
their weight only if they gain enough of that likelihood (`drop_idle_members`): equal likelihood is not an
equal score.

Structure and weights are decided on at most 16384 points; all points then settle what was decided.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn

from discoformer.core.checks import DataError, check_untracked
from discoformer.core.fields import Density, as_point_density
from discoformer.core.frames import Standardize
from discoformer.core.pushforward import Pushforward
from discoformer.core.threads import team
from discoformer.core.transforms import Frame
from discoformer.models.mixture.consolidate import DEAD, consolidate, converge, drop_dead, widen
from discoformer.models.mixture.folds import Part, by_radius, hold_out
from discoformer.models.mixture.network import MixtureNetwork
from discoformer.models.mixture.sample import InMemory, Sample
from discoformer.models.mixture.streamed import StreamedSample
from discoformer.models.mixture.student import StudentMixture
from discoformer.models.network import TorchMethod
from discoformer.scale.ranks import even_ranks
from discoformer.scale.stream import Stream, StreamingMethod

__all__ = ["Stack", "combine", "drop_idle_members", "stacking_weights"]

_DECIDE = 16_384  # points that decide structure and weights: one more mode may need them
_FOLD = 2048  # up to this many points are cut into folds to weigh the members; of more, one cut is enough
_CUT = 3072  # and this many of them are in it
_CONVERGE = 15  # steps of expectation-maximization after consolidation, over the points that decide
_REFIT_STEPS = 10  # and over the points seen, from there, when others are held out
_SETTLE = 5  # and over all points in the end
_OVERLAP = 3  # columns up to which modes overlap so much that raw mixtures are worth their weight anyway
_ENOUGH_TO_JUDGE = 512  # points from which on held-out likelihood tells whether they are
_CROWDED = 64  # columns beyond which clusters do not show in whitened coordinates
_ROUNDING = 1e3  # rounding errors of a change of frame, in units of the last place


class Stack(TorchMethod, StreamingMethod):
    """Mixture networks combined by stacking.

    Parameters
    ----------
    members : networks with the mixture core
    folds : parts the context is cut into to weigh the members

    Examples
    --------
    >>> from discoformer import load_model
    >>> stack = Stack([load_model("mixture"), load_model("mixture-axis")])  # what "default" is
    >>> stack.fit(torch.randn(100, 2)).score(torch.zeros(3, 2)).shape
    torch.Size([3, 2])
    """

    def __init__(self, members: Sequence[MixtureNetwork], folds: int = 4) -> None:
        super().__init__()
        if not members or not all(isinstance(m, MixtureNetwork) for m in members):
            raise DataError("a stack is made of networks with the mixture core, at least one")
        if folds < 2:
            raise DataError(f"{folds} fold(s): give at least 2, one to hold out and one to fit")
        self.members = cast("list[MixtureNetwork]", nn.ModuleList(members))
        self.folds = folds

    def for_few_rows(self) -> Stack:
        """The stack of what its members use instead."""
        return Stack([cast(MixtureNetwork, member.for_few_rows()) for member in self.members], self.folds)

    def _fit(self, context: Tensor, weights: Tensor | None) -> Density:
        check_untracked(weights)
        context = context.to(self.dtype)
        weights = None if weights is None else weights.to(self.dtype)
        if torch.is_grad_enabled() and any(t.requires_grad for t in (context, *self.parameters())):
            return self._view_and_stack(context, weights).density()
        with torch.inference_mode(), team():  # a tenth faster than without gradients alone
            found = self._view_and_stack(context, weights)
        # outside of that mode, copies are tensors that gradients of the queries may pass
        return replace(
            found, frame=found.frame.map(torch.clone), mixture=found.mixture.map(torch.clone)
        ).density()

    def _view_and_stack(self, context: Tensor, weights: Tensor | None) -> Framed:
        few = by_radius(context, weights, _DECIDE)
        if context.shape[-2] <= _DECIDE:  # all points, in another order
            context, weights = few
        frames = [member.frame.fit(context, weights) for member in self.members]
        views = [_View(frame, _inside(frame, context, weights)) for frame in frames]
        return self._stack(views, few, Standardize().fit(context, weights))

    @torch.no_grad()
    def fit_stream(self, stream: Stream) -> Density:
        """Fit to a sample that is not in memory; the points that decide are those `_fit` takes."""
        names = [member.frame_name for member in self.members]
        views = [
            _View(stream.frame(name).to(self.dtype), StreamedSample(stream, name, self.dtype))
            for name in names
        ]
        few = Part(stream.evenly("standardize", _DECIDE).to(self.dtype), None)
        return self._stack(views, few, stream.frame("standardize").to(self.dtype)).density()

    def _stack(self, views: Sequence[_View], few: Part, frame: Frame) -> Framed:
        """Encode, let a few points decide, and let all points settle what they decided; in one frame."""
        batch = few.points.shape[:-2]
        pairs = zip(self.members, views, strict=True)
        fields = [_digest(member, view, batch) for member, view in pairs]
        decided = self._decide(few, fields, views)
        if decided is None:
            equal = fields[0].mixture.log_weight.new_zeros(*batch, len(fields))
            return combine(fields, equal.log_softmax(-1), frame)
        candidates = []
        for field, merged, view in zip(fields, decided.merged, views, strict=True):
            kinds = zip(merged, _kinds(field), strict=True)
            candidates += [field, *(_converge(m, view.sample, _SETTLE, kind) for m, kind in kinds)]
        return combine(candidates, decided.log_share, frame)

    def _decide(self, few: Part, fields: Sequence[Framed], views: Sequence[_View]) -> _Decided | None:
        """Consolidate the members' fields on a few points and weigh all; None if they are too few to tell."""
        try:
            if few.points.shape[-2] <= _FOLD:
                seen, unseen = hold_out(few, self.folds)
            else:
                seen, unseen = (part.first for part in hold_out(_evenly(few, _CUT), 3))

            merged = [
                [_merge(field, view.few(few), diagonal) for diagonal in _kinds(field)]
                for field, view in zip(fields, views, strict=True)
            ]
            pairs = zip(self.members, merged, strict=True)
            held_out = [_held_out(member, field, seen, unseen) for member, field in pairs]
        except DataError:
            return None
        log_density = torch.cat(held_out, -1)
        if not bool(torch.isfinite(log_density).all()):  # hardly more rows than columns
            return None
        counts = None if unseen.weights is None else unseen.weights.movedim(0, -2).flatten(-2)
        if counts is not None and not bool((counts.sum(-1) > 0).all()):
            return None
        size, dim = few.points.shape[-2:]
        if size < _ENOUGH_TO_JUDGE or dim <= _OVERLAP:
            return _Decided(merged, stacking_weights(log_density, counts).log())
        raw = torch.tensor([index == 0 for found in merged for index in range(1 + len(found))])
        return _Decided(merged, drop_idle_members(log_density, counts, raw.to(log_density.device)))


@dataclass(frozen=True)
class Framed:
    """A mixture in the coordinates of a frame; ``axis`` says whether it was made along the axes."""

    frame: Frame
    mixture: StudentMixture
    axis: bool

    def density(self) -> Pushforward:
        """The mixture in data coordinates."""
        return Pushforward(self.mixture, [self.frame])


def _digest(member: MixtureNetwork, view: _View, batch: torch.Size) -> Framed:
    """The member's own mixture; its sample has one batch dimension, the mixture those of the context."""
    mixture: StudentMixture = member.core.digest(view.sample)
    mixture = mixture.map(lambda t: t.reshape(*batch, *t.shape[1:]))
    return Framed(view.frame, mixture, member.core.config.axis)


def _held_out(member: MixtureNetwork, merged: Sequence[Framed], seen: Part, unseen: Part) -> Tensor:
    """Log densities (..., n, k) of points under a member fitted without them, raw and consolidated.

    A consolidated mixture converges again without the points; only its structure has seen them.
    """
    folds = len(seen.points)
    answers = [as_point_density(member._fit(*seen)).log_density(unseen.points)]
    for field, diagonal in zip(merged, _kinds(merged[0]), strict=True):
        again = replace(field, mixture=field.mixture.map(lambda t: t.expand(folds, *t.shape)))
        again = _converge(again, _inside(field.frame, *seen), _REFIT_STEPS, diagonal)
        answers.append(again.density().log_density(unseen.points))
    return torch.stack(answers, -1).movedim(0, -3).flatten(-3, -2)


class _View(NamedTuple):
    """All points as a member sees them: its frame, and the sample in it."""

    frame: Frame
    sample: Sample

    def few(self, part: Part) -> Sample:
        """A part in the frame: if it is all of a sample in memory, that very sample, lifted already."""
        if isinstance(self.sample, InMemory) and self.sample.shape[1] <= _DECIDE:
            return self.sample
        return _inside(self.frame, *part)


class _Decided(NamedTuple):
    """What a few points tell: every member's consolidated fields, and the log weights of all fields.

    Weights stand in the order of the members: the first one's own field, its consolidated ones, and so on.
    """

    merged: Sequence[Sequence[Framed]]
    log_share: Tensor


def _evenly(part: Part, limit: int) -> Part:
    """At most ``limit`` points of a part, evenly spaced in its order."""
    index = even_ranks(part.points.shape[-2], limit).to(part.points.device)
    weights = None if part.weights is None else part.weights[..., index]
    return Part(part.points[..., index, :], weights)


def _inside(frame: Frame, points: Tensor, weights: Tensor | None) -> InMemory:
    """Points (..., n, d) in a frame, with one batch dimension."""
    flat = frame.normalize(points).reshape(-1, *points.shape[-2:])
    return InMemory(flat, None if weights is None else weights.reshape(flat.shape[:-1]))


def _merge(field: Framed, sample: Sample, diagonal: bool) -> Framed:
    """Consolidate a field on a sample of a few points in its frame.

    In very many columns a network shrinks full scales so much that unions seem cheap: they converge first.
    """
    state = _flat(field.mixture)
    if state.dim > _CROWDED and not diagonal:
        state = converge(sample, state, steps=_REFIT_STEPS)
    merged = consolidate(sample, state, diagonal=diagonal)
    return _converge(replace(field, mixture=_like(merged, field.mixture)), sample, _CONVERGE, diagonal)


def _converge(field: Framed, sample: Sample, steps: int, diagonal: bool) -> Framed:
    """Steps of expectation-maximization on a sample in the field's frame."""
    state = converge(sample, _flat(field.mixture), diagonal=diagonal, steps=steps)
    if state.dim > _CROWDED and not diagonal:
        state = widen(state, sample.total)
    return replace(field, mixture=_like(state, field.mixture))


def _kinds(field: Framed) -> tuple[bool, ...]:
    """How a member's field is consolidated: diagonal scales, full ones, or one time each.

    A member that looks along the axes gets diagonal ones, any other full ones.  In very many columns
    whitening takes two clusters for one, because one direction counts for little among so many; the axes
    still show them, and full scales may start from there.
    """
    if not field.axis:
        return (False,)
    return (True, False) if field.mixture.dim > _CROWDED else (True,)


def _flat(mixture: StudentMixture) -> StudentMixture:
    """With one batch dimension."""
    batch = mixture.log_weight.dim() - 1
    return mixture.map(lambda tensor: tensor.reshape(-1, *tensor.shape[batch:]))


def _like(flat: StudentMixture, model: StudentMixture) -> StudentMixture:
    """With the batch dimensions of a model."""
    batch = model.log_weight.shape[:-1]
    return flat.map(lambda tensor: tensor.reshape(*batch, *tensor.shape[1:]))


def stacking_weights(
    log_density: Tensor,
    counts: Tensor | None = None,
    *,
    rounds: int = 200,
    prior: float = 1.0,
    sharpen: float = 1.5,
) -> Tensor:
    """Weights (..., K) that maximize the mean of log sum_k w_k exp(log_density (..., n, K)), sharpened.

    Points count as ``counts`` (..., n) say, up to a factor, or all alike.  ``prior`` counts of points are
    shared equally among the members: little evidence, equal weights.  The weights to the power ``sharpen``
    are used: a little of a poor member gains likelihood where others have none, but spoils the score
    everywhere.

    >>> held_out = torch.tensor([[0.0, -3.0], [0.0, -2.0], [-1.0, 0.0]], dtype=torch.float64)
    >>> stacking_weights(held_out).round(decimals=2).tolist()
    [0.82, 0.18]
    """
    size, count = log_density.shape[-2:]
    density = (log_density - log_density.amax(-1, keepdim=True)).exp()
    weights = log_density.new_full((*log_density.shape[:-2], count, 1), 1 / count)
    count_of = torch.ones_like(density[..., :1]) if counts is None else counts.unsqueeze(-1)
    gathered = (density * (count_of * (size / ((size + prior) * count_of.sum(-2, keepdim=True))))).mT
    least = torch.full_like(weights, prior / (count * (size + prior)))
    for _ in range(rounds):  # expectation-maximization: the problem is concave
        weights = torch.addcmul(least, weights, gathered @ (density @ weights).reciprocal_())
    weights = weights.squeeze(-1).pow(sharpen)
    return weights / weights.sum(-1, keepdim=True)


def drop_idle_members(log_density: Tensor, counts: Tensor | None, doubtful: Tensor) -> Tensor:
    """Log of `stacking_weights` (..., K), without the ``doubtful`` (K,) members if these gain too little.

    Schwarz's price of a free weight is half the logarithm of the number of points.  All doubtful members
    together must gain more than the price of their weights, in log likelihood of all points that were left
    out, or all go.  At least one member is not doubtful.
    """
    log_share = stacking_weights(log_density, counts).log()
    sure = torch.full_like(log_share, DEAD)
    sure[..., ~doubtful] = stacking_weights(log_density[..., ~doubtful], counts).log()
    with_all, with_sure = ((log_density + w.unsqueeze(-2)).logsumexp(-1) for w in (log_share, sure))
    count_of = torch.ones_like(with_all) if counts is None else counts
    count_of = count_of / count_of.sum(-1, keepdim=True)
    size = 1 / count_of.square().sum(-1)  # of the equally weighted sample that tells as much
    gain = size * (count_of * (with_all - with_sure)).sum(-1)
    return torch.where((gain > 0.5 * size.log() * doubtful.sum()).unsqueeze(-1), log_share, sure)


def combine(fields: Sequence[Framed], log_share: Tensor, frame: Frame) -> Framed:
    """One field from several, weighted by exp(log_share) (..., K), in a common frame."""
    mixtures = [
        replace(mixture, log_weight=mixture.log_weight + log_share[..., index, None])
        for index, mixture in enumerate(_move(field, frame) for field in fields)
    ]
    state = StudentMixture(
        torch.cat([m.log_weight for m in mixtures], -1),
        torch.cat([m.mean for m in mixtures], -2),
        torch.cat([m.scale for m in mixtures], -3),
        torch.cat([m.nu for m in mixtures], -1),
    )
    return replace(fields[0], frame=frame, mixture=drop_dead(state))


def _move(field: Framed, frame: Frame) -> StudentMixture:
    """The field's mixture in the coordinates of another frame.

    A component flat in one frame may lose its last direction to rounding in another: the diagonals of the
    scales grow by more than that error, so that they stay positive definite.
    """
    moved = field.mixture.transform(
        field.frame.inverse @ frame.matrix, (field.frame.center - frame.center) @ frame.matrix
    )
    diagonal = moved.scale.diagonal(dim1=-2, dim2=-1).diag_embed()
    return replace(moved, scale=moved.scale + _ROUNDING * torch.finfo(diagonal.dtype).eps * diagonal)
