"""Figure 15: seconds to answer at the sample points against n, in 2 and 10 dimensions.

Fit and score at all n points of a Gaussian mixture of five modes, median of the repeats.  KDE is Scott's,
chunked, so it never runs out of memory; the paper's core has the size of the paper's base model, in
single precision with a fused attention kernel, and random weights, because time does not depend on them.
Slopes are those of log time in log n from n = 1024 on.  The paper measured on a GPU, so its claims are not
tested here; ours are about processors.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from functools import cache, partial

import numpy as np
import torch

from discoformer.core.fields import Method
from discoformer.models.registry import build_network
from discoformer_paper.harness.contestants import rival
from discoformer_paper.harness.figures import Figure, curve, finish, panels, title_of
from discoformer_paper.harness.jobs import Context, Job, Rows
from discoformer_paper.harness.labels import CORE, KDE, OURS, PUBLISHED, PUBLISHED_KDE
from discoformer_paper.harness.problems import gmm_problem
from discoformer_paper.harness.summary import Cases, Claim, Line, Summary, judge, number, slope

KEYS, VALUES = ("d", "n", "repeat", "method"), ("seconds",)
DIMS = (2, 10)
SIZES = tuple(2**k for k in range(8, 17))
LARGEST_CORE = 2**14  # beyond this, a repeat takes minutes
FITTED = 1024  # smaller n measure the fixed cost of a call
CROSSING = 2048  # where the paper's KDE ceases to be faster than its model
OUT_OF_MEMORY = 2**15  # where the paper's KDE fails
PUBLISHED_SLOPES = {2: (1.65, 1.98), 10: (1.65, 2.53)}  # of the model and of KDE, read off the figure
SCOTT = "kde-scott"


def core_name(dim: int) -> str:
    """What the core with random weights is called."""
    return f"attention-d{dim}-random"


@cache
def core(dim: int) -> Method:
    """The paper's base model with random weights."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return build_network({"kind": "attention", "dim": dim}, "whiten").eval()


def measure(method: Method, dim: int, size: int) -> dict[str, float]:
    """Seconds of one fit and answer."""
    sample = gmm_problem("diagonal", dim, size, modes=(5,)).draw(0).context
    with torch.no_grad():
        method.fit(sample[:128]).score(sample[:128])  # the first call includes one-time work of torch
        start = time.perf_counter()
        method.fit(sample).score(sample)
        return {"seconds": time.perf_counter() - start}


def run(context: Context) -> Iterator[Job]:
    ours = context.networks.ours()
    for dim in DIMS:
        for size in (SIZES[0] // 2, SIZES[0]) if context.quick else SIZES:
            methods = {ours.identity: ours.method, SCOTT: rival(SCOTT).method}
            if size <= LARGEST_CORE:
                methods[core_name(dim)] = core(dim)
            for repeat in range(context.seeds):
                for name, method in methods.items():
                    yield Job.single((dim, size, repeat, name), partial(measure, method, dim, size))


def medians(rows: Rows, dim: int, method: str) -> dict[float, float]:
    """Median seconds by n."""
    return rows.where(d=dim, method=method).by("n", lambda at: float(np.median(at.values("seconds"))))


def growth(times: dict[float, float]) -> float:
    """Slope of log time in log n over the larger n; NaN if there are not two of them."""
    return slope({n: seconds for n, seconds in times.items() if n >= FITTED})


def summary(rows: Rows, ours: str) -> Summary:
    lines = []
    scaling, small, large, linear = ({} for _ in range(4))
    for dim in DIMS:
        columns = {CORE: core_name(dim), OURS: ours, KDE: SCOTT}
        times = {column: medians(rows, dim, method) for column, method in columns.items()}
        slopes = {column: growth(found) for column, found in times.items()}
        model, kde = PUBLISHED_SLOPES[dim]
        lines.append(Line(f"d={dim}, slope", {PUBLISHED: model, PUBLISHED_KDE: kde} | slopes))
        for size in sorted({size for found in times.values() for size in found}):
            found = {column: at.get(size, math.nan) for column, at in times.items()}
            lines.append(Line(f"d={dim}, n={size}, seconds", found))
            if not math.isnan(found[CORE]):
                what = f"d={dim}, n={size}"
                if size <= CROSSING:
                    small[what] = (found[KDE], found[CORE])
                else:
                    large[what] = (found[CORE], found[KDE])
        shared = {n: seconds for n, seconds in times[KDE].items() if n in times[CORE]}
        scaling[f"d={dim}"] = (slopes[CORE], growth(shared))
        linear[f"d={dim}"] = (slopes[OURS], slopes[KDE] - 0.5)
    return Summary(
        "seconds to fit and to give the score at all points (slope: of log seconds in log n; paper's core: "
        "its base model with random weights)",
        lines,
        [
            _elsewhere("the Transformer's time grows more slowly than KDE's", "slopes", scaling),
            _elsewhere(f"KDE is faster up to n = {CROSSING}", "KDE and Transformer, seconds", small),
            _elsewhere(
                f"the Transformer is faster beyond n = {CROSSING}", "Transformer and KDE, seconds", large
            ),
            _memory(rows),
            judge("ours", "the slope of our time is at least 0.5 below KDE's", linear),
        ],
        rivals=(KDE,),
        reasons={KDE: "no network to run"},
    )


def _elsewhere(text: str, what: str, cases: Cases) -> Claim:
    """A claim about a GPU, which processors cannot test, with the numbers of processors."""
    told = ", ".join(f"{name} {number(a)} and {number(b)}" for name, (a, b) in cases.items())
    return Claim(
        "paper", f"{text} (on a GPU)", "not tested", f"there is no GPU here; processors, {what}: {told}"
    )


def _memory(rows: Rows) -> Claim:
    """The claim that KDE runs out of memory where the paper's naive one on a GPU did."""
    text = f"KDE runs out of memory at n = {OUT_OF_MEMORY} (one that holds n^2 numbers, on a GPU with 48 GB)"
    times = {dim: medians(rows, dim, SCOTT).get(OUT_OF_MEMORY) for dim in DIMS}
    told = [f"d={dim}: {number(seconds)} s" for dim, seconds in times.items() if seconds is not None]
    naive = "`paper/benchmarks/naive_memory.py` measures the memory of a naive one"
    chunked = f"; one in chunks answers at this n, {', '.join(told)}" if told else ""
    return Claim("paper", text, "not tested", f"there is no GPU here; {naive}{chunked}")


def figure(rows: Rows, context: Context) -> Figure:
    picture, axes = panels(len(DIMS), width=5.0)
    for panel, dim in zip(axes, DIMS, strict=True):
        published = dict(zip((core_name(dim), SCOTT), PUBLISHED_SLOPES[dim], strict=True))
        told = [f"slopes from n = {FITTED} on"]
        for method in rows.where(d=dim).entries("method"):
            times = medians(rows, dim, method)
            curve(panel, times, CORE if method == core_name(dim) else method)
            paper = f" (published {published[method]})" if method in published else ""
            if not math.isnan(found := growth(times)):
                told.append(f"{CORE if method == core_name(dim) else title_of(method)}: {found:.2f}{paper}")
        if len(told) > 1:
            panel.text(0.98, 0.03, "\n".join(told), ha="right", fontsize=8, transform=panel.transAxes)
        panel.set(title=f"d = {dim}", xlabel="n", ylabel="seconds")
    return finish(picture, axes, log="xy", base=2)
