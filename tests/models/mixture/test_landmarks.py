"""Landmarks do not depend on order or rotation."""

import torch
from helpers import F64, gmm_sample

from discoformer.models.mixture.landmarks import farthest_points, pool_of


def test_landmarks_do_not_depend_on_order_or_rotation() -> None:
    x = gmm_sample(5000, 2)  # beyond the pool, so that the subsample is tested too
    rotation, _ = torch.linalg.qr(torch.randn(2, 2, dtype=F64))
    chosen = farthest_points(pool_of(x.unsqueeze(0)), 12)
    shuffled = farthest_points(pool_of(x[torch.randperm(5000)].unsqueeze(0)), 12)
    turned = farthest_points(pool_of((x @ rotation).unsqueeze(0)), 12)
    torch.testing.assert_close(shuffled, chosen)
    torch.testing.assert_close(turned, chosen @ rotation)
