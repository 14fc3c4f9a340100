"""Draws from a Student-t mixture: in chunks that bound the memory and do not change the answer."""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from discoformer.models.mixture import student
from discoformer.models.mixture.student import StudentMixture


class Largest(TorchDispatchMode):
    """Remembers the size of the largest tensor that was made."""

    numel = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        if isinstance(made, Tensor):
            self.numel = max(self.numel, made.numel())
        return made


def test_draws_come_in_chunks_that_do_not_change_them(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = torch.Generator().manual_seed(0)
    draw = torch.randn(2, 3, 20, 20, dtype=torch.float64, generator=generator)
    mixture = StudentMixture(
        torch.full((2, 3), 1 / 3, dtype=torch.float64).log(),
        draw[..., 0],
        draw @ draw.mT + torch.eye(20, dtype=torch.float64),
        torch.full((2, 3), 5.0, dtype=torch.float64),
    )
    whole = mixture.sample(1000, torch.Generator().manual_seed(1))
    monkeypatch.setattr(student, "_BUDGET", 8 * 2 * 20**2 * 7)  # seven draws of each batch at once
    with Largest() as seen:
        chunked = mixture.sample(1000, torch.Generator().manual_seed(1))
    assert torch.equal(chunked, whole)
    assert seen.numel <= whole.numel()
