"""The paper's core: a Transformer without positions that reads densities off a context.

Context tokens attend to the context; query tokens attend to the context with the same weights.  A
query therefore never sees another query, the context is encoded once and read many times, and
reading at the context's own points gives the context stream itself.  Blocks are pre-norm with GELU;
a linear density head and a linear score head sit on the shared stream.

With ``lift=True`` every head is also a Gaussian kernel (the paper's Proposition): queries and keys are
lifted by [x, |x|^2], which adds -|x - y|^2 / 2h^2 to the logits, and values by [y, y^2], so that the head
knows the local mean m and variance v under its weights.  The stream receives the local-likelihood
estimate: the score (m - x) / v, and the log density from the head's log-normalizer.  Both are exact for a
Gaussian at every bandwidth, where plain kernel estimates are biased, and also where the weights pick out a
cluster.  Bandwidths are learned, one per head and layer; at the start they cover a decade.  The density and
score heads correct what the last layer's kernels estimate; every token chooses the share of each kernel.

Everything here is in the frame's coordinates; `discoformer.models.network.Network` adds the frame.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint as run_again

from discoformer.core.checks import DataError
from discoformer.core.fields import Estimate
from discoformer.models.attention.kernel_heads import KernelHeads, Local
from discoformer.models.attention.softmax import CHUNK_ELEMENTS, attend, logits_of

__all__ = ["AttentionConfig", "AttentionCore", "AttentionState"]

Memory = tuple[Tensor, Tensor]  # keys and values of one layer, each (..., heads, n, c)


@dataclass(frozen=True)
class AttentionConfig:
    """Sizes of an `AttentionCore`; the defaults are the paper's base model.

    Attributes
    ----------
    dim : number of columns d, fixed by the weights
    layers, width, heads, feedforward : the paper's large model is 6, 256, 8, 1024
    dropout : on the residual branches, in training only
    attention_dropout : on the attention weights, in training only; not with a lift
    estimates : "both" or one head alone: with "score" there is no density, with "density" its gradient is
        the score
    lift : add a Gaussian kernel to every head, and its local likelihood to the stream
    sized : let every head sharpen with n, as the best bandwidth of a kernel is a power of n: its learned
        logits are multiplied by (n / 512)^b with a learned b
    """

    dim: int
    layers: int = 4
    width: int = 128
    heads: int = 8
    feedforward: int = 512
    dropout: float = 0.1
    attention_dropout: float = 0.0
    estimates: Literal["both", "score", "density"] = "both"
    lift: bool = False
    sized: bool = False


@dataclass(frozen=True)
class AttentionState:
    """An encoded context.

    Attributes
    ----------
    memory : keys and values of every layer, each (..., heads, n, c)
    stream : of the context, after the last layer
    log_weights : (..., 1, 1, n), log sample weights that sum to one, or None
    """

    memory: tuple[Memory, ...]
    stream: ResidualStream
    log_weights: Tensor | None


class ResidualStream(NamedTuple):
    """Tokens after a layer.

    Attributes
    ----------
    hidden : (..., m, width)
    local : what the layer's kernels estimate; None without a lift
    """

    hidden: Tensor
    local: Local | None = None


class AttentionCore(nn.Module):
    """Equivariant Transformer with a density head and a score head.

    Examples
    --------
    >>> core = AttentionCore(AttentionConfig(dim=2, layers=2, width=16, heads=2, feedforward=32)).eval()
    >>> state = core.encode(torch.randn(100, 2))
    >>> log_density, score = core.read(state, torch.randn(7, 2))
    >>> log_density.shape, score.shape
    (torch.Size([7]), torch.Size([7, 2]))
    """

    def __init__(self, config: AttentionConfig) -> None:
        super().__init__()
        for key in ("dim", "layers", "width", "heads", "feedforward"):
            if getattr(config, key) < 1:
                raise DataError(f"{key} = {getattr(config, key)} of an attention core must be at least 1")
        for key in ("dropout", "attention_dropout"):
            if not 0 <= getattr(config, key) < 1:
                raise DataError(f"{key} = {getattr(config, key)} must be at least 0 and less than 1")
        if config.estimates not in ("both", "score", "density"):
            raise DataError(f"estimates = {config.estimates!r} must be both, score or density")
        if config.lift and config.attention_dropout:
            raise DataError("attention_dropout thins out what the kernels of a lift count: leave one out")
        if config.width % config.heads:
            raise DataError(f"width {config.width} is not a multiple of the {config.heads} heads")
        self.config = config
        self.recompute = False  # in training: recompute the blocks in the backward pass
        self.embed = nn.Linear(config.dim + config.lift, config.width)
        self.blocks = cast(
            "list[_Block]", nn.ModuleList(_Block(config, layer) for layer in range(config.layers))
        )
        self.norm = nn.LayerNorm(config.width)
        self.density_head = nn.Linear(config.width, 1) if config.estimates != "score" else None
        self.score_head = nn.Linear(config.width, config.dim) if config.estimates != "density" else None
        self.choose = nn.Linear(config.width, config.heads) if config.lift else None

    def encode(self, context: Tensor, weights: Tensor | None = None) -> AttentionState:
        """Run the context (..., n, d) through the blocks and keep what queries need of it.

        ``weights`` (..., n) are sample weights, in any unit: a point of weight two counts as two points.
        Where the number of points matters (kernels, ``sized``), it is the effective number.
        """
        log_weights = None
        if weights is not None:
            log_weights = (weights / weights.sum(-1, keepdim=True)).log()[..., None, None, :]
        stream = ResidualStream(self._embed(context))
        memory = []
        for block in self.blocks:
            stream, kept = self._advance(block, stream, context, None, log_weights)
            memory.append(kept)
        return AttentionState(tuple(memory), stream, log_weights)

    def read(self, state: AttentionState, queries: Tensor) -> Estimate[Tensor]:
        """Log density (..., m) and score (..., m, d) at ``queries`` (..., m, d).

        Where no gradients are kept, the queries pass in chunks, so that only the result grows with m.
        Queries do not see one another, so this cannot change the answer.
        """
        config = self.config
        batch = torch.broadcast_shapes(queries.shape[:-2], state.stream.hidden.shape[:-2])
        numbers_per_row = math.prod(batch) * (6 * config.width + 2 * config.feedforward)
        rows = max(1, CHUNK_ELEMENTS // numbers_per_row)
        tensors = (queries, state.stream.hidden, *self.parameters())
        if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors):
            rows = queries.shape[-2]
        parts = [self._heads(self._stream(state, part)) for part in queries.split(rows, -2)]
        log_densities, scores = zip(*parts, strict=True)
        return Estimate(torch.cat(log_densities, -1), torch.cat(scores, -2))

    def read_context(self, state: AttentionState) -> Estimate[Tensor]:
        """What `read` gives at the context's own points, at the cost of the two heads alone."""
        return self._heads(state.stream)

    def attention_maps(self, context: Tensor, queries: Tensor, layer: int | None = None) -> Tensor:
        """Softmax weights of the queries on the context; each row sums to one.

        Returns
        -------
        (..., layers, heads, m, n), or (..., heads, m, n) for one ``layer``, -1 for the last one

        Examples
        --------
        >>> core = AttentionCore(AttentionConfig(dim=2, layers=2, width=16, heads=4, feedforward=32)).eval()
        >>> core.attention_maps(torch.randn(100, 2), torch.randn(7, 2)).shape
        torch.Size([2, 4, 7, 100])
        """
        layers = range(len(self.blocks))
        if layer is not None and layer not in range(-len(layers), len(layers)):
            raise DataError(f"there is no layer {layer}: this core has layers 0 to {layers[-1]}")
        wanted = layers if layer is None else [layers[layer]]
        state = self.encode(context)
        maps = []
        stream = ResidualStream(self._embed(queries))
        for index, (block, kept) in enumerate(zip(self.blocks, state.memory, strict=True)):
            if index in wanted:
                maps.append(block.attention_map(stream, queries, kept))
            stream, _ = block(stream, queries, kept, None)
        return maps[0] if layer is not None else torch.stack(maps, -4)

    def _embed(self, points: Tensor) -> Tensor:
        if points.shape[-1] != self.config.dim:
            raise DataError(
                f"this model's weights are for {self.config.dim} column(s), the data have "
                f"{points.shape[-1]}: choose a model trained for that dimension"
            )
        if self.config.lift:
            points = torch.cat([points, points.square().mean(-1, keepdim=True)], -1)
        hidden: Tensor = self.embed(points)
        return hidden

    def _stream(self, state: AttentionState, queries: Tensor) -> ResidualStream:
        stream = ResidualStream(self._embed(queries))
        for block, kept in zip(self.blocks, state.memory, strict=True):
            stream, _ = self._advance(block, stream, queries, kept, state.log_weights)
        return stream

    def _advance(
        self,
        block: _Block,
        stream: ResidualStream,
        points: Tensor,
        memory: Memory | None,
        weights: Tensor | None,
    ) -> tuple[ResidualStream, Memory]:
        if self.recompute and self.training:
            found = run_again(block, stream, points, memory, weights, use_reentrant=False)
        else:
            found = block(stream, points, memory, weights)
        return cast("tuple[ResidualStream, Memory]", found)

    def _heads(self, stream: ResidualStream) -> Estimate[Tensor]:
        """Linear heads; with a lift they correct the last kernels, in shares that each token chooses.

        Without its head an answer is NaN; `discoformer.models.attention.network` never asks for it.
        """
        hidden = self.norm(stream.hidden)
        unknown = torch.full_like(hidden[..., : self.config.dim], math.nan)
        score = unknown if self.score_head is None else self.score_head(hidden)
        density = unknown[..., :1] if self.density_head is None else self.density_head(hidden)
        log_density = density.squeeze(-1)
        if self.choose is not None and stream.local is not None:
            share = self.choose(hidden).softmax(-1).mT  # (..., heads, m)
            log_density = log_density + (share * stream.local.log_density).sum(-2)
            score = score + (share.unsqueeze(-1) * stream.local.score).sum(-3)
        return Estimate(log_density, score)


class _Block(nn.Module):
    """Pre-norm attention and feed-forward, for the context stream and for the query stream alike."""

    def __init__(self, config: AttentionConfig, layer: int) -> None:
        super().__init__()
        width = config.width
        self.heads = config.heads
        self.scale = 1 / math.sqrt(width // config.heads)
        self.attention_norm = nn.LayerNorm(width)
        self.query = nn.Linear(width, width)
        self.key_value = nn.Linear(width, 2 * width)
        self.out = nn.Linear(width, width)
        self.kernel = KernelHeads(config.dim, config.heads, width, layer) if config.lift else None
        self.size_power = nn.Parameter(torch.zeros(config.heads)) if config.sized else None
        self.feedforward_norm = nn.LayerNorm(width)
        self.feedforward = nn.Sequential(
            nn.Linear(width, config.feedforward), nn.GELU(), nn.Linear(config.feedforward, width)
        )
        self.dropout, self.attention_dropout = nn.Dropout(config.dropout), config.attention_dropout

    def forward(
        self, stream: ResidualStream, points: Tensor, memory: Memory | None, log_weights: Tensor | None
    ) -> tuple[ResidualStream, Memory]:
        """Advance a stream at points (..., m, d), attending to ``memory`` or to itself."""
        hidden, normed = stream.hidden, self.attention_norm(stream.hidden)
        places = self._places(points, stream)
        if memory is None:
            keys, values = map(self._split, self.key_value(normed).chunk(2, -1))
            memory = (keys, values)
            if self.kernel is not None:
                memory = self.kernel.remember(keys, values, points, places)
        log_total = _log_total(memory, log_weights)
        attended, normalizers = attend(
            self._queries(normed, places, log_total),
            *memory,
            log_weights,
            self.scale,
            normalize=self.kernel is not None,
            dropout=self.attention_dropout if self.training else 0.0,
        )
        own = attended[..., : hidden.shape[-1] // self.heads]
        update = self.out(own.transpose(-3, -2).flatten(-2))
        local = None
        if self.kernel is not None and normalizers is not None:
            moments = attended[..., own.shape[-1] :]
            gain, local = self.kernel(moments, normalizers, points, places, log_total)
            update = update + gain
        hidden = hidden + self.dropout(update)
        hidden = hidden + self.dropout(self.feedforward(self.feedforward_norm(hidden)))
        return ResidualStream(hidden, local), memory

    def attention_map(self, stream: ResidualStream, points: Tensor, memory: Memory) -> Tensor:
        """Softmax weights (..., heads, m, n) of a stream at points (..., m, d)."""
        places = self._places(points, stream)
        query = self._queries(self.attention_norm(stream.hidden), places, _log_total(memory, None))
        return logits_of(query, memory[0], None, self.scale).softmax(-1)

    def _places(self, points: Tensor, stream: ResidualStream) -> Tensor:
        """Where the kernels see points (..., m, d): (..., heads or 1, m, d)."""
        places = points.unsqueeze(-3)
        if self.kernel is None or self.kernel.follow is None or stream.local is None:
            return places
        return places + self.kernel.follow[:, None, None] * stream.local.shift

    def _queries(self, normed: Tensor, places: Tensor, log_total: Tensor) -> Tensor:
        query = self._split(self.query(normed))
        if self.size_power is not None:  # log_total is (..., 1, 1), query (..., heads, m, c)
            log_ratio = log_total.unsqueeze(-1) - math.log(512)
            query = query * (self.size_power[:, None, None] * log_ratio).exp()
        return query if self.kernel is None else self.kernel.ask(query, places, self.scale)

    def _split(self, tensor: Tensor) -> Tensor:
        """(..., n, width) to (..., heads, n, width / heads)."""
        return tensor.reshape(*tensor.shape[:-1], self.heads, -1).transpose(-3, -2)


def _log_total(memory: Memory, log_weights: Tensor | None) -> Tensor:
    """Log of the number of points (..., 1, 1), the effective number if they have weights."""
    if log_weights is None:
        return memory[0].new_full((1, 1), memory[0].shape[-2]).log()
    return -(2 * log_weights).logsumexp(-1)
