"""The mathematics inside single experiments, against closed forms and other ways to the same number."""

from pathlib import Path

import numpy as np
import pytest
import torch
from discoformer_paper.entropy_fisher import by_default, plug_in
from discoformer_paper.equivariance import equivariance_errors
from discoformer_paper.heavy_tails import IndependentStudentT, setting
from discoformer_paper.ledger import Row, Rows
from discoformer_paper.once import Once
from discoformer_paper.ornstein_uhlenbeck import exact_values
from discoformer_paper.settings import measure_errors

from discoformer.core.checks import DataError
from discoformer.core.fields import Estimate, Field, Method
from discoformer.evaluation.held_out import PEERS
from discoformer.functionals import entropy, fisher_information
from discoformer.methods import resolve
from discoformer.models.registry import build_network
from discoformer_paper import maps, relative_fisher, runtime

OUR_NAME = "default"


def test_kde_follows_every_map_but_rotations() -> None:
    errors = equivariance_errors(PEERS["kde-scott"](), dim=2, size=64, trial=2)
    values = np.array([list(error.values()) for error in errors])
    assert (values[:4] < 1e-20).all() and (values[4:] > 1e-6).all()


def test_heavy_tails_have_the_score_of_their_density() -> None:
    family = IndependentStudentT(3.0)
    points = torch.randn(20, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    points.requires_grad_()
    log_density, score = family.estimate(points)
    (gradient,) = torch.autograd.grad(log_density.sum(), points)
    torch.testing.assert_close(score, gradient)
    laplace = setting("laplace", 4000).draw(0)
    assert float(laplace.context.var()) == pytest.approx(2.0, rel=0.15), "scale one"
    torch.testing.assert_close(laplace.truth.score.abs(), torch.ones_like(laplace.context))


def test_remembered_fits_are_the_fits(model_path: Path) -> None:
    case = setting("student", 40).draw(0)
    method = resolve(str(model_path)).method
    once = Once(method)
    expected = measure_errors(method, case, "")["score_error"]
    for _ in range(2):
        assert measure_errors(once, case, "")["score_error"] == expected
    other = setting("student", 40).draw(1)
    both = Once(method, fits=2)
    fields = [both.fit(c.context) for c in (case, other)]
    assert [both.fit(c.context) for c in (case, other)] == fields
    assert measure_errors(once, other, "")["score_error"] == measure_errors(method, other, "")["score_error"]


class Counted(Method, Field):
    """Counts how often it is fitted and asked."""

    dim = 1

    def __init__(self) -> None:
        self.fits = self.answers = 0

    def _fit(self, context: torch.Tensor, weights: torch.Tensor | None) -> "Counted":
        self.fits += 1
        return self

    def _estimate(self, queries: torch.Tensor) -> Estimate[torch.Tensor]:
        self.answers += 1
        return Estimate(queries[..., 0], self.fits * queries)


def test_remembered_answers_are_those_of_the_same_fit_and_points() -> None:
    counted = Counted()
    once = Once(counted, answers=True)
    x, y = torch.arange(6.0).double().reshape(2, 3, 1)
    for _ in range(2):
        assert torch.equal(once.fit(x).score(x), x)
    assert (counted.fits, counted.answers) == (1, 1)
    assert torch.equal(once.fit(x).score(y), y)
    assert torch.equal(once.fit(y).score(y), 2 * y)
    assert (counted.fits, counted.answers) == (2, 3)


def test_both_schemes_are_what_functionals_say(model_path: Path) -> None:
    sample = setting("student", 40).draw(0).context
    method = resolve(str(model_path)).method
    plain = (
        entropy(sample, method, split="none"),
        fisher_information(sample, method, form="square", split="none"),
    )
    assert plug_in(method, sample) == pytest.approx([float(found.value) for found in plain], rel=1e-9)
    usual = entropy(sample, method), fisher_information(sample, method)
    assert by_default(method, sample) == pytest.approx([float(found.value) for found in usual], rel=1e-9)


def test_ornstein_uhlenbeck_closed_form() -> None:
    for time in (0.0, 0.5, 2.0):
        sigma_11, sigma_22, _ = exact_values(time, 1000)
        decay = np.exp(-2 * time)
        assert sigma_11 == pytest.approx(1 + (4.25 - 1) * decay)
        assert sigma_22 == pytest.approx(1 + (0.25 - 1) * decay)
    entropy = exact_values(20.0, 10**5)[2]
    assert entropy == pytest.approx(np.log(2 * np.pi * np.e), abs=0.02)


def test_maps_are_shares_and_those_of_mixtures_are_symmetric(model_path: Path) -> None:
    sample = setting("student", 60).draw(0).context
    tiny = {"kind": "attention", "dim": 2, "layers": 1, "width": 8, "heads": 2, "feedforward": 8}
    with torch.random.fork_rng():
        torch.manual_seed(0)
        core = build_network(tiny, "whiten").double().eval()
    mixture = resolve(str(model_path)).method
    for method, shape in ((core, (1, 2)), (mixture, (1, 1))):
        found = maps.maps_of(method, sample)
        assert found.shape == (*shape, 60, 60) and maps.map_shape(method) == shape
        assert (found >= 0).all()
        torch.testing.assert_close(found.sum(-1), torch.ones(*shape, 60, dtype=torch.float64))
    torch.testing.assert_close(found, found.mT)
    with pytest.raises(DataError, match="neither attention nor components"):
        maps.maps_of(PEERS["kde-scott"](), sample)


def test_scotts_map_gives_the_score_of_scotts_estimate() -> None:
    sample = setting("laplace", 50).draw(0).context
    bandwidth = sample.std(0) * 50 ** (-1 / 6)
    shift = maps.scott_kernel(sample) @ sample - sample
    torch.testing.assert_close(shift / bandwidth.square(), PEERS["kde-scott"]().fit(sample).score(sample))


def test_maps_know_kernels_distances_and_directions() -> None:
    sample = setting("student", 80).draw(0).context
    points = maps.whitened(sample)
    for bandwidth in maps.BANDWIDTHS[::8]:
        best, found = maps.best_kernel(maps.kernel_map(points, bandwidth), sample)
        assert found == bandwidth and best == pytest.approx(1)
    assert maps.reach_and_pull(torch.eye(80, dtype=torch.float64), sample)[0] == pytest.approx(0, abs=1e-12)
    farthest = torch.cdist(points, points).argmax(1)
    assert maps.reach_and_pull(torch.eye(80, dtype=torch.float64)[farthest], sample)[0] > 1
    same = torch.zeros(80, 80, dtype=torch.float64)
    same[:, 7] = 1
    assert maps.reach_and_pull(same, sample)[1] == pytest.approx(float(points[7].norm()))
    assert sorted(maps.neighbour_order(points).tolist()) == list(range(80))


def test_relative_fisher_truth_is_that_of_many_points() -> None:
    f, g = relative_fisher.pair()
    x = f.sample(200_000, torch.Generator().manual_seed(0))
    terms = (f.score(x) - g.score(x)).square().sum(-1)
    assert float(terms.mean()) == pytest.approx(relative_fisher.true_value(), rel=0.02)


def test_runtime_fits_the_larger_sizes() -> None:
    times = {float(n): 1.0 if n < runtime.FITTED else (n / 1024) ** 1.5 for n in (256, 1024, 2048, 4096)}
    assert runtime.growth(times) == pytest.approx(1.5)
    assert np.isnan(runtime.growth({256.0: 1.0, 512.0: 2.0}))
    rows = Rows(
        Row({"d": str(dim), "n": str(n), "repeat": "0", "method": method}, {"seconds": seconds})
        for dim in runtime.DIMS
        for n in (1024, 4096, runtime.OUT_OF_MEMORY)
        for method, seconds in (
            (OUR_NAME, n / 1e3),
            ("kde-scott", n**2 / 1e6),
            (runtime.core_name(dim), n**1.5 / 1e5),
        )
    )
    claims = runtime.EXPERIMENT.summary(rows, OUR_NAME).claims
    assert [claim.holds for claim in claims] == [True, False, True, False, True]


def test_runtimes_grow_over_the_sizes_that_both_have() -> None:
    def seconds(method: str, n: int) -> float:
        return n**1.5 if method != "kde-scott" else n**1.2 if n <= 4096 else 4096**1.2 * (n / 4096) ** 3

    rows = Rows(
        Row({"d": str(dim), "n": str(n), "repeat": "0", "method": method}, {"seconds": seconds(method, n)})
        for dim in runtime.DIMS
        for method in (OUR_NAME, "kde-scott", runtime.core_name(dim))
        for n in (1024, 2048, 4096, 8192, 16384)
        if n <= 4096 or method != runtime.core_name(dim)
    )
    assert runtime.EXPERIMENT.summary(rows, OUR_NAME).claims[0].holds is False
