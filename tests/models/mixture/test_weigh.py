"""Weights of several fits, by the likelihood of rows that were left out."""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from discoformer.models.mixture.weigh import chances, leave_one_out_weights

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


def changes(rule: Callable[[Tensor], Tensor], left_out: Tensor) -> float:
    """The mean change of the first weight when a row is not there."""
    rows = torch.arange(len(left_out))
    whole = rule(left_out)
    return float(
        torch.stack([(rule(left_out[rows != i]) - whole).abs() for i in range(0, len(rows), 7)]).mean()
    )


def test_one_row_changes_weights_by_one_over_n_and_a_chance_by_its_root() -> None:
    generator = torch.Generator().manual_seed(0)
    left_out = torch.randn(3200, 2, dtype=torch.float64, generator=generator)

    def by_likelihood(part: Tensor) -> Tensor:
        return leave_one_out_weights(part, None)[0]

    def by_chance(part: Tensor) -> Tensor:
        return chances(part.mT, None)[0]

    for rule, power in ((by_likelihood, 1.0), (by_chance, 0.5)):
        few, many = changes(rule, left_out[:200]), changes(rule, left_out)
        assert few < 3 * 200**-power
        assert many < 3 * 3200**-power
