"""Densities in PyMC: values, gradients, draws, and a posterior under another observation."""

import numpy as np
import pytest

from discoformer.adapters import to_pymc
from discoformer.models.registry import load_model

MIX = np.array([[1.0, 0.5], [0.0, 0.3]])
SAMPLE = np.random.default_rng(0).normal(size=(300, 2)) @ MIX
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
