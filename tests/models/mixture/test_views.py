"""Views of a sample, weighed by the likelihood of rows that were left out."""

import pytest
import torch

from discoformer import load_model
from discoformer.models.mixture.views import Views
from discoformer.models.mixture.weigh import chances

F64 = torch.float64


@pytest.fixture(scope="module")
def views() -> Views:
    """The shipped one: random decisions are chaotic, and a last bit is enough for another merge."""
    model = load_model("default")
    assert isinstance(model, Views)
    return model


@pytest.fixture(scope="module")
def sample() -> torch.Tensor:
    return torch.randn(150, 2, generator=torch.Generator().manual_seed(3), dtype=F64).exp()


def test_score_is_the_gradient_and_mass_is_one(views: Views, sample: torch.Tensor) -> None:
    density = views.fit(sample)
    x = sample[:20].clone().requires_grad_()
    log_density, score = density.estimate(x)
    torch.testing.assert_close(torch.autograd.grad(log_density.sum(), x)[0], score, rtol=1e-7, atol=1e-7)
    one = density.marginal([0])
    line = torch.linspace(-200, 300, 200_001, dtype=F64)[:, None]
    assert float(torch.trapezoid(one.log_density(line).exp(), line[:, 0])) == pytest.approx(1, abs=2e-3)


def test_a_batch_is_its_samples(views: Views, sample: torch.Tensor) -> None:
    batch = torch.stack([sample, sample.flip(-1) * 2])
    weights = torch.rand(2, 150, generator=torch.Generator().manual_seed(0), dtype=F64)
    for share in (None, weights / weights.sum(-1, keepdim=True)):
        found = views.fit(batch, share)
        assert found.log_weight.shape == (2, 3)
        for k in range(2):
            own = None if share is None else share[k]
            alone = views.fit(batch[k], own)
            torch.testing.assert_close(found.log_density(batch)[k], alone.log_density(batch[k]))
            torch.testing.assert_close(found.left_out(batch, share)[k], alone.left_out(batch[k], own))


def test_a_batch_of_unlike_samples_is_its_samples(views: Views) -> None:
    """In some of them one view is silent, and each merges to another number of slots."""
    normal = torch.randn(5, 200, 2, generator=torch.Generator().manual_seed(1), dtype=F64)
    clusters, curve = normal[1].clone(), normal[4].clone()
    clusters[:100] += 5
    curve[:, 1] = curve[:, 0] ** 2 + 0.2 * curve[:, 1]
    batch = torch.stack([normal[0], clusters, normal[2] ** 3, normal[3].exp(), curve])
    found = views.fit(batch)
    assert bool((found.log_weight == -torch.inf).any())
    for k, alone in enumerate(map(views.fit, batch)):
        torch.testing.assert_close(found.log_weight[k], alone.log_weight)
        torch.testing.assert_close(found.estimate(batch).score[k], alone.score(batch[k]))
        torch.testing.assert_close(found.left_out(batch)[k], alone.left_out(batch[k]))


def test_single_precision_answers_in_double(sample: torch.Tensor) -> None:
    single, double = (load_model("default", dtype=dtype).fit(sample) for dtype in (torch.float32, F64))
    found, expected = single.log_density(sample), double.log_density(sample)
    assert found.dtype == F64
    torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-3)


def test_single_precision_takes_weights(views: Views, sample: torch.Tensor) -> None:
    weights = torch.rand(150, generator=torch.Generator().manual_seed(0))
    found, expected = (views.fit(x, weights).log_density(sample) for x in (sample.float(), sample))
    torch.testing.assert_close(found.double(), expected, rtol=1e-3, atol=1e-3)


def test_a_view_that_is_not_heard_changes_nothing_between_the_others(views: Views) -> None:
    """It may seem far better, because the others were merged since."""
    left_out = torch.randn(3, 200, generator=torch.Generator().manual_seed(5), dtype=F64)
    left_out[2] += 100
    both = chances(left_out[:2], None)
    alone = views._chances(left_out, None, torch.tensor([True, True, False]))
    torch.testing.assert_close(alone, torch.cat([both, torch.zeros(1, dtype=F64)]))
    assert float(views._chances(left_out, None)[2]) == pytest.approx(1)


def test_columns_that_are_nearly_copies_go_to_the_view_without_axes(views: Views) -> None:
    """Clusters along the diagonal, thin across: with axes they would be widened."""
    generator = torch.Generator().manual_seed(6)
    along = torch.randn(600, 1, generator=generator, dtype=F64)
    rows = along + torch.tensor([[0.0, 0.1, -0.1]], dtype=F64)
    rows = rows + 0.01 * torch.randn(600, 3, generator=generator, dtype=F64)
    rows[::2, 0] += 0.1
    assert float(views.fit(rows).log_weight.exp()[2]) > 0.5


@pytest.mark.parametrize("lost", [0, 1, 2])
def test_a_view_without_an_answer_has_no_chance(views: Views, lost: int) -> None:
    left_out = torch.randn(3, 40, generator=torch.Generator().manual_seed(0), dtype=F64)
    left_out[lost] = torch.nan
    found = views._chances(left_out, None)
    assert float(found[lost]) == 0 and float(found.sum()) == pytest.approx(1)


def test_rows_that_repeat_can_be_asked_in_single_precision_with_gradients() -> None:
    network = load_model("default", torch.float32, trainable=True)
    rows = torch.randn(5, 2, generator=torch.Generator().manual_seed(0)).repeat(40, 1)
    assert bool(network.fit(rows).log_density(rows).isfinite().all())
