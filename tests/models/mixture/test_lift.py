"""Lifted points make quadratic forms inner products."""

import numpy as np
import pytest
import torch
from helpers import F64, gmm_sample
from scipy import stats

from discoformer.models.mixture.lift import coefficients, lift, moment_matrix, natural_parameters
from discoformer.models.mixture.slots import (
    Slots,
    make_slots,
)


def slots(m: int, d: int) -> Slots:
    generator = torch.Generator().manual_seed(m * 10 + d)

    def draw(*shape: int) -> torch.Tensor:
        return torch.rand(1, m, *shape, generator=generator, dtype=F64)

    root = draw(d, d) - 0.5
    scale = root @ root.mT + 0.3 * torch.eye(d, dtype=F64)
    return make_slots(torch.log_softmax(draw(), -1), 3 * draw(d) - 1, scale, 2.5 + 20 * draw(), 0.5 + draw())


def test_lift_makes_gaussians_inner_products() -> None:
    x = gmm_sample(50, 3)
    s = slots(4, 3)
    theta = natural_parameters(s.mean, s.scale).theta
    got = theta[0] @ lift(x)
    for m in range(4):
        expected = stats.multivariate_normal(s.mean[0, m].numpy(), s.scale[0, m].numpy()).logpdf(x.numpy())
        np.testing.assert_allclose(got[m].numpy(), expected, rtol=1e-10)


@pytest.mark.parametrize("d", [1, 2, 5])
def test_lift_gives_quadratic_forms_and_second_moments(d: int) -> None:
    x = gmm_sample(30, d)
    h = torch.cat([torch.ones(30, 1, dtype=F64), x], -1)
    form = torch.randn(d + 1, d + 1, dtype=F64)
    form = form + form.mT
    torch.testing.assert_close(coefficients(form) @ lift(x), (h @ form * h).sum(-1))
    torch.testing.assert_close(moment_matrix(lift(x).sum(-1), d), h.mT @ h)
