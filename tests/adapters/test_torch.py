"""A fitted density as a distribution of torch: shapes, gradients, and the law of what is drawn."""

import pytest
import torch
from helpers import gmm_sample

from discoformer import DiScoFormer
from discoformer.adapters import to_torch
from discoformer.core.checks import DataError
from discoformer.core.moving import moved
from discoformer.models.registry import load_model

SAMPLE = gmm_sample(200, 2)
FIELD = load_model("default").fit(SAMPLE)


def test_log_prob_has_the_score_as_gradient_in_any_shape() -> None:
    law = to_torch(DiScoFormer(model="default").fit(SAMPLE))
    assert isinstance(law, torch.distributions.Distribution)
    value = SAMPLE[:12].reshape(3, 4, 2).clone().requires_grad_()
    log_prob = law.log_prob(value)
    torch.testing.assert_close(log_prob.flatten(), FIELD.log_density(SAMPLE[:12]))
    (gradient,) = torch.autograd.grad(log_prob.sum(), value)
    torch.testing.assert_close(gradient, FIELD.score(SAMPLE[:12]).reshape(3, 4, 2), rtol=1e-8, atol=1e-8)
    torch.testing.assert_close(law.score(value).detach(), gradient)


def test_draws_follow_the_law_and_expanded_copies_broadcast() -> None:
    torch.manual_seed(0)
    law = to_torch(FIELD)
    draws = law.sample((4000,))
    entropy = -law.log_prob(draws)
    other = -law.log_prob(FIELD.sample(4000))
    assert abs(float(entropy.mean() - other.mean())) < 4 * float(entropy.std()) / 4000**0.5 * 1.5
    copies = law.expand((5,))
    assert copies.sample((3,)).shape == (3, 5, 2)
    assert copies.log_prob(SAMPLE[0]).shape == (5,)
    independent = torch.distributions.Independent(copies, 1)
    assert independent.log_prob(SAMPLE[:5]).shape == ()


def test_rsample_where_nothing_is_differentiated() -> None:
    law = to_torch(FIELD)
    assert law.has_rsample
    assert law.rsample((3,)).shape == (3, 2)
    tracked = to_torch(load_model("default").fit(SAMPLE.clone().requires_grad_()))
    assert not tracked.has_rsample
    with pytest.raises(NotImplementedError, match="no derivative by the sample"):
        tracked.rsample()


def test_mean_and_variance_are_those_of_many_draws() -> None:
    law = to_torch(FIELD).expand((2,))
    draws = FIELD.sample(200_000, torch.Generator().manual_seed(0))
    assert law.mean.shape == law.variance.shape == (2, 2)
    torch.testing.assert_close(law.mean[0], draws.mean(0), rtol=0, atol=0.02)
    torch.testing.assert_close(law.variance[0], draws.var(0), rtol=0.03, atol=0)


def test_one_column_has_quantiles() -> None:
    law = to_torch(FIELD.marginal([1]))
    shares = torch.tensor([[0.1, 0.5], [0.7, 0.9]], dtype=torch.float64)
    torch.testing.assert_close(law.cdf(law.icdf(shares)), shares)


def test_batches_and_other_things_are_refused() -> None:
    with pytest.raises(DataError, match="a batch"):
        to_torch(load_model("default").fit(SAMPLE.reshape(2, 100, 2)))
    with pytest.raises(DataError, match="no density: fit"):
        to_torch("default")
    with pytest.raises(DataError, match="answers at points only"):
        to_torch(load_model("attention-d2").fit(SAMPLE))


def test_the_last_axis_is_the_columns_and_moments_are_those_of_double_precision() -> None:
    density = load_model("default").fit(gmm_sample(200, 2))
    law, single = to_torch(density), to_torch(moved(density, torch.float32))
    for ask in (law.log_prob, law.score):
        with pytest.raises(DataError, match="last axis must be the 2 column"):
            ask(torch.zeros(4, 1))
    torch.testing.assert_close(single.mean.double(), law.mean, rtol=1e-5, atol=1e-5)


def test_nothing_and_copies_have_their_shapes() -> None:
    law = to_torch(FIELD)
    assert law.sample((0,)).shape == (0, 2)
    assert law.log_prob(law.sample((0, 3))).shape == (0, 3)
    assert law.score(law.sample((0,))).shape == (0, 2)
    one = to_torch(FIELD.marginal([1]))
    copies, shares = one.expand((5,)), torch.tensor([0.3], dtype=torch.float64)
    assert copies.icdf(shares).shape == (5, 1)
    assert copies.cdf(one.icdf(shares[0])).shape == (5,)
    assert copies.score(one.icdf(shares[0])).shape == (5, 1)
    assert copies.icdf(torch.rand(4, 5)).shape == (4, 5, 1)
    for empty in (one.cdf(torch.zeros(0, 1)), one.icdf(torch.zeros(0)).squeeze(-1)):
        assert empty.shape == (0,)


def test_bounds_are_the_support_and_its_transform_keeps_them() -> None:
    sample = torch.cat([SAMPLE.exp(), SAMPLE.sigmoid()], -1)
    bounds = [(0, None), (None, 100), (0, 1), None]
    law = to_torch(DiScoFormer(model="default", bounds=bounds).fit(sample))
    inside = law.sample((50,))
    assert law.support.check(inside).all()
    assert not law.support.check(inside * torch.tensor([-1.0, 1, 1, 1])).any()
    transform = torch.distributions.biject_to(law.support)
    line = transform.inv(inside)
    torch.testing.assert_close(transform(line), inside)
    whole = torch.stack([torch.func.jacrev(transform)(row) for row in line])
    torch.testing.assert_close(transform.log_abs_det_jacobian(line, inside), torch.linalg.slogdet(whole)[1])
    assert to_torch(FIELD).support is torch.distributions.constraints.real_vector
