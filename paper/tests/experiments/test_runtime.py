"""The claims of Figure 15."""

import numpy as np
import pytest

from discoformer_paper.experiments import runtime
from discoformer_paper.harness.ledger import Rows


def row(dim: int, n: int, method: str, seconds: float) -> dict[str, object]:
    return {"d": str(dim), "n": str(n), "repeat": "0", "method": method, "seconds": seconds}


def test_runtime_fits_the_larger_sizes() -> None:
    times = {float(n): 1.0 if n < runtime.FITTED else (n / 1024) ** 1.5 for n in (256, 1024, 2048, 4096)}
    assert runtime.growth(times) == pytest.approx(1.5)
    assert np.isnan(runtime.growth({256.0: 1.0, 512.0: 2.0}))
    rows = Rows(
        row(dim, n, method, seconds)
        for dim in runtime.DIMS
        for n in (1024, 4096, runtime.OUT_OF_MEMORY)
        for method, seconds in (
            ("default", n / 1e3),
            ("kde-scott", n**2 / 1e6),
            (runtime.core_name(dim), n**1.5 / 1e5),
        )
    )
    claims = runtime.summary(rows, "default").claims
    assert [claim.verdict for claim in claims] == ["not tested"] * 4 + ["shown"]
    assert all("there is no GPU here" in claim.evidence for claim in claims[:4])


def test_runtimes_grow_over_the_sizes_that_both_have() -> None:
    def seconds(method: str, n: int) -> float:
        return n**1.5 if method != "kde-scott" else n**1.2 if n <= 4096 else 4096**1.2 * (n / 4096) ** 3

    rows = Rows(
        row(dim, n, method, seconds(method, n))
        for dim in runtime.DIMS
        for method in ("default", "kde-scott", runtime.core_name(dim))
        for n in (1024, 2048, 4096, 8192, 16384)
        if n <= 4096 or method != runtime.core_name(dim)
    )
    assert runtime.summary(rows, "default").claims[0].evidence.endswith("d=2 1.5 and 1.2, d=10 1.5 and 1.2")
