"""A method fitted every few answers; in between its field is carried along with the particles.

From one step to the next the particles move almost by an affine map, and a density moved by an affine map is
the old one seen through it.  So a costly method need not be fitted anew at every step: the affine part of the
motion is followed exactly, and only the rest waits for the next fit.
"""

from __future__ import annotations

import torch
from torch import Tensor

from discoformer.core.checks import DataError
from discoformer.core.fields import Field, Method
from discoformer.core.frames import Whiten
from discoformer.core.transforms import Frame
from discoformer.particles.oracles import Answer, Oracle, answer_of

__all__ = ["Carried"]


class Carried(Oracle):
    """Fit a method at every few answers, and carry its field along in between.

    Let z_0 be the whitened particles of the fit, z those of the present, and Q the rotation that brings
    z Q closest to z_0 (Procrustes).  The answer is that of the fit at the points z Q in the frame of z_0,
    with the change of variables.  It is exact if one affine map has moved all particles since.

    Parameters
    ----------
    method : Method
    every : answers per fit; 1 fits at every answer
    name : of the method, to tell networks apart; by default its class

    >>> from discoformer.particles import GaussianClosure
    >>> x = torch.tensor([[-1.0], [1.0]], dtype=torch.float64)
    >>> oracle = Carried(GaussianClosure(), every=2)
    >>> [oracle.estimate(scale * x, 0.0).score[1].item() for scale in (1.0, 2.0)]
    [-1.0, -0.5]
    """

    def __init__(self, method: Method, every: int, name: str | None = None) -> None:
        if every < 1:
            raise DataError(f"every is {every}: a fit must serve at least one answer")
        self.method = method
        self.every = every
        self._name = name or type(method).__name__
        self._answers = 0
        self._last: _ParticleFit | None = None

    @property
    def name(self) -> str:
        return f"{self._name} every {self.every}"

    def estimate(self, points: Tensor, time: float) -> Answer:
        due = self._last is None or self._answers % self.every == 0
        self._answers += 1
        if due:
            self._last = _ParticleFit(self.method, points)
            return answer_of(self._last.field, points)
        assert self._last is not None
        return self._last.carried_to(points)

    def state(self) -> dict[str, Tensor]:
        """The particles of the last fit, and the number of answers."""
        if self._last is None:
            return {}
        return {"answers": torch.tensor(self._answers), "points": self._last.points}

    def restore(self, state: dict[str, Tensor]) -> None:
        if state and set(state) != {"answers", "points"}:
            raise DataError("the checkpoint holds no fit to carry on: resume with the oracle that wrote it")
        self._answers = int(state["answers"]) if state else 0
        self._last = _ParticleFit(self.method, state["points"]) if state else None


class _ParticleFit:
    """A fit and the particles it was made with."""

    def __init__(self, method: Method, points: Tensor) -> None:
        self.points = points
        self.field: Field = method.fit(points)
        self._frame: Frame = Whiten().fit(points)
        self._white = self._frame.normalize(points)

    def carried_to(self, points: Tensor) -> Answer:
        """What the fit says when its particles have moved to ``points`` (..., n, d)."""
        frame = Whiten().fit(points)
        white = frame.normalize(points)
        left, _, right = torch.linalg.svd(white.mT @ self._white)
        turn = left @ right  # (..., d, d)
        score, log_density = answer_of(self.field, self._frame.denormalize(white @ turn))
        score = score @ self._frame.inverse.mT @ turn.mT @ frame.matrix.mT
        if log_density is None:
            return Answer(score)
        return Answer(score, log_density + (frame.log_det - self._frame.log_det).unsqueeze(-1))
