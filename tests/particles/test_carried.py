"""A score carried along with the particles."""

import pytest
import torch
from helpers import normal

from discoformer import KDE, DataError
from discoformer.particles import (
    Blob,
    Carried,
    GaussianClosure,
    Landau,
    integrate,
    landau_start,
)


def test_carried_along_an_affine_map_is_fitted_anew() -> None:
    """Rotation, shear and shift of a batch: the carried answer is that of a fit of an equivariant method."""
    x = normal(2, 60, 3)
    moved = x @ normal(2, 3, 3, seed=1) + 5
    for method in (KDE("scott-full"), GaussianClosure(), Blob("scott-full")):
        oracle = Carried(method, every=2)
        oracle.estimate(x, 0.0)
        carried, anew = oracle.estimate(moved, 1.0), method.fit(moved)
        torch.testing.assert_close(carried.score, anew.score(moved))
        assert (carried.log_density is None) == isinstance(method, Blob)
        if carried.log_density is not None:
            torch.testing.assert_close(carried.log_density, anew.log_density(moved))


def test_carried_is_fitted_when_it_is_due() -> None:
    x = [normal(30, 2, seed=k) for k in range(5)]  # no affine map leads from one to the other
    oracle = Carried(KDE(), every=2)
    for k, points in enumerate(x):
        anew = torch.equal(oracle.estimate(points, 0.0).score, KDE().fit(points).score(points))
        assert anew == (k % 2 == 0)
    with pytest.raises(DataError, match="at least one answer"):
        Carried(KDE(), every=0)
    with pytest.raises(DataError, match="no fit to carry on"):
        oracle.restore({"generator": torch.zeros(1)})


def test_carried_follows_a_relaxation() -> None:
    """Sigma of Landau's equation with a fit every 10 steps stays close to that with a fit at each."""
    start = landau_start("two-mode", 3).sample(200, torch.Generator().manual_seed(0))
    runs = [
        integrate(Landau(), start, oracle, dt=0.02, steps=50).covariance[:, 0, 0]
        for oracle in (KDE(), Carried(KDE(), every=10))
    ]
    assert (runs[0] - runs[1]).abs().max() < 0.02 * (runs[0][0] - runs[0][-1])
