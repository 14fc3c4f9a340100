"""What Figures 7 and 8 share: the variants of SD-KDE on one mixture at one n, in percent of KDE's error.

The paper does not say on which mixtures its figures are, so errors are compared as shares of what Scott's
kernel density estimate has on the same samples.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

import torch
from torch import Tensor

from discoformer.core.fields import Method
from discoformer.priors import Distribution
from discoformer_paper.contestants import CORE_NAME
from discoformer_paper.entropy_fisher import FUNCTIONAL_SEED
from discoformer_paper.harness import Context, Job
from discoformer_paper.ledger import Rows
from discoformer_paper.sdkde import RULES, integrated_error, mixtures, variants
from discoformer_paper.summary import CORE, KDE, OURS, Claim, Line, Whose, every, least, measured

__all__ = [
    "EMPIRICAL",
    "EXACT",
    "KEYS",
    "TITLES",
    "TRUTH",
    "VALUES",
    "beats_kernels",
    "densities",
    "draw_sample",
    "jobs",
    "lines_of",
    "shares",
    "size_of",
]

SIZE, QUICK_SIZE = 2048, 256  # the n that the paper's model was trained on
KEYS, VALUES = ("n", "seed", "method", "variant", "rule"), ("ise",)
EMPIRICAL, EXACT, TRUTH = "Emp-SD-KDE", "exact score", "true density"
TITLES = {"scott": "Scott's rule", "sd-kde": "rule of SD-KDE", "none": ""}
LEARNED = "SD-KDE, learned score"


def size_of(context: Context) -> int:
    """How many points."""
    return QUICK_SIZE if context.quick else SIZE


def jobs(context: Context, mixture: str) -> Iterator[Job]:
    """All variants on the samples of one mixture."""
    size = size_of(context)
    methods = variants(context.networks, mixtures()[mixture], size, largest_autograd=size)
    for seed in range(FUNCTIONAL_SEED, FUNCTIONAL_SEED + context.seeds):
        for key, method in methods.items():
            yield Job.single((size, seed, *key), partial(integrated_error, method, mixture, size, seed))


def shares(rows: Rows, ours: str, core: str, variant: str, rule: str) -> dict[str, float]:
    """Mean errors of a variant in percent of KDE's, by column."""
    unit = rows.where(method="kde", variant="plain").mean("ise") / 100
    cells = {CORE: (core, variant), OURS: (ours, variant), KDE: ("kde", "plain")}
    if variant == "score":
        cells |= {EXACT: ("exact", "score"), EMPIRICAL: ("kde", "empirical")}
    rules = {column: "scott" if column == KDE else rule for column in cells}
    return {
        column: rows.where(method=method, variant=kind, rule=rules[column]).mean("ise") / unit
        for column, (method, kind) in cells.items()
    }


def lines_of(rows: Rows, ours: str, dim: int, published: Mapping[str, Mapping[str, float]]) -> list[Line]:
    """Lines for the learned score, autograd and the direct density; ``published`` by variant and column.

    The published numbers stand beside Scott's rule, the only one that the paper names.
    """
    core = f"{CORE_NAME}{dim}"
    names = {"score": LEARNED, "autograd": "SD-KDE, autograd", "direct": "direct density"}
    lines = []
    for variant, name in names.items():
        for rule in ("none",) if variant == "direct" else RULES:
            found = shares(rows, ours, core, variant, rule)
            if rule != "sd-kde":
                found |= published.get(variant, {})
            lines.append(Line(", ".join(filter(None, (name, TITLES[rule]))), found))
    return lines


def beats_kernels(whose: Whose, lines: Sequence[Line]) -> Claim:
    """The claim that a learned score is better than none and than the kernel's own.

    The paper's is judged by Scott's rule, the only one that it names, ours by either.
    """
    column, rules = (CORE, RULES[:1]) if whose == "paper" else (OURS, RULES)
    learned = [line for line in lines if line.what in {f"{LEARNED}, {TITLES[rule]}" for rule in rules}]
    cases = {
        line.what: (line.found[column], least(line.found[KDE], line.found[EMPIRICAL])) for line in learned
    }
    return every(
        whose, "SD-KDE with the learned score has less error than KDE and Emp-SD-KDE", measured(cases)
    )


def draw_sample(truth: Distribution, size: int) -> Tensor:
    """The first sample, which the pictures show."""
    return truth.sample(size, torch.Generator().manual_seed(FUNCTIONAL_SEED))


def densities(
    methods: Mapping[str, Method], truth: Distribution, size: int, grid: Tensor
) -> dict[str, Tensor]:
    """The exact density on a grid and those of the methods, all of the first sample."""
    sample = draw_sample(truth, size)
    with torch.no_grad():
        found = {name: method.fit(sample).log_density(grid).exp() for name, method in methods.items()}
    return {TRUTH: truth.log_density(grid).exp()} | found
