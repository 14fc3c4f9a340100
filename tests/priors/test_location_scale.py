"""Mixtures of located and scaled families."""

import numpy as np
import torch
from helpers import F64, choose, family_mixture, seeded
from scipy import stats

from discoformer.priors import (
    StudentT,
    gaussian,
    random_rotations,
    spiral,
)


def test_gaussians_and_elliptical_mixtures_equal_scipy() -> None:
    g = seeded()
    root = torch.randn(3, 3, generator=g, dtype=F64)
    mean, covariance = torch.randn(3, generator=g, dtype=F64), root @ root.mT
    x = torch.randn(7, 3, generator=g, dtype=F64)
    normal = stats.multivariate_normal(mean.numpy(), covariance.numpy())
    np.testing.assert_allclose(gaussian(mean, covariance).log_density(x.numpy()), normal.logpdf(x.numpy()))
    torch.testing.assert_close(
        gaussian(mean, covariance).score(x), torch.linalg.solve(covariance, (mean - x).mT).mT
    )

    target = choose(family_mixture(3, StudentT(4.0), rotated=True), 0)
    assert target.rotation is not None
    scatter = (target.rotation * target.std.square().unsqueeze(-2)) @ target.rotation.mT
    density = sum(
        float(w) * stats.multivariate_t(m.numpy(), s.numpy(), df=4.0).pdf(x.numpy())
        for w, m, s in zip(target.weights / target.weights.sum(), target.means, scatter, strict=True)
    )
    np.testing.assert_allclose(target.log_density(x.numpy()), np.log(density))


def test_blocks_of_rows_do_not_change_the_answer() -> None:
    target = spiral()
    queries = target.sample(2_000, seeded())  # several blocks
    whole = target.estimate(queries)
    halves = [target.estimate(part) for part in (queries[:777], queries[777:])]
    torch.testing.assert_close(whole.score, torch.cat([h.score for h in halves]), rtol=1e-13, atol=0)


def test_random_rotations_are_orthogonal_and_uniform() -> None:
    q = random_rotations((20_000,), 3, seeded(), F64)
    torch.testing.assert_close(q @ q.mT, torch.eye(3, dtype=F64).expand_as(q))
    trace = q.diagonal(dim1=-2, dim2=-1).sum(-1)
    # Under Haar measure E tr Q = 0 and E (tr Q)^2 = 1; plain QR without the sign fix has E tr Q < 0.
    assert abs(float(trace.mean())) < 0.03 and abs(float(trace.square().mean()) - 1) < 0.05
