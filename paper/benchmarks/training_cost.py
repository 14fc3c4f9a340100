"""What the paper's own recipes cost to train: operations, memory, hours on a GPU and on a processor core.

Operations of a step are counted on tensors without data, with all products of attention (torch's counter),
and averaged over the sizes of the recipe.  Memory is what is kept for the way back at the largest n, measured
with n = 1024 and taken in proportion to the points: the fused attention keeps nothing that grows with n^2.
Where blocks are computed again it is what goes into them, and the inside of one.  A processor core's speed is
measured, by steps of the same recipe with small samples.  A GPU's is not measured, there is none here: an
NVIDIA L40S has 362 Tflop/s in bfloat16 on paper, of which we assume 30 %.
"""

from __future__ import annotations

import time
from argparse import Namespace
from functools import partial
from pathlib import Path

import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from discoformer.models.attention.core import AttentionCore
from discoformer.models.registry import build_network
from discoformer.training.config import Recipe, load_recipe
from discoformer.training.loop import Trainer
from discoformer_paper.harness.benchmark import PAPER, Session, benchmark

RECIPES = sorted((PAPER / "configs").glob("printed-*.yaml"))
GPU_PEAK, GPU_SHARE = 362e12, 0.3  # bfloat16, of the data sheet; the share that we assume
COUNTED = 1024  # n at which memory is measured
SMALL = ("sizes=[256,256]", "tokens=1024", "precision=float32", "report_sizes=[256]")


def batches(recipe: Recipe) -> list[tuple[int, int]]:
    """Numbers of data sets and of points of every size that the recipe draws."""
    low, high = (size.bit_length() - 1 for size in recipe.sizes)
    sizes = [2**power for power in range(low, high + 1)]
    return [(min(recipe.max_batch, recipe.tokens // size), size) for size in sizes]


def core_of(recipe: Recipe) -> AttentionCore:
    """The recipe's core without dropout, in training."""
    core: AttentionCore = build_network(recipe.core | {"attention_dropout": 0.0}, recipe.frame).core
    return core.train()


def answer(core: AttentionCore, points: Tensor) -> Tensor:
    """The sum of all answers at as many queries as points (B, n, d)."""
    found = core.read(core.encode(points), points)
    return torch.cat([found.log_density.nan_to_num().unsqueeze(-1), found.score], -1).sum()


def operations(recipe: Recipe) -> float:
    """Floating point operations of a step, averaged over sizes."""
    core, counts = core_of(recipe).to("meta"), []
    for batch, size in batches(recipe):
        points = torch.zeros(batch, size, recipe.dims[0], device="meta")
        with sdpa_kernel(SDPBackend.MATH):
            with FlopCounterMode(display=False) as forward:
                total = answer(core, points)
            with FlopCounterMode(display=False) as backward:
                total.backward()
        counts.append(forward.get_total_flops() * (1 + recipe.recompute) + backward.get_total_flops())
    return sum(counts) / len(counts)


def kept(recipe: Recipe) -> float:
    """Bytes per point that are kept for the way back, weights aside, if nothing is computed again."""
    core = core_of(recipe)
    weights = {parameter.data_ptr() for parameter in core.parameters()}
    found: dict[int, int] = {}

    def keep(tensor: Tensor) -> Tensor:
        if tensor.data_ptr() not in weights:
            found[tensor.data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    points = torch.randn(1, COUNTED, recipe.dims[0])
    with saved_tensors_hooks(keep, lambda tensor: tensor), torch.autocast("cpu", torch.bfloat16):
        answer(core, points)
    return sum(found.values()) / COUNTED


def memory(recipe: Recipe) -> float:
    """Bytes kept at the largest size."""
    points = max(batch * size for batch, size in batches(recipe))
    whole, layers = kept(recipe), recipe.core["layers"]
    if not recipe.recompute:
        return points * whole
    # what goes into the blocks (both streams, keys and values, in two bytes), and the inside of one
    return points * (layers * 4 * recipe.core["width"] * 2 + whole / layers)


def speed(path: Path, steps: int, folder: Path) -> float:
    """Operations per second of a training step here, in one thread and single precision."""
    recipe = load_recipe(path, SMALL)
    trainer = Trainer(recipe, folder, "cpu")
    trainer.train_step()  # the first pays for what torch does once
    start = time.perf_counter()
    for _ in range(steps):
        trainer.train_step()
    return steps * operations(recipe) / (time.perf_counter() - start)


@benchmark(__doc__, options={"--steps": {"type": int, "default": 20, "help": "that are timed (20)"}})
def main(run: Session, args: Namespace) -> None:
    torch.set_num_threads(1)
    rows = []
    timed = partial(speed, steps=2 if args.quick else args.steps, folder=run.results)
    for path in RECIPES[:1] if args.quick else RECIPES:
        recipe = load_recipe(path)
        step, here = operations(recipe), timed(path)
        gpu, cpu = (step * recipe.steps / rate / 3600 for rate in (GPU_PEAK * GPU_SHARE, here))
        numbers = (f"{step / 1e12:.3g}", f"{memory(recipe) / 2**30:.2g}", f"{gpu:.3g}", f"{here / 1e9:.3g}")
        rows.append([recipe.name, recipe.steps, *numbers, f"{cpu:.3g}"])
    header = ["recipe", "steps", "Tflop a step", "GB kept", "hours, L40S", "Gflop/s here", "hours, one core"]
    run.finish("training_cost", header, rows, by_model=False)


if __name__ == "__main__":
    raise SystemExit(main())
