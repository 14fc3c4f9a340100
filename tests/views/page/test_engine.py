"""The engine of the page, in node, against Python and scipy."""

import json
import math
import shutil
import subprocess
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from page_densities import KINDS, fit_case
from scipy import special, stats
from torch import Tensor

from discoformer.columns.kinds import CONTINUOUS
from discoformer.columns.left_out import Restriction
from discoformer.columns.split import kinds_of
from discoformer.core.composed import Pushforward
from discoformer.core.fields import Density
from discoformer.views.page.numbers import density_numbers
from discoformer.views.page.render import bundle
from discoformer.views.page.unusual import read_levels

NODE = shutil.which("node")
DRIVER = Path(__file__).parent / "engine.mjs"
CLOSE = 1e-9
pytestmark = pytest.mark.skipif(NODE is None, reason="no node on this machine: the engine is not tested")


@cache
def program(folder: Path) -> Path:
    path = folder / "engine.mjs"
    path.write_text(
        bundle("density.js", "levels.js", "random.js") + DRIVER.read_text(encoding="utf-8"), encoding="utf-8"
    )
    return path


def run(task: dict[str, Any], folder: Path) -> list[Any]:
    """What the engine answers, in a process of its own."""
    command = [str(NODE), str(program(folder))]
    text = json.dumps(without_gaps(task), allow_nan=False)
    done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    answers: list[Any] = json.loads(done.stdout)
    return answers


def without_gaps(task: Any) -> Any:
    """JSON has no word for a gap: null stands for it."""
    if isinstance(task, dict):
        return {key: without_gaps(value) for key, value in task.items()}
    if isinstance(task, list):
        return [without_gaps(value) for value in task]
    return None if isinstance(task, float) and math.isnan(task) else task


def numbers(found: Sequence[float | str]) -> NDArray[np.float64]:
    return np.array([float(value) for value in found])


def close(found: Sequence[float | str], expected: Any, near: float = CLOSE) -> None:
    wanted = expected.detach().numpy() if isinstance(expected, Tensor) else np.asarray(expected)
    np.testing.assert_allclose(numbers(found), wanted.ravel(), rtol=near, atol=near)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("engine")


@pytest.mark.parametrize(
    ("name", "expected", "rows"),
    [
        ("lgamma", special.gammaln, [np.geomspace(1e-3, 1e6, 200)]),
        ("erf", special.erf, [np.linspace(-6, 6, 201)]),
        ("erfc", special.erfc, [np.linspace(-6, 26, 401)]),
        ("ndtr", special.ndtr, [np.linspace(-37, 9, 401)]),
        ("logNdtr", special.log_ndtr, [np.linspace(-1e4, 9, 401)]),
        (
            "ndtri",
            special.ndtri,
            [np.append(np.geomspace(1e-290, 0.5, 300), 1 - np.geomspace(1e-9, 0.5, 50))],
        ),
    ],
)
def test_special_functions_are_those_of_scipy(name: str, expected: Any, rows: Any, folder: Path) -> None:
    (found,) = run({"special": [[name, np.transpose(rows).tolist()]]}, folder)
    np.testing.assert_allclose(
        numbers(found), expected(*rows), rtol=1e-13, atol=1e-14 if name == "lgamma" else 1e-17
    )


def test_students_distribution_function_is_that_of_scipy(folder: Path) -> None:
    """From tails of nu = 2 to what cannot be told from a normal law."""
    t, nu = (part.ravel() for part in np.meshgrid(np.linspace(-30, 30, 121), np.geomspace(2, 1e9, 60)))
    (found,) = run({"special": [["studentCdf", np.transpose([t, nu]).tolist()]]}, folder)
    np.testing.assert_allclose(numbers(found), special.stdtr(nu, t), atol=2e-13)


def test_gain_of_log_gamma_keeps_its_digits(folder: Path) -> None:
    """Γ(a + 1) / Γ(a) = a, also where the logarithms are too large to be subtracted."""
    a = np.geomspace(0.5, 1e12, 100)
    one, two = run({"special": [["lgammaGain", [[x, h] for x in a.tolist()]] for h in (1, 2)]}, folder)
    np.testing.assert_allclose(numbers(one), 0, atol=1e-14)
    np.testing.assert_allclose(numbers(two), np.log1p(1 / a), atol=1e-14)


def test_far_tail_of_the_normal_quantile_is_inverted(folder: Path) -> None:
    z = np.linspace(-200, -37, 60)
    (found,) = run({"special": [["logNdtrInverse", special.log_ndtr(z)[:, None].tolist()]]}, folder)
    np.testing.assert_allclose(numbers(found), z, rtol=1e-13)


@pytest.fixture(scope="module", params=KINDS)
def case(request: pytest.FixtureRequest, model_path: Path) -> tuple[Density, Tensor]:
    return fit_case(request.param, model_path)


def _columns(field: Density) -> list[list[int]]:
    """Single columns, pairs in both orders, and most columns."""
    support = field.support
    return [support[:1], support[-1:], support[:2], [support[2], support[0]], support[1:]]


def test_log_density_and_score(case: tuple[Density, Tensor], folder: Path) -> None:
    field, rows = case
    points = torch.cat([rows[:150], field.sample(50, torch.Generator().manual_seed(0))])
    expected = field.estimate(points)
    at = [points.flatten().tolist()]
    found, alone = run(
        {
            "numbers": density_numbers(field),
            "asks": [{"through": [], "verb": verb, "at": at} for verb in ("estimate", "logDensity")],
        },
        folder,
    )
    close(found["logDensity"], expected.log_density)
    close(alone, expected.log_density)
    size = expected.score.abs().amax(-2).clamp_min(1e-300)
    close(
        (numbers(found["score"]).reshape(points.shape) / size.numpy()).ravel().tolist(), expected.score / size
    )


def test_beyond_bounds_there_is_nothing(folder: Path) -> None:
    field, rows = fit_case("blended", Path())
    points = rows[:4].clone()
    points[0, 1], points[1, 2], points[2, 3] = -1e-3, 1.5, 3.1
    expected = field.estimate(points)
    assert expected.log_density.isneginf().tolist() == [True, True, True, False]
    task = {"through": [], "verb": "estimate", "at": [points.flatten().tolist()]}
    (found,) = run({"numbers": density_numbers(field), "asks": [task]}, folder)
    assert found["logDensity"][:3] == ["-Infinity"] * 3
    close(found["score"], expected.score)


@pytest.mark.filterwarnings("ignore:queries differ")
def test_beyond_bounds_of_left_out_columns_there_is_nothing(folder: Path, model_path: Path) -> None:
    field, rows = fit_case("shares", model_path)
    points = rows[:3].clone()
    points[0, :2] += points[0, 4:]  # too much for the last
    points[1, 4] = -0.1
    expected = field.estimate(points)
    assert expected.log_density.isneginf().tolist() == [True, True, False]
    task = {"through": [], "verb": "estimate", "at": [points.flatten().tolist()]}
    (found,) = run({"numbers": density_numbers(field), "asks": [task]}, folder)
    assert found["logDensity"][:2] == ["-Infinity"] * 2
    close(found["score"], expected.score)


def test_margins(case: tuple[Density, Tensor], folder: Path) -> None:
    field, rows = case
    asks, expected = [], []
    for columns in _columns(field):
        points = rows[:200, columns]
        at = [points.flatten().tolist()]
        asks.append({"through": [["marginal", columns]], "verb": "logDensity", "at": at})
        expected.append(field.marginal(columns).log_density(points))
    for found, wanted in zip(
        run({"numbers": density_numbers(field), "asks": asks}, folder), expected, strict=True
    ):
        close(found, wanted)


def test_conditionals(case: tuple[Density, Tensor], folder: Path) -> None:
    """One answer at 40 points for each of five rows: 200 in all for each choice of columns."""
    field, rows = case
    asks, expected = [], []
    for columns in _columns(field):
        rest = [c for c in field.support if c not in columns]
        for row in range(5):
            values, points = rows[row, columns], rows[:40, rest]
            steps = [["conditional", columns, values.tolist()]]
            asks.append({"through": steps, "verb": "logDensity", "at": [points.flatten().tolist()]})
            expected.append(field.conditional(columns, values).log_density(points))
    for found, wanted in zip(
        run({"numbers": density_numbers(field), "asks": asks}, folder), expected, strict=True
    ):
        close(found, wanted)


def test_distribution_functions_and_quantiles(case: tuple[Density, Tensor], folder: Path) -> None:
    """Of single columns, and of a column given all others; labels have no order."""
    field, rows = case
    asks, cdfs, quantiles = [], [], []
    shares = [0.01, 0.25, 0.5, 0.9, 0.999]
    kinds = kinds_of(field)
    for column in (c for c in field.support if kinds[c].kind != "category"):
        others = [c for c in field.support if c != column]
        for steps, part in (
            ([["marginal", [column]]], field.marginal([column])),
            (
                [["conditional", others, rows[7, others].tolist()]],
                field.conditional(others, rows[7, others]),
            ),
        ):
            points = rows[:200, [column]]
            points = points[~points.isnan()].unsqueeze(-1)
            asks.append({"through": steps, "verb": "cdf", "at": [points.flatten().tolist()]})
            asks.append({"through": steps, "verb": "quantile", "at": [shares]})
            cdfs.append(part.cdf(points))
            quantiles.append(part.quantile(torch.tensor(shares, dtype=torch.float64)))
    answers = run({"numbers": density_numbers(field), "asks": asks}, folder)
    for found, wanted in zip(answers[::2], cdfs, strict=True):
        close(found, wanted)
    for found, wanted in zip(answers[1::2], quantiles, strict=True):
        close(found, wanted)


def test_draws_follow_the_law(case: tuple[Density, Tensor], folder: Path) -> None:
    """Of single columns by Kolmogorov's test, of rows by levels: those of draws are uniform."""
    field, _ = case
    ask = {"through": [], "verb": "sample", "at": [2000]}
    (found,) = run({"numbers": density_numbers(field), "asks": [ask]}, folder)
    rows = torch.tensor(numbers(found)).reshape(2000, field.dim)
    drawn = field.sample(4000, torch.Generator().manual_seed(0))
    own = field.log_density(drawn).detach().numpy()
    assert stats.ks_2samp(field.log_density(rows).detach().numpy(), own).pvalue > 1e-4
    kinds = kinds_of(field)
    cut = isinstance(field, Pushforward) and any(isinstance(t, Restriction) for t in field.transforms)
    for column in field.support:
        assert stats.ks_2samp(rows[:, column].numpy(), drawn[:, column].numpy()).pvalue > 1e-4
        if kinds[column] == CONTINUOUS and not cut:  # else it repeats, or margins do not know the cut
            below = field.marginal([column]).cdf(rows[:, [column]]).numpy()
            assert stats.kstest(below, "uniform").pvalue > 1e-4


def test_random_numbers_have_their_laws(folder: Path) -> None:
    draw = [["gammaDraws", [[shape, 2000] for shape in (1.05, 4.0, 300.0)]]]
    (found,) = run({"special": draw}, folder)
    for shape, values in zip((1.05, 4.0, 300.0), found, strict=True):
        assert stats.kstest(values, "gamma", (shape,)).pvalue > 1e-3


def test_grids_are_densities(case: tuple[Density, Tensor], folder: Path) -> None:
    """The quick way of pictures agrees with the careful one, within a millionth of the peak."""
    field, rows = case
    kinds = kinds_of(field)
    pair = [c for c in field.support if kinds[c].kind != "category"][:2]
    if len(pair) < 2:
        return
    ends = [rows[:, c][~rows[:, c].isnan()] for c in pair]
    xs, ys = (torch.linspace(float(x.min()) - 0.5, float(x.max()) + 0.5, 20) for x in ends)
    mesh = torch.stack(torch.meshgrid(xs, ys, indexing="xy"), -1).reshape(-1, 2).double()
    ask = {
        "through": [["marginal", pair], ["slice", [None, None]]],
        "verb": "densityGrid",
        "at": [xs.tolist(), ys.tolist()],
    }
    (found,) = run({"numbers": density_numbers(field), "asks": [ask]}, folder)
    expected = field.marginal(pair).log_density(mesh).exp()
    close((numbers(found) / float(expected.max())).tolist(), expected / expected.max(), 1e-6)


def test_slices_are_the_density_beside_labels_and_atoms(folder: Path, model_path: Path) -> None:
    """A slice is of the numbers: at any point the joint density with the label, or without atoms."""
    field, _ = fit_case("mixed", model_path)
    x, amount = torch.linspace(-3, 7, 40).double(), torch.linspace(0.01, 9, 40).double()
    one, level = torch.ones_like(x), torch.ones_like(x)
    at = [
        ([1, 0], [None, 2], [x, 2 * level]),
        ([5, 2], [1, None], [one, amount]),
        ([2, 0], [None, 0], [amount, 0 * level]),
        ([4, 2, 0], [None, 1, 1], [amount, 5 * one, level]),
    ]
    asks, expected = [], []
    for columns, codes, points in at:
        free = next(points[k] for k, code in enumerate(codes) if code is None)
        steps = [["marginal", columns], ["slice", codes]]
        asks.append({"through": steps, "verb": "logDensity", "at": [free.tolist()]})
        expected.append(field.marginal(columns).log_density(torch.stack(points, -1)))
    answers = run({"numbers": density_numbers(field), "asks": asks}, folder)
    for found, wanted in zip(answers, expected, strict=True):
        close(found, wanted)


def test_levels_are_shares_of_draws(case: tuple[Density, Tensor], folder: Path) -> None:
    """Of a point in all columns, by a table of quantiles; the page and Python read the same table."""
    field, rows = case
    draws = field.log_density(field.sample(4000, torch.Generator().manual_seed(0))).numpy()
    table = np.quantile(draws, np.linspace(0, 1, 401))
    at = field.log_density(rows[:200]).numpy()
    (found,) = run({"special": [["levelOf", [[value, table.tolist()] for value in at.tolist()]]]}, folder)
    close(found, read_levels(at, table))
    denser = draws[None] > (at + 1e-9 * (1 + np.abs(at)))[:, None]  # by more than rounding: labels repeat
    assert np.abs(numbers(found) - denser.mean(1)).max() < 0.005


def test_levels_of_a_grid_hold_their_share(folder: Path) -> None:
    """Of a normal law in two columns the level at radius r is 1 - exp(-r^2 / 2), and its inverse."""
    axis = np.linspace(-6, 6, 201)
    radius = np.hypot(*np.meshgrid(axis, axis))
    density = np.exp(-(radius**2) / 2).ravel().tolist()
    depths, levels = [0.0, 0.1, 1.0, 3.0, 30.0], [0.05, 0.5, 0.8, 0.95, 0.999]
    asks = [
        ["gridLevel", [[density, -depth] for depth in depths]],
        ["gridDepth", [[density, x] for x in levels]],
    ]
    found, back = run({"special": asks}, folder)
    np.testing.assert_allclose(numbers(found), 1 - np.exp(-np.array(depths)), atol=5e-3)
    np.testing.assert_allclose(-numbers(back), -np.log1p(-np.array(levels)), atol=0.05)
