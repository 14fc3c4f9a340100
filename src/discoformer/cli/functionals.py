"""`discoformer entropy`, `fisher`, `kl` and `rfi`: a number and its standard error, from files of numbers."""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple, get_args

import numpy as np

from discoformer.cli.options import add_fit, add_input, independent, read_input
from discoformer.cli.parser import command_parser
from discoformer.columns.bounds import fill_bounds, parse_bounds
from discoformer.columns.fit_recipe import FitRecipe
from discoformer.columns.kinds import CONTINUOUS
from discoformer.data.files import read_queries, refuse_without_density
from discoformer.data.numeric import numeric_table
from discoformer.data.reading import read_raw
from discoformer.data.table import Table
from discoformer.functionals import (
    Functional,
    Split,
    bootstrapped,
    entropy,
    fisher_information,
    kl_divergence,
    relative_fisher_information,
)
from discoformer.functionals.bootstrap import FITS
from discoformer.methods import Resolved, check_range, resolve

__all__ = ["make_parser", "run"]


class _Command(NamedTuple):
    title: str
    what: str
    files: int
    split: Split | None
    estimate: Callable[..., Functional]


_USUAL = "usual"  # what the function does without a split, which depends on the model

_COMMANDS = {
    "entropy": _Command("differential entropy", "-E log f, in nats", 1, None, entropy),
    "fisher": _Command("Fisher information", "E |grad log f|^2", 1, "balanced", fisher_information),
    "kl": _Command("Kullback-Leibler divergence", "E_f [log f - log g], in nats", 2, None, kl_divergence),
    "rfi": _Command(
        "relative Fisher information",
        "E_f |grad log f - grad log g|^2",
        2,
        "folds",
        relative_fisher_information,
    ),
}


def make_parser(name: str) -> argparse.ArgumentParser:
    """Options of one of the four subcommands."""
    title, what, files, split, _ = _COMMANDS[name]
    example = f"discoformer {name} {'data.csv' if files == 1 else 'f.csv g.csv'}"
    of = "sample in FILE." if files == 1 else "sample f in FILE with respect to the sample g in FILE2."
    examples = f"examples:\n  {example}\n  {example} --columns age,income --model kde-scott --json"
    parser = command_parser(name, f"Estimate the {title} {what}, of the {of}", examples)
    add_input(parser, several=files == 1)
    if files == 2:
        parser.add_argument("second", metavar="FILE2", type=Path, help="the sample to compare with")
    add_fit(parser)
    parser.add_argument(
        "--split",
        choices=[s for s in get_args(Split) if s != "loo" or name in ("entropy", "kl")],
        default=split,
        help="how a point is left out of its own density (default: "
        f"{split or 'one by one where the model can do so in closed form, otherwise folds'})",
    )
    parser.add_argument(
        "--bootstrap",
        action="store_true",
        help=f"standard error from {FITS} more fits to rows with random weights: slower",
    )
    return parser


def run(args: argparse.Namespace) -> None:
    """Read, estimate, report."""
    title, _, files, _, estimate = _COMMANDS[args.command]
    tables = [read_input(args)]
    if files == 2:
        raw = read_raw(args.second)
        if raw.named and tables[0].schema is not None:
            tables = [replace(tables[0], schema=tables[0].schema.with_labels(raw.frame))]
        tables[1:] = [read_queries(raw, tables[0], args.columns)]
        refuse_without_density(args.second, tables[1], drop_dependent=args.drop_dependent)
        weights = None if args.weights is None else numeric_table(raw, [args.weights]).values[:, 0]
        tables[1] = replace(tables[1], schema=tables[0].schema, weights=weights)
    if args.drop_dependent:
        tables = independent(*tables)
    tables = [_whole(table) for table in tables]
    resolved = resolve(args.model)
    for table in tables:
        check_range(resolved, *table.values.shape)
    value, error = _estimate(args, tables, resolved, estimate)
    values = [table.values for table in tables]
    report = {
        "functional": args.command,
        "value": value,
        "standard_error": error,
        "n": [len(sample) for sample in values],
        "d": values[0].shape[1],
        "columns": tables[0].names,
        "model": resolved.name,
        "split": args.split or _USUAL,
        "error": "bootstrap" if args.bootstrap else "terms",
    }
    if args.json:
        print(json.dumps(report))
        return
    split = args.split or _USUAL
    rows = " and ".join(str(len(sample)) for sample in values)
    how = " by the bootstrap" if args.bootstrap else ""
    print(
        f"{title}: {value:.6g} +- {error:.2g}{how} "
        f"({rows} rows, {values[0].shape[1]} column(s), model {resolved.name}, split {split})"
    )


def _estimate(
    args: argparse.Namespace,
    tables: Sequence[Table],
    resolved: Resolved,
    estimate: Callable[..., Functional],
) -> Functional:
    """The functional, fitted with the kinds and bounds of the tables."""
    first = tables[0]
    given = parse_bounds(args.bounds, len(first.names), first.names)
    bounds = fill_bounds(given, first.bounds)
    kinds = None if set(first.kinds) == {CONTINUOUS} else first.kinds
    recipe = FitRecipe(resolved.method, bounds, first.names, drop=False, kinds=kinds)
    weights = tuple(table.weights for table in tables)
    values = [table.values for table in tables]
    how = {"weights": weights if len(tables) > 1 else weights[0], "split": args.split}
    if args.bootstrap:
        return bootstrapped(estimate, *values, source=recipe, **how)
    return estimate(*values, recipe, **how)


def _whole(table: Table) -> Table:
    """The rows without gaps, with a warning that counts the others.

    This takes values to be missing completely at random.
    """
    gaps = np.asarray(np.isnan(table.values).any(1))
    if not gaps.any():
        return table
    warnings.warn(f"left out {int(gaps.sum())} of {len(gaps)} rows, which have gaps", stacklevel=2)
    weights = None if table.weights is None else table.weights[~gaps]
    return replace(table, values=table.values[~gaps], weights=weights)
