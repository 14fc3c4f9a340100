"""The benchmarks of size: what they measure and extrapolate, and that a stopped run continues."""

import math
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.special import logsumexp

from discoformer_paper.harness.benchmark import Session, run_fresh, unfinished
from discoformer_paper.harness.memory import peak_gigabytes

Load = Callable[[str], Any]
SIZES = [2**k for k in (10, 12, 14, 16, 17, 18, 20)]
CAP = 15.0


class Machine:
    """Measurements that cost what a law says, and none that takes longer than the limit."""

    def __init__(self, law: Callable[[int], float], limit: float = math.inf) -> None:
        self.law, self.limit = law, limit
        self.calls: list[tuple[int, int]] = []
        self.costs: list[float] = []

    def __call__(self, name: str, size: int, dim: int, rows: int) -> tuple[float, float]:
        cost = self.law(size) * rows / size
        self.calls.append((size, rows))
        self.costs.append(min(cost, self.limit))
        return (self.law(size), 1.0) if cost <= self.limit else (math.inf, math.nan)


def test_no_measurement_takes_longer_than_the_cap(load: Load) -> None:
    scaling = load("scaling")
    machine = Machine(lambda n: 194 * (n / 2**17) ** 2)
    lines = scaling.scale(scaling.SCIPY, 2, SIZES, CAP, machine)
    assert [line.size for line in lines] == SIZES
    assert max(machine.costs) <= CAP
    np.testing.assert_allclose([line.seconds for line in lines], [machine.law(n) for n in SIZES])
    assert lines[2].kind == "measured"
    assert lines[-1].kind.endswith(f" of {2**20}")
    assert [math.isnan(line.gigabytes) for line in lines] == [line.kind != "measured" for line in lines]


def test_a_slope_rests_on_two_sizes_even_if_the_first_is_slow(load: Load) -> None:
    scaling = load("scaling")
    machine = Machine(lambda n: 2 * n / 2**10)  # 16 times of it for 4 times the points would exceed the cap
    lines = scaling.scale(scaling.BIC, 10, SIZES, CAP, machine)
    assert [line.kind for line in lines] == ["measured", "measured"] + 5 * ["slope 1.00"]
    np.testing.assert_allclose([line.seconds for line in lines], [machine.law(n) for n in SIZES])
    assert machine.calls == [(2**10, 2**10), (2**12, 2**12)]


def test_what_had_to_be_stopped_is_extrapolated_and_not_tried_again(load: Load) -> None:
    scaling = load("scaling")
    limit = 2 * CAP

    def law(n: int) -> float:  # harmless up to 2^12
        return 1e-3 * n / 2**10 if n <= 2**12 else 40 * (n / 2**14) ** 1.5

    alone = Machine(law, limit)
    lines = scaling.scale(scaling.BIC, 2, SIZES, CAP, alone)
    assert alone.calls == [(n, n) for n in SIZES[:3]]
    assert lines[2].seconds >= limit
    assert all(line.kind.startswith("slope") for line in lines[2:])
    pointwise = Machine(law, limit)
    lines = scaling.scale(scaling.TREE, 2, SIZES, CAP, pointwise)
    assert sum(cost == limit for cost in pointwise.costs) == 1
    np.testing.assert_allclose([line.seconds for line in lines], [law(n) for n in SIZES])
    assert scaling.scale(scaling.BIC, 2, SIZES, CAP, Machine(lambda n: 1e9, limit)) == []


def test_a_process_is_stopped_at_its_limit(load: Load) -> None:
    scaling = load("scaling")
    spent, gigabytes = scaling.measure_in_fresh_process("default", 0.05, scaling.OURS, 64, 2, 64)
    assert math.isinf(spent)
    assert math.isnan(gigabytes)


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="Linux tells")
def test_peak_memory_is_not_that_of_the_parent() -> None:
    program = "from discoformer_paper.harness.memory import peak_gigabytes\nprint(peak_gigabytes())"
    assert 0.001 < float(run_fresh("-c", program)) < 0.1 < peak_gigabytes()  # here torch is imported


@pytest.mark.parametrize("done", [0, 1, 4])
def test_an_interrupted_run_continues(done: int, load: Load, tmp_path: Path) -> None:
    scaling = load("scaling")
    path = tmp_path / "unfinished.csv"
    columns = (("model", "threads", "method", "d", "n", "rows"), ("seconds", "GB"))
    law = Machine(lambda n: 0.1 + 3e-9 * n**2)
    whole = scaling.scale(scaling.TREE, 2, SIZES, CAP, law)

    def interrupted(*task: Any) -> tuple[float, float]:
        if len(first.calls) == done:
            raise KeyboardInterrupt
        return first(*task)

    def run(call: Any) -> list[Any]:
        with unfinished(path, *columns) as ledger:
            remembered = partial(scaling.recall, ledger, ("net@12", "2"), call)
            lines: list[Any] = scaling.scale(scaling.TREE, 2, SIZES, CAP, remembered)
        return lines

    first, second = Machine(law.law), Machine(law.law)
    with pytest.raises(KeyboardInterrupt):
        run(interrupted)
    lines = run(second)
    assert first.calls + second.calls == law.calls
    assert [line.kind for line in lines] == [line.kind for line in whole]
    np.testing.assert_allclose([line.seconds for line in lines], [line.seconds for line in whole], rtol=1e-7)
    assert not path.exists()  # the next run measures anew


def test_a_failed_rival_misses_its_bars_only(load: Load, tmp_path: Path) -> None:
    scaling = load("scaling")
    run = Session(tmp_path, 1)
    lines = scaling.scale(scaling.MODEL, 10, SIZES, CAP, Machine(lambda n: 1e-5 * n))
    lines += scaling.scale(scaling.MIXTURE, 10, SIZES, CAP, Machine(lambda n: 1e-5 * n))
    lines += scaling.scale(scaling.OURS, 10, SIZES, CAP, Machine(lambda n: 1e-8 * n**2))
    scaling.judge(run, lines, (10,), SIZES)
    assert [met for *_, met in run.bars] == [True, True, True, True, False, True, False]
    scaling.judge(run, [], (10,), SIZES)
    assert not any(met for *_, met in run.bars[7:])


def test_kernel_rivals_are_the_same_estimate(load: Load) -> None:
    scaling = load("fresh_scaling")
    rng = np.random.default_rng(0)
    points = rng.normal(size=(400, 2)) * [1.0, 30.0] + [5.0, 0.0]
    queries = points[:50]
    bandwidth = points.std(0, ddof=1) * 400 ** (-1 / 6)
    offset = (points - queries[:, None]) / bandwidth  # (m, n, d)
    logits = -0.5 * (offset**2).sum(-1) - np.log(2 * np.pi * bandwidth.prod() * 400)
    log_density, score = (part.numpy() for part in scaling.fit_attention_kde(points)(queries))
    np.testing.assert_allclose(log_density, logsumexp(logits, -1), atol=1e-10)
    share = np.exp(logits - logsumexp(logits, -1, keepdims=True))
    np.testing.assert_allclose(score, (share[..., None] * offset).sum(1) / bandwidth, atol=1e-10)
    unit = math.log(points.std(0).prod())  # both answer for standardized columns
    tree = scaling.fit_tree(points)(queries) - unit
    np.testing.assert_allclose(tree, log_density, atol=0.01)
    pytest.importorskip("KDEpy", reason="needs the extra `bench`")
    np.testing.assert_allclose(np.log(scaling.fit_fft(points)(queries)) - unit, tree, atol=0.01)


@pytest.mark.slow
def test_scaling_runs(
    load: Load, model_path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = load("scaling").main(["--quick", "--model", str(model_path), "--out", str(tmp_path)])
    printed = capsys.readouterr().out
    assert code == ("MISSED" in printed)
    assert "failed" not in printed
    assert {path.name for path in tmp_path.iterdir()} == {"scaling.csv", "scaling.png"}
    table = (tmp_path / "scaling.csv").read_text()
    scaling = load("scaling")
    names = set(scaling.NAMES) - (set() if "attention-d2" in scaling.list_models() else {scaling.ATTENTION})
    assert all(name in table for name in names)
