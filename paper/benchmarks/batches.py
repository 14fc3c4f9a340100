"""A batch of 32 samples of 512 x 2 at once, and the same samples one by one, in the same run.

Fit and read-out at the samples' own points, best of a few repeats, in both precisions: the default with its
all views, and its network alone.  Bars, for the network alone in single precision: under 0.15 s, and ten
times faster than one by one.
"""

from __future__ import annotations

from argparse import Namespace

import torch

from discoformer import estimate
from discoformer.models.registry import load_model, load_network
from discoformer_paper.harness.benchmark import Session, benchmark, seconds

SHAPE = (32, 512, 2)


@benchmark(__doc__, datasets=5)
def main(run: Session, args: Namespace) -> None:
    """One line per model and precision."""
    batch = torch.randn(SHAPE, dtype=torch.float64, generator=torch.Generator().manual_seed(run.seed))
    rows = []
    for dtype in (torch.float64, torch.float32):
        for name, load in (("all views", load_model), ("network alone", load_network)):
            model = load(run.model, dtype=dtype)
            together = seconds(lambda model=model: estimate(batch, model=model), run.datasets)
            alone = seconds(lambda model=model: [estimate(x, model=model) for x in batch], 2)
            kind = str(dtype).removeprefix("torch.")
            rows.append([name, kind, f"{together:.3f}", f"{alone:.3f}", f"{alone / together:.1f}"])
            if name == "network alone" and dtype == torch.float32:
                run.bar("32 x 512 x 2 in one batch, seconds", together, 0.15)
                run.bar("one by one over in one batch", alone / together, 10.0, below=False)
    run.finish("batches", ["model", "precision", "batch (s)", "one by one (s)", "ratio"], rows)


if __name__ == "__main__":
    raise SystemExit(main())
