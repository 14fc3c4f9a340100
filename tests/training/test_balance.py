"""Balance: every task counts alike."""

import pytest
import torch

from discoformer.training.balance import Balance


def test_balanced_errors_count_alike_whatever_their_size() -> None:
    balance = Balance()
    for _ in range(50):
        for size, error in ((64, 2.0), (4096, 0.02)):
            found = balance("score", torch.full((4,), error), 2, size)
            assert float(found) == pytest.approx(1, abs=0.01)
    assert balance.usual == pytest.approx({"score d2 n64": 2.0, "score d2 n4096": 0.02})
    balance("score", torch.tensor([torch.nan]), 2, 64)
    assert balance.usual["score d2 n64"] == pytest.approx(2.0)
