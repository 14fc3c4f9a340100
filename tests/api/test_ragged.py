"""Samples of different sizes: the answers of one at a time, whatever was digested together."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from helpers import gmm_sample
from torch import Tensor

from discoformer import estimate, load_model
from discoformer.api.ragged import _groups
from discoformer.core.checks import DataError
from discoformer.core.fields import Method
from discoformer.core.transforms import SupportWarning
from discoformer.methods import Resolved
from discoformer.models.mixture.views import Views
from discoformer.models.registry import build_network

UNIFIED = {"kind": "unified", "layers": 2, "width": 8, "heads": 2, "slots": 8, "loops": 1, "margin_slots": 8}
SIZES = (20, 40, 60, 60, 41, 200, 17)


def _network() -> Method:
    torch.manual_seed(0)
    return build_network(UNIFIED, "whiten").double().eval().requires_grad_(False)


@pytest.mark.parametrize("model", [_network(), Views(_network()), "kde-scott"])
def test_a_list_gives_what_one_at_a_time_gives(model: Method | str) -> None:
    samples = [gmm_sample(n, 2, seed) for seed, n in enumerate(SIZES)]
    queries = [gmm_sample(3 + n // 20, 2, seed + 50) for seed, n in enumerate(SIZES)]
    answers = estimate(samples, queries, model=model)
    for x, y, answer in zip(samples, queries, answers, strict=True):
        log_density, score = estimate(x, y, model=model)
        torch.testing.assert_close(answer.log_density, log_density, rtol=1e-9, atol=1e-9)
        torch.testing.assert_close(answer.score, score, rtol=1e-7, atol=1e-7)


def test_samples_of_nearly_one_size_share_a_batch() -> None:
    contexts: list[Tensor] = [torch.zeros(n, 2) for n in SIZES]
    sizes = [
        [len(contexts[k]) for k in group]
        for group in _groups(list(range(len(SIZES))), contexts, Resolved(_network(), "unified", None))
    ]
    assert sizes == [[17, 20], [40, 41, 60, 60], [200]]


def test_weights_arrays_and_columns_without_a_density() -> None:
    samples = [gmm_sample(n, 2, n).numpy() for n in (60, 60, 60)]
    samples[1][:, 1] = 3.0
    weights = [None, None, np.r_[np.ones(30), np.zeros(30)]]
    with pytest.warns(SupportWarning, match=r"^sample 1: left out column 1 \(constant\)"):
        first, second, third = estimate(samples, model="kde-scott", weights=weights)
    assert isinstance(first.score, np.ndarray)
    assert (second.score[:, 1] == 0).all()
    np.testing.assert_allclose(third.score, estimate(samples[2][:30], samples[2], model="kde-scott").score)


X, BAD = gmm_sample(20, 2), gmm_sample(30, 2)
BAD[3, 1] = torch.nan


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: estimate([X, BAD], model="kde-scott"), "^sample 1 has a NaN .* row 3, column 1"),
        (lambda: estimate([X, X], [X, BAD], model="kde-scott"), "^the points of sample 1 has a NaN"),
        (lambda: estimate([X, X], [X], model="kde-scott"), "2 samples: give a list of as many points"),
        (lambda: estimate([X, X], X, model="kde-scott"), "2 samples: give a list of as many points"),
        (lambda: estimate([X, X], weights=1, model="kde-scott"), "2 samples: give a list of as many weights"),
        (
            lambda: estimate([X, X], weights=[None, [1.0]], model="kde-scott"),
            "^sample 1: sample weights have",
        ),
        (lambda: estimate([X, X[:, :1]], model="kde-scott"), r"^sample 1: shape \(20, 1\), .* same columns"),
        (lambda: estimate([X, X], [X, X[:, :1]], model="kde-scott"), "^the points of sample 1: shape"),
        (lambda: estimate([X[:, 0], X], model="kde-scott"), "^sample 0 has shape"),
        (lambda: estimate([X, "X"], model="kde-scott"), "^sample 1 is not an array"),
        (lambda: estimate([X, 0 * X], model="kde-scott"), "^sample 1: every column is constant"),
        (lambda: estimate([X, 1e200 * X], model="kde-scott"), "^sample 1: X has values beyond"),
    ],
)
def test_what_is_wrong_with_a_list_is_told_with_the_number_of_the_sample(
    call: Callable[[], object], message: str
) -> None:
    with pytest.raises(DataError, match=message):
        call()


def test_samples_with_gaps_are_fitted_as_alone() -> None:
    model = load_model("default")
    first, second = estimate([X, BAD], model=model)
    torch.testing.assert_close(second.log_density, estimate(BAD, model=model).log_density)
    torch.testing.assert_close(first.log_density, estimate(X, model=model).log_density)
