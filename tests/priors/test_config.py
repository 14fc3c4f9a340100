"""Priors and their descriptions are inverse."""

import pytest

from discoformer.priors import (
    PRIORS,
    AffinePrior,
    GMMPrior,
    prior_from_config,
)


@pytest.mark.parametrize("name", PRIORS)
def test_description_and_config_are_inverse(name: str) -> None:
    prior = PRIORS[name]()
    assert prior_from_config(prior.describe()) == prior
    assert prior.describe()["name"] == name


def test_config_lists_become_ranges_and_nested_priors() -> None:
    config = {"name": "affine", "base": {"name": "gmm", "modes": [2, 3]}, "scale": [0.5, 2.0]}
    assert prior_from_config(config) == AffinePrior(GMMPrior(modes=(2, 3)), scale=(0.5, 2.0))
