"""Score matching: both losses against the divergence they estimate, and what training must satisfy."""

import pytest
import torch
from helpers import normal
from torch import Tensor

from discoformer.baselines.score_matching import ScoreMatching, implicit_loss, sliced_loss
from discoformer.core.checks import DataError
from discoformer.core.fields import PointDensity
from discoformer.priors import gaussian

LOSSES = ["implicit", "sliced"]


def curved(points: Tensor) -> Tensor:
    """A field in the plane that is no gradient; its divergence is -3 |x|^2."""
    return -(points**3) + points.flip(-1).sin()


def test_losses_of_a_linear_score_are_exact() -> None:
    x, z, matrix = normal(5, 7, 3), normal(5, 7, 3, seed=1), normal(3, 3, seed=2)
    expected = (x @ matrix).square().sum(-1) + 2 * ((z @ matrix) * z).sum(-1)
    torch.testing.assert_close(implicit_loss(lambda y: y @ matrix, x, z, 0.3), expected)
    torch.testing.assert_close(sliced_loss(lambda y: y @ matrix, x, z), expected)


def test_losses_average_to_twice_the_divergence() -> None:
    x = normal(1, 2).expand(200_000, 2)
    z = normal(200_000, 2, seed=1)
    exact = curved(x[0]).square().sum() - 6 * x[0].square().sum()
    losses = sliced_loss(curved, x, z)
    error = losses.std() / len(x) ** 0.5
    assert abs(losses.mean() - exact) < 4 * error


def test_finite_differences_tend_to_the_derivative() -> None:
    x, z = normal(50, 2), normal(50, 2, seed=1)
    gaps = [(implicit_loss(curved, x, z, a) - sliced_loss(curved, x, z)).abs().max() for a in (1e-2, 1e-3)]
    assert gaps[1] < 0.02 * gaps[0] < 1e-2  # second order


@pytest.mark.parametrize("loss", LOSSES)
def test_recovers_the_score_of_a_gaussian(loss: str) -> None:
    covariance = torch.tensor([[1.0, 0.6], [0.6, 2.0]], dtype=torch.float64)
    truth = gaussian(torch.tensor([3.0, -1.0], dtype=torch.float64), covariance)
    x = truth.sample(1000, torch.Generator().manual_seed(0))
    field = ScoreMatching(60, loss, hidden=(16,), rate=3e-2).fit(x)  # type: ignore[arg-type]
    assert not isinstance(field, PointDensity)
    score, exact = field.score(x), truth.score(x)
    assert float((score - exact).square().sum() / exact.square().sum()) < 0.05


@pytest.mark.parametrize("loss", LOSSES)
def test_networks_of_a_batch_do_not_see_each_other(loss: str) -> None:
    x, y = normal(2, 30, 2), normal(2, 5, 2, seed=1)
    method = ScoreMatching(5, loss, hidden=(8,), clip=0.01)  # type: ignore[arg-type]
    first = method.fit(x).score(y)
    changed = method.fit(torch.stack([x[0], 100 * x[1].square()])).score(y)
    torch.testing.assert_close(changed[0], first[0])
    assert not torch.allclose(changed[1], first[1])
    torch.testing.assert_close(method.fit(x[:1]).score(y[:1])[0], method.fit(x[0]).score(y[0]))


def test_rows_of_weight_zero_do_not_matter() -> None:
    x, y = normal(30, 2), normal(5, 2, seed=1)
    weights = torch.ones(30).double()
    weights[20:] = 0
    other = torch.cat([x[:20], 7 + normal(10, 2, seed=3)])
    method = ScoreMatching(5, hidden=(8,), frame="identity")
    torch.testing.assert_close(method.fit(x, weights).score(y), method.fit(other, weights).score(y))
    torch.testing.assert_close(method.fit(x, torch.ones(30)).score(y), method.fit(x).score(y))


def test_units_and_seeds() -> None:
    x, y = normal(30, 2), normal(5, 2, seed=1)
    scale = torch.tensor([1e6, 1e-3], dtype=torch.float64)
    method = ScoreMatching(5, hidden=(8,), dtype=torch.float64)
    score = method.fit(x).score(y)
    torch.testing.assert_close(method.fit(scale * x).score(scale * y), score / scale)
    torch.testing.assert_close(method.fit(x).score(y), score, atol=0, rtol=0)
    assert not torch.allclose(ScoreMatching(5, hidden=(8,), seed=1).fit(x).score(y), score)


@pytest.mark.parametrize(
    "values, message",
    [
        ({"loss": "explicit"}, "use 'implicit' or 'sliced'"),
        ({"frame": "none"}, "use one of whiten"),
        ({"steps": 0}, "positive steps"),
        ({"hidden": ()}, "hidden widths"),
    ],
)
def test_errors_say_what_to_do(values: dict[str, object], message: str) -> None:
    with pytest.raises(DataError, match=message):
        ScoreMatching(**values)  # type: ignore[arg-type]
