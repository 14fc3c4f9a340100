"""SD-KDE: where the points go, the order of the bias, the bandwidth rule, the sources of the score."""

import numpy as np
import pytest
import torch
from helpers import normal
from torch import Tensor

from discoformer.baselines.kde import KDE
from discoformer.baselines.sdkde import SDKDE, AutogradScore, sdkde_frame
from discoformer.core.checks import DataError
from discoformer.core.fields import Estimate, Field, Method
from discoformer.models.registry import build_network
from discoformer.priors import LocationScaleMixture, gaussian


class Flat(Field):
    """Score zero everywhere."""

    @property
    def dim(self) -> int:
        return 2

    def _score(self, queries: Tensor) -> Tensor:
        return torch.zeros_like(queries)


def standard_normal(dim: int) -> LocationScaleMixture:
    return gaussian(torch.zeros(dim, dtype=torch.float64), torch.eye(dim, dtype=torch.float64))


def close(one: Estimate[Tensor], other: Estimate[Tensor]) -> None:
    torch.testing.assert_close(one.log_density, other.log_density)
    torch.testing.assert_close(one.score, other.score)


def test_without_a_score_it_is_the_plain_estimate() -> None:
    x, y = normal(40, 2), normal(10, 2, seed=1)
    close(SDKDE(Flat(), "scott").fit(x).estimate(y), KDE("scott").fit(x).estimate(y))


@pytest.mark.parametrize("bandwidth", [0.6, [0.3, 0.9], [[0.5, 0.2], [0.2, 0.4]]])
def test_points_move_by_half_the_kernel_covariance_times_the_score(bandwidth: object) -> None:
    x, y = normal(40, 2), normal(10, 2, seed=1)
    h = torch.as_tensor(bandwidth, dtype=torch.float64)
    kernel = h if h.ndim == 2 else torch.diag(h.expand(2).square())
    moved = x - 0.5 * x @ kernel  # the score of the standard normal is -x
    close(SDKDE(standard_normal(2), bandwidth).fit(x).estimate(y), KDE(kernel).fit(moved).estimate(y))


def test_the_second_moment_is_wrong_in_fourth_order_only() -> None:
    h = 0.5
    x = normal(200, 1)
    x = (x - x.mean()) / x.std(correction=0)
    grid = torch.linspace(-12, 12, 8001, dtype=torch.float64).unsqueeze(-1)

    def moments(method: Method) -> list[float]:
        density = method.fit(x).log_density(grid).exp()
        return [float(torch.trapezoid(density * grid[:, 0] ** k, grid[:, 0])) for k in (0, 1, 2)]

    assert moments(KDE(h)) == pytest.approx([1, 0, 1 + h**2], abs=1e-9)
    assert moments(SDKDE(standard_normal(1), h)) == pytest.approx([1, 0, 1 + h**4 / 4], abs=1e-9)


def test_empirical_is_the_score_of_the_kernel_estimate_with_the_same_bandwidth() -> None:
    x, y = normal(40, 2), normal(10, 2, seed=1)
    weights = normal(40, seed=2).exp()
    for bandwidth in ("scott", "scott-full", 0.4):
        one = SDKDE("empirical", bandwidth).fit(x, weights)
        close(one.estimate(y), SDKDE(KDE(bandwidth), bandwidth).fit(x, weights).estimate(y))


def test_the_true_score_beats_the_plain_estimate_at_the_same_bandwidth() -> None:
    truth = LocationScaleMixture(
        torch.tensor([0.4, 0.6]).double(),
        torch.tensor([[-2.0], [2.0]]).double(),
        torch.tensor([[0.5], [1.0]]).double(),
    )
    x = truth.sample(4000, torch.Generator().manual_seed(0))
    grid = torch.linspace(-8, 8, 321, dtype=torch.float64).unsqueeze(-1)

    def error(method: Method) -> float:
        gap = method.fit(x).log_density(grid).exp() - truth.log_density(grid).exp()
        return float(gap.square().mean())

    plain, empirical, exact = error(KDE()), error(SDKDE()), error(SDKDE(truth))
    assert exact < 0.5 * empirical < 0.5 * plain


@pytest.mark.parametrize("dim, constant", [(1, 0.4), (2, 0.65), (3, 0.65)])
def test_rule_of_the_authors(dim: int, constant: float) -> None:
    x = normal(2, 101, dim) ** 3  # heavy tails: the quartiles decide
    x[0] = normal(101, dim).sign() + 0.1 * normal(101, dim)  # two modes: the standard deviation decides
    low, high = np.quantile(x.numpy(), [0.25, 0.75], axis=-2)
    std = x.numpy().std(-2, ddof=1)
    assert (std[0] < (high - low)[0] / 1.34).all() and (std[1] > (high - low)[1] / 1.34).all()
    expected = constant * np.minimum(std, (high - low) / 1.34) * 101 ** (-1 / (dim + 8))
    frame = sdkde_frame(x)
    np.testing.assert_allclose(frame.inverse.diagonal(dim1=-2, dim2=-1), expected, rtol=1e-12)
    uniform = torch.full((2, 101), 1 / 101, dtype=torch.float64)
    torch.testing.assert_close(sdkde_frame(x, uniform).inverse, frame.inverse)


def test_rule_when_half_of_the_rows_are_equal() -> None:
    x = torch.cat([torch.zeros(60, 1), normal(40, 1)]).double()
    assert float(sdkde_frame(x).inverse) == pytest.approx(0.4 * float(x.std()) * 100 ** (-1 / 9))


def test_rule_weighs_the_quartiles() -> None:
    x = torch.arange(100.0, dtype=torch.float64).unsqueeze(-1)
    weights = torch.ones(100, dtype=torch.float64)
    weights[:50] = 1e-9
    heavy = sdkde_frame(x, weights / weights.sum()).inverse
    assert float(heavy) == pytest.approx(float(sdkde_frame(x[50:]).inverse), rel=0.01)


@pytest.mark.parametrize("bandwidth", ["scott", "sd-kde"])
def test_equivariance_batches_and_memory(bandwidth: str) -> None:
    x, y = normal(2, 60, 2), normal(2, 10, 2, seed=1)
    scale, shift = torch.tensor([100.0, 0.01], dtype=torch.float64), 5.0
    log_density, score = SDKDE(bandwidth=bandwidth).fit(x).estimate(y)
    moved = SDKDE(bandwidth=bandwidth, memory=999).fit(x * scale + shift).estimate(y * scale + shift)
    close(Estimate(log_density - scale.log().sum(), score / scale), moved)
    for b in range(2):
        close(Estimate(log_density[b], score[b]), SDKDE(bandwidth=bandwidth).fit(x[b]).estimate(y[b]))


@pytest.mark.parametrize("core", ["unified", "attention"])
def test_autograd_score_is_the_gradient_of_the_log_density(core: str) -> None:
    torch.manual_seed(0)
    if core == "unified":
        values = {"kind": core, "layers": 1, "width": 8, "heads": 2, "slots": 4}
    else:
        values = {"kind": core, "dim": 2, "layers": 1, "width": 8, "heads": 2, "feedforward": 8}
    network = build_network(values, "whiten").double().eval()
    x, y = normal(30, 2), normal(5, 2, seed=1)
    field, plain = AutogradScore(network).fit(x), network.fit(x)
    step = 1e-5 * torch.eye(2, dtype=torch.float64)
    slopes = [(plain.log_density(y + e) - plain.log_density(y - e)) / 2e-5 for e in step]
    torch.testing.assert_close(field.score(y), torch.stack(slopes, -1), atol=1e-7, rtol=1e-6)
    torch.testing.assert_close(field.log_density(y), plain.log_density(y))
    assert bool(torch.isfinite(SDKDE(AutogradScore(network)).fit(x).log_density(y)).all())


def test_errors_say_what_to_do() -> None:
    with pytest.raises(DataError, match="use 'empirical', a method or a field"):
        SDKDE("magic").fit(normal(10, 1))
    with pytest.raises(DataError, match="use one of sd-kde, scott, "):
        SDKDE(bandwidth="magic").fit(normal(10, 1))
