"""Another oracle's score, corrected so that it obeys Stein's identity on the particles themselves.

For a smooth density with score s and a test function f, integration by parts gives E[s f] = -E[grad f]
(Stein's identity).  A kinetic equation moves its moments by just such means, taken over the particles: the
covariance by f = y under Fokker-Planck, by cubic f under Landau's equation with Maxwell molecules.  Where the
score breaks the identity, energy flows between the axes at a wrong rate and the error adds up over time.
"""

from __future__ import annotations

import torch
from torch import Tensor

from discoformer.core.checks import DataError
from discoformer.core.frames import Whiten
from discoformer.particles.oracles import Answer, Oracle, OracleLike, as_oracle, ask

__all__ = ["Calibrated", "calibration_pays"]

_ENOUGH = 10  # particles for each fitted number


class Calibrated(Oracle):
    """Add the combination of 1, y and |y|^2 y (y: whitened particles) that score matching asks for.

    With f = (1, y, |y|^2 y) and the given score s, in whitened coordinates, the answer is s + C^T f with the
    C that minimizes the implicit score matching loss, mean(|s + C^T f|^2 / 2 + div(C^T f)), over the
    particles: a linear system of 2d + 1 equations, mean(f (s + C^T f)^T) = -mean(grad f).  SBTM trains a
    network on the same loss.  The log density, from which the entropy is computed, stays the given one.

    Parameters
    ----------
    oracle : Oracle, Method, or function of points and time

    >>> from discoformer import KDE
    >>> x = torch.randn(200, 1, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    >>> answers = [oracle.estimate(x, 0.0) for oracle in (as_oracle(KDE()), Calibrated(KDE()))]
    >>> [round((answer.score * x).mean().item(), 2) for answer in answers]
    [-0.8, -1.0]
    """

    def __init__(self, oracle: OracleLike) -> None:
        self.oracle = as_oracle(oracle)

    @property
    def name(self) -> str:
        return f"{self.oracle.name}, calibrated"

    def estimate(self, points: Tensor, time: float) -> Answer:
        count, dim = points.shape[-2:]
        if count <= 2 * dim + 1:
            raise DataError(
                f"{count} particles in {dim} dimensions are too few to calibrate a score: "
                f"take more than {2 * dim + 1}, or the oracle as it is"
            )
        frame = Whiten().fit(points)
        white = frame.normalize(points)
        answer = ask(self.oracle, points, time)
        score = answer.score @ frame.inverse.mT
        tests, slopes = _tests(white)
        left = tests.mT @ tests / count
        _check_independent(left)
        right = -slopes - tests.mT @ score / count
        corrected = score + tests @ torch.linalg.solve(left, right)
        return Answer(corrected @ frame.matrix.mT, answer.log_density)

    def state(self) -> dict[str, Tensor]:
        return self.oracle.state()

    def restore(self, state: dict[str, Tensor]) -> None:
        self.oracle.restore(state)


def calibration_pays(count: int, dim: int) -> bool:
    """Whether there are ten particles for each of the (2d + 1) d numbers of a calibration; fewer fit noise.

    >>> calibration_pays(500, 3), calibration_pays(500, 10)
    (True, False)
    """
    return count >= _ENOUGH * (2 * dim + 1) * dim


def _check_independent(gram: Tensor) -> None:
    """Refuse linearly dependent test functions, as on a sphere, where |y|^2 y is a multiple of y."""
    scale = gram.diagonal(dim1=-2, dim2=-1).rsqrt()
    lowest = torch.linalg.eigvalsh(scale.unsqueeze(-1) * gram * scale.unsqueeze(-2))[..., 0]
    if bool((lowest <= 10 * gram.shape[-1] * torch.finfo(gram.dtype).eps).any()):
        raise DataError(
            "the particles lie on one ellipsoid, or too many coincide, to calibrate a score: "
            "take the oracle as it is"
        )


def _tests(white: Tensor) -> tuple[Tensor, Tensor]:
    """Test functions 1, y, |y|^2 y (..., n, 2d + 1) and their mean gradients (..., 2d + 1, d)."""
    count, dim = white.shape[-2:]
    square = white.square().sum(-1, keepdim=True)
    tests = torch.cat([torch.ones_like(square), white, square * white], -1)
    eye = torch.eye(dim, dtype=white.dtype, device=white.device).expand(*white.shape[:-2], dim, dim)
    cubic = square.mean(-2, keepdim=True) * eye + 2 * white.mT @ white / count
    return tests, torch.cat([torch.zeros_like(eye[..., :1, :]), eye, cubic], -2)
