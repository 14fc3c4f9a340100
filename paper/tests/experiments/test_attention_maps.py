"""Maps of attention, kernels and mixtures."""

from pathlib import Path

import pytest
import torch

from discoformer.core.checks import DataError
from discoformer.methods import resolve
from discoformer.models.mixture.student import StudentMixture
from discoformer.models.registry import build_network
from discoformer_paper.experiments import attention_maps as maps
from discoformer_paper.experiments.heavy_tails import problem


def test_maps_are_shares_and_those_of_mixtures_are_symmetric(model_path: Path) -> None:
    sample = problem("student", 60).draw(0).context
    tiny = {"kind": "attention", "dim": 2, "layers": 1, "width": 8, "heads": 2, "feedforward": 8}
    with torch.random.fork_rng():
        torch.manual_seed(0)
        core = build_network(tiny, "whiten").double().eval()
    views = resolve(str(model_path)).method
    for method, shape in ((core, (1, 2)), (views, (1, 1)), (views.network, (1, 1))):
        found = maps.maps_of(method, sample)
        assert found.shape == (*shape, 60, 60) and maps.map_shape(method) == shape
        assert (found >= 0).all()
        torch.testing.assert_close(found.sum(-1), torch.ones(*shape, 60, dtype=torch.float64))
    mixture = StudentMixture(
        torch.tensor([0.3, 0.7]).double().log(),
        sample[:2],
        torch.eye(2, dtype=torch.float64).expand(2, 2, 2),
        torch.full((2,), 9.0, dtype=torch.float64),
    )
    through = maps._by_field(mixture, sample)
    torch.testing.assert_close(through, through.mT)
    with pytest.raises(DataError, match="neither attention nor components"):
        maps.maps_of(resolve("kde-scott").method, sample)


def test_scotts_map_gives_the_score_of_scotts_estimate() -> None:
    sample = problem("laplace", 50).draw(0).context
    bandwidth = sample.std(0) * 50 ** (-1 / 6)
    shift = maps.scott_kernel(sample) @ sample - sample
    torch.testing.assert_close(
        shift / bandwidth.square(), resolve("kde-scott").method.fit(sample).score(sample)
    )


def test_maps_know_kernels_distances_and_directions() -> None:
    sample = problem("student", 80).draw(0).context
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
