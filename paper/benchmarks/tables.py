"""Real tables of numbers from packages on PyPI: log-likelihood per held-out row, three splits.

`number_tables` says which tables and columns, and how rounding is taken back.  A fifth of the rows is held
out; every method sees the same numbers.  Peers: kernel density with the full bandwidth c^2 S of largest
leave-one-out likelihood, scikit-learn's Gaussian mixture by BIC and its Bayesian mixture, vine copulas of
pyvinecopulib with kernel margins (its defaults: families by AIC), and the spline flow of zuko.  "one view" is
our network that sees the sample as it is only; "former" the default of commit e790a36, which is asked if
`--former` says where a checkout of it is.

    git worktree add CHECKOUT e790a36
    python paper/benchmarks/tables.py --former CHECKOUT
    python paper/benchmarks/tables.py --tables penguins crabs --without flow --out DIR

Bars: ours is the best on at least 85 % of the tables and within .05 nats of the best on the others; the mean
gain over the former default is at least .2 nats, and no table is more than .05 below it.
"""

from __future__ import annotations

import os
import tempfile
import time
import warnings
from argparse import Namespace
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import torch
from number_tables import NAMES, number_table
from numpy.typing import NDArray

from discoformer.baselines.kde import KDE
from discoformer.core.fields import Method, as_point_density
from discoformer.methods import resolve
from discoformer_paper.harness.benchmark import Session, benchmark, run_fresh
from discoformer_paper.harness.contestants import ONE_VIEW, Networks

Rows = NDArray[np.float64]
Ask = Callable[[Rows, Rows], float]
SPLITS = 3
OURS, FORMER, FORMER_COMMIT = "ours", "former", "e790a36"
PEERS = ("kde-full", "gmm-full", "bayes-gmm", "vine", "flow")
SHARE, CLOSE, GAIN = 0.85, 0.05, 0.2


def split_table(name: str, seed: int) -> tuple[Rows, Rows]:
    """Rows to fit to, and a fifth that is held out."""
    values = number_table(name, seed)
    order = np.random.default_rng(1000 + seed).permutation(len(values))
    held_out = len(values) // 5
    return values[order[held_out:]], values[order[:held_out]]


def of_method(method: Method, inside: Rows, outside: Rows) -> float:
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        return float(as_point_density(method.fit(inside)).log_density(outside).mean())


def vine(inside: Rows, outside: Rows) -> float:
    import pyvinecopulib

    controls = pyvinecopulib.FitControlsVinecop(num_threads=1)
    density = pyvinecopulib.Vinedist.from_data(inside, controls).pdf(outside)
    return float(np.log(np.maximum(density, np.finfo(float).tiny)).mean())


def former(checkout: Path, inside: Rows, outside: Rows) -> float:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "split.npz"
        np.savez(path, inside=inside, outside=outside)
        script = Path(__file__).with_name("fresh_former.py")
        before = os.environ.get("PYTHONPATH")
        os.environ["PYTHONPATH"] = str(checkout / "src")
        try:
            return float(run_fresh(str(script), str(path)).splitlines()[-1])
        finally:
            if before is None:
                del os.environ["PYTHONPATH"]
            else:
                os.environ["PYTHONPATH"] = before


def measured(ask: Ask, name: str, seed: int) -> dict[str, float]:
    inside, outside = split_table(name, seed)
    start = time.perf_counter()
    mean = ask(inside, outside)
    return {"mean": mean, "seconds": time.perf_counter() - start}


def contestants(run: Session, args: Namespace) -> dict[str, tuple[str, Ask]]:
    """What every column of the table is called in the file of measurements, and how it is asked."""
    found: dict[str, tuple[str, Ask]] = {OURS: (run.ours.identity, partial(of_method, run.ours.method))}
    one = Networks(run.model).one_view()
    if one is not None:
        found[ONE_VIEW] = (one.identity, partial(of_method, one.method))
    if args.former is not None:
        found[FORMER] = (f"{FORMER}@{FORMER_COMMIT}", partial(former, args.former.resolve()))
    for name in [peer for peer in PEERS if peer not in args.without]:
        if name == "vine":
            found[name] = (name, vine)
        else:
            method = KDE("loo-full") if name == "kde-full" else resolve(name).method
            found[name] = (name, partial(of_method, method))
    return found


def table(run: Session, args: Namespace, names: list[str]) -> None:
    """One line per table; all tables by one method after the other, so that the slowest comes last."""
    ledger = run.runs("tables", ("table", "split"), ("mean", "seconds"))
    splits = range(1 if args.quick else SPLITS)
    columns = contestants(run, args)
    if FORMER not in columns and (names[0], 0, f"{FORMER}@{FORMER_COMMIT}") in ledger:
        columns[FORMER] = (f"{FORMER}@{FORMER_COMMIT}", partial(former, Path("there is none")))
    for identity, ask in columns.values():
        for name in names:
            for split in splits:
                ledger.recall((name, split, identity), partial(measured, ask, name, split))
    rows, best, behind, gains = [], 0, [], []
    peers = [name for name in PEERS if name in columns]
    for name in names:
        found = {
            column: np.array([(ledger.get(name, split, identity) or {})["mean"] for split in splits])
            for column, (identity, _) in columns.items()
        }
        means = {column: float(values.mean()) for column, values in found.items()}
        peer = max(peers, key=means.__getitem__)
        lead = found[OURS] - found[peer]
        best += lead.mean() >= 0
        behind += [float(-lead.mean())] if lead.mean() < 0 else []
        gains += [means[OURS] - means[FORMER]] if FORMER in means else []
        error = lead.std(ddof=1) / np.sqrt(len(lead)) if len(lead) > 1 else float("nan")
        shape = number_table(name).shape
        cells = [f"{mean:.3f}" for mean in means.values()]
        rows.append([name, *shape, *cells, peer, f"{lead.mean():.3f}", f"{error:.3f}"])
    run.finish("tables", ["table", "n", "d", *columns, "best peer", "ahead by", "+-"], rows)
    run.bar("share of tables on which ours is the best", best / len(names), SHARE, below=False)
    run.bar("furthest behind the best elsewhere", max(behind, default=0.0), CLOSE)
    if gains:
        run.bar("mean gain over the former default", float(np.mean(gains)), GAIN, below=False)
        run.bar("furthest below the former default", max(0.0, -min(gains)), CLOSE)


OPTIONS = {
    "--tables": {"nargs": "+", "choices": NAMES, "default": list(NAMES), "help": "(default: all)"},
    "--without": {"nargs": "+", "choices": PEERS, "default": [], "help": "peers to leave out"},
    "--former": {"type": Path, "help": "a checkout of the former default"},
}


@benchmark(__doc__, options=OPTIONS)
def main(run: Session, args: Namespace) -> None:
    run.datasets, run.seed = SPLITS, 0
    if args.quick:
        args.without = list(PEERS[2:])
    table(run, args, ["crabs"] if args.quick else args.tables)


if __name__ == "__main__":
    raise SystemExit(main())
