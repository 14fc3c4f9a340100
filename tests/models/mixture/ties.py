"""Samples that are symmetric or full of ties, and the ways of giving them that must not matter.

    python tests/models/mixture/ties.py [COUNT [FIRST]]

fits the default to COUNT of them and prints the largest difference of log densities, by kind and way.
A difference is absolute, in nats, also where log densities are -500: nothing is divided by anything.
"""

from __future__ import annotations

import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discoformer import DiScoFormer

Points = NDArray[np.float64]
KINDS = ("grid", "antithetic", "lattice", "duplicates", "circle", "integers", "mirrored", "rounded")
KINDS += ("heaped", "stripes", "corners", "units")
LARGE = 300  # from this number on samples have thousands of rows


def make(number: int) -> tuple[str, Points]:
    """A kind and a sample of it (n, d), the same for the same number."""
    rng = np.random.default_rng(number)
    kind, n, d = KINDS[number % len(KINDS)], int(rng.integers(20, 200)), int(rng.integers(1, 4))
    n *= 1 if number < LARGE else 20
    side, turn = int(rng.integers(4, 12)), 2 * np.pi * np.arange(n) / n
    z = rng.normal(size=(n, d))
    samples = {
        "grid": np.linspace(-1, 1, n)[:, None],
        "antithetic": np.vstack([z, -z]),
        "lattice": np.stack(np.meshgrid(np.arange(side), np.arange(side)), -1).reshape(-1, 2) * 1.0,
        "duplicates": np.repeat(z[: max(n // 5, 6)], 5, 0),
        "circle": np.stack([np.cos(turn), np.sin(turn)], -1),
        "integers": rng.integers(0, 6, size=(n, d)) * 1.0,
        "mirrored": np.vstack([z, *(z * np.where(np.arange(d) == j, -1, 1) for j in range(d))]),
        "rounded": np.round(z, 1),
        "heaped": np.where(rng.random((n, d)) < 0.4, 0.0, z),
        "stripes": np.column_stack([z, np.round(z[:, 0]) + np.arange(n) % 3]),
        "corners": np.vstack([z / 9 + corner for corner in np.indices((2,) * d).reshape(d, -1).T * 2 - 1]),
        "units": np.round(np.vstack([z, -z]), 1) * 10.0 ** np.arange(-6, 7)[:: 12 // d][:d],
    }
    return kind, samples[kind]


def differences(number: int) -> dict[str, float]:
    """How far apart log densities (nats) are at 30 points near the sample, by the way the sample is given."""
    import dask.array as da

    kind, x = make(number)
    unit: Any = x.std(0) if kind == "units" else 1.0  # what 1e3 and 1e-14 are meant in
    rng = np.random.default_rng(1000 + number)
    queries = x[rng.integers(0, len(x), 30)] + 0.1 * unit * rng.normal(size=(30, x.shape[1]))

    def answer(sample: Any, shift: Any = 0.0) -> Points:
        result: Points = DiScoFormer().fit(sample).score_samples(queries + shift)
        return result

    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        whole = answer(x)
        path = Path(folder, "x.npy")
        np.save(path, x[::-1])
        given = {
            "permuted": answer(x[rng.permutation(len(x))]),
            "streamed": answer(path),
            "chunks": answer(da.from_array(x[::-1].copy(), chunks=(17, -1))),
            "shifted": answer(x + 1e3 * unit, 1e3 * unit),
            "jittered": answer(x + 1e-14 * unit * rng.normal(size=x.shape)),
        }
    return {way: float(np.abs(found - whole).max()) for way, found in given.items()}


def main(count: int, first: int) -> None:
    """Print a line for every kind and way."""
    worst: dict[tuple[str, str], float] = {}
    for number in range(first, first + count):
        for way, off in differences(number).items():
            worst[make(number)[0], way] = max(off, worst.get((make(number)[0], way), 0.0))
    for (kind, way), off in sorted(worst.items()):
        print(f"{kind:12s} {way:10s} {off:.1e}")
    print(f"{count} samples, largest difference {max(worst.values()):.1e}")


if __name__ == "__main__":
    main(*map(int, (sys.argv[1:] + ["200", "0"][len(sys.argv) - 1 :])))
