"""The truth of Figure 6."""

import pytest
import torch

from discoformer_paper.experiments import relative_fisher


def test_relative_fisher_truth_is_that_of_many_points() -> None:
    f, g = relative_fisher.pair()
    x = f.sample(200_000, torch.Generator().manual_seed(0))
    terms = (f.score(x) - g.score(x)).square().sum(-1)
    assert float(terms.mean()) == pytest.approx(relative_fisher.true_value(), rel=0.02)
