"""Synthetic rows of real tables with counts, zeros and percentages: can they be told from real ones?

`DiScoFormer().fit(frame).sample(n)` for the five tables `number_tables.WITH_MASSES`.
Half of the real rows are fitted, so that copies would show.  The other half and as many drawn rows go to a
classifier (scikit-learn's histogram gradient boosting, five folds), whose AUC is .5 if they cannot be told
apart.

Bars: columns of whole numbers are whole; the share of zeros of every column that has some is within two
standard errors; nothing lies outside the bounds that the schema states; the mean AUC is at most .60.
"""

from __future__ import annotations

import warnings
from argparse import Namespace

import numpy as np
import pandas as pd
from number_tables import WITH_MASSES, number_frame
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.model_selection import StratifiedKFold, cross_val_score

from discoformer import DiScoFormer
from discoformer_paper.harness.benchmark import Session, benchmark

AUC, ERRORS = 0.60, 2.0
VALUES = ("rows", "columns", "fractions", "outside", "zeros", "zero_columns", "auc")


def told_apart(real: pd.DataFrame, drawn: pd.DataFrame) -> float:
    """AUC of a classifier in five folds."""
    rows = pd.concat([real, drawn]).to_numpy(dtype=np.float64)
    labels = np.repeat([0, 1], [len(real), len(drawn)])
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    classifier = HistGradientBoostingClassifier(random_state=0)
    return float(cross_val_score(classifier, rows, labels, cv=folds, scoring="roc_auc").mean())


def judge(run: Session, name: str) -> dict[str, float]:
    """How many drawn values are wrong in some way, the furthest share of zeros, in errors, and the AUC."""
    frame = number_frame(name)
    half = len(frame) // 2
    fitted, real = frame[:half], frame[half : 2 * half]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        estimator = DiScoFormer(model=run.model).fit(fitted)
        drawn = estimator.sample(half, random_state=0)
    fractions = outside = zero_columns = 0
    zeros = 0.0
    for column in estimator.schema_.used:
        old, new = fitted[column.name].to_numpy(), drawn[column.name].to_numpy(dtype=np.float64)
        if (old == np.rint(old)).all():
            fractions += int((new != np.rint(new)).sum())
        outside += int(((new < column.low) | (new > column.high)).sum())
        share = float((old == 0).mean())
        if share > 0.01:
            error = np.sqrt(2 * share * (1 - share) / half)  # of two samples
            zeros, zero_columns = max(zeros, abs((new == 0).mean() - share) / error), zero_columns + 1
    found = (
        half,
        len(frame.columns),
        fractions,
        outside,
        zeros,
        zero_columns,
        told_apart(real, drawn[real.columns]),
    )
    return dict(zip(VALUES, found, strict=True))


def table(run: Session, names: list[str]) -> None:
    """One line per table."""
    ledger = run.runs("synthetic", ("table",), VALUES)
    rows, aucs = [], []
    for name in names:
        key = (name, run.ours.identity)
        found = ledger.get(*key) or ledger.add(key, judge(run, name))
        run.bar(f"{name}, fractions of whole numbers", found["fractions"], 0)
        run.bar(f"{name}, values outside", found["outside"], 0)
        run.bar(f"{name}, zeros, standard errors off", found["zeros"], ERRORS)
        aucs.append(found["auc"])
        cells = [int(found[value]) for value in ("rows", "columns", "fractions", "outside", "zero_columns")]
        rows.append([name, *cells, f"{found['zeros']:.2f}", f"{found['auc']:.3f}"])
    header = ["table", "rows", "columns", "fractions", "outside", "columns with zeros", "zeros off by", "AUC"]
    run.finish("synthetic", header, rows)
    run.bar("mean AUC", float(np.mean(aucs)), AUC)


TABLES = {"nargs": "+", "choices": WITH_MASSES, "default": list(WITH_MASSES), "help": "(default: all)"}


@benchmark(__doc__, options={"--tables": TABLES})
def main(run: Session, args: Namespace) -> None:
    run.datasets, run.seed = 1, 0
    table(run, ["seattle_weather"] if args.quick else args.tables)


if __name__ == "__main__":
    raise SystemExit(main())
