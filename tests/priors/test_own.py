"""A prior of one's own: the score is completed, mistakes are named, and it can be mixed and described."""

import pytest
import torch
from own_prior import StripePrior, Stripes
from torch import Tensor

from discoformer.core.checks import DataError
from discoformer.priors import (
    BroadPrior,
    GMMPrior,
    MixedPrior,
    OwnPrior,
    TablePrior,
    check_prior,
    prior_from_config,
)
from discoformer.priors.own import Drawn, Target


class _Made(OwnPrior):
    """A prior around one target."""

    def __init__(self, target: Target) -> None:
        self.target = target

    def distributions(
        self, batch: int, dim: int, generator: torch.Generator | None, dtype: torch.dtype
    ) -> Target:
        return self.target


def test_the_score_is_the_gradient_and_keeps_a_graph_where_one_is_wanted() -> None:
    drawn = StripePrior().draw(2, 2, torch.Generator().manual_seed(0), torch.float64)
    points = drawn.sample(5, torch.Generator().manual_seed(1)).requires_grad_()
    log_density, score = drawn.estimate(points)
    (gradient,) = torch.autograd.grad(log_density.sum(), points, retain_graph=True)
    torch.testing.assert_close(gradient, score, atol=1e-12, rtol=0)
    assert torch.autograd.grad(score.sum(), points)[0].abs().sum() > 0
    with torch.no_grad():
        torch.testing.assert_close(drawn.score(points.detach()), score.detach())


def test_a_score_that_is_given_is_used() -> None:
    class Known(Stripes):
        def score(self, points: Tensor) -> Tensor:
            return torch.full_like(points, 7.0)

    drawn = Drawn(Known(torch.zeros(1, 1).double()), 1, 2)
    assert bool((drawn.score(torch.zeros(1, 3, 2).double()) == 7).all())


def test_it_is_described_by_its_import_path_and_can_be_mixed() -> None:
    both = MixedPrior((StripePrior(turn=0.5), GMMPrior()), (3.0, 1.0))
    assert prior_from_config(both.describe()) == both
    assert both.describe()["priors"][0] == {"name": "own_prior:StripePrior", "turn": 0.5}


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"name": "own_prior:NoSuch"}, "cannot be imported"),
        ({"name": "own_prior:Stripes"}, "is no prior: subclass"),
        ({"name": "own_prior:StripePrior", "speed": 1}, "no field 'speed'; it has turn"),
    ],
)
def test_what_cannot_be_imported_says_so(config: dict[str, object], message: str) -> None:
    with pytest.raises(DataError, match=message):
        prior_from_config(config)


@pytest.mark.parametrize("prior", [StripePrior(), BroadPrior(), GMMPrior()])
def test_exact_priors_pass_the_check(prior: OwnPrior) -> None:
    check_prior(prior, 2)


def test_a_sampler_of_another_law_and_a_missing_constant_are_found() -> None:
    class Wide(Stripes):
        def sample(self, n: int, generator: torch.Generator | None = None) -> Tensor:
            return 1.1 * super().sample(n, generator)

    class Line:
        def sample(self, n: int, generator: torch.Generator | None = None) -> Tensor:
            return torch.randn(8, n, 1, generator=generator, dtype=torch.float64)

        def log_density(self, points: Tensor) -> Tensor:
            return -0.5 * points.square().sum(-1)

    with pytest.raises(DataError, match="do not belong together"):
        check_prior(_Made(Wide(torch.zeros(8, 1).double())), 2)
    with pytest.raises(DataError, match="integrate to 2.5"):
        check_prior(_Made(Line()), 1)


def test_wrong_shapes_are_refused_by_the_name_of_the_class() -> None:
    class Flat(Stripes):
        def log_density(self, points: Tensor) -> Tensor:
            return super().log_density(points).sum(-1)

    class Constant(Stripes):
        def log_density(self, points: Tensor) -> Tensor:
            return torch.zeros(points.shape[:-1])

    phase = torch.zeros(3, 1)
    with pytest.raises(
        DataError, match=r"Flat.log_density returns \(3,\), expected a tensor of shape \(3, 4\)"
    ):
        Drawn(Flat(phase), 3, 2).estimate(torch.zeros(3, 4, 2))
    with pytest.raises(DataError, match=r"Stripes.sample returns \(3, 4, 2\), expected .* \(3, 4, 5\)"):
        Drawn(Stripes(phase), 3, 5).sample(4)
    with pytest.raises(DataError, match="Constant.log_density has no gradient"):
        Drawn(Constant(phase), 3, 2).estimate(torch.zeros(3, 4, 2))


def test_table_prior_stays_in_the_mixture() -> None:
    assert isinstance(MixedPrior().priors[1], TablePrior)


def test_a_log_density_that_is_nan_is_laid_to_its_class() -> None:
    class Lost(Stripes):
        def log_density(self, points: Tensor) -> Tensor:
            return super().log_density(points) * torch.nan

    drawn = _Made(Lost(torch.zeros(2, 1))).draw(2, 2)
    with pytest.raises(DataError, match=r"Lost.log_density returns NaN: repair it"):
        drawn.log_density(drawn.sample(5))
