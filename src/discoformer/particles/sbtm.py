"""Score-based transport modeling: a network that follows the particles, trained a little at every step.

The network is fitted to the exact score of the start; then, before every answer, it takes a few
full-batch Adam steps on the implicit score-matching loss at the current particles,

    (1/n) sum_i |s(x_i)|^2 + z_i.(s(x_i + a z_i) - s(x_i - a z_i)) / a,    z_i ~ N(0, I),

whose second term estimates twice the divergence.  A batch of samples trains a batch of networks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from discoformer.baselines.score_matching import implicit_loss, perceptron
from discoformer.core.checks import DataError
from discoformer.core.fields import Field
from discoformer.particles.oracles import Answer, Oracle

__all__ = ["SBTM"]


@dataclass(eq=False)
class SBTM(Oracle):
    """A softsign network refitted at every step, with the constants of its authors.

    Parameters
    ----------
    start : field of the start, whose score the network is first fitted to
    hidden : widths of the hidden layers
    steps : Adam steps before every answer
    rate : Adam's learning rate
    radius : a in the loss
    start_steps, start_tolerance : the first fit ends after this many steps or at this relative squared error
    seed : of weights and noise
    dtype : of the network; answers come in the dtype of the points

    >>> from discoformer.priors import gaussian
    >>> oracle = SBTM(gaussian(torch.zeros(2), torch.eye(2)), hidden=(8,), start_steps=10)
    >>> oracle.estimate(torch.zeros(5, 2), 0.0).score.shape
    torch.Size([5, 2])
    """

    start: Field
    _: KW_ONLY
    hidden: Sequence[int] = (100, 100)
    steps: int = 25
    rate: float = 4e-4
    radius: float = 0.4
    start_steps: int = 5000
    start_tolerance: float = 1e-4
    seed: int = 0
    dtype: torch.dtype = torch.float32

    def __post_init__(self) -> None:
        sizes = (self.steps, self.start_steps, self.rate, self.radius, min(self.hidden, default=0))
        if not all(size > 0 for size in sizes):
            raise DataError("SBTM needs positive steps, rate, radius and widths of hidden layers")
        self._generator = torch.Generator().manual_seed(self.seed)
        self._layers: list[Tensor] = []  # weight (..., in, out), bias (..., 1, out), weight, ...
        self._optimizer: torch.optim.Adam | None = None

    @property
    def name(self) -> str:
        return f"SBTM {'x'.join(map(str, self.hidden))}"

    def estimate(self, points: Tensor, time: float) -> Answer:
        inputs = points.detach().to(self.dtype)
        with torch.enable_grad():
            if self._optimizer is None:
                self._build(inputs)
                self._fit_start(points, inputs)
            else:
                for _ in range(self.steps):
                    noise = torch.randn(inputs.shape, generator=self._generator, dtype=self.dtype)
                    self._step(implicit_loss(self._network, inputs, noise, self.radius).mean(-1))
        with torch.no_grad():
            return Answer(self._network(inputs).to(points.dtype))

    def state(self) -> dict[str, Tensor]:
        """Weights, Adam's moments and the noise generator."""
        tensors = {"generator": self._generator.get_state()}
        for index, layer in enumerate(self._layers):
            tensors[f"layer.{index}"] = layer.detach()
            assert self._optimizer is not None
            for key, value in self._optimizer.state[layer].items():
                tensors[f"{key}.{index}"] = torch.as_tensor(value)
        return tensors

    def restore(self, state: dict[str, Tensor]) -> None:
        if "generator" not in state:
            raise DataError("the checkpoint holds no SBTM network: resume with the oracle that wrote it")
        self._generator.set_state(state["generator"])
        count = sum(key.startswith("layer.") for key in state)
        self._set_layers([state[f"layer.{index}"] for index in range(count)])
        if self._optimizer is not None:
            for index, layer in enumerate(self._layers):
                keys = ("step", "exp_avg", "exp_avg_sq")
                self._optimizer.state[layer] = {key: state[f"{key}.{index}"].clone() for key in keys}

    def _build(self, inputs: Tensor) -> None:
        """Uniform weights of size 1 / sqrt(inputs of the layer), zero biases."""
        widths = (inputs.shape[-1], *self.hidden, inputs.shape[-1])
        layers = []
        for before, after in zip(widths[:-1], widths[1:], strict=True):
            shape = (*inputs.shape[:-2], before, after)
            uniform = torch.rand(shape, generator=self._generator, dtype=self.dtype)
            layers += [(2 * uniform - 1) * before**-0.5, torch.zeros_like(uniform[..., :1, :])]
        self._set_layers(layers)

    def _set_layers(self, layers: list[Tensor]) -> None:
        self._layers = [layer.clone().to(self.dtype).requires_grad_() for layer in layers]
        self._optimizer = torch.optim.Adam(self._layers, lr=self.rate) if layers else None

    def _network(self, points: Tensor) -> Tensor:
        return perceptron(self._layers, points, F.softsign)

    def _fit_start(self, points: Tensor, inputs: Tensor) -> None:
        """Fit to the exact score of the start at the start's particles."""
        target = self.start.score(points.detach()).to(self.dtype)
        size = target.square().mean((-2, -1))
        for _ in range(self.start_steps):
            relative = (self._network(inputs) - target).square().mean((-2, -1)) / size
            if float(relative.detach().max()) < self.start_tolerance:
                break
            self._step(relative)
        self._set_layers([layer.detach() for layer in self._layers])  # Adam starts anew for the other loss

    def _step(self, loss: Tensor) -> None:
        """One Adam step; losses (...) of a batch add up, so its networks do not see each other."""
        assert self._optimizer is not None
        self._optimizer.zero_grad()
        loss.sum().backward()
        self._optimizer.step()
