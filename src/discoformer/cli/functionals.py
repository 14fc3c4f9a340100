"""`discoformer entropy`, `fisher`, `kl` and `rfi`: a number and its standard error, from files of numbers."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, get_args

from discoformer.cli.options import add_input, add_model, independent, read_input
from discoformer.cli.parser import command_parser
from discoformer.columns.fitting import FitRecipe
from discoformer.data.files import read_queries, refuse_without_density
from discoformer.functionals import (
    Functional,
    Split,
    entropy,
    fisher_information,
    kl_divergence,
    relative_fisher_information,
)
from discoformer.methods import check_range, resolve

__all__ = ["make_parser", "run"]


class _Command(NamedTuple):
    title: str
    what: str
    files: int
    split: Split
    estimate: Callable[..., Functional]


_COMMANDS = {
    "entropy": _Command("differential entropy", "-E log f, in nats", 1, "balanced", entropy),
    "fisher": _Command("Fisher information", "E |grad log f|^2", 1, "balanced", fisher_information),
    "kl": _Command("Kullback-Leibler divergence", "E_f [log f - log g], in nats", 2, "folds", kl_divergence),
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
    add_model(parser)
    parser.add_argument(
        "--split",
        choices=[s for s in get_args(Split) if s != "loo" or name in ("entropy", "kl")],
        default=split,
        help=f"how points are kept from vouching for themselves (default: {split})",
    )
    return parser


def run(args: argparse.Namespace) -> None:
    """Read, estimate, report."""
    title, _, files, _, estimate = _COMMANDS[args.command]
    tables = [read_input(args)]
    if files == 2:
        tables.append(read_queries(args.second, tables[0], args.columns))
        refuse_without_density(args.second, tables[1], drop_dependent=args.drop_dependent)
    if args.drop_dependent:
        tables = independent(*tables)
    values = [table.values for table in tables]
    resolved = resolve(args.model)
    for sample in values:
        check_range(resolved, *sample.shape)
    recipe = FitRecipe(resolved.method, drop=False)
    value, error = estimate(*values, recipe, split=args.split)
    report = {
        "functional": args.command,
        "value": value,
        "standard_error": error,
        "n": [len(sample) for sample in values],
        "d": values[0].shape[1],
        "columns": tables[0].names,
        "model": resolved.name,
        "split": args.split,
    }
    if args.json:
        print(json.dumps(report))
        return
    rows = " and ".join(str(len(sample)) for sample in values)
    print(
        f"{title}: {value:.6g} +- {error:.2g} "
        f"({rows} rows, {values[0].shape[1]} column(s), model {resolved.name}, split {args.split})"
    )
