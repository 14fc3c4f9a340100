"""The loss: zero at the truth, relative, bounded far out."""

import torch

from discoformer.core.fields import Estimate
from discoformer.training.loss import task_loss


def test_loss_is_zero_at_the_truth_and_relative() -> None:
    truth = Estimate(torch.randn(2, 12), torch.randn(2, 12, 3))
    assert task_loss(truth, truth, 8, 2, 0.3).total == 0
    wrong = Estimate(truth.log_density, torch.zeros_like(truth.score))
    assert truth.log_density is not None
    nothing = task_loss(wrong, truth, 12, 0, 0.3)
    torch.testing.assert_close(nothing.score, torch.tensor(1.0))  # the zero predictor has relative error one
    scaled = Estimate(truth.log_density, 1000 * truth.score)
    torch.testing.assert_close(task_loss(wrong, scaled, 12, 0, 0.3).score, torch.tensor(1.0))


def test_far_queries_cannot_dominate_the_loss() -> None:
    truth = Estimate(torch.zeros(1, 4), torch.ones(1, 4, 1))
    truth.score[0, 3] = 1e6
    wrong = Estimate(torch.zeros(1, 4), torch.zeros(1, 4, 1))
    assert float(task_loss(wrong, truth, 2, 1, 0.0).score) <= 1.0 + 1e-6
    assert truth.log_density is not None
    truth.log_density[0, 3] = -1e9
    assert float(task_loss(wrong, truth, 2, 1, 1.0).density) <= 1.0
