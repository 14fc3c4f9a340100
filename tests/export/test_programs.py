"""Exported programs give our own answers: in every precision, at every size, with bounds and without."""

import io
import json
from pathlib import Path

import pytest
import torch
from helpers import assert_relative, attention_network, exportable_field, queries_for, uneven_sample

from discoformer import KDE
from discoformer.core.checks import DataError
from discoformer.export.programs import _PLAIN, export_network, export_read, run_exported
from discoformer.export.readout import make_readout
from discoformer.models.registry import load_model


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
    field = exportable_field("bounded", model_path)
    export_read(field, tmp_path / "field.pt2", probe=queries_for(field, 30), columns=["a", "b", "c", "d"])
    for m in (1, 2, 40):
        queries = queries_for(field, m)
        assert_relative(run_exported(tmp_path / "field.pt2", queries), field.estimate(queries), 1e-10)
    extra = {"columns": ""}
    torch.export.load(io.BytesIO((tmp_path / "field.pt2").read_bytes()), extra_files=extra)
    assert json.loads(extra["columns"]) == ["a", "b", "c", "d"]


@pytest.mark.parametrize("frame", ["whiten", "canonical"])
def test_pt2_of_a_network_answers_at_any_sizes(frame: str, tmp_path: Path) -> None:
    network = attention_network(frame)
    export_network(network, tmp_path / "network.pt2")
    for n, m in ((50, 1), (333, 17)):
        context, queries = uneven_sample(n, seed=n), uneven_sample(m, seed=1)
        answer = run_exported(tmp_path / "network.pt2", context, queries)
        assert_relative(answer, network(context, queries), 1e-10)


def test_onnx_of_a_field_in_double_precision(model_path: Path, tmp_path: Path) -> None:
    onnxruntime = pytest.importorskip("onnxruntime", reason="needs the extra `export`")
    field = exportable_field("bounded", model_path)
    export_read(field, tmp_path / "field.onnx", columns=["a", "b", "c", "d"])
    for m in (1, 40):
        queries = queries_for(field, m)
        assert_relative(run_exported(tmp_path / "field.onnx", queries), field.estimate(queries), 1e-10)
    session = onnxruntime.InferenceSession(tmp_path / "field.onnx", providers=["CPUExecutionProvider"])
    assert [node.name for node in session.get_inputs()] == ["queries"]
    assert [node.name for node in session.get_outputs()] == ["log_density", "score"]
    columns = session.get_modelmeta().custom_metadata_map["columns"]
    assert json.loads(columns) == ["a", "b", "c", "d"]


def test_onnx_of_a_network_in_single_precision(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime", reason="needs the extra `export`")
    network, single = attention_network(), attention_network().float()
    export_network(single, tmp_path / "network.onnx")
    shift = torch.tensor([0.0, 0.0, 2000.0])
    for n, m in ((50, 1), (333, 17)):
        context, queries = (
            (uneven_sample(n, seed=n) - shift).float(),
            (uneven_sample(m, seed=1) - shift).float(),
        )
        expected = network(context.double(), queries.double())
        own = single(context, queries)
        lost = max(float((a - b).abs().max() / b.abs().max()) for a, b in zip(own, expected, strict=True))
        answer = run_exported(tmp_path / "network.onnx", context, queries)
        # What single precision loses, it loses here too; variances by difference of moments lose most.
        assert_relative(answer, expected, 2e-3 + 10 * lost)
        assert lost < 1e-4


def test_what_cannot_be_exported_is_refused(model_path: Path, tmp_path: Path) -> None:
    network = load_model(model_path)
    with pytest.raises(DataError, match="KDEField cannot be exported"):
        export_read(KDE().fit(uneven_sample()), tmp_path / "kde.pt2")
    with pytest.raises(DataError, match="fit one sample"):
        export_read(network.fit(torch.stack([uneven_sample(), uneven_sample()])), tmp_path / "batch.pt2")
    with pytest.raises(DataError, match="use export_read"):
        export_network(network, tmp_path / "network.pt2")
    with pytest.raises(DataError, match="needs eigenvectors"):
        export_network(attention_network("canonical"), tmp_path / "network.onnx")
    assert not list(tmp_path.iterdir())


def test_a_file_that_answers_wrongly_does_not_take_its_place(
    model_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = make_readout(load_model(model_path).fit(uneven_sample(seed=3)), torch.float64)
    monkeypatch.setattr("discoformer.export.programs.make_readout", lambda field, dtype: wrong)
    (tmp_path / "field.pt2").write_text("the old one")
    with pytest.raises(DataError, match="answers are off"):
        export_read(exportable_field("mixture", model_path), tmp_path / "field.pt2", probe=uneven_sample())
    assert (tmp_path / "field.pt2").read_text() == "the old one"
