"""The loss: zero at the truth, relative, bounded far out."""

import torch

from discoformer.core.fields import Estimate
from discoformer.training.loss import mse_loss, relative_loss


def test_loss_is_zero_at_the_truth_and_relative() -> None:
    truth = Estimate(torch.randn(2, 12), torch.randn(2, 12, 3))
    assert relative_loss(truth, truth, 10, 0.3).total == 0
    wrong = Estimate(truth.log_density, torch.zeros_like(truth.score))
    nothing = relative_loss(wrong, truth, 12, 0.3)
    torch.testing.assert_close(nothing.score, torch.tensor(1.0))  # the zero predictor has relative error one
    scaled = Estimate(truth.log_density, 1000 * truth.score)
    torch.testing.assert_close(relative_loss(wrong, scaled, 12, 0.3).score, torch.tensor(1.0))


def test_far_queries_cannot_dominate_the_loss() -> None:
    truth = Estimate(torch.zeros(1, 4), torch.ones(1, 4, 1))
    truth.score[0, 3] = 1e6
    wrong = Estimate(torch.zeros(1, 4), torch.zeros(1, 4, 1))
    assert float(relative_loss(wrong, truth, 3, 0.0).score) <= 1.0 + 1e-6
    truth.log_density[0, 3] = -1e9
    assert float(relative_loss(wrong, truth, 3, 1.0).density) <= 1.0


def test_the_papers_loss_is_the_mean_of_squares_and_of_the_score_alone_if_alpha_is_zero() -> None:
    truth = Estimate(torch.randn(2, 12), torch.randn(2, 12, 3))
    estimate = Estimate(truth.log_density + 2, truth.score - 1)
    found = mse_loss(estimate, truth, 0.25)
    torch.testing.assert_close(torch.stack(found), torch.tensor([0.25 * 4 + 0.75 * 3, 4, 3]))
    unknown = Estimate(torch.full_like(truth.log_density, torch.nan), estimate.score)
    assert float(mse_loss(unknown, truth, 0.0).total) == float(found.score)
