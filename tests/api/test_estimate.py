"""`estimate()`: the estimator in one call, with its derivatives."""

from pathlib import Path

import numpy as np
import torch
from helpers import correlated

from discoformer import DiScoFormer, estimate

SAMPLE, QUERIES = correlated(200), correlated(20, seed=1)


def test_functional_is_the_estimator_in_one_call(model_path: Path) -> None:
    est = DiScoFormer(model=model_path).fit(SAMPLE)
    log_density, score = estimate(SAMPLE, QUERIES, model=model_path)
    np.testing.assert_allclose(log_density, est.score_samples(QUERIES), rtol=1e-12)
    np.testing.assert_allclose(score, est.score_function(QUERIES), rtol=1e-12)
    np.testing.assert_allclose(
        estimate(SAMPLE, model=model_path).log_density, est.score_samples(SAMPLE), rtol=1e-12
    )
    batch = torch.tensor(np.stack([SAMPLE, 2 * SAMPLE]))
    both = estimate(batch, batch[:, :5], model=model_path)
    np.testing.assert_allclose(both.log_density[0], est.score_samples(SAMPLE[:5]), rtol=1e-10)
    torch.testing.assert_close(both.log_density[0] - 3 * np.log(2), both.log_density[1])


def test_functional_has_the_derivatives_of_its_answers(model_path: Path) -> None:
    """In the points and in the sample, against finite differences."""
    sample = torch.tensor(SAMPLE[:12, :2], requires_grad=True)
    queries = torch.tensor(QUERIES[:3, :2], requires_grad=True)

    def answer(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(t for t in estimate(x, y, model=model_path) if t is not None)

    assert torch.autograd.gradcheck(answer, (sample, queries), atol=1e-5)
