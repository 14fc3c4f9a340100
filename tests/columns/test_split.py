"""Columns of every kind as numbers and categories, and back."""

import pytest
import torch

from discoformer.columns.kinds import CONTINUOUS, ColumnKind
from discoformer.columns.split import fit_split, on_lattice
from discoformer.core.checks import DataError

F64 = torch.float64
KINDS = [
    ColumnKind("category", levels=3),
    ColumnKind(atoms=(0.0, 9.0)),
    CONTINUOUS,
    ColumnKind("circular", period=24.0),
    ColumnKind(step=0.5, origin=0.25),
]


@pytest.fixture
def table() -> torch.Tensor:
    nan = torch.nan
    rows = [
        [0, 0.0, 1.5, 23.0, 0.25],
        [2, 9.0, nan, 1.0, 0.75],
        [1, 3.5, -2.0, 22.5, nan],
        [nan, nan, 0.0, nan, 1.25],
        [1, 4.5, 0.5, 0.25, -0.25],
    ]
    return torch.tensor(rows, dtype=F64)


def test_there_and_back(table: torch.Tensor) -> None:
    split = fit_split(table, KINDS)
    inside = split.normalize(table)
    assert inside.shape == (5, 6)
    torch.testing.assert_close(split.denormalize(inside), table, equal_nan=True)
    assert bool(inside[:2, 0].isnan().all())  # no amount at an atom
    assert inside[:, 5].tolist()[:3] == [0.0, 1.0, 2.0]
    hours = inside[[0, 1, 2, 4], 2]
    assert float(hours.max() - hours.min()) == 2.5  # the cut is not between 22.5 and 1


def test_some_columns_alone(table: torch.Tensor) -> None:
    split = fit_split(table, KINDS)
    part, inner = split.select([1, 0])
    assert part is not None and inner == [0, 5, 4]
    torch.testing.assert_close(
        part.normalize(table[:, [1, 0]]), split.normalize(table)[:, inner], equal_nan=True
    )
    assert split.select([2]) == (None, [1])
    assert split.outer_support([1, 4]) == [0, 2]


def test_draws_are_on_the_lattice_and_on_the_circle(table: torch.Tensor) -> None:
    split = fit_split(table, KINDS)
    inside = torch.tensor([[1.0, 2.0, 23.9, 0.6, 1.0, 2.0]], dtype=F64)
    outside = split.denormalize(inside)[0]
    assert float(outside[4]) == 0.75 and 0 <= float(outside[3]) < 24


def test_a_single_value_beside_atoms_is_one_too() -> None:
    split = fit_split(torch.tensor([[0.0], [5.0], [0.0]], dtype=F64), [ColumnKind(atoms=(0.0,))])
    assert split.numbers == [] and split.columns[0].levels == 2
    x = torch.tensor([[5.0], [0.0]], dtype=F64)
    torch.testing.assert_close(split.denormalize(split.normalize(x)), x)


def test_codes_must_be_codes(table: torch.Tensor) -> None:
    table[0, 0] = 3.0
    with pytest.raises(DataError, match="'kind' has the value 3, which is none of its 3 levels"):
        fit_split(table, KINDS, ["kind", "amount", "x", "hour", "size"])


@pytest.mark.parametrize(
    ("step", "origin"), [(0.1, 0.0), (0.25, 0.0), (0.171, 0.0), (0.01, 0.005), (5.0, 2.0)]
)
def test_lattice_values_are_as_they_are_written(step: float, origin: float) -> None:
    """A tree of decisions tells 6.6 from 66 x 0.1, and drawn rows from real ones by that."""
    places = torch.arange(-50.0, 500.0, dtype=torch.float64)
    written = [float(f"{origin + step * k:.6f}") + 0.0 for k in places.tolist()]
    assert on_lattice(places, ColumnKind(step=step, origin=origin)).tolist() == written
