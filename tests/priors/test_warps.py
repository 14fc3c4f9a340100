"""Warps invert, and have the Jacobian they claim."""

import pytest
import torch
from helpers import choose, family_mixture, random_warps, seeded

from discoformer.priors import (
    Normal,
    Warped,
)


@pytest.mark.parametrize("dim", [1, 2, 5])
def test_warps_invert_and_have_the_jacobian_they_claim(dim: int) -> None:
    base = family_mixture(dim, Normal(), rotated=True)
    x = base.sample(4, seeded())
    for name, warp in random_warps(dim).items():
        y = warp.forward(x)
        torch.testing.assert_close(warp.inverse(y), x, msg=name)
        for member in range(3):
            jacobians = [
                torch.autograd.functional.jacobian(choose(warp, member).forward, point.unsqueeze(0)).squeeze()
                for point in x[member]
            ]
            log_det = torch.stack([torch.linalg.slogdet(j.reshape(dim, dim))[1] for j in jacobians])
            warped = Warped(base, warp).log_density(y)[member]
            torch.testing.assert_close(warped, base.log_density(x)[member] - log_det, msg=name)
