"""The paper's tables and figures, measured again, and what the benchmarks share with them.

`discoformer_paper.experiments` has a module for each table or figure, `discoformer_paper.harness` runs them,
`discoformer_paper.theory` holds the propositions as code.
"""

from pathlib import Path

__all__ = ["WEIGHTS"]

WEIGHTS = Path(__file__).parent / "weights"  # found by discoformer through an entry point
