"""One size of out_of_core.py, in a process that imports nothing else: stream a file, answer at its rows.

python paper/benchmarks/fresh_out_of_core.py MODEL FILE.npy    # prints seconds and peak GB as JSON
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from pathlib import Path

import numpy as np

from discoformer import DiScoFormer
from discoformer.api.answers import answers
from discoformer.data.writer import table_writer
from discoformer.methods import RangeWarning
from discoformer.scale.source import open_source
from discoformer_paper.harness.memory import peak_gigabytes


def stream(model: str, path: Path) -> None:
    """Fit by passes over the file, write log density and score of every row to another."""
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RangeWarning)
        est = DiScoFormer(model=model, verbose=True).fit(path)
    fitted = time.perf_counter()
    source = open_source(path, show=True)
    out = path.with_name("answers.npy")
    names = [f"c{j}" for j in range(2 * source.dim + 1)]
    with table_writer(out, ".npy", names, source.rows or 0) as write:
        for chunk, (log_density, score) in answers(est.field_, source):
            write(np.column_stack([chunk.numpy(), log_density.numpy(), score.numpy()]))
    read = time.perf_counter()
    out.unlink()
    print(json.dumps({"fit": fitted - start, "read": read - fitted, "peak": peak_gigabytes()}))


if __name__ == "__main__":
    stream(sys.argv[1], Path(sys.argv[2]))
