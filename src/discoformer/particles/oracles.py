"""Score oracles: where the particles get their score at every step.

Any `Method` is one, fitted anew to the particles of every step.  An oracle of another kind is a small
object, or a plain function of points and time; one with a memory of its own (a network that goes on
training) saves it with `state` and gets it back with `restore`, so that a run can be resumed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from discoformer.baselines.bandwidths import bandwidth_frame
from discoformer.core.checks import DataError
from discoformer.core.composed import push
from discoformer.core.fields import Field, Method, PointDensity
from discoformer.core.frames import Whiten
from discoformer.core.kernel_sums import kernel_sums, log_weights
from discoformer.priors import gaussian

__all__ = [
    "Answer",
    "Blob",
    "ExactOracle",
    "FunctionOracle",
    "GaussianClosure",
    "MethodOracle",
    "Oracle",
    "OracleLike",
    "answer_of",
    "as_oracle",
    "ask",
]


class Answer(NamedTuple):
    """An oracle's answer at the particles: score (..., n, d), and log density (..., n) if it knows it."""

    score: Tensor
    log_density: Tensor | None = None


class Oracle(ABC):
    """Answers "log density and score of these particles, at this time"."""

    @property
    def name(self) -> str:
        """Name in reports and checkpoints."""
        return type(self).__name__

    @abstractmethod
    def estimate(self, points: Tensor, time: float) -> Answer:
        """Score, and log density where it is known, of the particles at the particles."""

    def state(self) -> dict[str, Tensor]:
        """Everything the next answer depends on besides points and time."""
        return {}

    def restore(self, state: dict[str, Tensor]) -> None:
        """Restore what `state` returned."""
        if state:
            raise DataError(f"oracle {self.name} keeps no state, but the checkpoint holds some")


class MethodOracle(Oracle):
    """A method, fitted to the particles of every step and evaluated at them.

    Parameters
    ----------
    method : Method
    name : to tell networks apart; by default the method's class

    >>> import torch
    >>> from discoformer import KDE
    >>> MethodOracle(KDE()).estimate(torch.tensor([[-1.0], [1.0]]), 0.0).score.shape
    torch.Size([2, 1])
    """

    def __init__(self, method: Method, name: str | None = None) -> None:
        self.method = method
        self._name = name or type(method).__name__

    @property
    def name(self) -> str:
        return self._name

    def estimate(self, points: Tensor, time: float) -> Answer:
        return answer_of(self.method.fit(points), points)


class ExactOracle(Oracle):
    """The known solution: ``at(time)`` is its field, such as ``lambda t: BKW(t, dim=2)``."""

    def __init__(self, at: Callable[[float], Field]) -> None:
        self.at = at

    def estimate(self, points: Tensor, time: float) -> Answer:
        return answer_of(self.at(time), points)


class FunctionOracle(Oracle):
    """A plain function of points (..., n, d) and time that returns scores (..., n, d)."""

    def __init__(self, function: Callable[[Tensor, float], Tensor]) -> None:
        self.function = function

    def estimate(self, points: Tensor, time: float) -> Answer:
        return Answer(self.function(points, time))


def answer_of(field: Field, points: Tensor) -> Answer:
    """Score at the points, and log density if the field knows it."""
    if isinstance(field, PointDensity):
        log_density, score = field.estimate(points)
        return Answer(score, log_density)
    return Answer(field.score(points))


OracleLike = Oracle | Method | Callable[[Tensor, float], Tensor]


def as_oracle(source: OracleLike) -> Oracle:
    """An oracle from an oracle, a method, or a function of points and time that returns scores.

    >>> import torch
    >>> as_oracle(lambda points, time: -points).estimate(torch.ones(1, 1), 0.0).score.item()
    -1.0
    """
    if isinstance(source, Oracle):
        return source
    if isinstance(source, Method):  # before callables: a network is both
        return MethodOracle(source)
    if callable(source):
        return FunctionOracle(source)
    raise DataError(f"{source!r} is no score oracle: give a Method, an Oracle or a function(points, time)")


def ask(oracle: Oracle, points: Tensor, time: float) -> Answer:
    """The oracle's answer at these particles, refused unless it has one score per particle.

    >>> import torch
    >>> ask(as_oracle(lambda points, time: points[:1]), torch.ones(3, 1), 0.0)
    Traceback (most recent call last):
        ...
    discoformer.DataError: oracle FunctionOracle gave scores (1, 1) for particles (3, 1): ...
    """
    estimate = oracle.estimate(points, time)
    if estimate.score.shape != points.shape:
        raise DataError(
            f"oracle {oracle.name} gave scores {tuple(estimate.score.shape)} for particles "
            f"{tuple(points.shape)}: it must return one score per particle"
        )
    return estimate


class GaussianClosure(Method):
    """The Gaussian with the mean and covariance of the sample: score -S^-1 (x - m).

    The cheapest oracle.  It is exact only while the solution is Gaussian, and Landau's does not stay so.

    >>> import torch
    >>> x = torch.tensor([[0.0], [2.0]], dtype=torch.float64)
    >>> GaussianClosure().fit(x).score(x).tolist()
    [[1.0], [-1.0]]
    """

    def _fit(self, context: Tensor, weights: Tensor | None) -> PointDensity:
        frame = Whiten().fit(context, weights)
        eye = torch.eye(context.shape[-1], dtype=frame.matrix.dtype, device=context.device)
        return push(gaussian(torch.zeros_like(eye[0]), eye), [frame])


class Blob(Method):
    """The blob method of Carrillo, Craig and Patacchini: the gradient of a regularized entropy.

    The entropy int f log f is replaced by E(w) = sum_i w_i log (K * f)(x_i) with f the particles
    themselves, and the score by the gradient of its first variation,

        s(y) = grad log (K * f)(y) + sum_j w_j grad K(y - x_j) / (K * f)(x_j),

    so that w_i s(x_i) = dE / dx_i exactly and the semi-discrete flow dissipates E.  In general
    s is not the gradient of a normalized log density, so the field answers with the score only.

    Parameters
    ----------
    bandwidth : rule, number, vector or matrix of `discoformer.baselines.bandwidths`, for K

    >>> import torch
    >>> x = torch.tensor([[-1.0], [1.0]], dtype=torch.float64)
    >>> bool(Blob(bandwidth=1.0).fit(x).score(x)[0] > 0)
    True
    """

    def __init__(self, bandwidth: float | str | Tensor = "scott") -> None:
        self.bandwidth = bandwidth

    def _fit(self, context: Tensor, weights: Tensor | None) -> Field:
        frame = bandwidth_frame(self.bandwidth, context, weights)
        return push(_BlobField(frame.normalize(context), log_weights(context, weights)), [frame])


class _BlobField(Field):
    """Particles in coordinates where the kernel is standard, with the smoothed density at each."""

    def __init__(self, points: Tensor, log_weight: Tensor) -> None:
        self._points = points
        self._log_weight = log_weight
        self._log_ratio = log_weight - kernel_sums(points, points, log_weight)[0]

    @property
    def dim(self) -> int:
        return self._points.shape[-1]

    def _score(self, queries: Tensor) -> Tensor:
        _, mean = kernel_sums(queries, self._points, self._log_weight)
        # the kernel's normalization cancels between the two smoothed densities
        log_share, pull = kernel_sums(queries, self._points, self._log_ratio)
        return mean - queries + log_share.exp().unsqueeze(-1) * (pull - queries)
