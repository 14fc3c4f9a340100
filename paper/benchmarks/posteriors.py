"""Posteriors of simulation-based inference: the reference samples of sbibm, 8 tasks of 10 observations each.

The samples are read from the wheel of sbibm 1.1.0, which is downloaded once (without its dependencies) into
a folder of its own, or given by --wheel.  Each method is fitted to 1000 draws; 2000 others judge: their mean
log density, and how well a classifier (random forest, five folds) tells them from as many draws of the fit:
0.5 is best.  Measurements are kept in results/posteriors_runs.csv as they are made.  Bars: the highest
likelihood on 70 of 80, the mean accuracy below that of each rival.
"""

from __future__ import annotations

import bz2
import io
import subprocess
import sys
import zipfile
from argparse import Namespace
from functools import partial
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import cross_val_score

from discoformer.baselines.flow import FlowDensity
from discoformer.core.checks import DataError
from discoformer.core.composed import PushedDensity
from discoformer.core.fields import Density, Method, PointDensity, as_point_density
from discoformer.methods import resolve
from discoformer.priors import Distribution
from discoformer_paper.harness.benchmark import Session, benchmark
from discoformer_paper.harness.terminal import track

RIVALS = ("kde-loo", "gmm-full", "flow")
FITTED, JUDGES = 1000, 2000
LIKELIHOOD, C2ST = "log_density", "accuracy"
CACHE = Path.home() / ".cache" / "discoformer"
Array = NDArray[np.float64]


def find_wheel(given: str | None) -> Path:
    """The wheel, downloaded if it is not there."""
    if given is not None:
        return Path(given)
    CACHE.mkdir(parents=True, exist_ok=True)
    found = list(CACHE.glob("sbibm-1.1.0-*.whl"))
    if not found:
        command = [
            sys.executable,
            "-m",
            "pip",
            "download",
            "-q",
            "--no-deps",
            "-d",
            str(CACHE),
            "sbibm==1.1.0",
        ]
        subprocess.run(command, check=True)
        found = list(CACHE.glob("sbibm-1.1.0-*.whl"))
    if not found:
        raise DataError("no wheel of sbibm 1.1.0: give its path by --wheel")
    return found[0]


def posteriors(wheel: Path) -> dict[str, Array]:
    """Reference samples (10000, d) by task and observation."""
    found = {}
    with zipfile.ZipFile(wheel) as archive:
        for name in sorted(archive.namelist()):
            if name.endswith("reference_posterior_samples.csv.bz2"):
                parts = name.split("/")
                text = io.BytesIO(bz2.decompress(archive.read(name)))
                label = f"{parts[2]} {parts[4].removeprefix('num_observation_')}"
                found[label] = np.loadtxt(text, delimiter=",", skiprows=1)
    return found


def draw(field: PointDensity, count: int) -> Array:
    """Rows (count, d) of the fit; peers draw in the frame that they were fitted in."""
    generator = torch.Generator().manual_seed(0)
    if isinstance(field, Density):
        return field.sample(count, generator).numpy()
    if not isinstance(field, PushedDensity) or not isinstance(field.base, Distribution | FlowDensity):
        raise DataError(f"{type(field).__name__} cannot be sampled: choose another method")
    rows = field.base.sample(count, generator)
    for transform in reversed(field.transforms):
        rows = transform.denormalize(rows)
    return rows.numpy()


def judge(method: Method, fitted: Array, others: Array) -> dict[str, float]:
    """Mean log density of the others, and the accuracy of a classifier."""
    with torch.no_grad():
        field = as_point_density(method.fit(fitted))
        likelihood = float(field.log_density(others).mean())
        drawn = draw(field, len(others))
    rows = np.vstack([others, drawn])
    rows = (rows - others.mean(0)) / others.std(0)
    labels = np.repeat([0, 1], len(others))
    forest = RandomForestClassifier(100, min_samples_leaf=5, random_state=0)
    return {LIKELIHOOD: likelihood, C2ST: float(cross_val_score(forest, rows, labels, cv=5).mean())}


WHEEL = {"--wheel": {"help": "wheel of sbibm 1.1.0 (default: downloaded)", "default": None}}


@benchmark(__doc__, datasets=80, options=WHEEL)
def main(run: Session, args: Namespace) -> None:
    """One line per task and observation."""
    samples = posteriors(find_wheel(args.wheel))
    chosen = list(samples.items())[:: max(1, len(samples) // run.datasets)]
    rivals = RIVALS[:2] if args.quick else RIVALS
    ask = {run.ours.identity: run.ours.method} | {name: resolve(name).method for name in rivals}
    ledger = run.runs("posteriors", ("posterior", "n", "seed"), (LIKELIHOOD, C2ST))
    rows, found = [], []
    for label, draws in track(chosen, "posteriors"):
        order = np.random.default_rng(run.seed).permutation(len(draws))
        fitted, others = draws[order[:FITTED]], draws[order[FITTED : FITTED + JUDGES]]
        lines = [
            ledger.recall((label, FITTED, run.seed, who), partial(judge, method, fitted, others))
            for who, method in ask.items()
        ]
        found.append([[line[what] for what in (LIKELIHOOD, C2ST)] for line in lines])
        rows.append([label, draws.shape[1], *(f"{value:.3f}" for pair in found[-1] for value in pair)])
    table = np.array(found)  # (observations, methods, 2)
    best = int((table[:, 0, 0] >= table[:, :, 0].max(1)).sum())
    run.bar("highest likelihood, of all", best, np.ceil(0.875 * len(table)), below=False)
    ours, *theirs = table[:, :, 1].mean(0).tolist()
    for name, accuracy in zip(rivals, theirs, strict=True):
        run.bar(f"mean accuracy of the classifier, against {name}", ours, accuracy)
    names = [f"{name} {what}" for name in ("ours", *rivals) for what in ("log density", "C2ST")]
    run.finish("posteriors", ["posterior", "d", *names], rows)


if __name__ == "__main__":
    raise SystemExit(main())
