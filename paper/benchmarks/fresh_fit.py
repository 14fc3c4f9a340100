"""Processor seconds of a fit and its answers, by whatever `discoformer` is on the path; see `former_time.py`.

PYTHONPATH=CHECKOUT/src python paper/benchmarks/fresh_fit.py SAMPLE.npy REPEATS    # the first call, the best
"""

from __future__ import annotations

import sys
import time
import warnings

import numpy as np


def main(path: str, repeats: int) -> None:
    """The first call counts from the start of the process: imports, loading of weights, fit and answers."""
    warnings.simplefilter("ignore")
    from discoformer import DiScoFormer

    sample = np.load(path)
    taken = []
    for _ in range(1 + repeats):
        start = time.process_time() if taken else 0.0
        fitted = DiScoFormer().fit(sample)
        fitted.score_samples(sample), fitted.score_function(sample)
        taken.append(time.process_time() - start)
    print(taken[0], min(taken[1:]))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
