"""One task of naive_memory.py in a process of its own: the paper's kernel score, all pairs at once.

python paper/benchmarks/fresh_naive.py N D    # prints peak GB before and after
"""

from __future__ import annotations

import sys

import torch

from discoformer_paper.harness.memory import peak_gigabytes


def score(x: torch.Tensor) -> torch.Tensor:
    """Scores (n, d) at the sample (n, d) with Scott's rule, as the paper's formula reads."""
    size, dim = x.shape
    bandwidth = x.std(0) * size ** (-1 / (dim + 4))
    kernel = ((x[:, None] - x) / bandwidth).square().sum(-1).mul(-0.5).exp()  # (n, n), by way of (n, n, d)
    return (kernel @ x / kernel.sum(-1, keepdim=True) - x) / bandwidth**2


def main(size: int, dim: int) -> tuple[float, float]:
    sample = torch.randn(size, dim, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        score(sample[:64])
        before = peak_gigabytes()
        score(sample)
    return before, peak_gigabytes()


if __name__ == "__main__":
    print(*main(*map(int, sys.argv[1:])))
