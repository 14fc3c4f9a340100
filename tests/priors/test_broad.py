"""The broad prior draws every family and warp."""

import torch
from helpers import F64, seeded

from discoformer.priors import (
    BroadPrior,
    LocationScaleMixture,
    MixtureDistribution,
    StudentT,
    Warped,
)


def test_broad_prior_draws_every_family_and_warp_but_never_a_bent_student_t() -> None:
    families, warped, modes = set(), set(), set()
    prior = BroadPrior(gmm_share=0.0)
    for seed in range(300):
        target = prior.draw(1, 2 + seed % 3, seeded(seed))
        chain = []
        while isinstance(target, Warped):
            chain.append(type(target.warp).__name__)
            target = target.base
        assert isinstance(target, LocationScaleMixture)
        families.add(type(target.family).__name__)
        warped |= set(chain)
        modes.add(target.weights.shape[-1])
        if isinstance(target.family, StudentT):
            assert "Banana" not in chain and 2.5 <= target.family.nu <= 30
        if chain and "Rotated" not in chain:
            assert target.rotation is None
    assert families == {"Normal", "StudentT", "Laplace", "Logistic"}  # Quartic stays a test family
    assert warped == {"Skew", "Banana", "Rotated"}
    assert modes == set(range(1, 17))
    assert BroadPrior(gmm_share=1.0).draw(2, 2, seeded()).sample(3).shape == (2, 3, 2)


def test_broad_prior_mixes_families_within_one_mixture_if_asked() -> None:
    prior = BroadPrior(gmm_share=0.0, mixed=1.0, modes=(4, 8))
    together = set()
    for seed in range(60):
        target, queries = prior.pair(2, 2, seeded(seed), F64)
        assert target.log_density(queries.sample(5, seeded())).shape == (2, 5)
        chain = []
        while isinstance(target, Warped):
            chain.append(type(target.warp).__name__)
            target = target.base
        assert isinstance(target, MixtureDistribution)
        torch.testing.assert_close(target.weights.sum(-1), torch.ones(2, dtype=F64))
        families = []
        for part in target.distributions:
            assert isinstance(part, LocationScaleMixture)
            families.append(type(part.family).__name__)
        assert 4 <= sum(part.weights.shape[-1] for part in target.distributions) <= 8  # type: ignore[attr-defined]
        assert not ("Banana" in chain and "StudentT" in families)
        together.add(len(set(families)))
    assert together >= {2, 3, 4}
