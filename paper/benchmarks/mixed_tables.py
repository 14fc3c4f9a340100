"""Tables with categories: held-out log density per row against StepMix, mixtures per combination, and none.

Five folds of every table of `real_tables`.  `stepmix` is StepMix with Gaussian and categorical columns, 1 to
8 classes by BIC; `combination` a Gaussian mixture (1 to 5 components by BIC) for every combination of labels
with enough rows and one of all rows for the others, times smoothed shares of the combinations;
`independent` takes every column by itself.  Bar: the default is best on at least 7 of 8.

    python paper/benchmarks/mixed_tables.py                    all, to results/mixed_tables.csv and docs
    python paper/benchmarks/mixed_tables.py --tables tips --folds 2 --out -
"""

from __future__ import annotations

import argparse
import csv
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from real_tables import FRESH, NAMES, Mixed, mixed_table
from sklearn.model_selection import KFold

from discoformer.baselines.combination import MixturePerCombination
from discoformer.baselines.independent import IndependentColumns
from discoformer.columns.fit_recipe import FitRecipe
from discoformer.core.fields import as_point_density
from discoformer.methods import resolve

Rows = NDArray[np.float64]
OUT = Path(__file__).parent / "results" / "mixed_tables.csv"
PAGE = Path(__file__).parents[2] / "docs" / "tables.md"
BEGIN, END = "<!-- begin: paper/benchmarks/results/mixed_tables.csv -->\n", "<!-- end -->\n"


def default(table: Mixed, inside: Rows, outside: Rows) -> Rows:
    recipe = FitRecipe(resolve("default").method, drop=False, kinds=table.kinds)
    with torch.no_grad():
        return as_point_density(recipe.fit(inside)).log_density(outside)


def independent(table: Mixed, inside: Rows, outside: Rows) -> Rows:
    recipe = FitRecipe(resolve("default").method, drop=False, kinds=table.kinds)
    with torch.no_grad():
        return as_point_density(IndependentColumns(recipe).fit(inside)).log_density(outside)


def stepmix(table: Mixed, inside: Rows, outside: Rows) -> Rows:
    import pandas as pd
    from stepmix.stepmix import StepMix
    from stepmix.utils import get_mixed_descriptor

    names, codes = [f"c{j}" for j in range(inside.shape[1])], [k.kind == "category" for k in table.kinds]
    kinds = {
        "continuous": [n for n, code in zip(names, codes, strict=True) if not code],
        "categorical": [n for n, code in zip(names, codes, strict=True) if code],
    }
    frame, others = pd.DataFrame(inside, columns=names), pd.DataFrame(outside, columns=names)
    for name in kinds[
        "categorical"
    ]:  # it cannot answer for a level that it has not seen: the rarest that it has
        counts = frame[name].value_counts()
        others[name] = others[name].where(others[name].isin(counts.index), counts.idxmin())
    data, measurement = get_mixed_descriptor(frame, **{kind: own for kind, own in kinds.items() if own})
    test, _ = get_mixed_descriptor(others, **{kind: own for kind, own in kinds.items() if own})
    best = None
    for count in range(1, 9):
        model = StepMix(
            count, measurement=measurement, n_init=3, max_iter=300, random_state=0, progress_bar=0, verbose=0
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(data)
            bic = model.bic(data)
        if best is None or bic < best[0]:
            best = (bic, model)
    assert best is not None
    model = best[1]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return np.array([model.score(test.iloc[[row]]) for row in range(len(test))])


def combination(table: Mixed, inside: Rows, outside: Rows) -> Rows:
    recipe = FitRecipe(MixturePerCombination(), drop=False, kinds=table.kinds)
    return as_point_density(recipe.fit(inside)).log_density(outside)


METHODS: dict[str, Callable[[Mixed, Rows, Rows], Rows]] = {
    "default": default,
    "stepmix": stepmix,
    "combination": combination,
    "independent": independent,
}


def page_table(results: Path) -> str:
    """The results as a table of the page, the best of every line in bold."""
    with results.open(newline="") as file:
        rows = list(csv.DictReader(file))
    head = ["table", "rows", "columns", "categories", *METHODS, "ahead by"]
    lines = [f"| {' | '.join(head)} |", "| :-- |" + " --: |" * (len(head) - 1)]
    for row in rows:
        means = [f"**{row[name]}**" if name == row["best"] else row[name] for name in METHODS]
        cells = [row["table"], row["n"], row["d"], row["categories"], *means, f"{row['ahead']} ± {row['+-']}"]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def write_page() -> None:
    """Put the committed results on the page, between its marks."""
    before, rest = PAGE.read_text(encoding="utf-8").split(BEGIN)
    PAGE.write_text(before + BEGIN + page_table(OUT) + END + rest.split(END)[1], encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tables", default=",".join((*NAMES, *FRESH)))
    parser.add_argument("--folds", type=int, default=5)
    parser.add_argument("--seed", type=int, default=200, help="of the split")
    parser.add_argument("--out", default=str(OUT))
    args = parser.parse_args()
    header = ["table", "n", "d", "categories", *METHODS, "best", "ahead", "+-", "seconds"]
    lines: list[list[str]] = []
    for name in args.tables.split(","):
        table = mixed_table(name)
        found = {method: np.empty(len(table.values)) for method in METHODS}
        seconds = 0.0
        for inside, outside in KFold(args.folds, shuffle=True, random_state=args.seed).split(table.values):
            for method, ask in METHODS.items():
                start = time.perf_counter()
                found[method][outside] = ask(table, table.values[inside], table.values[outside])
                seconds += time.perf_counter() - start if method == "default" else 0.0
        means = {method: float(values.mean()) for method, values in found.items()}
        peer = max((method for method in METHODS if method != "default"), key=means.__getitem__)
        lead = found["default"] - found[peer]
        categories = sum(kind.kind == "category" for kind in table.kinds)
        cells = [name, *map(str, table.values.shape), str(categories), *(f"{m:.3f}" for m in means.values())]
        cells += [max(means, key=means.__getitem__), f"{lead.mean():.3f}"]
        lines.append([*cells, f"{lead.std() / np.sqrt(len(lead)):.3f}", f"{seconds:.1f}"])
        print(dict(zip(header, lines[-1], strict=True)), file=sys.stderr, flush=True)
    with sys.stdout if args.out == "-" else open(args.out, "w", newline="") as file:  # noqa: SIM115
        csv.writer(file, lineterminator="\n").writerows([header, *lines])
    if Path(args.out) == OUT:
        write_page()


if __name__ == "__main__":
    main()
