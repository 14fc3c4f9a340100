"""Exported programs give our own answers: in every precision, at every size, with bounds and without."""

import io
import json
import math
import warnings
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch

from discoformer import KDE
from discoformer.cli import main
from discoformer.columns.bounds import everyday
from discoformer.columns.support import SupportWarning
from discoformer.core.checks import DataError
from discoformer.core.fields import Estimate, Field
from discoformer.core.frames import FRAMES
from discoformer.data.files import Table, write_table
from discoformer.export.programs import _PLAIN, export_network, export_read, run_exported
from discoformer.export.readout import NetworkReadout, _fit_frame, make_readout
from discoformer.models.network import Network
from discoformer.models.registry import build_network, load_model

FREE = (-math.inf, math.inf)


def sample(n: int = 120, d: int = 3, seed: int = 0) -> torch.Tensor:
    """Correlated columns on different scales, some far from zero, the second positive."""
    generator = torch.Generator().manual_seed(seed)
    points = torch.randn(n, d, generator=generator, dtype=torch.float64)
    points = points @ (torch.eye(d) + 0.4 * torch.rand(d, d, generator=generator)).double()
    points[:, 1] = points[:, 1].exp()
    return points * torch.tensor([1.0, 0.1, 20.0]) + torch.tensor([0.0, 0.0, 2000.0])


def attention(frame: str = "whiten", *, lift: bool = True) -> Network:
    """A small random network in double precision."""
    core = {"kind": "attention", "dim": 3, "layers": 2, "width": 16, "heads": 2, "feedforward": 32}
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return build_network({**core, "lift": lift}, frame).double().eval().requires_grad_(False)


def make_field(kind: str, model_path: Path) -> Field:
    """Fields of every kind that can be exported, four columns where some are left out."""
    if kind.startswith("attention"):
        return attention(lift=kind.endswith("lift")).fit(sample())
    network, points = load_model(model_path), sample()
    if kind == "mixture":
        return network.fit(points)
    points = torch.cat([points, 2 * points[:, :1] + 1], 1)
    bounds = [(-math.inf, 9.9), (-0.1, math.inf), (1800.1, 2200.3), FREE] if kind == "bounded" else [FREE] * 4
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SupportWarning)
        return everyday(network, bounds).fit(points)


def queries_for(field: Field, m: int) -> torch.Tensor:
    """Fresh points, one of them beyond the bounds of the second column."""
    points = sample(m, seed=1)
    points[0, 1] = -0.2
    return points if field.dim == 3 else torch.cat([points, 2 * points[:, :1] + 1], 1)


def assert_equal(answer: Estimate[torch.Tensor], expected: Estimate[torch.Tensor], tolerance: float) -> None:
    """To a tolerance relative to the largest number of each column."""
    for ours, theirs in zip(expected, answer, strict=True):
        finite = ours.isfinite()
        assert torch.equal(theirs[~finite].double(), ours[~finite])
        size = torch.where(finite, ours.abs(), 0.0).amax(0)
        difference = torch.where(finite, (ours - theirs).abs(), 0.0).amax(0)
        assert (difference <= tolerance * size).all(), difference / size


KINDS = ["mixture", "supported", "bounded", "attention", "attention-lift"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-10), (torch.float32, 1e-4)])
def test_readout_is_the_fields_own_answer(
    kind: str, dtype: torch.dtype, tolerance: float, model_path: Path
) -> None:
    field = make_field(kind, model_path)
    queries = queries_for(field, 50).to(dtype)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SupportWarning)
        expected = field.estimate(queries.double())
    answer = Estimate(*make_readout(field, dtype)(queries))
    assert answer.score.dtype == dtype
    assert_equal(answer, expected, tolerance)


def test_a_point_on_its_bound_stays_within_when_rounded(model_path: Path) -> None:
    points = torch.rand(100, 1, generator=torch.Generator().manual_seed(0), dtype=torch.float64) * 0.3
    points[0] = 0.3  # in single precision this is more than 0.3
    field = everyday(load_model(model_path), [(0.0, 0.3)]).fit(points)
    log_density, _ = make_readout(field, torch.float32)(points.float())
    torch.testing.assert_close(log_density.double(), field.log_density(points), rtol=1e-4, atol=1e-4)


def test_score_of_the_mixture_readout_is_the_gradient_of_its_log_density(model_path: Path) -> None:
    queries = sample(20, seed=1).requires_grad_()
    log_density, score = make_readout(make_field("mixture", model_path), torch.float64)(queries)
    (gradient,) = torch.autograd.grad(log_density.sum(), queries)
    torch.testing.assert_close(score, gradient, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", FRAMES)
def test_frame_without_eigenvalues_is_the_frame(name: str) -> None:
    points = sample()
    points[:, 2] = points[:, 0] + 1e-3 * points[:, 2]  # correlation 0.9998
    mine, ours = _fit_frame(name, points), FRAMES[name].fit(points)
    for part in ("center", "matrix", "inverse", "log_det"):
        torch.testing.assert_close(getattr(mine, part), getattr(ours, part), rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("frame", FRAMES)
def test_network_readout_is_the_networks_own_answer(frame: str) -> None:
    network = attention(frame, lift=frame == "whiten")
    context, queries = sample(), sample(7, seed=1)
    answer = Estimate(*NetworkReadout(network)(context, queries))
    assert_equal(answer, network(context, queries), 1e-10)


def test_plain_operations_are_the_fused_ones() -> None:
    generator = torch.Generator().manual_seed(0)
    query, keys, values = torch.randn(3, 1, 2, 9, 4, generator=generator, dtype=torch.float64)
    mask = torch.randn(1, 1, 1, 9, generator=generator, dtype=torch.float64)
    small = -torch.logspace(-12, 2, 20, dtype=torch.float64)
    calls = {
        "_scaled_dot_product_flash_attention_for_cpu": (
            (query, keys, values),
            {"attn_mask": mask, "scale": 0.3},
        ),
        "expm1": ((small,), {}),
    }
    for operation, plain in _PLAIN.items():
        arguments, options = calls[operation.overloadpacket.__name__]
        torch.testing.assert_close(
            plain(*arguments, **options), operation(*arguments, **options), rtol=1e-12, atol=0.0
        )


def test_pt2_answers_at_any_number_of_points(model_path: Path, tmp_path: Path) -> None:
    field = make_field("bounded", model_path)
    export_read(field, tmp_path / "field.pt2", probe=queries_for(field, 30), columns=["a", "b", "c", "d"])
    for m in (1, 2, 40):
        queries = queries_for(field, m)
        assert_equal(run_exported(tmp_path / "field.pt2", queries), field.estimate(queries), 1e-10)
    extra = {"columns": ""}
    torch.export.load(io.BytesIO((tmp_path / "field.pt2").read_bytes()), extra_files=extra)
    assert json.loads(extra["columns"]) == ["a", "b", "c", "d"]


def test_pt2_of_a_network_answers_at_any_sizes(tmp_path: Path) -> None:
    network = attention()
    export_network(network, tmp_path / "network.pt2")
    for n, m in ((50, 1), (333, 17)):
        context, queries = sample(n, seed=n), sample(m, seed=1)
        answer = run_exported(tmp_path / "network.pt2", context, queries)
        assert_equal(answer, network(context, queries), 1e-10)


def test_onnx_of_a_field_in_double_precision(model_path: Path, tmp_path: Path) -> None:
    onnxruntime = pytest.importorskip("onnxruntime", reason="needs the extra `export`")
    field = make_field("bounded", model_path)
    export_read(field, tmp_path / "field.onnx", columns=["a", "b", "c", "d"])
    for m in (1, 40):
        queries = queries_for(field, m)
        assert_equal(run_exported(tmp_path / "field.onnx", queries), field.estimate(queries), 1e-10)
    session = onnxruntime.InferenceSession(tmp_path / "field.onnx", providers=["CPUExecutionProvider"])
    assert [node.name for node in session.get_inputs()] == ["queries"]
    assert [node.name for node in session.get_outputs()] == ["log_density", "score"]
    columns = session.get_modelmeta().custom_metadata_map["columns"]
    assert json.loads(columns) == ["a", "b", "c", "d"]


def test_onnx_of_a_network_in_single_precision(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime", reason="needs the extra `export`")
    network, single = attention(), attention().float()
    export_network(single, tmp_path / "network.onnx")
    shift = torch.tensor([0.0, 0.0, 2000.0])
    for n, m in ((50, 1), (333, 17)):
        context, queries = (sample(n, seed=n) - shift).float(), (sample(m, seed=1) - shift).float()
        expected = network(context.double(), queries.double())
        own = single(context, queries)
        lost = max(float((a - b).abs().max() / b.abs().max()) for a, b in zip(own, expected, strict=True))
        answer = run_exported(tmp_path / "network.onnx", context, queries)
        # What single precision loses, it loses here too; variances by difference of moments lose most.
        assert_equal(answer, expected, 2e-3 + 10 * lost)
        assert lost < 1e-4


def test_what_cannot_be_exported_is_refused(model_path: Path, tmp_path: Path) -> None:
    network = load_model(model_path)
    with pytest.raises(DataError, match="KDEField cannot be exported"):
        export_read(KDE().fit(sample()), tmp_path / "kde.pt2")
    with pytest.raises(DataError, match="fit one sample"):
        export_read(network.fit(torch.stack([sample(), sample()])), tmp_path / "batch.pt2")
    with pytest.raises(DataError, match="use export_read"):
        export_network(network, tmp_path / "network.pt2")
    assert not list(tmp_path.iterdir())


def test_a_file_that_answers_wrongly_does_not_take_its_place(
    model_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = make_readout(load_model(model_path).fit(sample(seed=3)), torch.float64)
    monkeypatch.setattr("discoformer.export.programs.make_readout", lambda field, dtype: wrong)
    (tmp_path / "field.pt2").write_text("the old one")
    with pytest.raises(DataError, match="answers are off"):
        export_read(make_field("mixture", model_path), tmp_path / "field.pt2", probe=sample())
    assert (tmp_path / "field.pt2").read_text() == "the old one"


def test_command(model_path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data, out = str(tmp_path / "data.csv"), tmp_path / "density.pt2"
    write_table(Table(sample().numpy(), ("a", "b", "c")), data)
    assert main(["export", data, "--out", str(out), "--model", str(model_path), "--float32", "--json"]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert (summary["n"], summary["columns"], summary["dtype"]) == (120, ["a", "b", "c"], "float32")
    assert zipfile.is_zipfile(out)
    answer = run_exported(out, sample(5).float())
    expected = load_model(model_path).fit(sample()).estimate(sample(5))
    np.testing.assert_allclose(answer.log_density, expected.log_density, atol=1e-3)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--out", "density.bin"], "unknown format '.bin', use .onnx or .pt2"),
        (["--out", "density.pt2", "--model", "kde"], "KDEField cannot be exported"),
    ],
)
def test_command_refuses_in_one_line(
    arguments: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    write_table(Table(sample().numpy(), ("a", "b", "c")), "data.csv")
    assert main(["export", "data.csv", *arguments]) == 2
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1
