"""Families of components equal scipy, and keep their digits far out and near the center."""

import math

import numpy as np
import pytest
import torch
from helpers import F64, FAMILIES
from scipy import stats

from discoformer.priors import (
    StudentT,
)


def test_families_equal_scipy() -> None:
    t = torch.linspace(-4, 4, 30, dtype=F64).reshape(10, 3)
    x = t.numpy()
    references = {
        "normal": stats.norm.logpdf(x).sum(-1),
        "laplace": stats.laplace.logpdf(x, scale=1 / math.sqrt(2)).sum(-1),
        "logistic": stats.logistic.logpdf(x, scale=math.sqrt(3) / math.pi).sum(-1),
        "student_t": stats.multivariate_t(np.zeros(3), np.eye(3), df=3.5).logpdf(x),
        "quartic": stats.gennorm.logpdf(x, 4).sum(-1),
    }
    for name, reference in references.items():
        np.testing.assert_allclose(FAMILIES[name].estimate(t)[0].numpy(), reference, rtol=1e-12, err_msg=name)


@pytest.mark.parametrize("nu", [0.5, 3.0, 1e10])
def test_student_t_keeps_its_digits_far_out_and_near_the_center(nu: float) -> None:
    points = torch.tensor([[3e200, 4e200], [3e8, 4e8], [0.3, 0.4], [3e-9, 4e-9], [0.0, 0.0]], dtype=F64)
    log_density, score = StudentT(nu).estimate(points)
    radius = np.array([5e200, 5e8, 0.5, 5e-9, 0.0]) / math.sqrt(nu)
    with np.errstate(over="ignore"):
        log = np.where(radius > 1e100, 2 * np.log(np.maximum(radius, 1)), np.log1p(radius**2))
    constant = math.lgamma(nu / 2 + 1) - math.lgamma(nu / 2) - math.log(nu * math.pi)
    np.testing.assert_allclose(log_density.numpy(), constant - (nu + 2) / 2 * log, rtol=1e-13, atol=1e-13)
    # In the plane the score is -(nu + 2) x / (nu + |x|^2), and far out -(nu + 2) x / |x|^2.
    expected = -(nu + 2) * points[1:] / (nu + points[1:].square().sum(-1, keepdim=True))
    torch.testing.assert_close(score[1:], expected, rtol=1e-13, atol=0)
    torch.testing.assert_close(score[0], -(nu + 2) * points[0] / 5e200 / 5e200, rtol=1e-13, atol=0)
