"""Data larger than memory and on clusters: the answers are those of the same rows in memory."""

import re
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import pandas as pd
import pytest
import torch
from numpy.typing import NDArray
from streams import EXACT, assert_same_field, points, stack

from discoformer import DataError, DiScoFormer
from discoformer.columns.support import SupportWarning
from discoformer.core.frames import FRAMES
from discoformer.core.progress import follow
from discoformer.core.threads import ordered_map
from discoformer.methods import RangeWarning
from discoformer.models.mixture import sample as sample_module
from discoformer.models.mixture import stack as stack_module
from discoformer.models.mixture import stream as stream_module
from discoformer.models.mixture.landmarks import even_ranks
from discoformer.models.mixture.stream import Stream
from discoformer.models.registry import load_model
from discoformer.scale import ranks, source
from discoformer.scale.ranks import rows_at_ranks, square_radius
from discoformer.scale.source import ArraySource, NpySource, open_source
from discoformer.scale.survey import survey

# -- streamed is in memory --------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["whiten", "axis", "stack"])
def test_streamed_is_in_memory(kind: str, model_path: Path, axis_path: Path, small_chunks: None) -> None:
    models = {"whiten": load_model(model_path), "axis": load_model(axis_path)}
    models["stack"] = stack(model_path, axis_path)
    x = points()
    streamed = models[kind].fit_stream(Stream(open_source(x)))
    assert_same_field(streamed, models[kind].fit(x), x[:500])


@pytest.fixture
def many(monkeypatch: pytest.MonkeyPatch) -> None:
    """Samples of the tests are large: a part of them decides."""
    for module in (sample_module, stream_module):
        monkeypatch.setattr(module, "MANY", 1000)
    for module, name in ((sample_module, "FEW"), (stream_module, "FEW"), (stack_module, "_DECIDE")):
        monkeypatch.setattr(module, name, 600)


@pytest.mark.parametrize("kind", ["whiten", "axis", "stack"])
def test_of_many_rows_a_part_decides_streamed_or_not(
    kind: str, model_path: Path, axis_path: Path, many: None
) -> None:
    models = {"whiten": load_model(model_path), "axis": load_model(axis_path)}
    model = {**models, "stack": stack(model_path, axis_path)}[kind]
    x = points(3000)
    field = model.fit(x)
    assert_same_field(model.fit_stream(Stream(open_source(x))), field, x[:200])
    assert_same_field(model.fit(np.random.default_rng(1).permutation(x)), field, x[:200])
    assert_same_field(model.fit(x, np.full(3000, 2.0)), field, x[:200])


def test_of_many_rows_all_count_in_the_last_refinements(model_path: Path, many: None) -> None:
    core, x = load_model(model_path).core, torch.from_numpy(points(3000))
    few = sample_module.InMemory(x.unsqueeze(0)).few().points[0]
    idle = ~(x.unsqueeze(1) == few).all(-1).any(-1)
    mirrored = torch.where(idle.unsqueeze(-1), -x, x)  # of the same radius, so the same rows decide
    assert int(idle.sum()) == 2400
    for refinements, same in ((0, True), (1, False)):
        before, after = (core.encode(y, refinements=refinements).mean for y in (x, mirrored))
        assert torch.equal(before, after) == same


def test_affine_maps_change_the_answer_for_many_rows_by_the_jacobian(model_path: Path, many: None) -> None:
    x, model = points(3000), load_model(model_path)
    matrix = np.random.default_rng(2).normal(size=(3, 3))
    found = model.fit(x @ matrix + 5).log_density(x[:200] @ matrix + 5)
    expected = model.fit(x).log_density(x[:200]) - np.linalg.slogdet(matrix)[1]
    np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-7)


def test_streamed_default_is_in_memory(small_chunks: None) -> None:
    model, x = load_model("default"), points(4300, 2)
    assert_same_field(model.fit_stream(Stream(open_source(x))), model.fit(x), x[:500])


@pytest.mark.parametrize("rows", [5, 40, 300])
def test_small_samples_too(rows: int, model_path: Path, tmp_path: Path) -> None:
    x = points(rows)
    np.save(tmp_path / "x.npy", x)
    streamed = DiScoFormer(model=model_path).fit(tmp_path / "x.npy")
    assert_same_field(streamed.field_, DiScoFormer(model=model_path).fit(x).field_, x)


@pytest.mark.parametrize("chunk", [1, 97, 10_000])
def test_neither_chunks_nor_the_order_of_rows_change_the_answer(
    chunk: int, model_path: Path, axis_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = points(4200 if chunk > 1 else 60)
    model = stack(model_path, axis_path)
    expected = model.fit_stream(Stream(open_source(x)))
    monkeypatch.setattr(source, "CHUNK", 8 * 3 * chunk)
    shuffled = np.random.default_rng(1).permutation(x)
    for rows in (x, shuffled):
        assert_same_field(model.fit_stream(Stream(open_source(rows))), expected, x[:200])


def test_single_precision_of_the_network_is_kept(model_path: Path) -> None:
    model, x = load_model(model_path, dtype=torch.float32), points()
    streamed = model.fit_stream(Stream(open_source(x)))
    assert streamed.means.dtype == torch.float32
    assert_same_field(streamed, model.fit(x), x[:200], rtol=1e-3, atol=1e-3)


def test_data_far_from_the_origin(model_path: Path, small_chunks: None) -> None:
    x = points()
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
    x = points(400) * np.array([1e-120, 1.0, 1e120])
    model = load_model(model_path)
    np.testing.assert_allclose(
        model.fit_stream(Stream(open_source(x))).log_density(x), model.fit(x).log_density(x), **EXACT
    )


def test_columns_without_density_are_left_out_as_in_memory(model_path: Path, tmp_path: Path) -> None:
    a, b = points(600, 2).T
    x = np.column_stack([a, np.full(600, 0.1), b + 1e6, 3 * a - b + 7, b**2])
    np.save(tmp_path / "x.npy", x)
    fits = []
    for data in (x, tmp_path / "x.npy"):
        with pytest.warns(SupportWarning, match=r"column 1 \(constant\) and column 3 \(linear in"):
            fits.append(DiScoFormer(model=model_path).fit(data))
    memory, streamed = fits
    assert streamed.support_.tolist() == memory.support_.tolist() == [True, False, True, False, True]
    assert_same_field(streamed.field_, memory.field_, x, rtol=1e-8, atol=1e-8)
    drawn = streamed.sample(20, random_state=0)
    np.testing.assert_allclose(drawn[:, 3], 3 * drawn[:, 0] - (drawn[:, 2] - 1e6) + 7, atol=1e-6)
    np.testing.assert_allclose(drawn[:, 1], 0.1)


@pytest.mark.parametrize("noise", [1e-14, 1e-10, 1e-8, 1e-7, 1e-6, 1e-4])
def test_nearly_collinear_columns_are_judged_as_in_memory(noise: float, model_path: Path) -> None:
    a, b, c = points(500).T
    x = np.column_stack([a, b, a - b + noise * c, 1e6 + a])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SupportWarning)
        memory = DiScoFormer(model=model_path).fit(x)
        streamed = DiScoFormer(model=model_path).fit(da.from_array(x, chunks=(130, 4)))
    assert streamed.support_.tolist() == memory.support_.tolist()
    assert np.isfinite(streamed.score_samples(x)).all()


def test_nothing_tracked_is_cut_into_chunks_even_with_gradients_on(
    model_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = []
    whole = sample_module.slot_statistics
    monkeypatch.setattr(
        sample_module, "slot_statistics", lambda phi, *rest: sizes.append(phi.shape[-1]) or whole(phi, *rest)
    )
    monkeypatch.setattr(sample_module, "_CHUNK", 100_000)
    assert torch.is_grad_enabled()
    load_model(model_path).fit(points(3000))
    assert max(sizes) < 400


# -- ranks ------------------------------------------------------------------------------------


def test_rows_are_those_that_sorting_would_choose(small_chunks: None) -> None:
    x = torch.from_numpy(points())
    for name, frame in ((name, kind.fit(x)) for name, kind in FRAMES.items()):
        order = frame.normalize(x).norm(dim=-1).argsort()
        chosen = order[even_ranks(5000, 600)]
        found = Stream(open_source(x.numpy())).evenly(name, 600)
        torch.testing.assert_close(found, x[chosen], rtol=0, atol=0)


@pytest.mark.parametrize("few", [1, 50, 2**18])
def test_ties_and_repeated_rows(few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranks, "_FEW", few)
    x = torch.from_numpy(np.random.default_rng(0).integers(-2, 3, size=(3000, 2)).astype(float))
    frame = FRAMES["identity"].fit(x)
    order = np.lexsort((x[:, 1], x[:, 0], square_radius(x, frame)))
    asked = even_ranks(3000, 128)
    for rows in (x, x[torch.randperm(3000)]):
        found = rows_at_ranks(ArraySource(rows.numpy(), step=170), frame, asked)
        torch.testing.assert_close(found, x[order][asked], rtol=0, atol=0)


def test_affine_maps_choose_the_same_rows() -> None:
    x = points()
    matrix = np.random.default_rng(3).normal(size=(3, 3))
    moved = Stream(open_source(x @ matrix + 5)).evenly("whiten", 512).numpy()
    chosen = Stream(open_source(x)).evenly("whiten", 512).numpy()
    np.testing.assert_allclose(moved, chosen @ matrix + 5, rtol=1e-10, atol=1e-10)


def test_a_radius_does_not_depend_on_the_rows_around(model_path: Path) -> None:
    x = torch.from_numpy(points(1000, 7))
    frame = FRAMES["whiten"].fit(x)
    whole = square_radius(x, frame)
    for step in (1, 3, 64):
        parts = torch.cat([square_radius(part, frame) for part in x[:200].split(step)])
        assert torch.equal(parts, whole[:200])
    torch.testing.assert_close(whole, frame.normalize(x).square().sum(-1))


# -- sources ----------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["f4", "f8", "i4", "u1", ">f8"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_npy_files_of_any_kind(dtype: str, order: Any, tmp_path: Path) -> None:
    x = (np.abs(points(50)) * 9).astype(dtype, order=order)
    np.save(tmp_path / "x.npy", x)
    opened = NpySource(tmp_path / "x.npy")
    opened.step = 7
    np.testing.assert_array_equal(torch.cat(list(opened.chunks())), x.astype(np.float64))
    assert (opened.rows, opened.dim) == (50, 3)


def test_a_vector_is_one_column_and_a_memory_map_is_streamed(model_path: Path, tmp_path: Path) -> None:
    x = points(300, 1)
    np.save(tmp_path / "x.npy", x[:, 0])
    expected = DiScoFormer(model=model_path).fit(x)
    from_file = DiScoFormer(model=model_path).fit(str(tmp_path / "x.npy"))
    memory_map = np.load(tmp_path / "x.npy", mmap_mode="r")[:, None]
    assert isinstance(memory_map, np.memmap)
    mapped = DiScoFormer(model=model_path).fit(memory_map)
    for est in (from_file, mapped):
        assert est._fitted is None  # nothing was kept
        np.testing.assert_allclose(est.score_samples(x), expected.score_samples(x), **EXACT)
        np.testing.assert_allclose(est.score_samples(memory_map), expected.score_samples(x), **EXACT)
        np.testing.assert_allclose(est.log_density(tmp_path / "x.npy"), expected.score_samples(x), **EXACT)
        np.testing.assert_allclose(
            est.estimate(tmp_path / "x.npy").score, expected.score_function(x), **EXACT
        )
    assert np.isfinite(from_file.entropy().value)


def test_float32_files_answer_as_the_same_numbers_in_memory(model_path: Path, tmp_path: Path) -> None:
    x = points(500).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    streamed = DiScoFormer(model=model_path).fit(tmp_path / "x.npy")
    assert_same_field(streamed.field_, DiScoFormer(model=model_path).fit(x).field_, x.astype(np.float64))


def test_parquet_folder(model_path: Path, tmp_path: Path) -> None:
    frame = pd.DataFrame(points(900), columns=["a", "b", "c"])
    frame["text"] = "no number"
    folder = tmp_path / "parts"
    (folder / "year=2").mkdir(parents=True)
    frame[:200].to_parquet(folder / "1.parquet", row_group_size=70)
    frame[200:].to_parquet(folder / "year=2" / "2.parquet")
    opened = open_source(folder, ["c", "a", "b"])
    opened.step = 64
    np.testing.assert_array_equal(torch.cat(list(opened.chunks())), frame[["c", "a", "b"]])
    with pytest.raises(DataError, match="column 'text' holds text or dates"):
        open_source(folder)
    with pytest.raises(DataError, match="no column 'd', there are 'a', 'b'"):
        open_source(folder, ["d"])

    numbers = frame[["a", "b", "c"]]
    for part in (folder / "1.parquet", folder / "year=2" / "2.parquet"):
        pd.read_parquet(part).drop(columns="text").to_parquet(part)
    streamed, expected = DiScoFormer(model=model_path).fit(folder), DiScoFormer(model=model_path).fit(numbers)
    assert streamed.feature_names_in_.tolist() == ["a", "b", "c"]
    np.testing.assert_allclose(streamed.score_samples(numbers), expected.score_samples(numbers), **EXACT)
    frame[["c", "b", "a", "text"]].to_parquet(tmp_path / "turned.parquet")
    turned = streamed.score_samples(tmp_path / "turned.parquet")  # found by their names
    np.testing.assert_allclose(turned, expected.score_samples(numbers), **EXACT)

    numbers[["b", "a"]].to_parquet(folder / "3.parquet")
    with pytest.raises(DataError, match=r"3\.parquet: its columns or their types are not those of"):
        open_source(folder)


def test_row_labels_of_pandas_are_no_data(tmp_path: Path) -> None:
    frame = pd.DataFrame({"a": [1.0, 2.0], "b": [3, 4]}, index=pd.Index([7, 9], name="id"))
    frame.to_parquet(tmp_path / "x.parquet")
    assert open_source(tmp_path / "x.parquet").names == ("a", "b")
    frame.rename_axis(None).loc[[9, 7]].to_parquet(tmp_path / "y.parquet")
    assert open_source(tmp_path / "y.parquet").names == ("a", "b")


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_is_no_number_is_refused_with_row_and_column(
    value: float, model_path: Path, tmp_path: Path, small_chunks: None
) -> None:
    x = points(3000)
    est = DiScoFormer(model=model_path).fit(x)
    x[2345, 1] = x[2999, 0] = value
    np.save(tmp_path / "x.npy", x)
    pd.DataFrame(x, columns=["a", "b", "c"]).to_parquet(tmp_path / "x.parquet", row_group_size=1000)
    what = "NaN" if np.isnan(value) else "an infinity"
    for data, name in (
        (tmp_path / "x.npy", "column 1"),
        (tmp_path / "x.parquet", "column 'b'"),
        (da.from_array(x, chunks=(400, 2)), "column 1"),
    ):
        with pytest.raises(DataError, match=rf"X has {what} at row 2345, {name} \(2 NaN or infinite"):
            DiScoFormer(model=model_path).fit(data)
    with pytest.raises(DataError, match=f"{what} at row 2345, column 1"):
        est.score_samples(tmp_path / "x.npy")


def test_missing_values_of_parquet_are_refused(model_path: Path, tmp_path: Path) -> None:
    pd.DataFrame({"n": pd.array([1, None, 3], dtype="Int64")}).to_parquet(tmp_path / "x.parquet")
    with pytest.raises(DataError, match="NaN at row 1, column 'n'"):
        DiScoFormer(model=model_path).fit(tmp_path / "x.parquet")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("none.npy", r"none\.npy: no such file"),
        ("none.parquet", r"none\.parquet: no such file"),
        ("text.csv", r"text\.csv: give an npy file, a parquet file or a folder"),
        ("empty", "the folder has no parquet files"),
        ("broken.npy", "not an npy file of numbers"),
        ("broken.parquet", "cannot be read as parquet"),
        ("cube.npy", r"has shape \(2, 2, 2\), expected \(rows, columns\)"),
        ("complex.npy", "holds complex128, not real numbers"),
        ("one.npy", "1 row"),
        ("huge.npy", "whose squares overflow"),
    ],
)
def test_bad_files_are_refused(data: str, message: str, model_path: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for name in ("text.csv", "broken.npy", "broken.parquet"):
        (tmp_path / name).write_text("1,2\n3,4\n")
    np.save(tmp_path / "cube.npy", np.zeros((2, 2, 2)))
    np.save(tmp_path / "complex.npy", np.zeros((2, 2), dtype=complex))
    np.save(tmp_path / "one.npy", np.ones((1, 2)))
    np.save(tmp_path / "huge.npy", np.array([[1e200], [0.0]]))
    with pytest.raises(DataError, match=message):
        DiScoFormer(model=model_path).fit(tmp_path / data)


def test_what_needs_the_sample_in_memory_says_so(model_path: Path, tmp_path: Path) -> None:
    x = points(100)
    np.save(tmp_path / "x.npy", x)
    path = tmp_path / "x.npy"
    with pytest.raises(DataError, match="needs the whole sample in memory"):
        DiScoFormer(model="kde").fit(path)
    with pytest.raises(DataError, match="bounds and sample weights need the sample in memory"):
        DiScoFormer(model=model_path, bounds=(-99, None)).fit(path)
    with pytest.raises(DataError, match="bounds and sample weights need the sample in memory"):
        DiScoFormer(model=model_path).fit(path, sample_weight=np.ones(100))
    mapped = np.load(path, mmap_mode="r")  # an array after all: read where it cannot be streamed
    expected = DiScoFormer(model="kde").fit(x).score_samples(x)
    np.testing.assert_allclose(DiScoFormer(model="kde").fit(mapped).score_samples(x), expected)
    est = DiScoFormer(model=model_path).fit(path)
    with pytest.raises(DataError, match="X has 3 column"):
        est.marginal([0, 1]).score_samples(path)


# -- threads and progress ---------------------------------------------------------------------


@pytest.fixture
def two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def test_threads_change_nothing(
    two_threads: None, model_path: Path, small_chunks: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sample_module, "_CHUNK", 200_000)
    model, x = load_model(model_path), points()
    memory, streamed = model.fit(x), model.fit_stream(Stream(open_source(x)))
    torch.set_num_threads(1)
    for field, again in ((memory, model.fit(x)), (streamed, model.fit_stream(Stream(open_source(x))))):
        assert torch.equal(field.means, again.means)
        assert torch.equal(field.covariances, again.covariances)


def test_ordered_map_keeps_the_order_the_settings_and_the_errors(two_threads: None) -> None:
    with torch.no_grad():
        seen = list(ordered_map(lambda i: (i, torch.get_num_threads(), torch.is_grad_enabled()), range(50)))
    assert seen == [(i, 1, False) for i in range(50)]
    assert torch.get_num_threads() == 2
    results = ordered_map(lambda i: 1 // (3 - i), range(50))
    assert [next(results) for _ in range(3)] == [0, 0, 1]
    with pytest.raises(ZeroDivisionError):
        next(results)


def test_progress_has_rate_and_remaining_time(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with follow("counting", 10, show=True) as advance:
        advance(5)
    assert capsys.readouterr().err == ""  # not a terminal
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    with follow("counting", 10**7, show=True) as advance:
        for _ in range(4):
            advance(10**6)
    shown = capsys.readouterr().err
    assert "counting" in shown
    assert "million rows/s" in shown
    assert "40%" in shown
    assert re.search(r"(\d|-):(\d\d|--):(\d\d|--)", shown)  # what is left, or that it is not known yet


# -- memory -----------------------------------------------------------------------------------


def test_no_pass_holds_more_than_a_few_chunks(
    model_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Chunks alive at the same time, while a fit and an estimate go over thirty of them."""
    import weakref

    np.save(tmp_path / "x.npy", points(3000))
    monkeypatch.setattr(source, "CHUNK", 8 * 3 * 100)
    alive: weakref.WeakSet[torch.Tensor] = weakref.WeakSet()
    most = 0
    original = source.as_tensor

    def counted(rows: NDArray[Any]) -> torch.Tensor:
        nonlocal most
        tensor = original(rows)
        alive.add(tensor)
        most = max(most, len(alive))
        return tensor

    monkeypatch.setattr(source, "as_tensor", counted)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RangeWarning)
        est = DiScoFormer(model=model_path).fit(tmp_path / "x.npy")
        est.score_samples(tmp_path / "x.npy")
    assert 0 < most <= 2 * torch.get_num_threads() + 2
