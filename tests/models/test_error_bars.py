"""Error bars in one pass: sizes that have a formula, laws of units and batches, and the shipped head."""

from pathlib import Path

import pytest
import torch

from discoformer import DataError
from discoformer.columns.fit_recipe import FitRecipe
from discoformer.core.fields import as_point_density
from discoformer.evaluation.known_truth import gmm_datasets
from discoformer.methods import resolve
from discoformer.models.error_bars import (
    NINETY,
    ErrorHead,
    error_bars_path,
    load_error_head,
    read_error_card,
    save_error_head,
    shipped_error_head,
)
from discoformer.models.mixture import error_features as module
from discoformer.models.mixture.error_features import error_features, has_error_features
from discoformer.models.mixture.leave_one_out import ScaleEvidence
from discoformer.models.mixture.student import StudentMixture
from discoformer.models.registry import weights_checksum
from discoformer.priors import GMMPrior

METHOD = resolve("default").method
SKEWED = torch.randn(300, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(3)).exp()


def head() -> ErrorHead:
    found = shipped_error_head("default")
    assert found is not None
    return found


def test_the_shipped_head_belongs_to_the_default() -> None:
    """If this fails, the default has new weights: run tools/train_error_bars.py --fresh."""
    card = read_error_card(error_bars_path("default"))
    assert card["weights"] == weights_checksum("default")
    assert 0.88 < card["held_out"]["log_density"] < 0.92 and 0.88 < card["held_out"]["score"] < 0.92
    assert error_bars_path("default").stat().st_size < 40_000


def test_sizes_of_a_normal_law_are_those_of_its_maximum_likelihood_fit() -> None:
    """The spread of log density and score over many samples, against the formula."""
    size, dim, generator = 400, 2, torch.Generator().manual_seed(0)
    root = torch.tensor([[1.0, 0.6], [0.0, 0.5]]).double()
    x = torch.randn(2000, size, dim, dtype=torch.float64, generator=generator) @ root
    mean, nu = x.mean(-2), torch.full((2000, 1), 1e8).double()
    offset = x - mean.unsqueeze(-2)
    scale = offset.mT @ offset / size
    count = torch.full((2000, 1), float(size)).double()
    evidence = ScaleEvidence.of_likelihood(count, count)
    fits = StudentMixture(torch.zeros(2000, 1).double(), mean.unsqueeze(1), scale.unsqueeze(1), nu, evidence)
    queries = torch.tensor([[0.0, 0.0], [1.0, 1.0], [-1.0, 1.5]]).double()
    answer = fits.read(queries.expand(2000, -1, -1))
    sizes = module._look(fits, queries.expand(2000, -1, -1), torch.eye(dim, dtype=torch.float64))
    # the weight of the only component is known: it counts one over n too much
    expected = answer.log_density.var(0) + 1 / size
    torch.testing.assert_close(sizes.variance.median(0).values, expected, rtol=0.12, atol=0.0)
    torch.testing.assert_close(
        sizes.score_variance.median(0).values, answer.score.var(0), rtol=0.12, atol=0.0
    )


def test_units_change_scores_alone() -> None:
    scale = torch.tensor([1e3, 1e-3]).double()
    plain = head().spread(METHOD.fit(SKEWED), SKEWED[:20])
    scaled = head().spread(METHOD.fit(SKEWED * scale), SKEWED[:20] * scale)
    torch.testing.assert_close(scaled.log_density, plain.log_density, rtol=1e-4, atol=0.0)
    torch.testing.assert_close(scaled.score * scale, plain.score, rtol=1e-4, atol=0.0)


def test_batches_and_chunks_do_not_change_bars(monkeypatch: pytest.MonkeyPatch) -> None:
    both = torch.stack([SKEWED, SKEWED.flip(0) + SKEWED])
    whole = head().spread(METHOD.fit(both), both[:, :15])
    for k in range(2):
        single = head().spread(METHOD.fit(both[k]), both[k, :15])
        torch.testing.assert_close(whole.log_density[k], single.log_density, rtol=1e-5, atol=0.0)
        torch.testing.assert_close(whole.score[k], single.score, rtol=1e-5, atol=0.0)
    monkeypatch.setattr(module, "_NUMBERS", 200)
    for one, other in zip(head().spread(METHOD.fit(both), both[:, :15]), whole, strict=True):
        torch.testing.assert_close(one, other)


def test_bounds_and_columns_left_out() -> None:
    """Through a map of a column the error of the log density stays, and that of the score has its slope."""
    table = torch.cat([SKEWED, SKEWED.sum(1, keepdim=True)], 1)
    with pytest.warns(UserWarning, match="left out"):
        field = as_point_density(FitRecipe(METHOD, [(0.0, torch.inf)] * 3).fit(table))
    spread = head().spread(field, table[:9])
    if has_error_features(field):
        assert (spread.score[:, 2] == 0).all() and (spread.score[:, :2] > 0).all()
    bounded = as_point_density(FitRecipe(METHOD, [(0.0, torch.inf)] * 2).fit(SKEWED))
    assert has_error_features(bounded)
    maps = bounded.transforms[0]  # type: ignore[attr-defined]
    inside = METHOD.fit(maps.normalize(SKEWED))
    outer, inner = head().spread(bounded, SKEWED[:9]), head().spread(inside, maps.normalize(SKEWED[:9]))
    torch.testing.assert_close(outer.log_density, inner.log_density)
    slope = torch.stack([maps.maps[j].log_derivative(SKEWED[:9, j])[0].exp() for j in range(2)], -1)
    torch.testing.assert_close(outer.score, inner.score * slope)


def test_fields_without_features_say_so() -> None:
    plain = METHOD.network.fit(SKEWED)
    assert not has_error_features(plain)
    with pytest.raises(TypeError, match="no error features"):
        error_features(plain, SKEWED[:2])


def test_intervals_hold_on_gaussian_mixtures_and_follow_n() -> None:
    """A rough check of the shipped weights, pooled; paper/benchmarks/error_bars.py is the fine one."""
    density, score, widths = [], [], []
    for size in (256, 2048):
        bars = []
        for data in gmm_datasets(2, size, 6, 1_000_000, prior=GMMPrior(weights="equal")):
            x = data.context.double()
            field = METHOD.fit(x)
            answer, spread = field.estimate(x[:200]), head().spread(field, x[:200])
            truth = data.distribution.estimate(x[None, :200])
            density.append((answer.log_density - truth.log_density[0]).abs() < NINETY * spread.log_density)
            score.append(((answer.score - truth.score[0]).abs() < NINETY * spread.score).flatten())
            bars.append(spread.log_density.mean())
        widths.append(float(torch.stack(bars).mean()))
    for inside in (density, score):
        assert 0.8 < float(torch.cat(inside).double().mean()) < 0.98
    assert 1.8 < widths[0] / widths[1] < 5


def test_files_are_checked(tmp_path: Path) -> None:
    own = ErrorHead(width=4)
    save_error_head(own, {"recipe": {"width": 4}}, tmp_path / "a.safetensors")
    loaded = load_error_head(tmp_path / "a.safetensors")
    row, column = torch.randn(3, 22).double(), torch.randn(3, 2, 5).double()
    for one, other in zip(
        own.double().log_factors(row, column), loaded.log_factors(row, column), strict=True
    ):
        torch.testing.assert_close(one, other)
    save_error_head(own, {"recipe": {"width": 8}}, tmp_path / "b.safetensors")
    with pytest.raises(DataError, match="does not fit its card"):
        load_error_head(tmp_path / "b.safetensors")
    with pytest.raises(DataError, match="holds no error bars"):
        read_error_card(next(error_bars_path("default").parents[1].glob("default-*.safetensors")))
