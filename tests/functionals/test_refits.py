"""Standard errors of functionals by refits: right where they are known, in a batch as one by one."""

import functools
import math

import numpy as np
import pytest
import torch
from helpers import normal

from discoformer import DiScoFormer
from discoformer.baselines.kde import KDE
from discoformer.core.checks import DataError
from discoformer.functionals import bootstrapped, entropy, jensen_shannon, kl_divergence, mutual_information
from discoformer.priors import gaussian


def test_of_a_known_density_it_is_the_standard_error_of_the_mean() -> None:
    exact = gaussian(torch.zeros(2).double(), torch.eye(2).double())
    x = exact.sample(500, torch.Generator().manual_seed(0))
    value, error = entropy(x, exact)
    again = bootstrapped(entropy, x, source=exact, fits=400)
    assert float(again.value) == pytest.approx(float(value), abs=1e-12)
    assert float(again.standard_error) == pytest.approx(float(error), rel=0.15)


@pytest.mark.parametrize("bandwidth", [0.3, "scott"])
def test_a_batch_of_fits_says_what_single_fits_say(
    bandwidth: float | str, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, y = normal(60, 2), normal(50, 2, seed=1)
    cases = (
        (entropy, (x,)),
        (mutual_information, (x[:, :1], x[:, 1:])),
        (kl_divergence, (x, y)),
        (jensen_shannon, (x, y)),
    )
    together = [bootstrapped(f, *samples, source=KDE(bandwidth), fits=5) for f, samples in cases]
    monkeypatch.setattr("discoformer.functionals.refits.POINTS", 1)
    alone = [bootstrapped(f, *samples, source=KDE(bandwidth), fits=5) for f, samples in cases]
    torch.testing.assert_close(torch.tensor(together), torch.tensor(alone), rtol=1e-9, atol=1e-12)
    assert all(error > 0 for _, error in together)


def test_it_falls_with_the_root_of_the_number_of_rows() -> None:
    few, many = (bootstrapped(entropy, normal(n, 1), source="default").standard_error for n in (200, 3200))
    assert float(few / many) == pytest.approx(4, rel=0.4)


def test_counts_are_refitted_as_counts_and_weights_count() -> None:
    counts = np.random.default_rng(0).poisson(3, (200, 1)).astype(float)
    found = bootstrapped(entropy, counts, source="default", fits=3)
    assert found.value == pytest.approx(1.9, abs=0.2)
    assert 0 < found.standard_error < 0.2
    half = np.repeat([1.0, 0.0], 100)
    weighed = bootstrapped(entropy, counts, source="default", weights=half, fits=3)
    assert weighed.value == pytest.approx(entropy(counts[:100], "default").value, abs=1e-9)


def test_the_estimator_has_it_too() -> None:
    estimator = DiScoFormer(model="kde-scott").fit(normal(80, 2).numpy())
    for verb in (estimator.entropy, estimator.fisher_information):
        plain, again = verb(), verb(bootstrap=True)
        assert plain.value == pytest.approx(again.value, abs=1e-12)
        assert math.isfinite(again.standard_error)
        assert again.standard_error != plain.standard_error


def test_what_cannot_be_is_refused_in_one_line() -> None:
    with pytest.raises(DataError, match="at least 2"):
        bootstrapped(entropy, normal(20, 1), source=KDE(), fits=1)
    with pytest.raises(DataError, match="one sample at a time"):
        bootstrapped(entropy, normal(3, 20, 1), source=KDE())
    for samples, options, message in (
        ((), {}, "0 sample"),
        ((normal(20, 1),), {"fits": 2.5}, "whole number"),
        ((normal(20, 1),), {"source": DiScoFormer(model="kde-scott").fit(normal(20, 1).numpy())}, "not be"),
    ):
        with pytest.raises(DataError, match=message):
            bootstrapped(entropy, *samples, **{"source": KDE(), **options})
    with pytest.raises(DataError, match="give 2"):
        bootstrapped(kl_divergence, normal(20, 1), source=KDE())


def test_a_functional_with_options_bound_is_the_same_functional() -> None:
    x, y = normal(30, 1), normal(30, 1, seed=1)
    plain = bootstrapped(kl_divergence, x, y, source=KDE(), fits=3, folds=3)
    bound = bootstrapped(functools.partial(kl_divergence, folds=3), x, y, source=KDE(), fits=3)
    assert bound == plain


def test_with_gaps_the_error_is_that_of_the_rows_and_a_bootstrap_is_refused() -> None:
    x = normal(200, 2).numpy().copy()
    x[0, 1] = np.nan
    fit = DiScoFormer().fit(x)
    value, error = fit.entropy()
    terms = -fit.log_density(fit.sample(4000, random_state=0))
    assert error == pytest.approx(terms.std() / math.sqrt(200), rel=0.15)
    assert value == pytest.approx(terms.mean(), abs=0.1)
    with pytest.raises(DataError, match="without gaps"):
        fit.entropy(bootstrap=True)
    with pytest.raises(DataError, match="needs the sample"):
        fit.marginal([0]).entropy(bootstrap=True)
