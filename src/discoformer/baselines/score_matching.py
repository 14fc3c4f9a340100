"""Score matching: a small network per data set, trained on the data set itself.

For any field s, E_f |s - grad log f|^2 = E_f [|s|^2 + 2 div s] + I(f) (Hyvarinen 2005), and the right side
needs no truth.  The divergence is estimated with one random direction z per point and step,

    ``implicit``  2 div s = E z.(s(x + a z) - s(x - a z)) / a,   z ~ N(0, I): finite differences, as in the
                  appendix of the paper,
    ``sliced``    2 div s = E 2 z.grad(z.s(x)): the exact derivative along z, by autograd (sliced score
                  matching with variance reduction, Song et al. 2019).

The result knows only the score, must be trained again for every data set, and fits noise when trained too
long.  The paper compares its model with it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Literal, get_args

import torch
import torch.nn.functional as F
from torch import Tensor

from discoformer.core.checks import DataError
from discoformer.core.composed import push
from discoformer.core.fields import Field, Method
from discoformer.core.frames import FRAMES

__all__ = ["ScoreMatching", "ScoreNetwork", "implicit_loss", "perceptron", "sliced_loss"]

Score = Callable[[Tensor], Tensor]
Loss = Literal["implicit", "sliced"]


def implicit_loss(score: Score, points: Tensor, directions: Tensor, radius: float) -> Tensor:
    """|s|^2 + z.(s(x + a z) - s(x - a z)) / a at every point, (..., n).

    Parameters
    ----------
    score : maps points (..., m, d) to scores (..., m, d)
    points, directions : (..., n, d), x and z
    radius : a

    >>> x, z = torch.ones(1, 2), torch.tensor([[1.0, 2.0]])
    >>> implicit_loss(lambda y: -y, x, z, 0.5).item()  # 2 - 2 |z|^2
    -8.0
    """
    shift = radius * directions
    here, ahead, behind = score(torch.cat([points, points + shift, points - shift], -2)).chunk(3, -2)
    return here.square().sum(-1) + (directions * (ahead - behind)).sum(-1) / radius


def sliced_loss(score: Score, points: Tensor, directions: Tensor) -> Tensor:
    """|s|^2 + 2 z.grad(z.s) at every point, (..., n), differentiable in the parameters of ``score``.

    Parameters
    ----------
    score : maps points (..., n, d) to scores (..., n, d), each point independent of the others
    points, directions : (..., n, d), x and z

    >>> x, z = torch.ones(1, 2), torch.tensor([[1.0, 2.0]])
    >>> sliced_loss(lambda y: -y, x, z).item()
    -8.0
    """
    with torch.enable_grad():
        points = points.detach().requires_grad_()
        here = score(points)
        (slope,) = torch.autograd.grad((directions * here).sum(), points, create_graph=True)
    return here.square().sum(-1) + 2 * (directions * slope).sum(-1)


@dataclass(eq=False)
class ScoreMatching(Method):
    """A multilayer perceptron (SiLU) fitted by score matching, full batch, AdamW.

    The defaults are the setting of the paper's appendix.  A batch of samples trains a batch of networks
    that do not see each other.

    Parameters
    ----------
    steps : int
        The paper shows 10, 100 and 1000.
    loss : "implicit" or "sliced"
    hidden : widths of the hidden layers
    rate : learning rate
    clip : largest norm of the gradient
    radius : a of the implicit loss, in the coordinates of the frame
    frame : "standardize", "whiten" or "identity"
        Coordinates the network works in; the paper's example uses those of the data, ``identity``.
    seed : of weights and directions
    dtype : of the network; answers come in the dtype of the queries

    >>> x = torch.randn(200, 2, generator=torch.Generator().manual_seed(0))
    >>> ScoreMatching(steps=20, hidden=(16,)).fit(x).score(x).shape
    torch.Size([200, 2])
    """

    steps: int = 1000
    loss: Loss = "implicit"
    _: KW_ONLY
    hidden: tuple[int, ...] = (128, 128, 128, 128)
    rate: float = 1e-3
    clip: float = 1.0
    radius: float = 0.05
    frame: str = "standardize"
    seed: int = 0
    dtype: torch.dtype = torch.float32

    def __post_init__(self) -> None:
        if self.loss not in get_args(Loss):
            raise DataError(f"loss={self.loss!r} is unknown: use 'implicit' or 'sliced'")
        if self.frame not in FRAMES:
            raise DataError(f"frame={self.frame!r} is unknown: use one of {', '.join(FRAMES)}")
        sizes = (self.steps, self.rate, self.clip, self.radius, min(self.hidden, default=0))
        if not all(size > 0 for size in sizes):
            raise DataError("score matching needs positive steps, rate, clip, radius and hidden widths")

    def _fit(self, context: Tensor, weights: Tensor | None) -> Field:
        generator = torch.Generator().manual_seed(self.seed)
        frame = FRAMES[self.frame].fit(context.detach(), weights)
        points = frame.normalize(context.detach()).to(self.dtype)
        mass = torch.full_like(points[..., 0], 1 / points.shape[-2])
        if weights is not None:
            mass = weights.to(self.dtype)
        layers = self._random_layers(points, generator)
        optimizer = torch.optim.AdamW(layers, lr=self.rate)
        with torch.enable_grad():
            for _ in range(self.steps):
                noise = torch.randn(points.shape, generator=generator, dtype=self.dtype).to(points.device)
                optimizer.zero_grad()
                (mass * self._losses(layers, points, noise)).sum().backward()
                _clip(layers, self.clip)
                optimizer.step()
        return push(ScoreNetwork([layer.detach() for layer in layers]), [frame])

    def _losses(self, layers: list[Tensor], points: Tensor, noise: Tensor) -> Tensor:
        def score(queries: Tensor) -> Tensor:
            return perceptron(layers, queries)

        if self.loss == "sliced":
            return sliced_loss(score, points, noise)
        return implicit_loss(score, points, noise, self.radius)

    def _random_layers(self, points: Tensor, generator: torch.Generator) -> list[Tensor]:
        """Weight (..., in, out), bias (..., 1, out), weight, ...: uniform within 1 / sqrt(in)."""
        dim = points.shape[-1]
        widths = (dim, *self.hidden, dim)
        layers = []
        for before, after in zip(widths[:-1], widths[1:], strict=True):
            for rows in (before, 1):
                uniform = torch.rand((*points.shape[:-2], rows, after), generator=generator, dtype=self.dtype)
                layers.append(((2 * uniform - 1) * before**-0.5).to(points.device).requires_grad_())
        return layers


class ScoreNetwork(Field):
    """The fitted network.

    Parameters
    ----------
    layers : weight (..., in, out), bias (..., 1, out), weight, ...
    """

    def __init__(self, layers: list[Tensor]) -> None:
        self.layers = layers

    @property
    def dim(self) -> int:
        return self.layers[0].shape[-2]

    def _score(self, queries: Tensor) -> Tensor:
        return perceptron(self.layers, queries.to(self.layers[0].dtype)).to(queries.dtype)


def perceptron(
    layers: list[Tensor], points: Tensor, activation: Callable[[Tensor], Tensor] = F.silu
) -> Tensor:
    """The output (..., n, out) of layers: weight (..., in, out), bias (..., 1, out), weight, ...

    >>> one, zero = torch.ones(1, 1), torch.zeros(1, 1)
    >>> perceptron([one, zero, one, one], zero)
    tensor([[1.]])
    """
    for index in range(0, len(layers), 2):
        points = points @ layers[index] + layers[index + 1]
        if index < len(layers) - 2:
            points = activation(points)
    return points


def _clip(layers: list[Tensor], limit: float) -> None:
    """Scale the gradient of every network of the batch down to norm ``limit``, each by itself."""
    gradients = [layer.grad for layer in layers if layer.grad is not None]
    norm = torch.stack([g.square().sum((-2, -1)) for g in gradients]).sum(0).sqrt()  # (...)
    factor = (limit / norm.clamp(min=limit))[..., None, None]
    for gradient in gradients:
        gradient.mul_(factor)
