"""Log densities by whatever `discoformer` is on the path: of a former commit, called by `tables.py`.

PYTHONPATH=CHECKOUT/src python paper/benchmarks/fresh_former.py SPLIT.npz    # arrays inside, outside
"""

from __future__ import annotations

import sys
import warnings

import numpy as np

from discoformer import DiScoFormer

if __name__ == "__main__":
    warnings.simplefilter("ignore")
    with np.load(sys.argv[1]) as split:
        fitted = DiScoFormer().fit(split["inside"])
        print(float(fitted.score_samples(split["outside"]).mean()))
