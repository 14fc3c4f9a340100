"""Threads keep order, settings and errors."""

import pytest
import torch

from discoformer.core.threads import ordered_map


def test_ordered_map_keeps_the_order_the_settings_and_the_errors(two_threads: None) -> None:
    with torch.no_grad():
        seen = list(ordered_map(lambda i: (i, torch.get_num_threads(), torch.is_grad_enabled()), range(50)))
    assert seen == [(i, 1, False) for i in range(50)]
    assert torch.get_num_threads() == 2
    results = ordered_map(lambda i: 1 // (3 - i), range(50))
    assert [next(results) for _ in range(3)] == [0, 0, 1]
    with pytest.raises(ZeroDivisionError):
        next(results)
