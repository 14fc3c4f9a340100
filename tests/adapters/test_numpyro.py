"""Densities in NumPyro: values, gradients under jit and vmap, and NUTS."""

import numpy as np
import pytest
import torch
from helpers import F64, normal

from discoformer import DiScoFormer
from discoformer.adapters import to_numpyro
from discoformer.models.registry import load_model

SAMPLE = normal(200, 2) @ torch.tensor([[1.0, 0.5], [0.0, 0.3]], dtype=F64)
NETWORK = load_model("default").network  # one view of a sample: quick
FIELD = load_model("default").fit(SAMPLE)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # those of the libraries
def test_values_gradients_and_a_run_of_nuts() -> None:
    pytest.importorskip("numpyro")
    import jax
    import numpyro
    from numpyro.infer import MCMC, NUTS

    jax.config.update("jax_enable_x64", True)
    law, points = to_numpyro(FIELD), SAMPLE[:5].numpy()
    np.testing.assert_allclose(law.log_prob(points), FIELD.log_density(points), rtol=1e-12)
    gradient = jax.jit(jax.vmap(jax.grad(law.log_prob)))(points)
    np.testing.assert_allclose(gradient, FIELD.score(points), rtol=1e-10)
    first, again = (law.sample(jax.random.PRNGKey(3), (4, 2)) for _ in range(2))
    assert first.shape == (4, 2, 2)
    np.testing.assert_array_equal(first, again)
    assert law.log_prob(np.array([np.inf, 0.0])) == -np.inf
    run = MCMC(NUTS(lambda: numpyro.sample("x", law)), num_warmup=300, num_samples=1500, progress_bar=False)
    run.run(jax.random.PRNGKey(0))
    drawn, exact = np.asarray(run.get_samples()["x"]), FIELD.sample(4000).numpy()
    assert (np.abs(drawn.mean(0) - exact.mean(0)) < 0.35 * exact.std(0)).all()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # those of the libraries
def test_nuts_stays_within_bounds() -> None:
    pytest.importorskip("numpyro")
    import jax
    import numpyro
    from numpyro.infer import MCMC, NUTS

    jax.config.update("jax_enable_x64", True)
    rng = np.random.default_rng(0)
    sample = np.c_[
        rng.exponential(size=500), rng.uniform(size=500), rng.normal(size=500), -rng.gamma(2, size=500)
    ]
    density = DiScoFormer(model=NETWORK, bounds=[(0, None), (0, 1), None, (None, 0)]).fit(sample).field_
    law = to_numpyro(density)
    exact = density.sample(4000).numpy()
    assert law.support(exact).all() and not law.support(-exact).any()
    transform, line = numpyro.distributions.biject_to(law.support), np.array([0.3, -0.4, 0.5, 0.6])
    inside = transform(line)
    np.testing.assert_allclose(transform._inverse(inside), line)
    whole = np.linalg.slogdet(jax.jacobian(transform)(line))[1]
    np.testing.assert_allclose(transform.log_abs_det_jacobian(line, inside), whole)
    run = MCMC(NUTS(lambda: numpyro.sample("x", law)), num_warmup=300, num_samples=600, progress_bar=False)
    run.run(jax.random.PRNGKey(0))
    drawn = np.asarray(run.get_samples()["x"])
    assert int(run.get_extra_fields()["diverging"].sum()) < 20
    np.testing.assert_allclose(drawn.mean(0), exact.mean(0), atol=0.25)
    np.testing.assert_allclose(np.median(drawn, 0), np.median(exact, 0), atol=0.25)
