"""Columns made normal by the network: batches, groups, rows left out."""

import pytest
import torch
from helpers import F64, mixture_network

from discoformer.models.mixture.margins import fit_margins, in_groups


@pytest.fixture(scope="module")
def sample() -> torch.Tensor:
    return torch.randn(150, 2, generator=torch.Generator().manual_seed(3), dtype=F64).exp()


def test_margins_of_a_batch_are_those_of_its_samples(sample: torch.Tensor) -> None:
    network, batch = mixture_network(True), torch.stack([sample, sample.flip(-1) * 2])
    both = fit_margins(network, batch, None)
    for k in range(2):
        alone = fit_margins(network, batch[k], None)
        torch.testing.assert_close(both.normalize(batch)[k], alone.normalize(batch[k]))
        for j in range(2):
            own = batch[k, :, j]
            found = both.maps[j].log_derivative_left_out(batch[..., j], both.normalize(batch)[..., j], None)[
                k
            ]
            expected = alone.maps[j].log_derivative_left_out(own, alone.normalize(batch[k])[..., j], None)
            torch.testing.assert_close(found, expected)


def test_groups_keep_mass_mean_and_order_of_nothing(sample: torch.Tensor) -> None:
    columns = sample.mT.unsqueeze(-1)
    weights = torch.rand(2, 150, generator=torch.Generator().manual_seed(0), dtype=F64)
    weights = weights / weights.sum(-1, keepdim=True)
    for share in (None, weights):
        found = in_groups(columns, share, 20)
        assert found.weights is not None
        assert found.points.shape == (2, 20, 1)
        mean = columns.mean(1)[:, 0] if share is None else (columns[..., 0] * share).sum(-1)
        torch.testing.assert_close((found.points[..., 0] * found.weights).sum(-1), mean)
        torch.testing.assert_close(found.weights.sum(-1), torch.ones(2, dtype=F64))
    order = torch.randperm(150)
    assert torch.equal(in_groups(columns[:, order], None, 20).points, in_groups(columns, None, 20).points)
    assert in_groups(columns, None, 150).points is columns
