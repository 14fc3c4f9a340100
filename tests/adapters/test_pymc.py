"""Densities in PyMC: values, gradients, draws, and a posterior under another observation."""

import numpy as np
import pytest

from discoformer import DiScoFormer
from discoformer.adapters import to_pymc
from discoformer.models.registry import load_model

MIX = np.array([[1.0, 0.5], [0.0, 0.3]])
SAMPLE = np.random.default_rng(0).normal(size=(300, 2)) @ MIX
NETWORK = load_model("default").network  # one view of a sample: quick
FIELD = load_model("default").fit(SAMPLE)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # those of the libraries
def test_values_gradients_and_a_run_of_nuts() -> None:
    pymc = pytest.importorskip("pymc")
    point = np.array([0.5, 0.4])
    with pymc.Model() as model:
        theta = to_pymc("theta", FIELD)
        value = {"theta": point}
        np.testing.assert_allclose(model.compile_logp()(value), FIELD.log_density(point[None])[0])
        np.testing.assert_allclose(model.compile_dlogp()(value), FIELD.score(point[None])[0])
        draws = pymc.draw(theta, draws=2000, random_seed=1)
        np.testing.assert_allclose(draws.mean(0), FIELD.sample(4000).numpy().mean(0), atol=0.15)
        pymc.Normal("y", theta[0], 0.1, observed=1.0)
        data = pymc.sample(
            tune=300,
            draws=500,
            chains=1,
            cores=1,
            progressbar=False,
            random_seed=0,
            compute_convergence_checks=False,
        )
    mean = data.posterior["theta"].values.mean((0, 1))
    np.testing.assert_allclose(mean, [1.0, 0.5], atol=0.1)  # what is known of the first tells the second


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # those of the libraries
def test_nuts_stays_within_bounds() -> None:
    pymc = pytest.importorskip("pymc")
    rng = np.random.default_rng(0)
    sample = np.c_[
        rng.exponential(size=500), rng.uniform(size=500), rng.normal(size=500), -rng.gamma(2, size=500)
    ]
    density = DiScoFormer(model=NETWORK, bounds=[(0, None), (0, 1), None, (None, 0)]).fit(sample).field_
    with pymc.Model() as model:
        to_pymc("theta", density)
        (name,) = (value.name for value in model.value_vars)
        line = np.array([0.3, -0.4, 0.5, 0.6])
        logit = 1 / (1 + np.exp(0.4))
        inside = np.array([np.exp(0.3), logit, 0.5, -np.exp(0.6)])
        slope = 0.3 + np.log(logit * (1 - logit)) + 0.6
        expected = density.log_density(inside[None])[0] + slope
        np.testing.assert_allclose(model.compile_logp()({name: line}), expected)
        assert np.isfinite(model.compile_logp()(model.initial_point()))
        data = pymc.sample(
            tune=300,
            draws=600,
            chains=1,
            cores=1,
            progressbar=False,
            random_seed=0,
            compute_convergence_checks=False,
        )
    draws = data.posterior["theta"].values.reshape(-1, 4)
    exact = density.sample(4000).numpy()
    assert int(data.sample_stats["diverging"].sum()) < 20
    np.testing.assert_allclose(draws.mean(0), exact.mean(0), atol=0.25)
    np.testing.assert_allclose(np.median(draws, 0), np.median(exact, 0), atol=0.25)
