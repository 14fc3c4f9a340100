"""Every table and figure of the paper, each from one command: `discoformer reproduce NAME`.

One module for each, with an `EXPERIMENT` (see `discoformer_paper.harness`).  To add one, write the
module and put its name into `NAMES`, in the order of the paper: the command, the page of results and the
tests find it there.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, cast

from discoformer.core.checks import DataError

if TYPE_CHECKING:
    from discoformer_paper.harness import Experiment

__all__ = ["NAMES", "WEIGHTS", "find"]

WEIGHTS = Path(__file__).parent / "weights"

NAMES = (
    "attention_kde",
    "equivariance",
    "quiver",
    "score_vs_n",
    "score_vs_modes",
    "large_n",
    "heavy_tails",
    "dimension_100",
    "whitening",
    "relative_fisher",
    "divergences",
    "sdkde_overview",
    "sdkde_histogram",
    "sdkde",
    "entropy_fisher",
    "landau",
    "stability",
    "attention_heads",
    "score_matching",
    "runtime",
    "bkw",
    "ornstein_uhlenbeck",
)


def find(name: str) -> Experiment:
    """The experiment of this name.

    >>> find("large_n").source
    'Table 2'
    """
    if name not in NAMES:
        raise DataError(f"no experiment {name!r}: choose one of {', '.join(NAMES)}")
    module = import_module(f"discoformer_paper.{name}")
    return cast("Experiment", module.EXPERIMENT)
