"""The spine: what a field can do is its type, and answers come in the kind of the questions."""

import numpy as np
import pytest
import torch
from helpers import F64, attention_network, mixture_network, normal
from torch import Tensor

import discoformer
from discoformer import KDE, DataError, Density, Estimate, Field, Method, PointDensity
from discoformer.baselines import NuMethod, ScoreMatching, SteinGradient
from discoformer.core.fields import as_density, as_point_density

KINDS: dict[type[Field], list[Method]] = {
    Density: [KDE(), mixture_network()],
    PointDensity: [attention_network()],
    Field: [ScoreMatching(steps=1, hidden=(4,)), SteinGradient(), NuMethod()],
}


class Linear(PointDensity):
    """Log density x . 1, for the plumbing."""

    dim = 2

    def _estimate(self, queries: Tensor) -> Estimate[Tensor]:
        return Estimate(queries.sum(-1), torch.ones_like(queries))


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_what_a_field_can_do_is_its_type(kind: type[Field]) -> None:
    for method in KINDS[kind]:
        field = method.fit(normal(60, 3))
        assert isinstance(field, PointDensity) == issubclass(kind, PointDensity)
        assert isinstance(field, Density) == issubclass(kind, Density)
        assert field.support == [0, 1, 2]
        assert field.score(normal(4, 3, seed=1)).shape == (4, 3)
        if kind is Field:
            with pytest.raises(DataError, match="estimates the score only: use score_function"):
                as_point_density(field)
        else:
            assert as_point_density(field) is field
        if kind is Density:
            assert as_density(field) is field
        else:
            with pytest.raises(DataError, match="answers at points only"):
                as_density(field)


def test_answers_come_in_the_kind_of_the_questions() -> None:
    points = normal(3, 2)
    arrays, tensors = Linear().estimate(points.numpy()), Linear().estimate(points)
    assert isinstance(arrays.log_density, np.ndarray) and isinstance(tensors.score, Tensor)
    np.testing.assert_array_equal(arrays.log_density, tensors.log_density)
    assert isinstance(Linear().score([[0.0, 1.0]]), np.ndarray)  # type: ignore[type-var]
    tracked = points.clone().requires_grad_()
    assert Linear().log_density(tracked).requires_grad
    assert Linear().log_density(points.float()).dtype == torch.float32
    np.testing.assert_array_equal(Linear().log_density(points.numpy()), tensors.log_density)


@pytest.mark.parametrize("queries", [np.zeros(2), np.zeros((3, 3)), [[0.0, np.nan]], [["a", "b"]]])
def test_queries_that_are_no_points_are_refused(queries: object) -> None:
    for ask in (Linear().estimate, Linear().score, Linear().log_density):
        with pytest.raises(DataError, match="queries"):
            ask(queries)  # type: ignore[type-var]


def test_errors_and_warnings_are_those_of_the_top() -> None:
    for name in ("DataError", "SupportWarning", "RangeWarning"):
        found = getattr(discoformer, name)
        assert f"{found.__module__}.{found.__name__}" == f"discoformer.{name}"


def test_a_method_is_its_own_for_few_rows_unless_it_says_else() -> None:
    kernel = KDE()
    assert kernel.for_few_rows() is kernel
    network = attention_network()
    assert network.for_few_rows().frame_name == "standardize"
    assert network.for_few_rows().for_few_rows().frame_name == "standardize"
    assert mixture_network(axes=True).for_few_rows().dtype == F64
