"""Read-outs that can be exported answer as the fields do."""

import warnings
from pathlib import Path

import pytest
import torch
from helpers import assert_relative, attention_network, exportable_field, queries_for, uneven_sample

from discoformer import SupportWarning
from discoformer.columns.fit_recipe import FitRecipe
from discoformer.core.checks import DataError
from discoformer.core.fields import Estimate
from discoformer.core.frames import FRAMES
from discoformer.export.readout import NetworkReadout, _fit_frame, make_readout
from discoformer.models.registry import build_network, load_model

KINDS = ["mixture", "supported", "bounded", "attention", "attention-lift"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-10), (torch.float32, 1e-4)])
def test_readout_is_the_fields_own_answer(
    kind: str, dtype: torch.dtype, tolerance: float, model_path: Path
) -> None:
    field = exportable_field(kind, model_path)
    queries = queries_for(field, 50).to(dtype)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SupportWarning)
        expected = field.estimate(queries.double())
    answer = Estimate(*make_readout(field, dtype)(queries))
    assert answer.score.dtype == dtype
    assert_relative(answer, expected, tolerance)


def test_margins_are_read_off_tables(model_path: Path) -> None:
    field = exportable_field("views", model_path)
    queries = queries_for(field, 50)
    assert_relative(Estimate(*make_readout(field, torch.float64)(queries)), field.estimate(queries), 1e-6)


def test_a_point_on_its_bound_stays_within_when_rounded(model_path: Path) -> None:
    points = torch.rand(100, 1, generator=torch.Generator().manual_seed(0), dtype=torch.float64) * 0.3
    points[0] = 0.3  # in single precision this is more than 0.3
    field = FitRecipe(load_model(model_path), [(0.0, 0.3)]).fit(points)
    log_density, _ = make_readout(field, torch.float32)(points.float())
    torch.testing.assert_close(log_density.double(), field.log_density(points), rtol=1e-4, atol=1e-4)


def test_score_of_the_mixture_readout_is_the_gradient_of_its_log_density(model_path: Path) -> None:
    queries = uneven_sample(20, seed=1).requires_grad_()
    log_density, score = make_readout(exportable_field("mixture", model_path), torch.float64)(queries)
    (gradient,) = torch.autograd.grad(log_density.sum(), queries)
    torch.testing.assert_close(score, gradient, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", FRAMES)
def test_frame_without_eigenvalues_is_the_frame(name: str) -> None:
    points = uneven_sample()
    points[:, 2] = points[:, 0] + 1e-3 * points[:, 2]  # correlation 0.9998
    mine, ours = _fit_frame(name, points), FRAMES[name].fit(points)
    for part in ("center", "matrix", "inverse", "log_det"):
        torch.testing.assert_close(getattr(mine, part), getattr(ours, part), rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("estimates", ["score", "density"])
def test_one_head_alone_is_refused(estimates: str) -> None:
    core = {"kind": "attention", "dim": 3, "layers": 1, "width": 8, "heads": 2, "feedforward": 8}
    network = build_network(core | {"estimates": estimates}, "whiten")
    with pytest.raises(DataError, match=f"for the {estimates} alone cannot be exported"):
        NetworkReadout(network)


@pytest.mark.parametrize("frame", FRAMES)
def test_network_readout_is_the_networks_own_answer(frame: str) -> None:
    network = attention_network(frame, lift=frame == "whiten")
    context, queries = uneven_sample(), uneven_sample(7, seed=1)
    answer = Estimate(*NetworkReadout(network)(context, queries))
    assert_relative(answer, network(context, queries), 1e-10)
