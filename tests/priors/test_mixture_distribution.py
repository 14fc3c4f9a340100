"""A mixture of mixtures."""

import torch
from helpers import F64, family_mixture, seeded

from discoformer.priors import (
    Laplace,
    LocationScaleMixture,
    MixtureDistribution,
)


def test_a_mixture_of_single_components_is_their_mixture() -> None:
    whole = family_mixture(2, Laplace(), rotated=True)
    assert whole.rotation is not None
    parts = tuple(
        LocationScaleMixture(
            torch.ones(3, 1, dtype=F64),
            whole.means[:, i : i + 1],
            whole.std[:, i : i + 1],
            whole.rotation[:, i : i + 1],
            whole.family,
        )
        for i in range(4)
    )
    points = whole.sample(30, seeded())
    result, expected = MixtureDistribution(whole.weights, parts).estimate(points), whole.estimate(points)
    torch.testing.assert_close(result.log_density, expected.log_density, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(result.score, expected.score, rtol=1e-12, atol=1e-12)
