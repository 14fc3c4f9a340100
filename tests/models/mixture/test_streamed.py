"""A streamed sample is the sample in memory, for every mixture network."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from helpers import EXACT, assert_same_field, parameters, two_groups

from discoformer.models.mixture import sample as sample_module
from discoformer.models.mixture.unified_network import UnifiedNetwork
from discoformer.models.mixture.views import Views
from discoformer.models.registry import load_model, load_network
from discoformer.scale import source
from discoformer.scale.opening import open_source
from discoformer.scale.stream import Stream
from discoformer.scale.survey import survey


def model_of(kind: str, path: Path) -> Any:
    network = load_network(path)
    assert isinstance(network, UnifiedNetwork)
    return {"axes": network, "no axes": network.without_axes(), "views": Views(network)}[kind]


KINDS = pytest.mark.parametrize("kind", ["axes", "no axes", "views"])


@KINDS
def test_streamed_is_in_memory(kind: str, model_path: Path, small_chunks: None) -> None:
    model, x = model_of(kind, model_path), two_groups()
    assert_same_field(model.fit_stream(Stream(open_source(x))), model.fit(x), x[:500])


def test_repeated_rows_streamed_are_in_memory(many: None, small_chunks: None) -> None:
    """Spikes are as narrow as rounding allows: log densities between them are around -200."""
    x = np.random.default_rng(0).integers(0, 5, size=(3000, 2)) * 1.0
    model, between = load_model("default"), x[:40] + 0.1
    whole = model.fit(x).estimate(torch.as_tensor(between)).log_density
    assert float(whole.mean()) < -100
    streamed = model.fit_stream(Stream(open_source(x[::-1]))).estimate(torch.as_tensor(between)).log_density
    torch.testing.assert_close(streamed, whole, rtol=0, atol=1e-6)


@KINDS
def test_of_many_rows_a_part_decides_streamed_or_not(kind: str, model_path: Path, many: None) -> None:
    model, x = model_of(kind, model_path), two_groups(3000)
    field = model.fit(x)
    assert_same_field(model.fit_stream(Stream(open_source(x))), field, x[:200])
    assert_same_field(model.fit(np.random.default_rng(1).permutation(x)), field, x[:200])
    assert_same_field(model.fit(x, np.full(3000, 2.0)), field, x[:200])


def test_affine_maps_change_the_answer_for_many_rows_by_the_jacobian(model_path: Path, many: None) -> None:
    x, model = two_groups(3000), model_of("no axes", model_path)
    matrix = np.random.default_rng(2).normal(size=(3, 3))
    found = model.fit(x @ matrix + 5).log_density(x[:200] @ matrix + 5)
    expected = model.fit(x).log_density(x[:200]) - np.linalg.slogdet(matrix)[1]
    np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-7)


def test_streamed_default_is_in_memory(small_chunks: None) -> None:
    model, x = load_model("default"), two_groups(4300, 2)
    assert_same_field(model.fit_stream(Stream(open_source(x))), model.fit(x), x[:500])


@pytest.mark.parametrize("chunk", [1, 97, 10_000])
def test_neither_chunks_nor_the_order_of_rows_change_the_answer(
    chunk: int, model_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = two_groups(4200 if chunk > 1 else 60)
    model = model_of("axes", model_path)
    expected = model.fit_stream(Stream(open_source(x)))
    monkeypatch.setattr(source, "CHUNK", 8 * 3 * chunk)
    shuffled = np.random.default_rng(1).permutation(x)
    for rows in (x, shuffled):
        assert_same_field(model.fit_stream(Stream(open_source(rows))), expected, x[:200])


def test_single_precision_of_the_network_is_kept(model_path: Path) -> None:
    model, x = load_network(model_path, dtype=torch.float32), two_groups()
    streamed = model.fit_stream(Stream(open_source(x)))
    assert streamed.base.log_weight.dtype == torch.float32
    assert_same_field(streamed, model.fit(x), x[:200], rtol=1e-3, atol=1e-3)


def test_data_far_from_the_origin(model_path: Path, small_chunks: None) -> None:
    x = two_groups()
    far = x + 1e9
    near = (far - 1e9).astype(np.float64)  # what is left of x at that distance
    found = survey(open_source(far)).moments
    torch.testing.assert_close(found.scale, torch.from_numpy(near.std(0)), rtol=1e-9, atol=0)
    torch.testing.assert_close(found.correlation, torch.from_numpy(np.corrcoef(near.T)), rtol=1e-9, atol=1e-9)
    model = load_model(model_path)
    streamed = model.fit_stream(Stream(open_source(far)))
    expected = model.fit(near).estimate(near[:200])
    for one, two in zip(streamed.estimate(far[:200]), expected, strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-5, atol=1e-5)


def test_units_of_all_sizes(model_path: Path) -> None:
    x = two_groups(400) * np.array([1e-120, 1.0, 1e120])
    model = load_model(model_path)
    np.testing.assert_allclose(
        model.fit_stream(Stream(open_source(x))).log_density(x), model.fit(x).log_density(x), **EXACT
    )


def test_threads_change_nothing(
    two_threads: None, model_path: Path, small_chunks: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sample_module, "_CHUNK", 200_000)
    model, x = load_network(model_path), two_groups()
    memory, streamed = model.fit(x), model.fit_stream(Stream(open_source(x)))
    torch.set_num_threads(1)
    for field, again in ((memory, model.fit(x)), (streamed, model.fit_stream(Stream(open_source(x))))):
        for one, two in zip(parameters(field), parameters(again), strict=True):
            assert torch.equal(one, two)
