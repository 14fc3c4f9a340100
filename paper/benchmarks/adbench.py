"""Odd rows of the classical tables of ADBench: area under the ROC curve and average precision, against PyOD.

    python paper/benchmarks/adbench.py                       # tables in ../shared/data/adbench
    python paper/benchmarks/adbench.py --data DIR --tables wine cardio

Tables are npz files with X (n, d) and y (1 for anomalies); the folder is ``--data``, or the environment's
ADBENCH.  Those with at most 40 columns, at most 10,000 rows of each (drawn anew for every seed), columns
standardized by the training rows.  *semi*: detectors are fitted to a random half of the normal rows and asked
at all others; ours is told that these are clean.  *contaminated*: to all rows, whose own scores count.
Peers are PyOD's, with its defaults.  Our rule (`discoformer.detection.typicality`) was chosen on the tables
with more than 40 columns, which are not reported.  A table without an anomaly among its rows is left out for
that seed.  Measurements are kept in results/adbench_runs.csv, so that an interrupted run continues, and a run
with other weights measures ours alone; means by table are in results/adbench.csv.  Bars: mean ROC at least
1.5 points above the best peer (semi), 0.5 (contaminated).
"""

from __future__ import annotations

import os
import time
import warnings
from argparse import Namespace
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pyod.models.cblof import CBLOF
from pyod.models.copod import COPOD
from pyod.models.ecod import ECOD
from pyod.models.iforest import IForest
from pyod.models.knn import KNN
from pyod.models.lof import LOF
from pyod.models.mcd import MCD
from pyod.models.ocsvm import OCSVM
from sklearn.metrics import average_precision_score, roc_auc_score

from discoformer import DensityDetector
from discoformer.core.checks import DataError
from discoformer.detection.typicality import NOISE
from discoformer_paper.harness.benchmark import PAPER, Session, benchmark
from discoformer_paper.harness.ledger import Ledger
from discoformer_paper.harness.terminal import track

DATA = Path(os.environ.get("ADBENCH", PAPER.parent / ".." / "shared" / "data" / "adbench"))
ROWS, COLUMNS = 10_000, 40
PROTOCOLS = {"semi": 1.5, "contaminated": 0.5}  # points above the best peer
PEERS: dict[str, Callable[..., Any]] = {
    "KNN": lambda seed: KNN(),
    "IForest": lambda seed: IForest(random_state=seed),
    "MCD": lambda seed: MCD(random_state=seed),
    "ECOD": lambda seed: ECOD(),
    "LOF": lambda seed: LOF(),
    "CBLOF": lambda seed: CBLOF(random_state=seed),
    "OCSVM": lambda seed: OCSVM(),
    "COPOD": lambda seed: COPOD(),
}
KEYS, VALUES = ("protocol", "table", "rows", "seed", "method"), ("roc", "precision", "seconds")


def find_tables(folder: Path, names: list[str] | None) -> dict[str, Path]:
    """Files by the name of their table, in the order of their numbers."""
    paths = sorted(folder.glob("*_*.npz"), key=lambda path: int(path.stem.split("_")[0]))
    found = {path.stem.split("_", 1)[1]: path for path in paths}
    if not found:
        raise DataError(f"{folder}: no tables such as 45_wine.npz there; say where they are with --data")
    unknown = sorted(set(names or []) - set(found))
    if unknown:
        raise DataError(f"no table {unknown[0]!r}: there are {', '.join(found)}")
    return {name: path for name, path in found.items() if names is None or name in names}


class Split:
    """A table for one seed and protocol: rows to fit to, rows to judge, and which of these are anomalies."""

    def __init__(self, path: Path, protocol: str, seed: int, rows: int) -> None:
        with np.load(path) as table:
            values, labels = table["X"].astype(np.float64), table["y"].astype(bool)
        rng = np.random.default_rng(seed)
        chosen = rng.permutation(len(values))[:rows]
        values, labels = values[chosen], labels[chosen]
        normal = np.flatnonzero(~labels)
        train = rng.permutation(normal)[: len(normal) // 2] if protocol == "semi" else np.arange(len(values))
        scale = values[train].std(0)
        varies = scale > 1e-9 * np.abs(values[train]).max(0).clip(1e-300)
        values = (values[:, varies] - values[train].mean(0)[varies]) / scale[varies]
        self.train = values[train]
        test = np.setdiff1d(np.arange(len(values)), train) if protocol == "semi" else train
        self.test, self.labels = values[test], labels[test]
        self.semi = protocol == "semi"

    def measure(self, odd: Callable[[], NDArray[np.float64]]) -> dict[str, float]:
        """ROC, average precision and seconds of a function that says how odd the rows are."""
        start = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            scores = np.nan_to_num(odd(), posinf=1e300, neginf=-1e300)
        return {
            "roc": 100 * roc_auc_score(self.labels, scores),
            "precision": 100 * average_precision_score(self.labels, scores),
            "seconds": time.perf_counter() - start,
        }

    def ours(self, model: Any) -> NDArray[np.float64]:
        """Of our detector."""
        detector = DensityDetector(model=model, contamination=0.0 if self.semi else 0.1).fit(self.train)
        return -(detector.score_samples(self.test) if self.semi else detector.sample_scores_)

    def peer(self, name: str, seed: int) -> NDArray[np.float64]:
        """Of one of PyOD's."""
        detector = PEERS[name](seed).fit(self.train)
        return np.asarray(detector.decision_function(self.test) if self.semi else detector.decision_scores_)


def measure(run: Session, args: Namespace) -> list[list[Any]]:
    """A line a protocol and table: means over seeds."""
    ledger = Ledger(run.results / "adbench_runs.csv", KEYS, VALUES)
    rows: list[list[Any]] = []
    paths = find_tables(args.data, args.tables)
    small = {name: path for name, path in paths.items() if np.load(path)["X"].shape[1] <= COLUMNS}
    for protocol in PROTOCOLS:
        for name in track(list(small), protocol):
            found = []
            for seed in range(args.seeds):
                split = Split(small[name], protocol, seed, args.rows)
                if not 0 < split.labels.sum() < len(split.labels):
                    continue
                key = (protocol, name, args.rows, seed)
                ask: dict[str, Callable[[], NDArray[np.float64]]] = {
                    peer: partial(split.peer, peer, seed) for peer in PEERS
                }
                own = run.ours.variant(f"noise {NOISE:.3f}")  # another rule is measured anew
                asked = {**ask, own: partial(split.ours, run.ours.method)}
                found.append(
                    [ledger.recall((*key, who), partial(split.measure, asked[who])) for who in asked]
                )
            if found:
                means = [
                    [float(np.mean([one[place][value] for one in found])) for place in range(len(PEERS) + 1)]
                    for value in VALUES
                ]
                rows.append([protocol, name, *means])
    return rows


@benchmark(
    __doc__,
    options={
        "--data": {"type": Path, "default": DATA, "metavar": "DIR", "help": "folder of the npz files"},
        "--tables": {"nargs": "+", "metavar": "NAME", "help": "only these, as in wine cardio"},
        "--rows": {"type": int, "default": ROWS, "help": f"of a table, at most (default: {ROWS})"},
        "--seeds": {"type": int, "default": 3, "help": "default: 3"},
    },
)
def main(run: Session, args: Namespace) -> None:
    if args.quick:
        args.rows, args.seeds = min(args.rows, 200), 1
    run.datasets = args.seeds
    lines = measure(run, args)
    names = [*PEERS, "ours"]
    rows = []
    for protocol, lead in PROTOCOLS.items():
        own = [line for line in lines if line[0] == protocol]
        for _, name, roc, precision, seconds in own:
            behind = roc[-1] - max(roc[:-1])
            best = names[int(np.argmax(roc[:-1]))]
            cells = [f"{value:.1f}" for value in (*roc, *precision)]
            rows.append([protocol, name, *cells, best, f"{behind:+.1f}", f"{seconds[-1]:.2f}"])
        means = np.mean([line[2] for line in own], 0)
        precise = np.mean([line[3] for line in own], 0)
        best, ahead = names[int(np.argmax(means[:-1]))], means[-1] - means[:-1].max()
        cells = [f"{value:.2f}" for value in (*means, *precise)]
        rows.append([protocol, f"mean of {len(own)}", *cells, best, f"{ahead:+.2f}", ""])
        run.bar(f"{protocol}, mean ROC above {best}", float(ahead), lead, below=False)
        lost = sorted((line[2][-1] - max(line[2][:-1]), line[1]) for line in own)
        worst = ", ".join(f"{name} {gap:+.1f}" for gap, name in lost[:8] if gap < 0)
        count = sum(gap < 0 for gap, _ in lost)
        print(f"\n{protocol}: some peer is better on {count} of {len(lost)} tables; most: {worst}")
    header = ["protocol", "table", *(f"{name} ROC" for name in names), *(f"{name} AP" for name in names)]
    run.finish("adbench", [*header, "best peer", "ROC ahead", "ours s"], rows)


if __name__ == "__main__":
    raise SystemExit(main())
