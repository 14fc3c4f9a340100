"""`discoformer entropy`, `fisher`, `kl` and `rfi`: a number and its standard error, from files of numbers."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, get_args

from discoformer.cli.options import add_input, independent, read_input
from discoformer.data.files import read_sample
from discoformer.functionals import (
    Functional,
    Split,
    entropy,
    fisher_information,
    kl_divergence,
    relative_fisher_information,
)
from discoformer.methods import check_range, resolve

__all__ = ["command"]

Parser = Callable[[], argparse.ArgumentParser]
Run = Callable[[argparse.Namespace], None]


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


def command(name: str) -> tuple[Parser, Run]:
    """Parser and run function of one of the four subcommands."""
    return lambda: _make_parser(name), lambda args: _run(name, args)


def _make_parser(name: str) -> argparse.ArgumentParser:
    title, what, files, split, _ = _COMMANDS[name]
    example = f"discoformer {name} {'data.csv' if files == 1 else 'f.csv g.csv'}"
    parser = argparse.ArgumentParser(
        prog=f"discoformer {name}",
        description=f"Estimate the {title} {what}, of the "
        + ("sample in FILE." if files == 1 else "sample f in FILE with respect to the sample g in FILE2."),
        epilog=f"examples:\n  {example}\n  {example} --columns age,income --method kde --json",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_input(parser)
    if files == 2:
        parser.add_argument("second", metavar="FILE2", type=Path, help="the sample to compare with")
    parser.add_argument(
        "--method",
        metavar="M",
        default="default",
        help="kde, a model's name, or a path to weights (default: the network in the package)",
    )
    parser.add_argument(
        "--split",
        choices=[s for s in get_args(Split) if s != "loo" or name in ("entropy", "kl")],
        default=split,
        help=f"how points are kept from vouching for themselves (default: {split})",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of text")
    return parser


def _run(name: str, args: argparse.Namespace) -> None:
    title, _, files, _, estimate = _COMMANDS[name]
    tables = [read_input(args)]
    if files == 2:
        second = read_sample(args.second, args.columns, drop_dependent=args.drop_dependent)
        tables.append(second.like(tables[0]))
    if args.drop_dependent:
        tables = independent(*tables)
    values = [table.values for table in tables]
    resolved = resolve(args.method)
    for sample in values:
        check_range(resolved, *sample.shape)
    value, error = estimate(*values, resolved.method, split=args.split)
    report = {
        "functional": name,
        "value": value,
        "standard_error": error,
        "n": [len(sample) for sample in values],
        "d": values[0].shape[1],
        "columns": tables[0].names,
        "method": resolved.name,
        "split": args.split,
    }
    if args.json:
        print(json.dumps(report))
        return
    rows = " and ".join(str(len(sample)) for sample in values)
    print(
        f"{title}: {value:.6g} +- {error:.2g} "
        f"({rows} rows, {values[0].shape[1]} column(s), method {resolved.name}, split {args.split})"
    )
