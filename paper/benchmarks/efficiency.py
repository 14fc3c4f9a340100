"""How much of `encode` and `read` is matrix products, how fast those are, and how long a first answer takes.

Every matrix product of one `encode` and one `read` is noted with its shapes, strides and types, and then
exactly those products are timed alone, on other numbers: by threads inside of each product and by threads
that take products in turn, whichever is faster.  The fraction is their time over the time of the whole.
The rate of a large square product in the same run stands for the machine's peak.  Time is the best of a few
repeats after a warm-up.

A first answer is a fresh process that imports, loads the weights and estimates n = 1000 points in d = 2;
it is compared with a fresh process that imports torch and does nothing, both with the interpreter's start.

Bars: `encode` at least 30% products, on one thread and on all; a first answer within 3 imports of torch.
"""

from __future__ import annotations

import time
from argparse import Namespace
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from discoformer.core.threads import ordered_map
from discoformer.models.network import Network
from discoformer.models.registry import load_network
from discoformer_paper.harness.benchmark import Session, benchmark, run_fresh, seconds
from discoformer_paper.harness.problems import gmm_problem

BAR_FRACTION, BAR_LATENCY = 0.3, 3.0
_OPERATIONS = {torch.ops.aten.mm.default, torch.ops.aten.bmm.default, torch.ops.aten.addmm.default}

PROGRAMS = {
    "import torch": "import torch",
    "import discoformer": "import discoformer",
    "import discoformer, load_model": "from discoformer import load_network",
    "first answer, n=1000 d=2": (
        "import numpy; from discoformer import estimate; "
        "estimate(numpy.random.default_rng(0).normal(size=(1000, 2)), model={model!r})"
    ),
}


class Product(NamedTuple):
    """One matrix product: its operation and its operands' shapes, strides and types."""

    operation: Any
    operands: tuple[tuple[torch.Size, tuple[int, ...], torch.dtype], ...]

    @property
    def flops(self) -> int:
        """Two for every multiply-add."""
        left, right = (shape for shape, *_ in self.operands[-2:])
        return 2 * left.numel() * right[-1]


class Recorder(TorchDispatchMode):
    """Notes the matrix products that run while it is active, in this thread."""

    def __init__(self) -> None:
        super().__init__()
        self.products: list[Product] = []

    def __torch_dispatch__(
        self, operation: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if operation in _OPERATIONS:
            operands = tuple((t.shape, t.stride(), t.dtype) for t in args)
            self.products.append(Product(operation, operands))
        return operation(*args, **(kwargs or {}))


def record(call: Callable[[], object]) -> list[Product]:
    """The products of a call; on one thread, where nothing runs out of the recorder's sight."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    with Recorder() as recorder:
        call()
    torch.set_num_threads(threads)
    return recorder.products


def replay(products: Sequence[Product]) -> Callable[[Callable[..., Any]], None]:
    """A call that repeats the products, given `map` or a map like it."""
    operands = {operand: _random(*operand) for product in products for operand in product.operands}

    def one(product: Product) -> None:
        product.operation(*(operands[operand] for operand in product.operands))

    def all_of_them(mapping: Callable[..., Any]) -> None:
        for _ in mapping(one, products):
            pass

    return all_of_them


def _random(shape: torch.Size, strides: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    reach = 1 + sum((length - 1) * stride for length, stride in zip(shape, strides, strict=True))
    return torch.rand(reach, dtype=dtype).as_strided(shape, strides)


def peak_rate(size: int, repeats: int) -> float:
    """GFLOP/s of a square product in double precision."""
    square = torch.rand(size, size, dtype=torch.float64)
    square @ square  # warm-up
    return 2e-9 * size**3 / seconds(lambda: square @ square, repeats)


def fractions(
    run: Session, network: Network, size: int, dim: int, repeats: int, square: int
) -> list[list[object]]:
    """A row for encode and one for read, on one thread and on all."""
    sample = gmm_problem("diagonal", dim, size, modes=(5,)).draw(0).context
    field = network.encode(sample)
    calls = {"encode": lambda: network.encode(sample), "read": lambda: network.read(field, sample)}
    everything = torch.get_num_threads()
    rows = []
    for name, call in calls.items():
        products = record(call)
        again = replay(products)
        work = 1e-9 * sum(product.flops for product in products)
        for threads in sorted({1, everything}):
            torch.set_num_threads(threads)
            peak = peak_rate(square, repeats)
            whole = seconds(call, repeats)
            alone = min(seconds(partial(again, way), repeats) for way in (map, ordered_map))
            share = alone / whole
            times = [f"{value:.3f}" for value in (work, whole, alone, share)]
            rates = [f"{value:.1f}" for value in (work / alone, work / whole, peak)]
            met = ""
            if name == "encode":
                met = run.bar(f"products in encode, {threads} thread(s)", share, BAR_FRACTION, below=False)
            rows.append([name, size, dim, threads, *times, *rates, met])
        largest = Counter(product.operands for product in products).most_common(3)
        for operands, count in largest:
            print(f"{name}: {count} products of {' by '.join(str(tuple(shape)) for shape, *_ in operands)}")
    torch.set_num_threads(everything)
    return rows


def process_seconds(program: str) -> float:
    """Wall time of a fresh interpreter that runs a program."""
    start = time.perf_counter()
    run_fresh("-c", program)
    return time.perf_counter() - start


def latencies(run: Session, model: str, repeats: int) -> list[list[str]]:
    """Seconds of every program, the best of repeats taken in turn, and ratios to importing torch."""
    times: dict[str, list[float]] = {name: [] for name in PROGRAMS}
    for _ in range(repeats + 1):  # the first round reads the files from disk
        for name, program in PROGRAMS.items():
            times[name].append(process_seconds(program.format(model=model)))
    best = {name: min(values[1:] or values) for name, values in times.items()}
    base = best["import torch"]
    last = list(PROGRAMS)[-1]
    met = run.bar(f"{last}: ratio to importing torch", best[last] / base, BAR_LATENCY)
    return [
        [name, f"{value:.3f}", f"{value / base:.2f}", met if name == last else ""]
        for name, value in best.items()
    ]


OPTIONS = {
    "--network": {"default": "default", "help": "the network to look into (default: default)"},
    "--repeats": {"type": int, "default": 5},
}


@benchmark(__doc__, options=OPTIONS)
@torch.no_grad()
def main(run: Session, args: Namespace) -> None:
    size, dim, repeats, square = (2048, 3, 1, 256) if args.quick else (2**17, 10, args.repeats, 2048)
    network = load_network(args.network)
    run.datasets = 1
    header = ["verb", "n", "d", "threads", "GFLOP", "s", "products s", "fraction"]
    header += ["products GFLOP/s", "GFLOP/s", "peak GFLOP/s", "bar"]
    run.finish("efficiency", header, fractions(run, network, size, dim, repeats, square))
    rows = latencies(run, args.model, repeats)
    run.finish("latency", ["fresh process", "s", "ratio", "bar"], rows)


if __name__ == "__main__":
    raise SystemExit(main())
