"""A prior of one's own: say how to draw distributions, and what their samples and log densities are.

    class WavePrior(OwnPrior):
        def distributions(self, batch, dim, generator, dtype):
            return Waves(...)                    # ``batch`` of them

`Waves` is any object with two methods, and a third if you like:

    sample(n, generator) -> (batch, n, dim)
    log_density(points (batch, m, dim)) -> (batch, m)     exact, normalized, differentiable
    score(points (batch, m, dim)) -> (batch, m, dim)      by autograd of log_density if it is not there

Pass the prior as an object to `Trainer` or `finetune`, or name it in a recipe by its import path:
``prior: {name: "my_package.waves:WavePrior"}``, with the fields of the class beside the name if it is a
dataclass.  `check_prior` tells whether samples and log densities belong together.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor

from discoformer.core.checks import DataError
from discoformer.core.fields import Estimate
from discoformer.priors.base import Distribution
from discoformer.priors.prior import Prior

__all__ = ["Drawn", "OwnPrior", "Target", "check_prior"]

_SIGMAS = 6.0  # by chance once in 10^9: what is further off is a mistake


class Target(Protocol):
    """A batch of distributions, as `OwnPrior.distributions` returns them."""

    def sample(self, n: int, generator: torch.Generator | None = None) -> Tensor:
        """Points (batch, n, d)."""
        ...

    def log_density(self, points: Tensor) -> Tensor:
        """Exact log density (batch, m) at points (batch, m, d)."""
        ...


@runtime_checkable
class _KnowsScore(Protocol):
    def score(self, points: Tensor) -> Tensor: ...


class OwnPrior(Prior):
    """A prior that you write yourself: implement `distributions`.

    Examples
    --------
    >>> class Shells:
    ...     def __init__(self, scale): self.scale = scale  # (batch, 1, 1)
    ...     def sample(self, n, generator=None):
    ...         return self.scale * torch.randn(len(self.scale), n, 2, generator=generator)
    ...     def log_density(self, points):
    ...         scale = self.scale.to(points)
    ...         square = (points / scale).square().sum(-1)
    ...         return -0.5 * square - 2 * scale.squeeze(-1).log() - math.log(2 * math.pi)
    >>> class ShellPrior(OwnPrior):
    ...     def distributions(self, batch, dim, generator, dtype):
    ...         return Shells(1 + torch.rand(batch, 1, 1, generator=generator, dtype=dtype))
    >>> drawn = ShellPrior().draw(3, 2)
    >>> drawn.estimate(drawn.sample(5)).score.shape
    torch.Size([3, 5, 2])
    """

    def __init_subclass__(cls) -> None:
        cls.name = f"{cls.__module__}:{cls.__qualname__}"  # as a recipe names it

    @abstractmethod
    def distributions(
        self, batch: int, dim: int, generator: torch.Generator | None, dtype: torch.dtype
    ) -> Target:
        """``batch`` independent random distributions on R^dim, parameters in ``dtype``."""

    def _kind(
        self, dim: int, generator: torch.Generator | None, dtype: torch.dtype
    ) -> Callable[[int], Distribution]:
        return lambda batch: Drawn(self.distributions(batch, dim, generator, dtype), batch, dim)


class Drawn(Distribution):
    """A batch of one's own distributions as a `Distribution`: shapes are checked, the score is completed."""

    def __init__(self, target: Target, batch: int, dim: int) -> None:
        self.target, self._batch, self._dim = target, batch, dim

    @property
    def batch_shape(self) -> torch.Size:
        return torch.Size([self._batch])

    @property
    def dim(self) -> int:
        return self._dim

    def sample(self, n: int, generator: torch.Generator | None = None) -> Tensor:
        points = self.target.sample(n, generator)
        self._check("sample", points, (self._batch, n, self._dim))
        if not bool(points.isfinite().all()):
            raise DataError(f"{self._name}.sample returns NaN or infinite points: repair it")
        return points

    def _estimate(self, queries: Tensor) -> Estimate[Tensor]:
        shape = torch.broadcast_shapes(queries.shape[:-2], self.batch_shape)
        points = queries.expand(*shape, *queries.shape[-2:])
        own = isinstance(self.target, _KnowsScore)
        tracked = torch.is_grad_enabled() and points.requires_grad
        with torch.set_grad_enabled(tracked or not own):
            places = points if own or tracked else points.detach().requires_grad_()
            log_density = self.target.log_density(places)
            self._check("log_density", log_density, points.shape[:-1])
            if bool(log_density.isnan().any()):
                raise DataError(f"{self._name}.log_density returns NaN: repair it")
            if isinstance(self.target, _KnowsScore):
                score = self.target.score(places)
                self._check("score", score, points.shape)
            elif not log_density.requires_grad:
                raise DataError(f"{self._name}.log_density has no gradient in the points: add a score method")
            else:
                (score,) = torch.autograd.grad(log_density.sum(), places, create_graph=tracked)
        if not tracked:
            log_density, score = log_density.detach(), score.detach()
        return Estimate(log_density.to(queries.dtype), score.to(queries.dtype))

    @property
    def _name(self) -> str:
        return type(self.target).__name__

    def _check(self, verb: str, tensor: Any, shape: tuple[int, ...]) -> None:
        found = tuple(tensor.shape) if isinstance(tensor, Tensor) else type(tensor).__name__
        if found != tuple(shape):
            raise DataError(f"{self._name}.{verb} returns {found}, expected a tensor of shape {tuple(shape)}")


def check_prior(prior: Prior, dim: int, *, batch: int = 8, points: int = 4096, seed: int = 0) -> None:
    """Raise `DataError` if samples and log densities of a prior do not belong together.

    Two identities hold for every smooth density, E s = 0 and E s_j x_j = -1 (integration by parts), and
    fail where the sampler and the log density are of different laws.  The normalizing constant cannot be
    told from a sample: in one dimension it is integrated.

    >>> from discoformer.priors import GMMPrior
    >>> check_prior(GMMPrior(), 2)
    """
    generator = torch.Generator().manual_seed(seed)
    drawn = prior.draw(batch, dim, generator, torch.float64)
    x = drawn.sample(points, generator).double()
    score = drawn.estimate(x).score
    centred = x - x.mean(-2, keepdim=True)
    for term, value, law in ((score, 0.0, "E s = 0"), (score * centred, -1.0, "E s_j x_j = -1")):
        error = term.std(-2) / math.sqrt(points)
        off = (term.mean(-2) - value).abs() / error.clamp_min(1e-12)
        if bool((off > _SIGMAS).any()):
            raise DataError(
                f"samples and log densities of {prior.name!r} do not belong together: {law} fails by "
                f"{float(off.max()):.0f} standard errors; check log_density, and that it is smooth"
            )
    if dim == 1:
        _check_total(drawn, x, prior.name)


def _check_total(drawn: Distribution, x: Tensor, name: str) -> None:
    low, high = x.amin(-2, keepdim=True), x.amax(-2, keepdim=True)
    steps = torch.linspace(0, 1, 20_001, dtype=x.dtype).unsqueeze(-1)
    grid = low + (high - low) * steps
    density = drawn.log_density(grid).exp()
    total = torch.trapezoid(density, grid.squeeze(-1), dim=-1)  # all but the mass beyond the sample
    if bool(((total < 0.98) | (total > 1.005)).any()):
        raise DataError(f"log densities of {name!r} integrate to {float(total[0]):.3f}: normalize them to 1")
