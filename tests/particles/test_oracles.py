"""Score oracles: what each is by definition."""

import torch
from helpers import normal

from discoformer.core.fields import PointDensity
from discoformer.particles import Blob, GaussianClosure
from discoformer.particles.oracles import answer_of
from discoformer.priors import gaussian


def test_blob_is_the_gradient_of_its_energy() -> None:
    """s_i = n dE/dx_i for E = sum_i w_i log (K * f)(x_i), with all particles moving in both sums."""
    x = normal(12, 2).requires_grad_()
    h = torch.tensor([0.6, 0.9], dtype=torch.float64)
    squares = ((x[:, None] - x) / h).square().sum(-1)
    energy = (torch.logsumexp(-0.5 * squares, 1)).mean()  # up to a constant
    (gradient,) = torch.autograd.grad(energy, x)
    points = x.detach()
    field = Blob(h).fit(points)
    torch.testing.assert_close(field.score(points), 12 * gradient)
    assert not isinstance(field, PointDensity)
    assert answer_of(field, points).log_density is None


def test_blob_takes_weights() -> None:
    """A particle of weight two is two particles."""
    x = normal(6, 2)
    doubled = Blob(0.7).fit(torch.cat([x, x[:1]])).score(x)
    weighted = Blob(0.7).fit(x, [2.0, 1, 1, 1, 1, 1]).score(x)
    torch.testing.assert_close(doubled, weighted)


def test_gaussian_closure_is_the_sample_gaussian() -> None:
    x = normal(3, 40, 2) @ normal(2, 2, seed=1)
    law = gaussian(x.mean(-2), torch.stack([torch.cov(s.T, correction=0) for s in x]))
    for ours, exact in zip(GaussianClosure().fit(x).estimate(x), law.estimate(x), strict=True):
        torch.testing.assert_close(ours, exact)
