"""What tests share: samples, small random networks, files of the command line, comparisons."""

import dataclasses
import math
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from discoformer.baselines.kde import KDE
from discoformer.columns.bounds import FREE
from discoformer.columns.fit_recipe import FitRecipe
from discoformer.core.composed import Pushforward
from discoformer.core.fields import Estimate, Method, PointDensity
from discoformer.core.transforms import SupportWarning
from discoformer.functionals import (
    entropy,
    fisher_information,
    jensen_shannon,
    kl_divergence,
    mutual_information,
    relative_fisher_information,
)
from discoformer.models.attention.core import AttentionConfig, AttentionCore
from discoformer.models.mixture.unified import UnifiedConfig, UnifiedCore
from discoformer.models.mixture.unified_network import UnifiedNetwork
from discoformer.models.network import Network
from discoformer.models.registry import build_network, load_model, load_network
from discoformer.priors import (
    Affine,
    Banana,
    Distribution,
    Family,
    GMMPrior,
    Laplace,
    LocationScaleMixture,
    Logistic,
    Normal,
    Quartic,
    Rotated,
    Skew,
    StudentT,
    Warp,
    gaussian,
    random_rotations,
)

F64 = torch.float64
EXACT = {"rtol": 1e-10, "atol": 1e-10}


# -- samples ----------------------------------------------------------------------------------


def normal(*shape: int, seed: int = 0) -> Tensor:
    """Independent standard normal numbers."""
    return torch.randn(*shape, dtype=F64, generator=torch.Generator().manual_seed(seed))


def correlated(rows: int, seed: int = 0) -> NDArray[np.float64]:
    """Normal points (rows, 3) of correlated columns."""
    mixing = np.array([[1.0, 0.5, 0.0], [0.0, 1.0, 0.3], [0.0, 0.0, 2.0]])
    return np.random.default_rng(seed).normal(size=(rows, 3)) @ mixing


def gmm_sample(n: int = 120, d: int = 3, seed: int = 0) -> Tensor:
    """Points (n, d) of a mixture of three rotated Gaussians."""
    generator = torch.Generator().manual_seed(seed)
    prior = GMMPrior(modes=(3, 3), covariance="rotated")
    return prior.draw(1, d, generator, dtype=F64).sample(n, generator)[0]


def two_groups(rows: int = 5000, dim: int = 3, seed: int = 0) -> NDArray[np.float64]:
    """Two correlated groups; more rows than the pool of landmarks unless fewer are asked for."""
    rng = np.random.default_rng(seed)
    group = rng.integers(0, 2, size=(rows, 1))
    return (rng.normal(size=(rows, dim)) * (1 - 0.6 * group) + 2 * group) @ rng.normal(size=(dim, dim))


def far_sample(n: int = 60, d: int = 3, seed: int = 0, batch: tuple[int, ...] = ()) -> NDArray[np.float64]:
    """Correlated columns on different scales, far from the origin."""
    rng = np.random.default_rng(seed)
    mix = rng.normal(size=(d, d)) * np.geomspace(0.1, 10, d)
    return rng.normal(size=(*batch, n, d)) @ mix + 50.0


def uneven_sample(n: int = 120, d: int = 3, seed: int = 0) -> Tensor:
    """Correlated columns on different scales, some far from zero, the second positive."""
    generator = torch.Generator().manual_seed(seed)
    points = torch.randn(n, d, generator=generator, dtype=F64)
    points = points @ (torch.eye(d) + 0.4 * torch.rand(d, d, generator=generator)).double()
    points[:, 1] = points[:, 1].exp()
    return points * torch.tensor([1.0, 0.1, 20.0]) + torch.tensor([0.0, 0.0, 2000.0])


def random_covariance(dim: int, seed: int = 0) -> Tensor:
    root = normal(dim, dim, seed=seed)
    return root @ root.mT / dim + 0.5 * torch.eye(dim, dtype=F64)


# -- distributions ----------------------------------------------------------------------------

FAMILIES: dict[str, Family] = {
    "normal": Normal(),
    "laplace": Laplace(),
    "logistic": Logistic(),
    "student_t": StudentT(3.5),
    "quartic": Quartic(),
}


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def family_mixture(
    dim: int, family: Family, rotated: bool, batch: int = 3, k: int = 4
) -> LocationScaleMixture:
    """Batch of mixtures with random parameters."""
    g = seeded(dim)
    return LocationScaleMixture(
        weights=torch.rand(batch, k, generator=g, dtype=F64) + 0.2,
        means=torch.randn(batch, k, dim, generator=g, dtype=F64),
        std=torch.rand(batch, k, dim, generator=g, dtype=F64) + 0.4,
        rotation=random_rotations((batch, k), dim, g, F64) if rotated else None,
        family=family,
    )


def random_warps(dim: int, batch: int = 3) -> dict[str, Warp]:
    """A batch of each kind of warp."""
    g = seeded(dim)
    found: dict[str, Warp] = {
        "skew": Skew(
            torch.randn(batch, dim, generator=g, dtype=F64) * 0.5,
            torch.rand(batch, dim, generator=g, dtype=F64) + 0.5,
        ),
        "rotated": Rotated(random_rotations((batch,), dim, g, F64)),
        "affine": Affine(
            torch.rand(batch, dim, generator=g, dtype=F64) + 0.3,
            torch.randn(batch, dim, generator=g, dtype=F64),
        ),
    }
    if dim > 1:
        found["banana"] = Banana(
            torch.linspace(-0.5, 0.6, batch, dtype=F64),
            torch.linspace(0.8, 1.2, batch, dtype=F64),
            dim - 1,
            0,
        )
    return found


def choose(value: Any, index: int) -> Any:
    """Member ``index`` of a batched distribution or warp."""
    if isinstance(value, Tensor):
        return value[index]
    if isinstance(value, tuple):
        return tuple(choose(part, index) for part in value)
    if isinstance(value, Distribution | Warp):
        parts = {f.name: choose(getattr(value, f.name), index) for f in dataclasses.fields(value)}  # type: ignore[arg-type]
        return type(value)(**parts)
    return value


# -- networks ---------------------------------------------------------------------------------


def mixture_network(axes: bool = False, *, seed: int = 0, **values: int) -> UnifiedNetwork:
    """A small core whose decisions are random, so that every path of the arithmetic matters."""
    torch.manual_seed(seed)
    core = UnifiedCore(
        UnifiedConfig(**{"layers": 3, "width": 16, "heads": 2, "slots": 8, "loops": 1, **values})
    )
    for layer in core.layers:
        torch.nn.init.normal_(layer.decide.weight, std=0.3)
    return UnifiedNetwork(core, axes=axes).to(F64).requires_grad_(False).eval()


def attention_core(lift: bool = False, dim: int = 2) -> AttentionCore:
    """A small core, its attention sharper than at first, so that the laws have something to break."""
    torch.manual_seed(0)
    config = AttentionConfig(dim=dim, layers=2, width=16, heads=2, feedforward=32, lift=lift)
    core = AttentionCore(config).double().eval()
    with torch.no_grad():
        for block in core.blocks:
            block.query.weight *= 6
    return core


def attention_network(frame: str = "whiten", *, lift: bool = True) -> Network:
    """A small random network for three columns."""
    core = {"kind": "attention", "dim": 3, "layers": 2, "width": 16, "heads": 2, "feedforward": 32}
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return build_network({**core, "lift": lift}, frame).double().eval().requires_grad_(False)


def parameters(field: Pushforward) -> tuple[Tensor, Tensor, Tensor]:
    """Weights (M,), means (M, d) and covariances (M, d, d) of a fitted mixture, in the units of the data."""
    (frame,) = field.transforms
    blend = field.base.transform(frame.inverse, frame.center)
    weights = [
        part.log_weight.exp() * share for part, share in zip(blend.parts, blend.log_weight.exp(), strict=True)
    ]
    means, covariances = ([getattr(part, name) for part in blend.parts] for name in ("mean", "covariance"))
    return torch.cat(weights), torch.cat(means), torch.cat(covariances)


class MaximumLikelihood(Method):
    """The Gaussian with the mean and covariance of the sample."""

    def _fit(self, context: Tensor, weights: Tensor | None) -> PointDensity:
        mean = context.mean(-2)
        centered = context - mean.unsqueeze(-2)
        return gaussian(mean, centered.mT @ centered / context.shape[-2])


# -- fields that can be exported --------------------------------------------------------------


def exportable_field(kind: str, model_path: Path) -> PointDensity:
    """Of every kind, on `uneven_sample`; four columns where some are left out."""
    if kind.startswith("attention"):
        return attention_network(lift=kind.endswith("lift")).fit(uneven_sample())
    network, points = load_network(model_path), uneven_sample()
    if kind == "views":
        return load_model(model_path).fit(points)
    if kind == "mixture":
        return network.fit(points)
    points = torch.cat([points, 2 * points[:, :1] + 1], 1)
    bounds = [(-math.inf, 9.9), (-0.1, math.inf), (1800.1, 2200.3), FREE] if kind == "bounded" else [FREE] * 4
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SupportWarning)
        return FitRecipe(network, bounds).fit(points)


def queries_for(field: PointDensity, m: int) -> Tensor:
    """Fresh points for an `exportable_field`, one of them beyond the bounds of the second column."""
    points = uneven_sample(m, seed=1)
    points[0, 1] = -0.2
    return points if field.dim == 3 else torch.cat([points, 2 * points[:, :1] + 1], 1)


# -- comparisons ------------------------------------------------------------------------------


def assert_same(first: Any, second: Any, tolerance: float = 1e-11) -> None:
    """Tensors that belong together, one by one."""
    for one, other in zip(first, second, strict=True):
        torch.testing.assert_close(one, other, rtol=tolerance, atol=tolerance)


def assert_same_field(field: Any, other: Any, at: NDArray[np.float64], **tolerance: float) -> None:
    tolerance = tolerance or EXACT
    for one, two in zip(field.estimate(at), other.estimate(at), strict=True):
        np.testing.assert_allclose(one, two, **tolerance)


def assert_relative(answer: Estimate[Tensor], expected: Estimate[Tensor], tolerance: float) -> None:
    """To a tolerance relative to the largest number of each column."""
    for ours, theirs in zip(expected, answer, strict=True):
        finite = ours.isfinite()
        assert torch.equal(theirs[~finite].double(), ours[~finite])
        size = torch.where(finite, ours.abs(), 0.0).amax(0)
        difference = torch.where(finite, (ours - theirs).abs(), 0.0).amax(0)
        assert (difference <= tolerance * size).all(), difference / size


def within(result: tuple[Any, Any], truth: float, errors: float = 4) -> bool:
    """Whether a value with its standard error is a few errors from the truth, at most."""
    value, error = (float(v) for v in result)
    return abs(value - truth) < errors * error


def fit_quietly(method: Any, *arguments: Any, **options: Any) -> Any:
    """``method.fit(...)`` without a word about columns that are left out."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SupportWarning)
        return method.fit(*arguments, **options)


# -- functionals ------------------------------------------------------------------------------

FUNCTIONALS = {
    "entropy": lambda x, y: entropy(x, KDE()),
    "fisher": lambda x, y: fisher_information(x, KDE()),
    "kl": lambda x, y: kl_divergence(x, y, KDE()),
    "rfi": lambda x, y: relative_fisher_information(x, y, KDE()),
    "js": lambda x, y: jensen_shannon(x, y, KDE()),
    "mi": lambda x, y: mutual_information(x, y, KDE()),
}
"""Of two samples, by kernel density estimates."""


# -- the command line -------------------------------------------------------------------------

KERNEL = ("estimate", "--model", "kde-scott")

DROP = "in the columns before: leave {} out with --exclude, or add --drop-dependent to estimate"
BAD_FILES = {
    "NaN": ("a,b\n1,2\n3,nan\n5,1\n", "column 'b' has a missing value at row 1"),
    "inf": ("a,b\n1,2\ninf,4\n5,1\n", "column 'a' has an infinite value at row 1"),
    "one row": ("a,b\n1,2\n", "1 row(s) in 2 column(s) ('a', 'b') are too few for a density"),
    "n < d": ("a,b,c\n1,2,3\n3,1,5\n", "give at least 4 rows or fewer columns with --columns"),
    "n = d": ("a,b\n1,2\n3,1\n", "or add --drop-dependent to estimate all the same"),
    "constant column": ("a,b\n1,2\n3,2\n5,2\n7,2\n", f"'b' is constant or linear {DROP.format('it')}"),
    "collinear columns": (
        "a,b,c,d\n1,2,3,0\n3,2,4,0\n5,1,5,0\n7,2,6,0\n9,0,7,0\n",
        f"'c', 'd' are constant or linear {DROP.format('them')}",
    ),
    "constant columns": ("a,b\n1,2\n1,2\n1,2\n", "every column is constant"),
    "strings": ("a,b\n1,2\n3,tall\n5,1\n", "column 'b' holds text or dates, first at row 1 ('tall')"),
    "empty": ("", "the file is empty"),
    "header only": ("a,b\n", "no rows"),
    "clashing name": ("a,log_density\n1,2\n3,4\n5,1\n", "'log_density' has a name the output uses"),
}
"""What a file holds, and what is said of it."""
