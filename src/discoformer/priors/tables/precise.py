"""Double precision inside, whatever the precision of questions and answers."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from discoformer.core.fields import Estimate
from discoformer.priors.base import Derived

__all__ = ["Precise"]

# Numbers in one block of queries (..., rows, d): intermediates stay in the cache.
_BLOCK = 2**16


@dataclass(frozen=True, eq=False)
class Precise(Derived):
    """A distribution whose parameters are in double precision, answered and sampled in any.

    Distribution functions near one, heaps a hundredth of a column wide and columns that are all but
    collinear lose their digits in single precision.  Here only the query itself is rounded to it, and the
    answer is the truth at the rounded point.

    Parameters
    ----------
    base : the distribution, with parameters in double precision
    dtype : that of the samples

    >>> from discoformer.priors.location_scale import gaussian
    >>> law = Precise(gaussian(torch.zeros(1).double(), torch.eye(1).double()), torch.float32)
    >>> law.sample(2).dtype, law.score(torch.ones(1, 1)).dtype
    (torch.float32, torch.float32)
    """

    dtype: torch.dtype = torch.float32

    def sample(self, n: int, generator: torch.Generator | None = None) -> Tensor:
        return self.base.sample(n, generator).to(self.dtype)

    def _estimate(self, queries: Tensor) -> Estimate[Tensor]:
        batch = math.prod(np.broadcast_shapes(self.batch_shape, queries.shape[:-2]))
        rows = max(1, _BLOCK // max(1, batch * self.dim))
        parts = [self.base._estimate(block) for block in queries.double().split(rows, -2)]
        # Every distribution knows its density.
        log_density = torch.cat([part.log_density for part in parts if part.log_density is not None], -1)
        score = torch.cat([part.score for part in parts], -2)
        return Estimate(log_density.to(queries.dtype), score.to(queries.dtype))
