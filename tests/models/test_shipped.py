"""The weights in the package obey the laws, and do what they are for, on a sample or two."""

import csv
import json
from pathlib import Path

import pytest
import torch
from helpers import parameters

from discoformer import KDE, load_model
from discoformer.baselines.gmm import GaussianMixtureBIC
from discoformer.evaluation.known_truth import gmm_datasets, measure
from discoformer.models.registry import list_models

F64 = torch.float64
ROOT = Path(__file__).parents[2]
REFERENCE = ROOT / "tests" / "reference.json"
MIXTURES = [name for name, card in list_models().items() if card.core["kind"] != "attention"]


def points(n: int, d: int, seed: int = 0) -> torch.Tensor:
    return next(gmm_datasets(d, n, 1, 1_000_000 + seed, covariance="rotated", modes=(3,))).context


def answers(name: str) -> dict[str, list[float]]:
    """Log densities and scores at five points, given two clusters of 80 that need no random numbers."""
    index = torch.arange(1, 81, dtype=F64)
    uniform = torch.stack([index * 2**0.5 % 1, index * 3**0.5 % 1], -1)
    normal = torch.special.ndtri(uniform)
    context = torch.cat(
        [normal, 0.5 * normal.flip(-1) @ torch.tensor([[1.0, 0.6], [0.0, 0.8]], dtype=F64) + 3]
    )
    log_density, score = load_model(name)(context, torch.cat([context[::50], context[:1] - 4]))
    return {"log_density": log_density.tolist(), "score": score.flatten().tolist()}


@pytest.mark.parametrize("name", MIXTURES)
def test_answers_are_those_that_were_stored(name: str) -> None:
    """After new weights, or code that is meant to answer otherwise: `python tests/models/test_shipped.py`."""
    stored = json.loads(REFERENCE.read_text())[name]
    for key, values in answers(name).items():
        assert values == pytest.approx(stored[key], rel=1e-6)


@pytest.mark.parametrize("name", MIXTURES)
@pytest.mark.parametrize("d", [1, 3])
def test_without_axes_every_affine_map_is_followed(name: str, d: int) -> None:
    model, x, y = load_model(name).without_axes(), points(200, d), points(30, d, seed=1)
    generator = torch.Generator().manual_seed(d)
    matrix = torch.randn(d, d, dtype=F64, generator=generator) + torch.eye(d, dtype=F64)
    order = torch.randperm(len(x), generator=generator)
    before, after = model(x, y), model(x[order] @ matrix - 5, y @ matrix - 5)
    expected = before.log_density - torch.linalg.slogdet(matrix)[1]
    assert float((after.log_density - expected).norm() / expected.norm()) < 1e-8
    assert float((after.score @ matrix.mT - before.score).norm() / before.score.norm()) < 1e-8


@pytest.mark.parametrize("name", MIXTURES)
def test_one_set_of_weights_is_a_distribution_in_every_dimension(name: str) -> None:
    for d in (1, 2, 7, 20):
        field = load_model(name).fit(points(150, d))
        torch.testing.assert_close(field.log_weight.exp().sum(), torch.ones((), dtype=F64))
        weights, _, covariances = parameters(field.parts[0])
        torch.testing.assert_close(weights.sum(), torch.ones((), dtype=F64))
        assert float(torch.linalg.eigvalsh(covariances).min()) > 0
        y = points(10, d, seed=1).requires_grad_()
        log_density, score = field.estimate(y)
        (gradient,) = torch.autograd.grad(log_density.sum(), y)
        assert float((score.detach() - gradient).norm() / gradient.norm()) < 1e-8


@pytest.mark.parametrize("d", [1, 2, 5])
def test_a_far_row_does_not_vouch_for_itself(d: int) -> None:
    x, model = points(300, d), load_model("default")
    for far in (10.0, 1e3, 1e5):
        rows = torch.cat([x, x.mean(0, keepdim=True) + far * x.std(0)])
        assert int(model.fit(rows).left_out(rows).argmin()) == 300


@pytest.mark.parametrize("d", [2, 5])
def test_default_has_less_error_than_kernel_density_and_the_mixture_by_bic(d: int) -> None:
    """Validation seeds, small samples: a wide margin, so that only broken weights fail."""
    methods = {"ours": load_model("default"), "kde": KDE(), "gmm": GaussianMixtureBIC(components=range(1, 9))}
    data = list(gmm_datasets(d, 256, 4, 1_000_000, covariance="rotated", modes=(2, 4, 6, 8)))
    errors = {name: found.relative_score for name, found in measure(methods, iter(data)).items()}
    assert errors["ours"] < 0.6 * errors["kde"]
    assert errors["ours"] < errors["gmm"]


@pytest.mark.slow
def test_two_correlated_clusters_are_found_in_a_hundred_dimensions() -> None:
    """Whitened coordinates hide them; the score then has four times the error."""
    (data,) = gmm_datasets(100, 2048, 1, 1_000_000, covariance="rotated", modes=(2,))
    field = load_model("default").fit(data.context)
    fresh = data.distribution.sample(256, torch.Generator().manual_seed(0))
    truth = data.distribution.estimate(fresh).score
    assert float((field.score(fresh) - truth).square().sum() / truth.square().sum()) < 0.125


@pytest.mark.slow
def test_committed_measurements_are_of_the_shipped_weights() -> None:
    """Another network's line in a table has another fingerprint; older code only if small samples tell."""
    contestants = pytest.importorskip("discoformer_paper.harness.contestants", reason="needs paper/")
    shipped = {name: f"{name}@{contestants.fingerprint(load_model(name))}" for name in list_models()}
    stale = set()
    for folder in ("paper/benchmarks", "docs"):
        for path in (ROOT / folder / "results").glob("*.csv"):
            with path.open(newline="", encoding="utf-8") as file:
                cells = {cell for line in csv.reader(file) for cell in line if "@" in cell}
            named = {cell: shipped.get(cell.split("@")[0]) for cell in cells}
            stale |= {f"{path.name}: {cell}" for cell, now in named.items() if now not in (None, cell)}
    assert not stale


if __name__ == "__main__":
    REFERENCE.write_text(json.dumps({name: answers(name) for name in MIXTURES}, indent=1) + "\n")
