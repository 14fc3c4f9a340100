"""Densities of every kind a page can carry, for its tests."""

import math
import warnings
from pathlib import Path

import numpy as np
import torch
from helpers import gmm_sample, normal, random_covariance
from torch import Tensor

from discoformer.api.fitting import fit_sample
from discoformer.columns.bounds import Scaling, fit_maps
from discoformer.columns.kinds import CONTINUOUS, ColumnKind
from discoformer.columns.normal_scores import NormalScores
from discoformer.columns.split import SplitColumns, SplitKind, fit_split
from discoformer.core.composed import Blend, Pushforward, push
from discoformer.core.fields import Density, as_density
from discoformer.core.frames import FRAMES
from discoformer.core.transforms import ColumnMaps, SupportWarning
from discoformer.models.mixture.mixed import MixedMixture
from discoformer.models.mixture.student import StudentMixture

NUMBERS = ("plain", "wide", "bounded", "margins", "blended", "left-out", "left-out blend", "shares")
MIXED = ("mixed", "circles", "labels")
KINDS = NUMBERS + MIXED
ROWS = 240


def mixture(dim: int, count: int = 6, seed: int = 0) -> StudentMixture:
    """A mixture with components of all sorts, one of them nearly Gaussian."""
    rng = np.random.default_rng(seed)
    scale = torch.stack([random_covariance(dim, seed + k) for k in range(count)])
    scale = 0.5 * (scale + scale.mT)  # to the last digit: the page carries the lower half
    nu = torch.tensor(np.append(rng.uniform(2.1, 30, count - 1), 5e5))
    log_weight = torch.tensor(np.log(rng.dirichlet(np.ones(count))))
    return StudentMixture(log_weight, 2 * normal(count, dim, seed=seed), scale, nu)


def table() -> Tensor:
    """Rows of five columns: free, positive, a share, a share of another kind below 3, free."""
    x = gmm_sample(ROWS, 5, seed=1)
    x[:, 1] = x[:, 1].exp()
    x[:, 2] = x[:, 2].sigmoid()
    x[:, 3] = 3 - x[:, 3].exp()
    x[5, 1] = 0.0  # on its bound
    return x


BOUNDS = [(-math.inf, math.inf), (0.0, math.inf), (0.0, 1.0), (-math.inf, 3.0), (-math.inf, math.inf)]


def scores(seed: int, count: int = 3) -> NormalScores:
    """Normal scores of a column under a mixture."""
    rng = np.random.default_rng(seed)
    free = torch.tensor(torch.inf, dtype=torch.float64)
    parts = (np.log(rng.dirichlet(np.ones(count))), 2 * rng.normal(size=count), rng.uniform(0.3, 2, count))
    nu = torch.tensor(np.geomspace(2.5, 1e6, count))
    return NormalScores(-free, free, *map(torch.tensor, parts), nu)


def bounded(seed: int = 3) -> Density:
    x = table()
    maps = fit_maps(x, None, BOUNDS)
    frame = FRAMES["whiten"].fit(maps.normalize(x), None)
    return Pushforward(mixture(5, seed=seed), [maps, frame])


def margins(seed: int = 4) -> Density:
    x = table()
    maps = {**fit_maps(x, None, BOUNDS).maps, 0: scores(1), 4: scores(2)}
    column_maps = ColumnMaps(maps, 5)
    frame = FRAMES["standardize"].fit(column_maps.normalize(x), None)
    return Pushforward(mixture(5, seed=seed), [column_maps, frame])


def blended() -> Density:
    return Blend((bounded(5), margins(6), bounded(7)), torch.tensor([0.5, 0.2, 0.3]).double().log())


MIXED_KINDS = [
    ColumnKind("category", levels=3),
    CONTINUOUS,
    ColumnKind(atoms=(0.0, 5.0)),
    ColumnKind(step=1.0),
    ColumnKind("circular", period=24.0),
    ColumnKind("category", levels=2),
    CONTINUOUS,
]
MIXED_BOUNDS = [BOUNDS[0], BOUNDS[0], BOUNDS[1], BOUNDS[1], BOUNDS[0], BOUNDS[0], BOUNDS[0]]


def mixed_table() -> Tensor:
    """Labels, numbers, amounts with two atoms, counts, hours, truth values, a constant; some are missing."""
    rng = np.random.default_rng(8)
    label = rng.integers(0, 3, ROWS)
    x = rng.normal(2 * label, 1)
    amount = np.where(rng.random(ROWS) < 0.3, 0.0, np.exp(rng.normal(size=ROWS)))
    amount[rng.random(ROWS) < 0.1] = 5.0
    table = [label, x, amount, rng.poisson(2 + label), (23 + 2 * rng.normal(size=ROWS)) % 24, x > 2]
    rows = torch.tensor(np.column_stack([*table, np.full(ROWS, 7.0)]))
    gap = torch.tensor(rng.random((ROWS, 7)) < 0.1)
    gap[:, 6] = False
    return rows.masked_fill(gap, torch.nan)


def circles() -> Density:
    """Two circular columns, two columns of labels, and a positive one, by hand."""
    circle = ColumnKind("circular", period=6.0)
    columns = [circle, ColumnKind("category", levels=4), CONTINUOUS, circle]
    split = fit_split(circle_rows(), [*columns, ColumnKind("category", levels=2)])
    tables = [torch.log_softmax(normal(6, levels, seed=levels), -1) for levels in (4, 2)]
    free = torch.tensor(torch.inf, dtype=torch.float64)
    scaling = [
        Scaling(-free, free, torch.zeros(()).double(), torch.tensor(s).double()) for s in (1.5, 2.0, 1.0)
    ]
    maps = {0: scaling[0], 1: scores(3), 2: scaling[2]}
    base = MixedMixture(mixture(3), tuple(tables), (4.0, 0.0, 6.0))
    return push(base, [split, ColumnMaps(maps, 5)])


def circle_rows() -> Tensor:
    rng = np.random.default_rng(9)
    table = [6 * rng.random(ROWS), rng.integers(0, 4, ROWS), rng.normal(size=ROWS), 6 * rng.random(ROWS)]
    rows = torch.tensor(np.column_stack([*table, rng.integers(0, 2, ROWS)]))
    return rows.masked_fill(torch.tensor(rng.random((ROWS, 5)) < 0.15), torch.nan)


def labels() -> Density:
    """Three columns of labels, and nothing else."""
    kinds = [ColumnKind("category", levels=n) for n in (2, 3, 4)]
    tables = [torch.log_softmax(2 * normal(6, kind.levels, seed=kind.levels), -1) for kind in kinds]
    none = StudentMixture(
        mixture(1).log_weight, normal(6, 1)[:, :0], normal(6, 1)[:, :0, None], mixture(1).nu
    )
    return push(
        MixedMixture(none, tuple(tables)), [SplitColumns(tuple(SplitKind(k, 0.0, False) for k in kinds))]
    )


def fit_case(kind: str, model: Path) -> tuple[Density, Tensor]:
    """A density and rows to ask it at: the sample's, and some beyond."""
    x = table()
    if kind == "plain":
        x = gmm_sample(ROWS, 3, seed=2) * torch.tensor([1.0, 100.0, 1e-3]) + torch.tensor([0.0, 1e4, 0.0])
        return as_density(fit_sample(x, model).field), x
    if kind == "wide":
        x = gmm_sample(ROWS, 13, seed=3)
        return as_density(fit_sample(x, model).field), x
    if kind == "bounded":
        return as_density(fit_sample(x, model, bounds=BOUNDS).field), x
    if kind == "margins":
        return margins(), x
    if kind == "blended":
        return blended(), x
    if kind == "mixed":
        x = mixed_table()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SupportWarning)
            return as_density(fit_sample(x, "default", bounds=MIXED_BOUNDS, kinds=MIXED_KINDS).field), x
    if kind == "circles":
        return circles(), circle_rows()
    if kind == "labels":
        codes = torch.stack(
            [torch.randint(n, (ROWS,), generator=torch.Generator().manual_seed(n)) for n in (2, 3, 4)], -1
        )
        return labels(), codes.double()
    if kind == "shares":  # of a whole: the last follows from the others, and cannot be negative
        x = torch.cat([x[:, :2], x[:, 2:4].abs(), torch.ones(ROWS, 1).to(x)], 1).exp()
        x = x / x.sum(1, keepdim=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SupportWarning)
            return as_density(fit_sample(x, model, bounds=(0, None)).field), x
    wide = torch.cat([x[:, :2], 2 + 0 * x[:, :1], x[:, 2:], x[:, :1] - 2 * x[:, 4:]], 1)
    bounds = [*BOUNDS[:2], BOUNDS[0], *BOUNDS[2:], BOUNDS[0]]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SupportWarning)
        field = as_density(fit_sample(wide, model, bounds=bounds).field)
    if kind == "left-out blend":
        assert isinstance(field, Pushforward)
        return push(blended(), field.transforms[:1]), wide
    return field, wide
