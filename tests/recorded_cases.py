"""Questions whose answers are recorded, so that moving the code about can be seen to change none of them.

`record_answers.py` writes what every case answers into `recorded_answers.json`, `test_recorded_answers.py`
asks again.  A case is a name and a function without arguments; it returns numbers and words by name.
Everything goes through the doors that users have: the estimator, the function, the commands, methods.
"""

from __future__ import annotations

import contextlib
import io
import json
import math
import tempfile
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import polars as pl
import torch
from numpy.typing import NDArray
from torch import Tensor

# The only lines that say where things live in the package: edit them when something moves.
# isort: off
# fmt: off
import discoformer
from discoformer import KDE, DiScoFormer, estimate, load_model
from discoformer.baselines import (
    SDKDE, BayesianMixture, GaussianMixtureBIC, NuMethod, ScoreMatching, SpectralStein, SteinGradient,
    oracle_bandwidth,
)
from discoformer.baselines.sdkde import AutogradScore
from discoformer.cli import main
from discoformer.columns.bounds import parse_bounds
from discoformer.columns.fitting import FitRecipe
from discoformer.core.frames import FRAMES
from discoformer.core.transforms import SupportWarning
from discoformer.data.datasets import real_dataset
from discoformer.evaluation.held_out import held_out_log_likelihood, score_error
from discoformer.evaluation.known_truth import gmm_dataset, gmm_datasets, measure
from discoformer.export import export_network, export_read, run_exported
from discoformer.functionals import (
    entropy, fisher_information, jensen_shannon, kl_divergence, mutual_information,
    relative_fisher_information,
)
from discoformer.functionals.neighbours import knn_entropy, knn_kl_divergence
from discoformer.methods import RangeWarning, resolve
from discoformer.models.mixture.stack import Stack
from discoformer.particles import (
    BKW, Blob, Calibrated, Carried, DoubleWell, ExactOracle, FokkerPlanck, GaussianClosure, Landau,
    OrnsteinUhlenbeck, integrate, landau_start, match_moments, maxwell_covariance, ornstein_uhlenbeck,
    ornstein_uhlenbeck_covariance, pair_monte_carlo,
)
from discoformer.priors import (
    AffinePrior, Banana, BroadPrior, GaussianPrior, GMMPrior, Laplace, LocationScaleMixture, Logistic,
    MixtureDistribution, Normal, Quartic, Ring, Rotated, Skew, StudentT, Warped, gaussian,
    prior_from_config, random_rotations, spiral,
)
from discoformer.training.adapt import adapt, adapt_consistency, adapt_likelihood, adapt_path
from discoformer.views.page.summary import effective_dimension
from discoformer_paper.theory import framed_kde, kde_block, three_points


def make_method(name):
    """A method by its name, with what the estimator does for few rows."""
    return FitRecipe(resolve(name).method, drop=False)


def Bounded(method, bounds):  # noqa: N802
    """A method within bounds."""
    return FitRecipe(method, parse_bounds(bounds, len(bounds)), drop=False)
# fmt: on
# isort: on

Array = NDArray[np.float64]
Answer = dict[str, Array | str]

CASES: dict[str, Callable[[], dict[str, Any]]] = {}
"""Every case by its name."""


def ask(name: str) -> Answer:
    """Run a case: arrays in double precision without a NaN, words, and the warnings there were."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("error")
        for expected in (SupportWarning, RangeWarning):
            warnings.simplefilter("always", expected)
        found = CASES[name]()
    answer: Answer = {key: value if isinstance(value, str) else plain(value) for key, value in found.items()}
    for key, value in answer.items():
        if not isinstance(value, str) and (not value.size or np.isnan(value).any()):
            raise ValueError(f"{name}: {key} is empty or has a NaN")
    if caught:
        answer["warnings"] = " ".join(sorted({item.category.__name__ for item in caught}))
    return answer


def case(name: str, *arguments: Any, **options: Any) -> Callable[[Callable[..., dict[str, Any]]], Any]:
    """Make the function below a case, with these arguments; it may be several."""

    def put(function: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
        if name in CASES:
            raise ValueError(f"two cases are called {name}")
        CASES[name] = partial(function, *arguments, **options)
        return function

    return put


def plain(value: Any) -> Array:
    """Numbers of any kind as an array in double precision."""
    if isinstance(value, Tensor):
        value = value.detach().numpy()
    elif hasattr(value, "to_numpy"):
        value = value.to_numpy()
    return np.asarray(value, dtype=np.float64)


def both(result: Any) -> dict[str, Any]:
    """Log density, where there is one, and score."""
    found = {"log_density": result.log_density, "score": result.score}
    return {key: value for key, value in found.items() if value is not None}


def pair(result: Any) -> dict[str, Any]:
    """A functional and its standard error."""
    return {"value": result.value, "standard_error": result.standard_error}


def cloud(rows: int, dim: int, seed: int = 0) -> Array:
    """Two groups of unlike width, with correlated columns.

    Answers have been compared between machines: to 1e-9 they do not depend on how sums are rounded.  Two
    kinds do, and are left out: the default with no more rows than columns, and draws where components of
    its mixture tie, so that rounding decides on their order.  Take another seed where a new case is such.
    """
    rng = np.random.default_rng([rows, dim, seed])
    group = rng.integers(0, 2, size=(rows, 1))
    mix = np.eye(dim) + 0.3 * rng.normal(size=(dim, dim)) / math.sqrt(dim)
    return (rng.normal(size=(rows, dim)) * (1 - 0.6 * group) + 2.5 * group) @ mix


def near(sample: Array) -> Array:
    """Five points to ask at: three of the sample, one between two of them, one at its edge."""
    between, edge = (sample[0] + sample[-1]) / 2, sample.mean(0) + 2.5 * sample.std(0)
    return np.vstack([sample[:2], sample[-1], between, edge])


def positive(rows: int, seed: int = 0) -> Array:
    """A waiting time, a share and a free column that depends on them."""
    rng = np.random.default_rng([rows, seed])
    wait, share = rng.gamma(1.5, 2.0, size=rows), rng.beta(2, 3, size=rows)
    return np.column_stack([wait, share, rng.normal(size=rows) + np.log(wait) + share])


def weigh(rows: int) -> Array:
    """Unequal weights, some of them zero."""
    weights = np.random.default_rng(rows).gamma(1.0, size=rows)
    weights[::7] = 0.0
    return weights


def tensor(values: Any) -> Tensor:
    return torch.tensor(np.asarray(values), dtype=torch.float64)


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@contextlib.contextmanager
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


# ---------------------------------------------------------------------- the estimator


@case("fit-64x1", 64, 1)
@case("fit-300x1", 300, 1)
@case("fit-2500x1", 2500, 1)
@case("fit-64x2", 64, 2)
@case("fit-300x2", 300, 2)
@case("fit-2500x2", 2500, 2)
@case("fit-20000x2", 20_000, 2)
@case("fit-300x3", 300, 3)
@case("fit-2500x3", 2500, 3)
@case("fit-64x10", 64, 10)
@case("fit-300x10", 300, 10)
@case("fit-2500x10", 2500, 10)
@case("fit-120x70", 120, 70)
@case("fit-600x70-mixture", 600, 70, model="mixture")
def fit_rows(rows: int, dim: int, model: str = "default") -> dict[str, Any]:
    sample = cloud(rows, dim)
    est = DiScoFormer(model=model).fit(sample)
    return {**both(est.estimate(near(sample))), "total": est.score(sample)}


@case("verbs-agree")
def verbs_agree() -> dict[str, Any]:
    sample = cloud(300, 2)
    est = DiScoFormer().fit(sample)
    points = near(sample)
    return {
        "score_samples": est.score_samples(points),
        "log_density": est.log_density(points),
        "score_function": est.score_function(points),
        "n_features_in_": est.n_features_in_,
        "support_": est.support_,
    }


@case("sample-default", "default")
@case("sample-mixture", "mixture")
@case("sample-kde", "kde-scott")
def sample_rows(model: str) -> dict[str, Any]:
    est = DiScoFormer(model=model).fit(cloud(300, 3, seed=3))
    return {
        "seed": est.sample(6, random_state=3),
        "state": est.sample(3, random_state=np.random.RandomState(5)),
        "many": est.sample(2000, random_state=0).mean(0),
    }


@case("marginal", [2, 0])
@case("marginal-one", 1)
def marginal(columns: Any) -> dict[str, Any]:
    sample = cloud(300, 3, seed=3)
    est = DiScoFormer().fit(sample).marginal(columns)
    points = near(sample)[:, np.atleast_1d(columns)]
    return {**both(est.estimate(points)), "drawn": est.sample(4, random_state=1), **pair(est.entropy())}


@case("conditional", [1], [0.4])
@case("conditional-two", [2, 0], [1.0, -0.5])
def conditional(columns: list[int], values: list[float]) -> dict[str, Any]:
    sample = cloud(300, 3, seed=3)
    est = DiScoFormer().fit(sample).conditional(columns, values)
    rest = [c for c in range(3) if c not in columns]
    points = near(sample)[:, rest]
    return {
        **both(est.estimate(points)),
        "drawn": est.sample(4, random_state=1),
        **pair(est.fisher_information()),
    }


@case("entropy-none", "entropy", "none")
@case("entropy-folds", "entropy", "folds")
@case("entropy-balanced", "entropy", "balanced")
@case("entropy-default", "entropy", "balanced", model="default")
@case("fisher-none", "fisher_information", "none")
@case("fisher-folds", "fisher_information", "folds")
@case("fisher-balanced", "fisher_information", "balanced")
@case("fisher-default", "fisher_information", "none", model="default")
def own_functional(verb: str, split: str, model: str = "mixture") -> dict[str, Any]:
    return pair(getattr(DiScoFormer(model=model).fit(cloud(150, 2)), verb)(split=split))


@case("weights", 1)
@case("weights-scaled", 1e6)
def weighted(unit: float) -> dict[str, Any]:
    sample = cloud(300, 2)
    est = DiScoFormer().fit(sample, sample_weight=unit * weigh(300))
    return {
        **both(est.estimate(near(sample))),
        "drawn": est.sample(3, random_state=0),
        **pair(est.entropy()),
        "fisher": est.fisher_information(),
    }


@case("weights-kde", "kde-scott")
@case("weights-mixture", "mixture")
@case("weights-attention", "attention-d2")
def weighted_model(model: str) -> dict[str, Any]:
    sample = cloud(130, 2)
    est = DiScoFormer(model=model).fit(sample, sample_weight=weigh(130))
    return both(est.estimate(near(sample)))


# ---------------------------------------------------------------------- kinds of data


@case("pandas")
def pandas_frame() -> dict[str, Any]:
    sample = cloud(120, 2)
    frame = pd.DataFrame(sample, columns=["age", "income"], index=np.arange(120) + 1000)
    est = DiScoFormer().fit(frame)
    asked = pd.DataFrame(near(sample), columns=["age", "income"], index=list("abcde"))
    found, score, log_density = est.estimate(asked), est.score_function(asked), est.log_density(asked)
    drawn = est.sample(3, random_state=2)
    return {
        "estimate": found,
        "names": " ".join([*found.columns, *score.columns, *drawn.columns, str(log_density.name)]),
        "index": " ".join([*found.index, *score.index, *log_density.index]),
        "score": score,
        "log_density": log_density,
        "score_samples": est.score_samples(asked),
        "drawn": drawn,
        "marginal": est.marginal("income").estimate(asked[["income"]]),
        "conditional": est.conditional("age", 0.3).estimate(asked[["income"]]),
        "feature_names_in_": " ".join(est.feature_names_in_),
    }


@case("pandas-numbered")
def pandas_numbered() -> dict[str, Any]:
    frame = pd.DataFrame(cloud(80, 2)).astype({0: "float32"})
    found = DiScoFormer().fit(frame).estimate(frame[:4])
    return {"estimate": found, "names": " ".join(map(str, found.columns))}


@case("polars")
def polars_frame() -> dict[str, Any]:
    sample = cloud(120, 2)
    est = DiScoFormer().fit(pl.DataFrame(sample, schema=["u", "v"]))
    asked = pl.DataFrame(near(sample), schema=["u", "v"])
    found, drawn = est.estimate(asked), est.sample(3, random_state=2)
    kinds = [type(found).__module__.split(".")[0], type(drawn).__module__.split(".")[0]]
    return {
        "estimate": found,
        "names": " ".join([*found.columns, *drawn.columns, *kinds]),
        "drawn": drawn,
        "log_density": est.log_density(asked),
        "score": est.score_function(asked),
    }


@case("torch-default", "default", 2)
@case("torch-attention", "attention-d2", 2)
@case("torch-kde", "kde-scott", 2)
@case("torch-mixture-3", "mixture", 3)
def torch_points(model: str, dim: int) -> dict[str, Any]:
    """Tensors with their gradients in the points."""
    sample = tensor(cloud(130, dim))
    est = DiScoFormer(model=model).fit(sample)
    points = tensor(near(sample.numpy())).requires_grad_()
    log_density, score = est.estimate(points)
    (slope,) = torch.autograd.grad(log_density.sum(), points, retain_graph=True)
    (bend,) = torch.autograd.grad(score.square().sum(), points)
    return {"log_density": log_density, "score": score, "slope": slope, "bend": bend}


@case("torch-sample")
def torch_draws() -> dict[str, Any]:
    drawn = DiScoFormer().fit(tensor(cloud(90, 2))).sample(5, random_state=0)
    return {"drawn": drawn, "kind": type(drawn).__name__}


@case("torch-bounds")
def torch_bounds() -> dict[str, Any]:
    sample = tensor(positive(150))
    est = DiScoFormer(bounds=[(0, None), (0, 1), None]).fit(sample)
    points = sample[:4].clone().requires_grad_()
    log_density, score = est.estimate(points)
    (slope,) = torch.autograd.grad(log_density.sum(), points)
    return {"log_density": log_density, "score": score, "slope": slope}


@case("float32-array")
def float32_array() -> dict[str, Any]:
    sample = cloud(200, 2).astype(np.float32)
    est = DiScoFormer().fit(sample)
    found = est.estimate(sample[:5])
    return {**both(found), "kind": str(found.score.dtype)}


@case("float32-tensor")
def float32_tensor() -> dict[str, Any]:
    sample = torch.tensor(cloud(200, 2), dtype=torch.float32)
    return both(DiScoFormer().fit(sample).estimate(sample[:5].double()))


@case("lists")
def lists() -> dict[str, Any]:
    sample = cloud(60, 2).round(3).tolist()
    return both(DiScoFormer().fit(sample).estimate(sample[:3]))


@case("whole-numbers")
def whole_numbers() -> dict[str, Any]:
    """Many ties."""
    sample = (4 * cloud(200, 2)).round().astype(np.int64)
    return both(DiScoFormer().fit(sample).estimate(sample[:5]))


@case("units-far-apart")
def units_far_apart() -> dict[str, Any]:
    units = np.array([1e-9, 1e9])
    sample = cloud(200, 2) * units + [0, 3e9]
    log_density, score = DiScoFormer().fit(sample).estimate(near(sample))
    return {"log_density": log_density, "score": score * units}


@case("wild-row")
def wild_row() -> dict[str, Any]:
    sample = cloud(200, 2)
    sample[17] = [400.0, -900.0]
    return both(DiScoFormer().fit(sample).estimate(near(sample)))


# ---------------------------------------------------------------------- bounds


@case("bounds-half-line", (0, None))
@case("bounds-half-line-numbered", {0: (0, None)})
@case("bounds-interval-wide", (0, 60))
def bounded_line(bounds: Any) -> dict[str, Any]:
    sample = positive(300, seed=2)[:, :1]
    est = DiScoFormer(bounds=bounds).fit(sample)
    return {
        **both(est.estimate(near(sample))),
        "total": est.score(sample),
        "drawn": est.sample(5, random_state=0),
        **pair(est.entropy(split="none")),
    }


@case("bounds-from-above")
def bounded_above() -> dict[str, Any]:
    sample = 10 - positive(300)[:, :1]
    return both(DiScoFormer(bounds=(None, 10)).fit(sample).estimate(near(sample)))


@case("bounds-interval")
def bounded_interval() -> dict[str, Any]:
    sample = positive(300)[:, 1:2]
    est = DiScoFormer(bounds=(0, 1)).fit(sample)
    points = np.array([[0.01], [0.3], [0.99]])
    return {**both(est.estimate(points)), **pair(est.fisher_information(split="none"))}


@case("bounds-both", "default")
@case("bounds-both-kde", "kde-scott")
@case("bounds-both-attention", "attention-d3")
def bounded_both(model: str) -> dict[str, Any]:
    sample = positive(300)
    est = DiScoFormer(model=model, bounds=[(0, None), (0, 1), None]).fit(sample)
    return both(est.estimate(sample[:6]))


@case("bounds-by-name")
def bounded_by_name() -> dict[str, Any]:
    frame = pd.DataFrame(positive(300), columns=["wait", "share", "free"])
    est = DiScoFormer(bounds={"wait": (0, None), "share": (0, 1)}).fit(frame)
    part, given = est.marginal(["share", "wait"]), est.conditional("share", 0.4)
    return {
        "estimate": est.estimate(frame[:4]),
        "drawn": est.sample(4, random_state=0),
        "marginal": part.estimate(frame[["share", "wait"]][:4]),
        "conditional": given.estimate(frame[["wait", "free"]][:4]),
        "conditional_drawn": given.sample(3, random_state=0),
        **pair(part.entropy()),
    }


@case("bounds-zeros")
def bounded_zeros() -> dict[str, Any]:
    """Values on the bounds, in the sample and in the points."""
    sample = positive(300)[:, :2]
    sample[::9, 0], sample[::11, 1], sample[::13, 1] = 0.0, 0.0, 1.0
    est = DiScoFormer(bounds=[(0, None), (0, 1)]).fit(sample)
    points = np.array([[0.0, 0.3], [2.0, 0.0], [1.0, 1.0], [0.0, 1.0], [1e-12, 0.5]])
    return both(est.estimate(points))


@case("bounds-outside", "default")
@case("bounds-outside-kde", "kde-scott")
def outside(model: str) -> dict[str, Any]:
    """No density out there."""
    est = DiScoFormer(model=model, bounds=[(0, None), (0, 1)]).fit(positive(200)[:, :2])
    return both(est.estimate(np.array([[-1.0, 0.5], [1.0, 1.5], [-1e-9, -2.0], [1.0, 0.5]])))


@case("bounds-weights")
def bounded_weights() -> dict[str, Any]:
    sample = positive(200)[:, :2]
    est = DiScoFormer(bounds={0: (0, None), 1: (0, 1)}).fit(sample, sample_weight=weigh(200))
    return {**both(est.estimate(sample[:5])), **pair(est.entropy())}


@case("bounds-collinear-logarithms")
def bounded_collinear() -> dict[str, Any]:
    """Powers of one column are collinear after the map, a total of parts before it."""
    wait = positive(200)[:, :2]
    sample = np.column_stack([wait, wait.sum(1)])
    est = DiScoFormer(bounds=(0, None)).fit(sample)
    return {**both(est.estimate(sample[:4])), "support_": est.support_}


@case("bounded-method")
def bounded_method() -> dict[str, Any]:
    sample = positive(100)[:, :2]
    return both(Bounded(KDE("loo"), [(0, None), (0, 1)]).fit(sample).estimate(sample[:5]))


# ---------------------------------------------------------------------- support


def messy(kind: str) -> Array:
    sample = cloud(200, 2)
    constant, line = np.full(200, 7.0), sample @ [2.0, -1.0] + 3
    columns = {
        "constant": [sample[:, 0], constant, sample[:, 1]],
        "collinear": [sample[:, 0], sample[:, 1], line],
        "both": [constant, sample[:, 0], line, sample[:, 1]],
    }
    return np.column_stack(columns[kind])


@case("support-constant", "constant")
@case("support-collinear", "collinear")
@case("support-both", "both")
@case("support-both-kde", "both", model="kde-scott")
def supported(kind: str, model: str = "default") -> dict[str, Any]:
    sample = messy(kind)
    est = DiScoFormer(model=model).fit(sample)
    return {
        **both(est.estimate(sample[:5])),
        "support_": est.support_,
        "drawn": est.sample(4, random_state=0),
        **pair(est.entropy(split="none")),
    }


@case("support-verbs")
def support_verbs() -> dict[str, Any]:
    sample = messy("constant")
    est = DiScoFormer().fit(sample)
    return {
        "marginal": est.marginal(2).score_samples(sample[:4, 2:]),
        "conditional": est.conditional(0, 0.5).score_samples(sample[:4, 2:]),
        "off": est.score_samples(sample[:4] + [0, 1, 0]),
        "fisher": est.fisher_information(split="none"),
    }


@case("support-weights")
def support_weights() -> dict[str, Any]:
    """A column that is constant where there is weight."""
    sample = np.column_stack([cloud(100, 1), np.arange(100.0) < 50])
    est = DiScoFormer().fit(sample, sample_weight=np.arange(100) < 50)
    return {**both(est.estimate(sample[:4])), "support_": est.support_}


@case("support-function")
def support_function() -> dict[str, Any]:
    return both(estimate(messy("both"), messy("both")[:4], model="mixture"))


@case("support-batch")
def support_batch() -> dict[str, Any]:
    batch = np.stack([messy("constant"), messy("constant")[::-1] * 2])
    return both(estimate(batch, batch[:, :3], model="kde-scott"))


# ---------------------------------------------------------------------- few rows, far points


@case("rows-2x1", 2, 1)
@case("rows-3x1", 3, 1)
@case("rows-4x1", 4, 1)
@case("rows-5x1", 5, 1)
@case("rows-2x2", 2, 2)
@case("rows-3x2", 3, 2)
@case("rows-4x2", 4, 2)
@case("rows-5x2", 5, 2)
@case("rows-4x3-kde", 4, 3, model="kde-scott")
@case("rows-11x2", 11, 2)
@case("rows-12x2", 12, 2)
@case("rows-20x4", 20, 4)
@case("rows-9x5", 9, 5)
@case("rows-3x10", 3, 10)
@case("rows-10x10-mixture", 10, 10, model="mixture")
@case("rows-8x12-mixture-axis", 8, 12, model="mixture-axis")
@case("rows-10x10-kde", 10, 10, model="kde-scott")
@case("rows-50x10-mixture", 50, 10, model="mixture")
@case("rows-50x10-attention", 50, 10, model="attention-d10")
def few_rows(rows: int, dim: int, model: str = "default") -> dict[str, Any]:
    sample = cloud(rows, dim)
    est = DiScoFormer(model=model).fit(sample)
    points = np.vstack([sample[:3], sample.mean(0), sample[0] + 0.5])
    return {**both(est.estimate(points)), "support_": est.support_}


@case("rows-few-functionals")
def few_functionals() -> dict[str, Any]:
    est = DiScoFormer(model="mixture").fit(cloud(25, 5))
    return {"entropy": est.entropy(), "fisher": est.fisher_information(split="folds")}


@case("far-default", "default")
@case("far-mixture", "mixture")
@case("far-kde", "kde-scott")
@case("far-attention", "attention-d2")
def far(model: str) -> dict[str, Any]:
    sample = cloud(150, 2)
    est = DiScoFormer(model=model).fit(sample)
    out = 1e6 * sample.std(0) * [[1, 1], [-1, 0.5]]
    hundred = 100 * sample.std(0) * [[1, 0], [0, -1]]
    return {
        **both(est.estimate(out)),
        "hundred": est.estimate(hundred).score,
        "hundred_log": est.score_samples(hundred),
    }


@case("far-bounds")
def far_bounded() -> dict[str, Any]:
    est = DiScoFormer(bounds=(0, None)).fit(positive(200)[:, :1])
    return both(est.estimate(np.array([[1e4], [1e-9]])))


# ---------------------------------------------------------------------- the function


@case("function-default", "default")
@case("function-kde", "kde-scott")
@case("function-object", KDE("loo"))
def function(model: Any) -> dict[str, Any]:
    sample = cloud(150, 2)
    own = estimate(sample, model=model)
    return {**both(estimate(sample, near(sample), model=model)), "own": own.log_density[:10]}


@case("function-batch", "default")
@case("function-batch-mixture-gmm", "mixture-gmm")
@case("function-batch-attention", "attention-d2")
@case("function-batch-kde", "kde-scott")
def function_batch(model: str) -> dict[str, Any]:
    batch = np.stack([cloud(130, 2), 3 * cloud(130, 2, seed=1) + 1])
    return both(estimate(batch, np.stack([near(sample) for sample in batch]), model=model))


@case("function-batch-shared-points")
def function_shared() -> dict[str, Any]:
    batch = np.stack([cloud(80, 2), cloud(80, 2, seed=1)])
    return both(estimate(batch, near(batch[0]), model="kde-scott"))


@case("function-weights", "default")
@case("function-weights-kde", "kde-scott")
@case("function-weights-attention", "attention-d2")
def function_weights(model: str) -> dict[str, Any]:
    sample = cloud(130, 2)
    return both(estimate(sample, near(sample), model=model, weights=weigh(130)))


@case("function-weights-batch")
def function_weights_batch() -> dict[str, Any]:
    batch = np.stack([cloud(100, 2), cloud(100, 2, seed=1)])
    weights = np.stack([weigh(100), weigh(100)[::-1]])
    return both(estimate(batch, batch[:, :4], weights=weights))


@case("function-gradients-default", "default", 64)
@case("function-gradients-mixture", "mixture", 64)
@case("function-gradients-attention", "attention-d2", 128)
@case("function-gradients-kde", "kde-scott", 64)
def function_gradients(model: str, rows: int) -> dict[str, Any]:
    """Gradients in the sample and in the points."""
    sample = tensor(cloud(rows, 2)).requires_grad_()
    points = tensor(near(sample.detach().numpy())).requires_grad_()
    log_density, score = estimate(sample, points, model=model)
    loss = log_density.sum() + score.square().sum()
    by_sample, by_points = torch.autograd.grad(loss, [sample, points])
    return {"loss": loss, "by_sample": by_sample[:8], "by_points": by_points, "all": by_sample.square().sum()}


@case("function-gradients-support")
def function_gradients_support() -> dict[str, Any]:
    sample = tensor(messy("constant")[:70]).requires_grad_()
    log_density, _ = estimate(sample, sample.detach()[:4], model="mixture")
    (slope,) = torch.autograd.grad(log_density.sum(), sample)
    return {"log_density": log_density, "slope": slope[:6]}


# ---------------------------------------------------------------------- models


MODELS = {
    "default": (150, 4),
    "default-gmm": (150, 4),
    "mixture": (150, 4),
    "mixture-axis": (150, 4),
    "mixture-gmm": (150, 4),
    "mixture-axis-gmm": (150, 4),
    "attention-d1": (140, 1),
    "attention-d2": (140, 2),
    "attention-d3": (140, 3),
    "attention-d10": (140, 10),
    "attention-d100": (300, 100),
    "ablation-identity": (260, 1),
    "ablation-whiten": (260, 1),
    "kde-scott": (100, 4),
}


def by_model(model: str) -> dict[str, Any]:
    sample = cloud(*MODELS[model])
    est = DiScoFormer(model=model).fit(sample)
    return {**both(est.estimate(near(sample)[1:4])), "total": est.score(sample[:50])}


def loaded(model: str) -> dict[str, Any]:
    """The network itself: no check of columns, fitted to a batch."""
    rows, dim = MODELS[model]
    rows = min(rows, 140)
    batch = tensor(np.stack([cloud(rows, dim, seed=2), cloud(rows, dim, seed=3) - 1]))
    found = load_model(model).fit(batch).estimate(batch[:, :2])
    return both(found)


for _model in MODELS:
    CASES[f"model-{_model}"] = partial(by_model, _model)
    if _model != "kde-scott":
        CASES[f"loaded-{_model}"] = partial(loaded, _model)


@case("model-by-path")
def model_by_path() -> dict[str, Any]:
    (path,) = Path(discoformer.__file__).parent.rglob("attention-d1-????????.safetensors")
    sample = cloud(140, 1)
    return both(DiScoFormer(model=path).fit(sample).estimate(near(sample)))


@case("model-single-precision")
def model_single() -> dict[str, Any]:
    """Weights in single precision: only that it is near, for rounding is not ours to fix."""
    sample = tensor(cloud(140, 2))
    exact, single = (
        load_model("attention-d2", dtype).fit(sample) for dtype in (torch.float64, torch.float32)
    )
    gap = (exact.score(sample) - single.score(sample)).abs().max()
    return {"near": float(gap < 1e-2), "kind": str(single.score(sample).dtype)}


@case("model-verbs")
def model_verbs() -> dict[str, Any]:
    """Of the field behind the estimator."""
    sample = cloud(150, 1)
    field = DiScoFormer(model="mixture").fit(sample).field_
    means = field.transforms[-1].denormalize(field.base.mean)
    return {"cdf": field.cdf(tensor(near(sample))), "means": means.sort(0).values[:5]}


@case("model-stack")
def model_stack() -> dict[str, Any]:
    sample = cloud(200, 3)
    stack = Stack([load_model("mixture-gmm"), load_model("mixture-axis")], folds=3)
    return both(stack.fit(sample).estimate(near(sample)))


# ---------------------------------------------------------------------- methods as objects


METHODS: dict[str, Callable[[], Any]] = {
    "kde-loo": lambda: KDE("loo"),
    "kde-loo-full": lambda: KDE("loo-full"),
    "kde-scott-full": lambda: KDE("scott-full"),
    "kde-silverman": lambda: KDE("silverman"),
    "kde-number": lambda: KDE(0.4),
    "kde-columns": lambda: KDE([0.4, 0.2]),
    "kde-matrix": lambda: KDE([[0.4, 0.1], [0.1, 0.2]]),
    "sdkde": lambda: SDKDE(),
    "sdkde-rule": lambda: SDKDE(bandwidth="sd-kde"),
    "sdkde-network": lambda: SDKDE(load_model("mixture")),
    "sdkde-autograd": lambda: SDKDE(AutogradScore(load_model("attention-d2"))),
    "gmm-full": lambda: GaussianMixtureBIC(components=range(1, 4)),
    "gmm-diag": lambda: GaussianMixtureBIC("diag", components=range(1, 4), n_init=2),
    "bayes-gmm": lambda: BayesianMixture(4),
    "gaussian": lambda: GaussianClosure(),
}

SCORES: dict[str, Callable[[], Any]] = {
    "stein-gradient": lambda: SteinGradient(),
    "spectral-stein": lambda: SpectralStein(),
    "nu-method": lambda: NuMethod(),
    "blob": lambda: Blob(),
    "score-matching": lambda: ScoreMatching(steps=4, hidden=(8,), dtype=torch.float64),
    "score-matching-sliced": lambda: ScoreMatching(4, "sliced", hidden=(8, 8), dtype=torch.float64),
}


def by_method(name: str) -> dict[str, Any]:
    sample = cloud(120, 2)
    est = DiScoFormer(model=METHODS[name]()).fit(sample)
    return {**both(est.estimate(near(sample))), "total": est.score(sample)}


def by_score(name: str) -> dict[str, Any]:
    """Methods that know the score only."""
    sample = cloud(120, 2)
    est = DiScoFormer(model=SCORES[name]()).fit(sample)
    return {"score": est.score_function(near(sample)), "own": est.score_function(sample).std(0)}


for _name in METHODS:
    CASES[f"method-{_name}"] = partial(by_method, _name)
for _name in SCORES:
    CASES[f"method-{_name}"] = partial(by_score, _name)


@case("method-batch-gmm")
def batch_of_mixtures() -> dict[str, Any]:
    batch = np.stack([cloud(80, 2), cloud(80, 2, seed=1)])
    return both(GaussianMixtureBIC(components=[2]).fit(batch).estimate(batch[:, :3]))


@case("method-weights-sdkde")
def weighted_sdkde() -> dict[str, Any]:
    sample = cloud(100, 1)
    return both(SDKDE(bandwidth="sd-kde").fit(sample, weigh(100)).estimate(near(sample)))


@case("method-kde-field")
def kde_field() -> dict[str, Any]:
    sample = cloud(70, 2)
    field = KDE().fit(sample, 1 + weigh(70))
    return {
        "loo": field.loo_log_density()[:6],
        "divergence": field.score_divergence(tensor(near(sample))),
        "bandwidth": field.bandwidth,
        "drawn": field.sample(4, seeded()),
    }


@case("method-kde-in-blocks")
def kde_in_blocks() -> dict[str, Any]:
    sample = cloud(1500, 3)
    return both(KDE(memory=2**16).fit(sample).estimate(near(sample)))


@case("method-oracle-bandwidth")
def bandwidth_by_truth() -> dict[str, Any]:
    truth = spiral(modes=40)
    sample = truth.sample(100, seeded())
    return {by: oracle_bandwidth(sample, truth, sample[:40], by=by) for by in ("score", "log_density")}


# ---------------------------------------------------------------------- functionals


def two_samples(rows: int = 80, dim: int = 2) -> tuple[Array, Array]:
    return cloud(rows, dim), 0.9 * cloud(rows + 10, dim, seed=1) + 0.2


ONE = {"entropy": entropy, "fisher": fisher_information}
TWO = {
    "kl": kl_divergence,
    "rfi": relative_fisher_information,
    "js": jensen_shannon,
}


def of_one(name: str, model: str, split: str, **options: Any) -> dict[str, Any]:
    return pair(ONE[name](two_samples()[0], _source(model), split=split, **options))


def of_two(name: str, model: str, split: str) -> dict[str, Any]:
    return pair(TWO[name](*two_samples(), _source(model), split=split))


def of_parts(model: str, split: str) -> dict[str, Any]:
    sample = cloud(80, 3)
    return pair(mutual_information(sample[:, :1], sample[:, 1:], _source(model), split=split))


def _source(model: str) -> Any:
    return KDE("loo") if model == "kde-scott" else load_model(model)


for _split in ("none", "folds", "balanced", "loo"):
    CASES[f"functional-mutual-{_split}"] = partial(of_parts, "kde-scott", _split)
    for _name in (*ONE, *TWO):
        _ask = of_one if _name in ONE else of_two
        if _split != "loo" or _name in ("entropy", "kl", "js"):
            CASES[f"functional-{_name}-{_split}"] = partial(_ask, _name, "kde-scott", _split)
for _name in (*ONE, *TWO):
    _ask = of_one if _name in ONE else of_two
    CASES[f"functional-{_name}-mixture"] = partial(_ask, _name, "mixture", "balanced")
for _name in TWO:
    CASES[f"functional-{_name}-default"] = partial(of_two, _name, "default", "none")
CASES["functional-mutual-default"] = partial(of_parts, "default", "none")
CASES["functional-fisher-square"] = partial(of_one, "fisher", "kde-scott", "none", form="square")
CASES["functional-entropy-three-folds"] = partial(of_one, "entropy", "kde-scott", "folds", folds=3)
CASES["functional-fisher-attention"] = partial(of_one, "fisher", "attention-d2", "none")


@case("functional-exact")
def functional_exact() -> dict[str, Any]:
    f = gaussian(tensor([0.0, 0.5]), tensor([[1.0, 0.3], [0.3, 0.5]]))
    g = spiral(modes=30, width=0.8)
    x, y = f.sample(60, seeded(1)), g.sample(70, seeded(2))
    return {
        "entropy": torch.stack(entropy(x, f)),
        "fisher": torch.stack(fisher_information(x, f)),
        "kl": torch.stack(kl_divergence(x, y, f, g)),
        "rfi": torch.stack(relative_fisher_information(x, y, f, g)),
        "js": torch.stack(jensen_shannon(x, y, f, g)),
        "kl_half": torch.stack(kl_divergence(x, y, f, KDE())),
    }


@case("functional-batch")
def functional_batch() -> dict[str, Any]:
    batch = np.stack([cloud(60, 2), cloud(60, 2, seed=1)])
    return {
        "entropy": np.stack(entropy(batch, KDE())),
        "kl": np.stack(kl_divergence(batch, batch[::-1], KDE(), split="none")),
    }


@case("functional-gradient")
def functional_gradient() -> dict[str, Any]:
    sample = tensor(cloud(40, 2)).requires_grad_()
    value, _ = fisher_information(sample, load_model("mixture"), split="none")
    (slope,) = torch.autograd.grad(value, sample)
    return {"value": value, "slope": slope[:6]}


@case("functional-neighbours")
def functional_neighbours() -> dict[str, Any]:
    x, y = two_samples()
    return {"entropy": knn_entropy(x), "kl": knn_kl_divergence(x, y, k=2)}


# ---------------------------------------------------------------------- adapting


@case("adapt-attention", "attention-d2", 2)
@case("adapt-mixture", "mixture", 3)
@case("adapt-none", "mixture-axis", 0)
def adapted(model: str, steps: int) -> dict[str, Any]:
    sample = cloud(60, 2)
    return both(adapt(load_model(model), sample, steps=steps).fit(sample).estimate(near(sample)))


@case("adapt-path")
def adapted_path() -> dict[str, Any]:
    sample = cloud(60, 2)
    copies = adapt_path(load_model("mixture"), sample, steps=2)
    return {"score": np.stack([network.fit(sample).score(near(sample)) for network in copies])}


@case("adapt-weights", adapt_consistency, "attention-d1")
@case("adapt-weights-likelihood", adapt_likelihood, "mixture-gmm")
def adapted_weights(rule: Any, model: str) -> dict[str, Any]:
    sample, weights = cloud(50, 1), weigh(50)
    network = rule(load_model(model), sample, weights, steps=2, lr=1e-4)
    return both(network.fit(sample, weights).estimate(near(sample)))


# ---------------------------------------------------------------------- particles


def run_of(history: Any) -> dict[str, Any]:
    """What a run leaves behind, but for its seconds."""
    found = {
        "covariance": history.covariance[-1],
        "energy": history.energy,
        "production": history.production,
        "points": history.points[..., :4, :],
    }
    if not bool(history.entropy.isnan().any()):
        found["entropy"] = history.entropy
    return found


def start_of(dim: int, count: int = 60, kind: str = "gaussian") -> Tensor:
    return landau_start(kind, dim).sample(count, seeded())


@case("particles-maxwell", 0.0)
@case("particles-coulomb", -3.0)
@case("particles-gamma", -1.0)
def landau_run(gamma: float) -> dict[str, Any]:
    return run_of(integrate(Landau(gamma), start_of(3), KDE(), dt=0.1, steps=4))


@case("particles-coulomb-blocks")
def landau_blocks() -> dict[str, Any]:
    """More particles than a block of pairs holds."""
    return run_of(integrate(Landau(-3.0), start_of(2, 300), GaussianClosure(), dt=0.5, steps=2))


@case("particles-network")
def landau_network() -> dict[str, Any]:
    oracle = Carried(load_model("default"), every=3)
    return run_of(integrate(Landau(), start_of(2, 100, "two-mode"), oracle, dt=0.1, steps=5))


@case("particles-calibrated")
def landau_calibrated() -> dict[str, Any]:
    return run_of(integrate(Landau(), start_of(3, 120), Calibrated(load_model("mixture")), dt=0.1, steps=3))


@case("particles-blob")
def landau_blob() -> dict[str, Any]:
    return run_of(integrate(Landau(), start_of(2), Blob(), dt=0.1, steps=3, scheme="heun"))


@case("particles-ornstein-uhlenbeck", "default")
@case("particles-ornstein-uhlenbeck-kde", "kde-scott")
def linear_drift(model: str) -> dict[str, Any]:
    oracle = KDE() if model == "kde-scott" else load_model(model)
    equation = OrnsteinUhlenbeck(rate=1.5, diffusion=0.7, center=0.3)
    return run_of(integrate(equation, start_of(2), oracle, dt=0.05, steps=3))


@case("particles-adaptive")
def adaptive() -> dict[str, Any]:
    start = start_of(2)
    run = integrate(DoubleWell(), start, KDE(), dt=0.2, steps=2, scheme="heun", tolerance=1e-3)
    return run_of(run)


@case("particles-fokker-planck")
def fokker_planck() -> dict[str, Any]:
    equation = FokkerPlanck(lambda x: -x - x**3, diffusion=tensor([[0.5, 0.1], [0.1, 0.3]]))
    run = integrate(equation, start_of(2), KDE(0.5), dt=0.02, steps=3, time=1.0, frames=[1.04])
    return {**run_of(run), "times": run.times, "frames": run.frames[0, :3]}


@case("particles-batch")
def batch_of_runs() -> dict[str, Any]:
    batch = torch.stack([start_of(2, 40), start_of(2, 40) * 0.5])
    return run_of(integrate(Landau(), batch, KDE(), dt=0.1, steps=3))


@case("particles-resumed")
def resumed() -> dict[str, Any]:
    start, oracle = start_of(2), partial(Carried, KDE(), 2)
    with folder() as place:
        options: dict[str, Any] = {"dt": 0.1, "checkpoint": place / "run.npz"}
        integrate(Landau(), start, oracle(), steps=3, **options)
        return run_of(integrate(Landau(), start, oracle(), steps=5, resume=True, **options))


@case("particles-pair-monte-carlo")
def by_pairs() -> dict[str, Any]:
    run = pair_monte_carlo(start_of(3), dt=0.5, steps=3, rounds=2, seed=1)
    return {"covariance": run.covariance, "energy": run.energy, "points": run.points[:4]}


@case("particles-references")
def references() -> dict[str, Any]:
    start = landau_start("two-mode", 2)
    later = ornstein_uhlenbeck(start, 0.4, rate=1.2, diffusion=0.6, center=0.1)
    initial = torch.diag(tensor([1.8, 0.2]))
    points = start_of(2, 6)
    return {
        "bkw": BKW(9.0, 2).log_density(points),
        "bkw_score": BKW(9.0, 2).score(points),
        "bkw_drawn": BKW(9.0, 2).sample(4, seeded()),
        "later": later.log_density(points),
        "maxwell": maxwell_covariance(initial, [0.0, 0.5, 2.0]),
        "linear": ornstein_uhlenbeck_covariance(initial, [0.1, 1.0], rate=2.0),
        "matched": match_moments(points, tensor([1.0, -1.0]), initial),
    }


@case("particles-exact")
def exact_oracle() -> dict[str, Any]:
    start = BKW(9.0, 2).sample(50, seeded())
    oracle = ExactOracle(lambda time: BKW(time, 2))
    return run_of(integrate(Landau(), start, oracle, dt=0.1, steps=3, time=9.0))


# ---------------------------------------------------------------------- comparing


@case("compare-default", "default")
@case("compare-mixture-gmm", "mixture-gmm")
@case("compare-kde-scott", "kde-scott")
@case("compare-kde-loo", "kde-loo")
@case("compare-attention", "attention-d2")
def held_out(name: str) -> dict[str, Any]:
    found = held_out_log_likelihood(make_method(name), cloud(170, 2), folds=3, seed=2)
    return {"log_density": found.log_density[:12], "mean": found.mean, "error": found.standard_error}


@case("compare-mixtures")
def held_out_mixtures() -> dict[str, Any]:
    sample = cloud(100, 2)
    full, diag = (
        held_out_log_likelihood(GaussianMixtureBIC(kind, components=(1, 2, 3)), sample, folds=2)
        for kind in ("full", "diag")
    )
    return {"full": full.mean, "diag": diag.mean, "minus": full.minus(diag)}


@case("compare-few-rows")
def held_out_few() -> dict[str, Any]:
    return {"log_density": held_out_log_likelihood(make_method("default"), cloud(30, 4)).log_density[:8]}


@case("compare-score-error")
def error_of_score() -> dict[str, Any]:
    data = gmm_dataset("gmm:2,100,3", seed=4)
    found = {name: score_error(make_method(name), data) for name in ("default", "kde-scott", "mixture-axis")}
    return {**found, "context": data.context[:5], "truth": data.truth.score[:5]}


@case("compare-measure")
def measured() -> dict[str, Any]:
    methods = {"kde": KDE(), "network": load_model("mixture")}
    found = measure(methods, gmm_datasets(3, 80, 3, seed=1, covariance="either"))
    return {
        name: [errors.relative_score, errors.score_mse, errors.log_density_mse]
        for name, errors in found.items()
    }


@case("compare-real-data")
def real_data() -> dict[str, Any]:
    table = real_dataset("iris")
    return {
        "first": table.values[:3],
        "names": ", ".join(table.names),
        "effective_dimension": effective_dimension(table.values),
        "mixture": held_out_log_likelihood(make_method("mixture"), table.values[:, :2]).mean,
        "digits": np.abs(real_dataset("digits").values[:2, :3]),  # the sign of a component is a convention
    }


# ---------------------------------------------------------------------- priors, theory


def exact(distribution: Any, count: int = 4) -> dict[str, Any]:
    """A draw, and the exact answers at it."""
    points = distribution.sample(count, seeded(3))
    return {"points": points, **both(distribution.estimate(points))}


PRIORS = {
    "gmm": GMMPrior(),
    "gmm-rotated": GMMPrior(covariance="rotated", weights="dirichlet", reading="variance"),
    "gaussian": GaussianPrior(),
    "broad": BroadPrior(gmm_share=0.0, skew=1.0, banana=1.0, student_t=0.0, rotated=1.0),
    "broad-mixed": BroadPrior(gmm_share=0.0, mixed=1.0, modes=(4, 8)),
    "affine": AffinePrior(BroadPrior()),
    "config": prior_from_config({"name": "gmm", "modes": [2, 4], "covariance": "either"}),
}
FAMILIES = {
    "normal": Normal(),
    "laplace": Laplace(),
    "logistic": Logistic(),
    "student": StudentT(3.5),
    "quartic": Quartic(),
}


def drawn(name: str) -> dict[str, Any]:
    return exact(PRIORS[name].draw(2, 3, seeded(7), torch.float64), 3)


def of_family(name: str) -> dict[str, Any]:
    means, std = tensor([[-1.0, 0.0], [2.0, 1.0]]), tensor([[0.5, 1.0], [1.0, 2.0]])
    turn = random_rotations((2,), 2, seeded(1), torch.float64)
    return exact(LocationScaleMixture(tensor([1.0, 3.0]), means, std, turn, FAMILIES[name]))


for _name in PRIORS:
    CASES[f"prior-{_name}"] = partial(drawn, _name)
for _name in FAMILIES:
    CASES[f"family-{_name}"] = partial(of_family, _name)


@case("prior-pair")
def prior_pair() -> dict[str, Any]:
    first, second = AffinePrior().pair(2, 2, seeded(5), torch.float64)
    points = second.sample(3, seeded(6))
    return {"points": points, **both(first.estimate(points))}


@case("prior-shapes")
def shapes() -> dict[str, Any]:
    normal = gaussian(tensor([0.0, 1.0]), tensor([[1.0, 0.4], [0.4, 0.6]]))
    bent = Warped(
        Warped(normal, Skew(tensor([0.4, -0.3]), tensor([1.0, 1.0]))), Banana(tensor(0.5), tensor(1.0))
    )
    turned = Warped(bent, Rotated(random_rotations((), 2, seeded(2), torch.float64)))
    ring = Ring(tensor(2.0), tensor(0.2))
    whole = MixtureDistribution(tensor([0.2, 0.5, 0.3]), (turned, ring, spiral(modes=25)))
    found: dict[str, Any] = {}
    for name, shape in {"turned": turned, "ring": ring, "whole": whole}.items():
        found |= {f"{name}_{key}": value for key, value in exact(shape).items()}
    return found


@case("theory-block", False)
@case("theory-block-linear", True)
def theory_block(linear: bool) -> dict[str, Any]:
    sample = tensor(cloud(40, 2))
    return both(kde_block(2, 0.5, linear=linear).estimate(sample[:4] + 0.1, sample))


@case("theory-frames")
def theory_frames() -> dict[str, Any]:
    sample = tensor(cloud(60, 3))
    found: dict[str, Any] = {}
    for name in ("whiten", "standardize", "identity"):
        result = framed_kde(sample[:3], sample, FRAMES[name].fit(sample), 0.4)
        found |= {f"{name}_{key}": value for key, value in both(result).items()}
    return {**found, "three_points": three_points(0.7, 1.0)[1]}


# ---------------------------------------------------------------------- data not in memory


def write_parquet(values: Array, path: Path, names: str = "abcdef") -> None:
    pd.DataFrame(values, columns=list(names[: values.shape[1]])).to_parquet(path)


@case("stream-npy", "npy", "default")
@case("stream-npy-mixture", "npy", "mixture")
@case("stream-npy-float32", "npy32", "mixture")
@case("stream-parquet", "parquet", "default")
@case("stream-folder", "folder", "default")
@case("stream-memmap", "memmap", "mixture-axis")
@case("stream-memmap-kde", "memmap", "kde-scott")
@case("stream-dask", "dask", "default")
@case("stream-folder-many", "folder", "mixture", rows=20_000)
def streamed(kind: str, model: str, rows: int = 600) -> dict[str, Any]:
    sample = cloud(rows, 2, seed=1)
    with folder() as place:
        source: Any = place / ("data.parquet" if kind == "parquet" else "data.npy")
        if kind == "parquet":
            write_parquet(sample, source)
        elif kind == "folder":
            source = place / "parts"
            source.mkdir()
            for number, part in enumerate(np.array_split(sample, 3)):
                write_parquet(part, source / f"part{number}.parquet")
        elif kind == "dask":
            import dask.array as da

            source = da.from_array(sample, chunks=(150, 1))
        else:
            np.save(source, sample.astype(np.float32 if kind == "npy32" else np.float64))
            if kind == "memmap":
                source = np.load(source, mmap_mode="r")
        est = DiScoFormer(model=model).fit(source)
        log_density, score = est.score_samples(source), est.score_function(source)
        if kind == "dask":
            log_density, score = log_density.compute(), score.compute()
        found = {
            "log_density": log_density[:5],
            "score": score[:5],
            "total": log_density.sum(),
            "near": est.score_samples(near(sample) if kind in ("npy", "npy32", "memmap", "dask") else source),
            "drawn": est.sample(3, random_state=0),
        }
    found["near"] = found["near"][:5]
    return found


@case("stream-other-points")
def streamed_points() -> dict[str, Any]:
    """Fitted in memory, asked on disk, by the names of the columns."""
    frame = pd.DataFrame(cloud(150, 2), columns=["a", "b"])
    est = DiScoFormer().fit(frame)
    with folder() as place:
        frame[::-1][["b", "a"]].assign(c=1.0).to_parquet(place / "points.parquet", index=False)
        np.save(place / "points.npy", near(frame.to_numpy()))
        return {
            "parquet": est.score_samples(place / "points.parquet")[:5],
            "npy": est.score_samples(str(place / "points.npy")),
        }


@case("stream-support")
def streamed_support() -> dict[str, Any]:
    sample = messy("both")
    with folder() as place:
        np.save(place / "data.npy", sample)
        est = DiScoFormer(model="mixture").fit(place / "data.npy")
        found = both(est.estimate(sample[:4]))
        return {**found, "support_": est.support_, **pair(est.entropy())}


@case("stream-dask-verbs")
def dask_verbs() -> dict[str, Any]:
    import dask.array as da

    sample = cloud(300, 3)
    array = da.from_array(sample, chunks=(70, 3))
    est = DiScoFormer(model="mixture").fit(array)
    lazy = est.estimate(array[:7])
    return {
        "log_density": lazy.log_density.compute(),
        "score": lazy.score.compute(),
        "marginal": est.marginal([2]).score_samples(sample[:4, 2:]),
    }


# ---------------------------------------------------------------------- commands


class Called(NamedTuple):
    """How a command ended, and what it said where."""

    code: int
    out: str
    err: str

    @property
    def words(self) -> dict[str, str]:
        """Its exit code, and which streams spoke."""
        spoke = [name for name, text in (("stdout", self.out), ("stderr", self.err)) if text]
        return {"exit": str(self.code), "spoke": " ".join(spoke)}


def call(*arguments: Any) -> Called:
    """Run `discoformer` with these arguments."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), warnings.catch_warnings():
        warnings.simplefilter("always")
        try:
            code = main([str(argument) for argument in arguments])
        except SystemExit as stop:  # by argparse
            code = int(stop.code or 0)
    return Called(code, out.getvalue(), err.getvalue())


def csv_of(path: Path) -> dict[str, Any]:
    frame = pd.read_csv(path)
    return {"table": frame, "names": " ".join(frame.columns)}


def write_csv(values: Array, path: Path, names: str = "abcdef") -> Path:
    pd.DataFrame(values, columns=list(names[: values.shape[1]])).to_csv(path, index=False)
    return path


@case("command-estimate")
@case("command-estimate-kde", "--model", "kde-scott")
@case("command-estimate-model", "--model", "mixture-gmm")
@case("command-estimate-bandwidth", "--bandwidth", "loo")
@case("command-estimate-columns", "--columns", "b")
@case("command-estimate-bounds", "--bounds", "a=-20:,b=-20:30")
def command_estimate(*options: str) -> dict[str, Any]:
    with folder() as place:
        data = write_csv(cloud(70, 2), place / "data.csv")
        done = call("estimate", data, "--out", place / "out.csv", "--json", *options)
        table = csv_of(place / "out.csv")
        summary = json.loads(done.out)
    return {
        **done.words,
        "table": table["table"][:6],
        "names": table["names"],
        "mean_log_density": summary["mean_log_density"],
        "size": [summary["n"], summary["d"], summary["queries"]],
    }


@case("command-estimate-queries", ".npy")
@case("command-estimate-queries-parquet", ".parquet")
@case("command-estimate-queries-tsv", ".tsv")
def command_queries(suffix: str) -> dict[str, Any]:
    """Points from another file, in every format, into every format."""
    sample = cloud(70, 2)
    with folder() as place:
        data = write_csv(sample, place / "data.csv")
        points, out = place / f"points{suffix}", place / f"out{suffix}"
        frame = pd.DataFrame(near(sample), columns=["a", "b"])
        if suffix == ".npy":
            np.save(points, frame.to_numpy())
        elif suffix == ".parquet":
            frame[["b", "a"]].to_parquet(points, index=False)
        else:
            frame.to_csv(points, sep="\t", index=False)
        done = call("estimate", data, "--queries", points, "--out", out)
        if suffix == ".npy":
            return {**done.words, "table": np.load(out)}
        read = pd.read_parquet(out) if suffix == ".parquet" else pd.read_csv(out, sep="\t")
        return {**done.words, "table": read, "names": " ".join(read.columns)}


@case("command-estimate-folder")
def command_folder() -> dict[str, Any]:
    """Streamed."""
    with folder() as place:
        (place / "parts").mkdir()
        for number, part in enumerate(np.array_split(cloud(400, 2), 3)):
            write_parquet(part, place / "parts" / f"{number}.parquet")
        done = call("estimate", place / "parts", "--out", place / "out.npy")
        return {**done.words, "table": np.load(place / "out.npy")[:6]}


@case("command-estimate-dependent")
def command_dependent() -> dict[str, Any]:
    with folder() as place:
        data = write_csv(messy("both"), place / "data.csv")
        done = call("estimate", data, "--drop-dependent", "--out", place / "out.csv")
        return {**done.words, **{"table": csv_of(place / "out.csv")["table"][:5]}}


@case("command-estimate-plot", "density")
@case("command-estimate-plot-corner", "corner")
@case("command-estimate-plot-outliers", "outliers")
def command_plot(view: str) -> dict[str, Any]:
    with folder() as place:
        data = write_csv(cloud(50, 2), place / "data.csv")
        picture = place / "picture.png"
        done = call("estimate", data, "--model", "kde-scott", "--plot", picture, "--view", view)
        return {**done.words, "begins": repr(picture.read_bytes()[:4])}


@case("command-sample", "--seed", "7")
@case("command-sample-kde", "--model", "kde-scott")
@case("command-sample-bounds", "--bounds", "a=-20:,b=-20:30")
def command_sample(*options: str) -> dict[str, Any]:
    with folder() as place:
        data = write_csv(cloud(70, 2), place / "data.csv")
        done = call("sample", data, "-n", 6, "--out", place / "out.csv", "--json", *options)
        size = [json.loads(done.out)[key] for key in ("n", "d", "rows", "seed")]
        return {**done.words, **csv_of(place / "out.csv"), "size": size}


@case("command-entropy", "entropy")
@case("command-entropy-kde", "entropy", "--model", "kde-scott", "--split", "loo")
@case("command-fisher", "fisher", "--model", "mixture")
@case("command-fisher-columns", "fisher", "--columns", "b", "--split", "none")
@case("command-kl", "kl", files=2)
@case("command-kl-kde", "kl", "--model", "kde-scott", files=2)
@case("command-rfi", "rfi", "--model", "mixture-axis", files=2)
@case("command-rfi-attention", "rfi", "--model", "attention-d2", "--split", "none", files=2)
def command_functional(name: str, *options: str, files: int = 1) -> dict[str, Any]:
    with folder() as place:
        paths = [write_csv(x, place / f"{i}.csv") for i, x in enumerate(two_samples(130)[:files])]
        done = call(name, *paths, *options, "--json")
    found = json.loads(done.out)
    return {
        **done.words,
        "value": found["value"],
        "standard_error": found["standard_error"],
        "size": [*found["n"], found["d"]],
        "how": f"{found['functional']} {found['model']} {found['split']} {' '.join(found['columns'])}",
    }


def rows_of(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The table of a comparison, but for its seconds."""
    kept = ("log_likelihood", "standard_error", "behind_best", "behind_best_error")
    return {
        "methods": " ".join(row["method"] for row in rows),
        "table": [[row[key] for key in kept] for row in rows],
    }


@case("command-compare")
@case("command-compare-bounds", "--bounds", "a=-20:")
def command_compare(*options: str) -> dict[str, Any]:
    quick = ["--model", "default,kde-scott,kde-loo,mixture-axis", "--folds", "3"]
    with folder() as place:
        data = write_csv(cloud(90, 2), place / "data.csv")
        done = call("compare", data, *quick, "--json", "--out", place / "out.csv", *options)
        written = pd.read_csv(place / "out.csv")
    found = json.loads(done.out)
    return {
        **done.words,
        **rows_of(found["rows"]),
        "written": written[["log_likelihood", "behind_best"]],
        "columns": " ".join(written.columns),
    }


@case("command-compare-peers")
def command_compare_peers() -> dict[str, Any]:
    """scikit-learn's mixtures, on data of its own and on a mixture whose truth is known."""
    done = call(
        "compare",
        "gmm:2,60,2",
        "iris",
        "--model",
        "gmm-diag,kde-scott",
        "--folds",
        2,
        "--json",
        "--seed",
        1,
    )
    first, second = json.loads(done.out)["files"]
    return {
        **done.words,
        **rows_of(first["rows"]),
        "score_error": [row["score_error"] for row in first["rows"]],
        "iris": rows_of(second["rows"])["table"],
    }


@case("command-report")
@case("command-report-bounds", "--bounds", "a=-20:", "--columns", "a")
def command_report(*options: str) -> dict[str, Any]:
    with folder() as place:
        data = write_csv(cloud(60, 2), place / "data.csv")
        done = call("report", data, "--model", "mixture", "--out", place / "page.html", *options)
        page = (place / "page.html").read_text(encoding="utf-8")
    wanted = ("<!doctype html>", "<h1>data.csv</h1>", "60 rows", "Unusual rows", "mixture")
    return {**done.words, "has": " | ".join(text for text in wanted if text in page)}


@case("command-models")
def command_models() -> dict[str, Any]:
    done = call("models", "--json")
    ours = [name for name in MODELS if not name.startswith("ablation")]  # other weights may come and go
    cards = {name: card for name, card in json.loads(done.out).items() if name in ours}
    return {
        **done.words,
        "names": " ".join(sorted(cards)),
        "ranges": [[*cards[name]["dims"], *cards[name]["sizes"]] for name in sorted(cards)],
        "frames": ", ".join(cards[name]["frame"] for name in sorted(cards)),
    }


@case("command-export-pt2", ".pt2", "default")
@case("command-export-onnx", ".onnx", "mixture", "--bounds", "a=-20:,b=-20:30")
def command_export(suffix: str, model: str, *options: str) -> dict[str, Any]:
    """Written, read back and run without the package."""
    sample = cloud(70, 2)
    with folder() as place:
        data, out = write_csv(sample, place / "data.csv"), place / f"density{suffix}"
        done = call("export", data, "--model", model, "--out", out, *options)
        return {**done.words, **both(run_exported(out, tensor(near(sample))))}


@case("command-landau", "--model", "kde-scott", "--dim", "2")
@case("command-landau-default", "--model", "default", "--every", "2", "--particles", "70")
@case("command-landau-calibrated", "--model", "mixture", "--calibrate", "--particles", "220", "--every", "1")
@case("command-landau-gaussian", "--model", "gaussian", "--scheme", "heun", "--start", "two-mode")
@case("command-landau-coulomb", "--model", "blob", "--kernel", "coulomb", "--dim", "2")
def command_landau(*options: str) -> dict[str, Any]:
    with folder() as place:
        small = ["--particles", 50, "--steps", 3, "--seed", 2, "--out", place / "history.csv", "--json"]
        done = call("landau", *small, *options)
        table = pd.read_csv(place / "history.csv").drop(columns="seconds")
    table = table.dropna(axis="columns")  # entropy, where only the score is known
    found = json.loads(done.out)
    return {
        **done.words,
        "table": table,
        "names": " ".join(table.columns),
        "sigma_11": found["sigma_11"],
        "reference_11": found["reference_11"],
        "size": [found["n"], found["d"], found["steps"], found["dt"]],
        "oracle": found["model"],
    }


@case("command-version", "--version")
@case("command-help", "--help")
@case("command-help-estimate", "estimate", "--help")
def command_speaks(*arguments: str) -> dict[str, Any]:
    return call(*arguments).words


# ---------------------------------------------------------------------- errors


def _with(value: float) -> Array:
    sample = cloud(50, 2)
    sample[3, 1] = value
    return sample


def _fitted(model: Any = "kde-scott", **options: Any) -> Any:
    return DiScoFormer(model=model, **options).fit(cloud(50, 2))


FAILURES: dict[str, Callable[[], Any]] = {
    "nan": lambda: DiScoFormer().fit(_with(np.nan)),
    "infinity": lambda: DiScoFormer().fit(_with(np.inf)),
    "nan-in-tensor": lambda: DiScoFormer().fit(tensor(_with(np.nan))),
    "nan-in-points": lambda: _fitted().score_samples(_with(np.nan)),
    "nan-in-function": lambda: estimate(_with(np.nan)),
    "text": lambda: DiScoFormer().fit(pd.DataFrame({"a": [1.0, 2.0, 3.0], "b": ["x", "y", "z"]})),
    "text-polars": lambda: DiScoFormer().fit(pl.DataFrame({"a": [1.0, 2.0, 3.0], "b": ["x", "y", "z"]})),
    "text-array": lambda: DiScoFormer().fit(np.array([["a", "b"], ["c", "d"]])),
    "dates": lambda: DiScoFormer().fit(
        pd.DataFrame({"a": [1.0, 2.0], "t": pd.to_datetime(["2020-01-01", "2021-01-01"])})
    ),
    "complex": lambda: DiScoFormer().fit(cloud(50, 2) * 1j),
    "twice-the-name": lambda: DiScoFormer().fit(pd.DataFrame(cloud(50, 2), columns=["a", "a"])),
    "no-columns": lambda: DiScoFormer().fit(pd.DataFrame(index=range(5))),
    "one-row": lambda: DiScoFormer().fit(cloud(50, 2)[:1]),
    "one-row-tensor": lambda: DiScoFormer().fit(tensor(cloud(50, 2)[:1])),
    "no-rows": lambda: DiScoFormer().fit(np.empty((0, 2))),
    "vector": lambda: DiScoFormer().fit(cloud(50, 2)[:, 0]),
    "all-constant": lambda: DiScoFormer().fit(np.ones((20, 2))),
    "too-large": lambda: DiScoFormer().fit(cloud(50, 2) * 1e200),
    "too-small": lambda: DiScoFormer().fit(cloud(50, 2) * 1e-200),
    "overflow-of-points": lambda: _fitted("default").score_samples(np.full((1, 2), 1e300)),
    "bounds-violated": lambda: DiScoFormer(bounds=(0, None)).fit(cloud(50, 2)),
    "bounds-reversed": lambda: _fitted(bounds=(100, -100)),
    "bounds-no-pair": lambda: _fitted(bounds=3.0),
    "bounds-too-many": lambda: _fitted(bounds=[None, None, None]),
    "bounds-unknown-column": lambda: _fitted(bounds={"age": (0, 1)}),
    "bounds-conditional": lambda: DiScoFormer(bounds=(0, None)).fit(positive(80)[:, :2]).conditional(0, -1.0),
    "unknown-model": lambda: _fitted("no such model"),
    "unknown-model-kind": lambda: _fitted(3),
    "load-unknown": lambda: load_model("no such model"),
    "wrong-dimension-of-model": lambda: _fitted("attention-d3"),
    "wrong-columns": lambda: _fitted().score_samples(cloud(5, 3)),
    "wrong-columns-tensor": lambda: _fitted().estimate(tensor(cloud(5, 3))),
    "wrong-names": lambda: (
        DiScoFormer(model="kde-scott")
        .fit(pd.DataFrame(cloud(50, 2), columns=["a", "b"]))
        .score_samples(pd.DataFrame(cloud(5, 2), columns=["a", "c"]))
    ),
    "not-fitted": lambda: DiScoFormer().score_samples(cloud(5, 2)),
    "not-fitted-sample": lambda: DiScoFormer().sample(),
    "no-draws": lambda: _fitted().sample(0),
    "marginal-unknown": lambda: _fitted("mixture").marginal("age"),
    "marginal-twice": lambda: _fitted("mixture").marginal([0, 0]),
    "marginal-beyond": lambda: _fitted("mixture").marginal(5),
    "marginal-of-constant": lambda: DiScoFormer(model="mixture").fit(messy("constant")).marginal(1),
    "conditional-values": lambda: _fitted("mixture").conditional(0, [1.0, 2.0]),
    "sample-of-mixture": lambda: _fitted(GaussianMixtureBIC(components=[1])).sample(2),
    "density-of-score": lambda: _fitted(SteinGradient()).score_samples(cloud(5, 2)),
    "weights-negative": lambda: DiScoFormer().fit(cloud(50, 2), sample_weight=-np.ones(50)),
    "weights-zero": lambda: DiScoFormer().fit(cloud(50, 2), sample_weight=np.zeros(50)),
    "weights-shape": lambda: DiScoFormer().fit(cloud(50, 2), sample_weight=np.ones(49)),
    "weights-one-row": lambda: DiScoFormer().fit(cloud(50, 2), sample_weight=np.arange(50) == 3),
    "weights-of-mixture": lambda: BayesianMixture(2).fit(cloud(50, 2), np.ones(50)),
    "weights-gradient": lambda: estimate(
        tensor(cloud(50, 2)), weights=torch.ones(50, dtype=torch.float64, requires_grad=True)
    ),
    "missing-file": lambda: DiScoFormer().fit("no_such_file.npy"),
    "missing-parquet": lambda: DiScoFormer().fit("no_such_file.parquet"),
    "file-of-no-kind": lambda: DiScoFormer().fit("no_such_file.xyz"),
    "bounds-of-file": lambda: DiScoFormer(bounds=(0, 1)).fit("no_such_file.npy"),
    "kernel-of-file": lambda: _on_file(cloud(50, 2), "kde-scott"),
    "nan-in-file": lambda: _on_file(_with(np.nan)),
    "text-in-file": lambda: _on_file(np.array([["a"], ["b"]])),
    "empty-folder": lambda: _on_empty_folder(),
    "bandwidth-unknown": lambda: KDE("no such rule").fit(cloud(50, 2)),
    "bandwidth-negative": lambda: KDE(-1.0).fit(cloud(50, 2)),
    "split-unknown": lambda: entropy(cloud(50, 2), KDE(), split="half"),  # type: ignore[arg-type]
    "split-loo-of-estimator": lambda: _fitted().entropy(split="loo"),
    "split-loo-of-score": lambda: fisher_information(cloud(50, 2), KDE(), split="loo"),
    "folds-too-many": lambda: entropy(cloud(4, 2), KDE(), split="folds"),
    "functional-columns": lambda: kl_divergence(cloud(50, 2), cloud(50, 3), KDE()),
    "functional-pairs": lambda: mutual_information(cloud(50, 1), cloud(49, 1), KDE()),
    "functional-one-field": lambda: kl_divergence(cloud(50, 2), cloud(50, 2), KDE().fit(cloud(50, 2))),
    "adapt-stack": lambda: adapt(load_model("default"), cloud(50, 2), steps=1),
    "adapt-wrong-core": lambda: adapt_consistency(load_model("mixture"), cloud(50, 2)),
    "adapt-steps": lambda: adapt(load_model("mixture"), cloud(50, 2), steps=-1),
    "export-kernel": lambda: export_read(KDE().fit(cloud(50, 2)), "kernel.pt2"),
    "export-network": lambda: export_network(load_model("mixture"), "network.pt2"),
    "export-format": lambda: export_read(KDE().fit(cloud(50, 2)), "kernel.bin"),
    "particles-one-column": lambda: integrate(Landau(), cloud(50, 1), KDE(), dt=0.1, steps=1),
    "particles-scheme": lambda: integrate(
        Landau(),
        cloud(50, 2),
        KDE(),
        dt=0.1,
        steps=1,
        scheme="none",  # type: ignore[arg-type]
    ),
    "particles-no-oracle": lambda: integrate(Landau(), cloud(50, 2), 3, dt=0.1, steps=1),  # type: ignore[arg-type]
    "compare-folds": lambda: held_out_log_likelihood(KDE(), cloud(4, 2), folds=5),
    "compare-unknown": lambda: make_method("no such method"),
    "prior-unknown": lambda: prior_from_config({"name": "no such prior"}),
    "prior-range": lambda: GMMPrior(modes=(3, 1)),
    "distribution-too-far": lambda: gaussian(tensor([0.0]), tensor([[1.0]])).log_density(tensor([[1e160]])),
    "batch-of-estimator": lambda: DiScoFormer().fit(np.zeros((2, 5, 2))),
}


def _on_file(values: Any, model: str = "mixture") -> None:
    with folder() as place:
        np.save(place / "data.npy", values)
        DiScoFormer(model=model).fit(place / "data.npy")


def _on_empty_folder() -> None:
    with folder() as place:
        DiScoFormer().fit(place)


def failure(name: str) -> dict[str, Any]:
    """The kind of the error."""
    try:
        FAILURES[name]()
    except Exception as error:
        return {"error": type(error).__name__}
    return {"error": "none"}


for _name in FAILURES:
    CASES[f"error-{_name}"] = partial(failure, _name)


REFUSED: dict[str, tuple[str, ...]] = {
    "missing-file": ("estimate", "missing.csv"),
    "empty-file": ("estimate", "empty.csv"),
    "unknown-format": ("estimate", "data.xyz"),
    "gap": ("estimate", "gap.csv"),
    "one-row": ("estimate", "one.csv"),
    "constant": ("estimate", "constant.csv"),
    "all-constant": ("estimate", "constant.csv", "--columns", "b", "--drop-dependent"),
    "unknown-column": ("estimate", "data.csv", "--columns", "z"),
    "unknown-model": ("estimate", "data.csv", "--model", "nothing"),
    "unknown-option": ("estimate", "data.csv", "--nothing"),
    "unknown-command": ("nothing",),
    "no-command": (),
    "model-of-other-dimension": ("estimate", "data.csv", "--model", "attention-d3"),
    "model-and-bandwidth": ("estimate", "data.csv", "--model", "mixture", "--bandwidth", "loo"),
    "bounds-violated": ("estimate", "data.csv", "--bounds", "a=0:"),
    "bounds-unreadable": ("estimate", "data.csv", "--bounds", "a=low"),
    "view-without-plot": ("estimate", "data.csv", "--view", "corner"),
    "picture-format": ("estimate", "data.csv", "--plot", "picture.xyz"),
    "out-is-input": ("estimate", "data.csv", "--out", "data.csv"),
    "out-in-no-folder": ("estimate", "data.csv", "--out", "no/such/out.csv"),
    "queries-of-other-columns": ("estimate", "data.csv", "--queries", "constant.csv", "--columns", "a,b,c"),
    "sample-no-rows": ("sample", "data.csv", "-n", "0"),
    "sample-seed": ("sample", "data.csv", "--seed", "-1"),
    "entropy-split": ("entropy", "data.csv", "--split", "half"),
    "kl-one-file": ("kl", "data.csv"),
    "kl-other-columns": ("kl", "data.csv", "text.csv"),
    "compare-folds": ("compare", "data.csv", "--folds", "1"),
    "compare-unknown": ("compare", "data.csv", "--model", "nothing"),
    "compare-mixture": ("compare", "gmm:0,1,2"),
    "report-format": ("report", "data.csv", "--out", "page.txt"),
    "export-format": ("export", "data.csv", "--out", "density.bin"),
    "export-kernel": ("export", "data.csv", "--model", "kde-scott", "--out", "density.pt2"),
    "landau-dimension": ("landau", "--dim", "1", "--particles", "10"),
    "landau-particles": ("landau", "--dim", "3", "--particles", "3"),
    "landau-oracle": ("landau", "--model", "nothing", "--particles", "10", "--steps", "1"),
    "reproduce-unknown": ("reproduce", "nothing", "--quick"),
    "reproduce-nothing": ("reproduce",),
    "train-missing": ("train", "missing.yaml"),
}


def refused(name: str) -> dict[str, Any]:
    """A command that ends with an error: its exit code, and the stream that says why."""
    with folder() as place:
        write_csv(cloud(40, 2), place / "data.csv")
        write_csv(np.column_stack([cloud(40, 1), np.ones(40)]), place / "constant.csv")
        write_csv(cloud(40, 2)[:1], place / "one.csv")
        (place / "data.xyz").write_text("a,b\n1,2\n")
        (place / "empty.csv").write_text("")
        (place / "text.csv").write_text("a,c\n1,x\n2,y\n3,z\n5,w\n")
        (place / "gap.csv").write_text("a,b\n1,2\n3,\n4,7\n5,1\n")
        files = {path.name for path in place.iterdir()}
        return call(*(_in(place, word, files) for word in REFUSED[name])).words


def _in(place: Path, word: str, files: set[str]) -> str:
    """Files by their path in the folder, other words as they are."""
    is_file = word in files or word.startswith(("missing", "out", "picture", "page", "density", "no/"))
    return str(place / word) if is_file else word


for _name in REFUSED:
    CASES[f"refused-{_name}"] = partial(refused, _name)
