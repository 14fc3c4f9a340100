"""Folds by radius partition the sample and look like the whole."""

import torch
from helpers import F64, gmm_sample

from discoformer.models.mixture.folds import by_radius, hold_out


def test_folds_partition_the_sample_and_look_like_the_whole() -> None:
    x = gmm_sample(400, 2)
    seen, unseen = hold_out(by_radius(x, None), 4)
    for fold in range(4):
        together = torch.cat([seen.points[fold], unseen.points[fold]])
        torch.testing.assert_close(together[together[:, 0].argsort()], x[x[:, 0].argsort()])
    for part in (*unseen.points, by_radius(x, None, 100).points):
        assert len(part) == 100
        assert float((part.std(0) / x.std(0) - 1).abs().max()) < 0.2


def test_split_keeps_weights_with_their_points() -> None:
    x = gmm_sample(50, 2)
    weights = x[:, 0].abs() / x[:, 0].abs().sum()
    seen, unseen = hold_out(by_radius(x, weights), 5)
    inside, outside = (part.points[..., 0].abs() for part in (seen, unseen))
    torch.testing.assert_close(seen.weights, inside / inside.sum(-1, keepdim=True))
    torch.testing.assert_close(unseen.weights, outside / x[:, 0].abs().sum())


def test_points_of_a_part_are_chosen_by_their_weights() -> None:
    """Two halves of a sample, one of them with nearly all the weight: the part is of that half."""
    x = torch.cat([gmm_sample(500, 2), gmm_sample(500, 2) + 100])
    weights = torch.cat([torch.full((500,), 1.0, dtype=F64), torch.full((500,), 1e-9, dtype=F64)])
    part = by_radius(x, weights / weights.sum(), 200)
    assert part.weights is None and len(part.points) == 200
    assert float(part.points.max()) < 50
    heavy = torch.full((1000,), 1e-6, dtype=F64)
    heavy[:20] = 1.0  # worth twenty points
    assert len(by_radius(x, heavy / heavy.sum(), 200).points) == 20
