"""Small structural models: every column is a noisy function of earlier ones.

    x_j = l_j + sum_h a_jh phi_h(p_jh) + s_j e_j,   p_jh = w_jh . x + o_jh,   log s_j = n_j + b_j tanh(p_j4),

with w_jh nonzero only for columns before j, phi the identity, tanh, sine and a parabola with straight ends,
and e_j normal or Student-t noise.  The chain rule gives the density, sum_j log p(e_j) - log s_j, and with
g = (log p)'(e) the score is g_i / s_i minus what is passed back through the functions of later columns.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from discoformer.core.checks import DataError
from discoformer.core.fields import Estimate
from discoformer.core.private import standard_gamma
from discoformer.priors.base import Distribution
from discoformer.priors.draws import Range, flip, log_uniform, uniform

__all__ = ["Structural", "draw_structural"]

F64 = torch.float64
_FEATURES = 4  # identity, tanh, sine, parabola; a fifth p is that of the noise
_USED = (0.5, 0.5, 0.25, 0.35)  # probability that a column uses a feature
_FREQUENCY: tuple[Range, ...] = ((1.0, 1.0), (0.5, 3.0), (0.7, 2.5), (0.5, 1.2), (0.7, 2.0))
_PARENTS = 3  # at most, of one feature
_PILOT = 256  # points that fix the scales of the functions
_VARYING = 0.8  # largest change of the logarithm of the noise
_TYPICAL = 0.8  # probability that a column has parents at all,
_FUNCTIONS = 4  # and how many do on average in wide tables


@dataclass(frozen=True, eq=False)
class Structural(Distribution):
    """A batch of structural models on d columns.

    Parameters
    ----------
    weights : w, (..., d, 5, d), zero from column j on in row j
    offsets : o, (..., d, 5)
    amplitudes : a and, last, b, (..., d, 5)
    level, log_noise : l and n, (..., d)
    degrees : degrees of freedom of the noise, (..., d), or None for normal noise
    order : where in the table the columns stand: column j of the model is column order[j] of x.
    """

    weights: Tensor
    offsets: Tensor
    amplitudes: Tensor
    level: Tensor
    log_noise: Tensor
    degrees: Tensor | None = None
    order: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if bool((self.weights.transpose(-3, -2).triu() != 0).any()):
            raise DataError("weights of a Structural must be zero from the column itself on")
        if sorted(self._order) != list(range(self.dim)):
            raise DataError(f"order = {self.order} of a Structural must hold each of {self.dim} columns once")

    @property
    def _order(self) -> list[int]:
        return list(self.order) or list(range(self.dim))

    @property
    def dim(self) -> int:
        return self.level.shape[-1]

    @property
    def batch_shape(self) -> torch.Size:
        return self.level.shape[:-1]

    def sample(self, n: int, generator: torch.Generator | None = None) -> Tensor:
        shape = (*self.batch_shape, n, self.dim)
        noise = torch.randn(shape, generator=generator, dtype=self.level.dtype)
        if self.degrees is not None:
            half = 0.5 * self.degrees.unsqueeze(-2).expand(shape).contiguous()
            noise = noise * (standard_gamma(half, generator) / half).rsqrt()
        x = torch.zeros(shape, dtype=self.level.dtype)
        for j in range(self.dim):
            inputs = x[..., :j] @ self.weights[..., j, :, :j].mT + self.offsets[..., j, :].unsqueeze(-2)
            values = _values(inputs) * self.amplitudes[..., j, :].unsqueeze(-2)
            center = self.level[..., j, None] + values[..., :_FEATURES].sum(-1)
            x[..., j] = center + torch.exp(self.log_noise[..., j, None] + values[..., -1]) * noise[..., j]
        places = [self._order.index(column) for column in range(self.dim)]
        return x[..., places]

    def _estimate(self, queries: Tensor) -> Estimate[Tensor]:
        x = queries[..., self._order]
        flat = self.weights.to(x).flatten(-3, -2)  # (..., 5 d, d)
        inputs = (x @ flat.mT).unflatten(-1, (self.dim, -1)) + self.offsets.to(x).unsqueeze(-3)
        amplitudes = self.amplitudes.to(x).unsqueeze(-3)
        values = _values(inputs) * amplitudes  # (..., m, d, 5)
        center = self.level.to(x).unsqueeze(-2) + values[..., :_FEATURES].sum(-1)
        log_noise = self.log_noise.to(x).unsqueeze(-2) + values[..., -1]
        precision = torch.exp(-log_noise)
        error = (x - center) * precision
        log_family, slope = self._family(error)
        pulled = (slope * precision).unsqueeze(-1)
        back = torch.cat([(-pulled).expand_as(values[..., :-1]), -(slope * error + 1).unsqueeze(-1)], -1)
        back = back * amplitudes * _slopes(inputs)
        score = pulled.squeeze(-1) + back.flatten(-2) @ flat
        places = [self._order.index(column) for column in range(self.dim)]
        return Estimate((log_family - log_noise).sum(-1), score[..., places])

    def _family(self, error: Tensor) -> tuple[Tensor, Tensor]:
        """Log density of the noise and its derivative."""
        if self.degrees is None:
            return -0.5 * error.square() - 0.5 * math.log(2 * math.pi), -error
        nu = self.degrees.to(error).unsqueeze(-2)
        constant = torch.lgamma((nu + 1) / 2) - torch.lgamma(nu / 2) - 0.5 * (nu * math.pi).log()
        square = error.square() / nu
        return constant - 0.5 * (nu + 1) * torch.log1p(square), -(nu + 1) / nu * error / (1 + square)


def _values(inputs: Tensor) -> Tensor:
    """The features (..., 5) of inputs (..., 5): identity, tanh, sine, parabola, and tanh of the noise."""
    linear, tanh, sine, parabola, noise = inputs.unbind(-1)
    bent = parabola.square() * (1 + parabola.square() / 4).rsqrt()
    return torch.stack([linear, tanh.tanh(), sine.sin(), bent, noise.tanh()], -1)


def _slopes(inputs: Tensor) -> Tensor:
    """Derivatives of the features."""
    linear, tanh, sine, parabola, noise = inputs.unbind(-1)
    quarter = parabola.square() / 4
    bent = parabola * (2 + quarter) * (1 + quarter) ** -1.5
    flat = torch.ones_like(linear)
    return torch.stack([flat, 1 - tanh.tanh().square(), sine.cos(), bent, 1 - noise.tanh().square()], -1)


def draw_structural(
    batch: int,
    dim: int,
    noise: Range,
    degrees: Range | None,
    varying: bool,
    generator: torch.Generator | None,
) -> Structural:
    """Random models in double precision whose columns have variances of about one.

    The scale of a function is that of its values at a few hundred points drawn on the way.

    Parameters
    ----------
    noise : range of the standard deviation of the noise in a column whose own is one
    degrees : range of the degrees of freedom of the noise, or None for normal noise
    varying : whether the noise depends on other columns
    """

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator, dtype=F64)

    weights, offsets = _draw_inputs(batch, dim, generator)
    used = torch.rand(batch, dim, _FEATURES, generator=generator, dtype=F64) < torch.tensor(_USED, dtype=F64)
    amplitudes = torch.zeros(batch, dim, _FEATURES + 1, dtype=F64)
    amplitudes[..., :_FEATURES] = used * normal(batch, dim, _FEATURES)
    amplitudes[:, torch.rand(dim, generator=generator) > min(_TYPICAL, _FUNCTIONS / dim)] = 0
    amplitudes[:, 0] = 0
    if varying:
        amplitudes[:, 1:, -1] = uniform((batch, dim - 1), (-_VARYING, _VARYING), generator, F64)
    share = log_uniform((batch, dim), noise, generator, F64)
    share[(amplitudes[..., :_FEATURES] == 0).all(-1)] = 1  # columns without parents are noise alone
    level = torch.zeros(batch, dim, dtype=F64)
    x = torch.zeros(batch, _PILOT, dim, dtype=F64)
    pilot = normal(batch, _PILOT, dim)
    for j in range(dim):
        values = _values(x[..., :j] @ weights[:, j, :, :j].mT + offsets[:, j].unsqueeze(-2))
        function = (values * amplitudes[:, j].unsqueeze(-2))[..., :_FEATURES].sum(-1)  # (batch, pilot)
        scale = (1 - share[:, j].square()).sqrt() / function.std(-1).clamp_min(1e-3)
        amplitudes[:, j, :_FEATURES] *= scale.unsqueeze(-1)
        level[:, j] = -scale * function.mean(-1)
        center = level[:, j, None] + scale.unsqueeze(-1) * function
        spread = (values[..., -1] * amplitudes[:, j, -1:]).exp()
        x[..., j] = center + share[:, j, None] * spread * pilot[..., j]
    freedom = None if degrees is None else log_uniform((batch, dim), degrees, generator, F64)
    log_noise = share.log()
    if freedom is not None:  # variance one before the scale
        log_noise = log_noise + 0.5 * (1 - 2 / freedom).log()
    order = tuple(torch.randperm(dim, generator=generator).tolist())
    return Structural(weights, offsets, amplitudes, level, log_noise, freedom, order)


def _draw_inputs(batch: int, dim: int, generator: torch.Generator | None) -> tuple[Tensor, Tensor]:
    """Weights (batch, d, 5, d) and offsets (batch, d, 5) of the features: a few earlier columns each."""
    shape = (batch, dim, _FEATURES + 1, dim)
    weights = torch.randn(shape, generator=generator, dtype=F64)
    earlier = torch.ones(dim, dim, dtype=torch.bool).tril(-1).unsqueeze(-2)  # (d, 1, d)
    chance = torch.rand(shape, generator=generator, dtype=F64).masked_fill(~earlier, 2.0)
    rank = chance.argsort(-1).argsort(-1)
    count = torch.randint(1, _PARENTS + 1, shape[:-1], generator=generator).unsqueeze(-1)
    weights = weights * ((rank < count) & earlier)
    weights = weights / weights.square().sum(-1, keepdim=True).sqrt().clamp_min(1e-9)
    for h, frequency in enumerate(_FREQUENCY):
        weights[:, :, h] *= log_uniform((batch, dim, 1), frequency, generator, F64)
    if flip(0.5, generator):
        offsets = uniform(shape[:-1], (-1.5, 1.5), generator, F64)
    else:
        offsets = torch.zeros(shape[:-1], dtype=F64)
    return weights, offsets
