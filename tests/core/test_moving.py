"""All tensors of a fitted field: found wherever they are, moved, and ordinary after a fit without a graph."""

import copy
from typing import Any

import pytest
import torch
from helpers import gmm_sample
from torch import Tensor

from discoformer import DataError, load_model
from discoformer.columns.fit_recipe import FitRecipe
from discoformer.columns.kinds import CONTINUOUS
from discoformer.core.fields import Field
from discoformer.core.moving import moved


def _tensors(part: Any, seen: set[int]) -> list[Tensor]:
    """Every tensor that can be reached from an object, whatever is between."""
    if id(part) in seen or isinstance(part, type | torch.nn.Module):
        return []
    seen.add(id(part))
    if isinstance(part, Tensor):
        return [part]
    inside = list(part.values()) if isinstance(part, dict) else []
    inside += list(part) if isinstance(part, list | tuple | set) else []
    inside += list(vars(part).values()) if hasattr(part, "__dict__") and not callable(part) else []
    return [tensor for each in inside for tensor in _tensors(each, seen)]


def _fields() -> dict[str, Field]:
    sample, model = gmm_sample(80, 3), load_model("default")
    gaps = sample.clone()
    gaps[::7, 1] = torch.nan
    return {
        "one view": model.network.fit(sample),
        "default": model.fit(sample),
        "batch": model.fit(torch.stack([sample, sample.exp()])),
        "bounded": FitRecipe(model, [(-50.0, 50.0)] * 3).fit(sample),
        "gaps": FitRecipe(model, kinds=[CONTINUOUS] * 3).fit(gaps),
        "one column": model.fit(sample[:, :1]),
    }


FIELDS = _fields()


@pytest.mark.parametrize("name", FIELDS)
def test_a_fit_leaves_ordinary_tensors(name: str) -> None:
    found = _tensors(FIELDS[name], set())
    assert len(found) > 5
    assert not any(tensor.is_inference() for tensor in found)


@pytest.mark.parametrize("name", FIELDS)
def test_all_floating_tensors_are_moved(name: str) -> None:
    found = _tensors(moved(FIELDS[name], torch.float32), set())
    assert {tensor.dtype for tensor in found if tensor.is_floating_point()} == {torch.float32}
    there = _tensors(moved(FIELDS[name], "meta"), set())
    assert {tensor.device.type for tensor in there} == {"meta"}


def test_answers_have_derivatives_in_the_points_and_where_asked_in_the_sample() -> None:
    model, sample = load_model("default"), gmm_sample(80, 2)
    points = sample[:5].clone().requires_grad_()
    log_density, score = model.fit(sample).estimate(points)
    (gradient,) = torch.autograd.grad(log_density.sum(), points)
    torch.testing.assert_close(gradient, score, rtol=1e-8, atol=1e-8)
    tracked = sample.clone().requires_grad_()
    (influence,) = torch.autograd.grad(model.fit(tracked).log_density(sample[:5]).sum(), tracked)
    step = torch.zeros_like(sample)
    step[3, 1] = 1e-5
    ends = [model.fit(sample + sign * step).log_density(sample[:5]).sum() for sign in (1, -1)]
    torch.testing.assert_close(influence[3, 1], (ends[0] - ends[1]) / 2e-5, rtol=1e-3, atol=1e-5)


def test_parameters_that_are_trained_have_derivatives() -> None:
    network = copy.deepcopy(load_model("default").network).requires_grad_()
    sample = gmm_sample(80, 2)
    network(sample, sample).log_density.mean().backward()
    assert all(p.grad is not None for p in network.core.layers[0].decide.parameters())


@pytest.mark.parametrize(
    "where, message",
    [
        ("float32", "no device 'float32' here"),
        ("cuda:99", "no device 'cuda:99' here"),
        (torch.int64, "torch.int64 is no place: give a device"),
        (None, "None is no place: give a device"),
        (3, "3 is no place: give a device"),
    ],
)
def test_places_that_there_are_not_are_refused(where: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        moved(FIELDS["one view"], where)


def test_what_is_no_field_is_not_moved() -> None:
    with pytest.raises(DataError, match="no density: fit"):
        moved(torch.zeros(3), torch.float32)  # type: ignore[type-var]
