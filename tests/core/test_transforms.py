"""Transforms: each inverts, and carries densities and scores by its exact change of variables."""

import math

import pytest
import torch
from helpers import F64, normal, random_covariance
from torch import Tensor

from discoformer import DataError, SupportWarning
from discoformer.columns.bounds import fit_maps
from discoformer.columns.support import divide
from discoformer.core.fields import Estimate
from discoformer.core.frames import FRAMES
from discoformer.core.transforms import At, ColumnMaps, KeptColumns, Transform, scaling_frame
from discoformer.priors import gaussian

HALF_LINES = [(0.0, math.inf), (-math.inf, 9.0), (-math.inf, math.inf)]
COUNTS = torch.ones(3, dtype=torch.bool)  # all columns inside
INTERVALS = [(-1.0, 40.0), (-math.inf, math.inf), (-20.0, 9.0)]


def sample(n: int = 60) -> Tensor:
    """Points of three columns: positive, below nine, and of another unit."""
    x = normal(n, 3) @ (torch.eye(3, dtype=F64) + 0.4 * normal(3, 3, seed=1))
    return torch.stack([x[:, 0].exp(), 9 - (0.5 * x[:, 1]).exp(), 3 * x[:, 2].tanh()], -1)


def kept_columns() -> KeptColumns:
    """Of five columns the first, third and fourth; the second is constant, the last a sum."""
    x = sample()
    whole = torch.stack([x[:, 0], torch.full((60,), 7.0), x[:, 1], x[:, 2], 2 * x[:, 0] - x[:, 2]], -1)
    with pytest.warns(SupportWarning, match=r"column 1 \(constant\) and column 4 \(linear"):
        transform = divide(whole, None).transform
    assert transform is not None
    return transform


def transforms() -> dict[str, Transform]:
    x = sample()
    return {
        **{name: kind.fit(x) for name, kind in FRAMES.items()},
        "scaling": scaling_frame(x.mean(0, keepdim=True), x.std(0)),
        "half-lines": fit_maps(x, None, HALF_LINES),
        "intervals": fit_maps(x, None, INTERVALS),
        "kept": kept_columns(),
    }


NAMES = list(transforms())


def outside_points(transform: Transform) -> Tensor:
    """Points that the transform is for: they satisfy the relation of the columns that were left out."""
    return transform.denormalize(sample(20)) if isinstance(transform, KeptColumns) else sample(20)


@pytest.mark.parametrize("name", NAMES)
def test_out_of_in_and_in_of_out_are_the_identity(name: str) -> None:
    transform = transforms()[name]
    x = outside_points(transform)
    assert x.shape[-1] == transform.dim
    inside = transform.normalize(x)
    torch.testing.assert_close(transform.denormalize(inside), x, rtol=1e-9, atol=1e-9)
    u = normal(20, 3, seed=2)
    torch.testing.assert_close(transform.normalize(transform.denormalize(u)), u, rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("name", NAMES)
def test_change_of_variables_is_that_of_autograd(name: str) -> None:
    """log f(x) = log g(T(x)) + log |det T'(x)| over the columns that count, and its gradient."""
    transform, law = transforms()[name], gaussian(normal(3), random_covariance(3))
    x = outside_points(transform)
    support = transform.outer_support(range(3))

    def log_density(point: Tensor) -> Tensor:
        inside = transform.normalize(point.unsqueeze(0))
        slopes = torch.func.jacrev(lambda p: transform.normalize(p.unsqueeze(0))[0])(point)[:, support]
        return law._estimate(inside).log_density[0] + torch.linalg.slogdet(slopes)[1]

    expected = torch.stack([log_density(point) for point in x])
    gradient = torch.stack([torch.func.grad(log_density)(point) for point in x])
    inside = law.estimate(transform.normalize(x))
    at = At(x, transform.normalize(x), COUNTS)
    found = transform.estimate_outside(at, inside)
    torch.testing.assert_close(found.log_density, expected, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(found.score, gradient, rtol=1e-8, atol=1e-8)
    alone = transform.score_outside(at, inside.score)
    torch.testing.assert_close(alone, found.score, rtol=1e-12, atol=1e-12)
    log_det = transform.log_det_left_out(at, None)  # no map of these knows which rows it was fitted to
    torch.testing.assert_close(log_det, found.log_density - inside.log_density, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", ["scaling", "standardize", "half-lines", "intervals"])
def test_maps_of_single_columns_can_be_selected(name: str) -> None:
    transform, x = transforms()[name], sample(20)
    part, inside = transform.select([2, 0])
    assert inside == [2, 0]
    points = x[:, [2, 0]]
    moved = points if part is None else part.normalize(points)
    torch.testing.assert_close(moved, transform.normalize(x)[:, [2, 0]])


def test_a_selection_without_maps_is_no_transform() -> None:
    assert transforms()["half-lines"].select([2]) == (None, [2])
    assert transforms()["intervals"].select([1]) == (None, [1])


def test_kept_columns_are_selected_by_their_place_and_others_refused() -> None:
    transform = kept_columns()
    assert (transform.kept, transform.dropped) == ((0, 2, 3), (1, 4))
    assert transform.select([3, 0]) == (None, [2, 0])
    assert transform.outer_support([0, 2]) == [0, 3]
    with pytest.raises(DataError, match="column 4: left out of the fit, has no density of its own"):
        transform.select([0, 4])


def test_what_contradicts_the_relation_is_warned_of_once_and_changes_nothing() -> None:
    transform = kept_columns()
    x = outside_points(transform)
    transform.check_queries(x)  # silent
    off = x.clone()
    off[3, 4] += 0.1
    with pytest.warns(SupportWarning, match="queries differ from what the sample has in column 4"):
        transform.check_queries(off)
    transform.check_queries(off)
    assert torch.equal(transform.normalize(off), transform.normalize(x))


@pytest.mark.parametrize("name", ["half-lines", "intervals"])
def test_beyond_its_bounds_a_column_has_no_mass(name: str) -> None:
    transform, x = transforms()[name], sample(4)
    assert isinstance(transform, ColumnMaps)
    low, high = transform.bounds
    x[0, 0] = low[0] - 1e-6
    x[1] = torch.where(high.isfinite(), high + 5, x[1])
    inside = transform.normalize(x)
    assert bool(inside.isfinite().all())
    answer = transform.estimate_outside(At(x, inside, COUNTS), Estimate(torch.zeros(4, dtype=F64), inside))
    assert answer.log_density.isneginf().tolist() == [True, True, False, False]
    assert not bool(answer.score[:2].any())
    assert bool(answer.score[2:].isfinite().all())
    last = torch.tensor([False, False, True])  # also of columns that do not count
    answer = transform.estimate_outside(At(x, inside, last), Estimate(torch.zeros(4, dtype=F64), inside))
    assert answer.log_density.isneginf().tolist() == [True, True, False, False]
    with pytest.raises(DataError, match="column 5: the value given has no density"):
        transform.check_given(x[:1], [5, 6, 7])


def test_transforms_say_what_they_do() -> None:
    found = transforms()
    assert found["half-lines"].describe() == "bounds: column 0 in (0, inf), column 1 in (-inf, 9)"
    assert found["kept"].describe() == "left out: column 1, column 4"
    assert found["whiten"].describe() == ""
