"""Weights of several fits, by the likelihood of rows that were left out."""

import math

import torch

from discoformer.models.mixture.weigh import leave_one_out_weights

F64 = torch.float64


def test_weights_maximize_the_likelihood() -> None:
    left_out = torch.randn(200, 2, generator=torch.Generator().manual_seed(0), dtype=F64)
    best = leave_one_out_weights(left_out, None, rounds=2000)

    def likelihood(share: float) -> float:
        logs = torch.tensor([math.log(share), math.log(1 - share)], dtype=F64)
        return float((left_out + logs).logsumexp(-1).mean())

    top = likelihood(float(best[0]))
    assert all(likelihood(k / 50) <= top + 1e-12 for k in range(1, 50))
    without = leave_one_out_weights(left_out[1:], None, rounds=2000)
    assert abs(float(without[0] - best[0])) < 10 / 200
