"""`discoformer summary`: a file's density in a few numbers, whole or given some values."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from discoformer.cli.options import add_fit, add_input, bound_pairs, fit_table, read_input
from discoformer.cli.parser import command_parser
from discoformer.core.checks import DataError
from discoformer.core.fields import Density, as_density
from discoformer.functionals.summaries import draw, highest_density_region, mode, probability
from discoformer.views.terminal import print_table

__all__ = ["make_parser", "run"]

EXAMPLES = """\
examples:
  discoformer summary data.csv                             mean, mode, median and regions of every column
  discoformer summary data.csv --given age=40,sex=1        of the others, given these
  discoformer summary data.csv --probability income=50000:,age=:30
"""


def make_parser(name: str) -> argparse.ArgumentParser:
    """Options of the subcommand."""
    parser = command_parser(name, "Sum up the density of the rows of FILE.", EXAMPLES)
    add_input(parser)
    parser.add_argument("--given", metavar="A=1,B=2", type=_values, default={}, help="values of some columns")
    parser.add_argument(
        "--share", type=float, default=0.9, help="of the mass, in intervals and regions (default: 0.9)"
    )
    parser.add_argument(
        "--probability", metavar="A=LOW:HIGH,...", type=bound_pairs, help="the mass of a region as well"
    )
    add_fit(parser)
    return parser


def run(args: argparse.Namespace) -> None:
    """Read, fit, condition, sum up."""
    if not 0 < args.share < 1:
        raise DataError(f"--share {args.share}: give a number between 0 and 1")
    table = read_input(args, plain=True)
    density = as_density(fit_table(table, args.model, args.bounds).field)
    names = [table.names[j] for j in density.support]
    if len(names) < density.dim:
        density = density.marginal(density.support)
    if args.given:
        given = [_place(names, name) for name in args.given]
        density = density.conditional(given, list(args.given.values()))
        names = [name for j, name in enumerate(names) if j not in given]
    columns = summarize(density, names, args.share)
    report: dict[str, Any] = {
        "n": len(table.values),
        "model": str(args.model),
        "given": args.given,
        "share": args.share,
        "columns": columns,
    }
    if args.probability is not None:
        region = args.probability
        region = region if isinstance(region, dict) else dict.fromkeys(names, region)
        mass = probability(density, {_place(names, name): ends for name, ends in region.items()})
        report["probability"] = {"value": mass.value, "standard_error": mass.standard_error}
    if args.json:
        print(json.dumps(report))
        return
    said = "".join(f", given {name} = {value:g}" for name, value in args.given.items())
    print(f"{len(table.values)} rows, {len(names)} column(s), model {args.model}{said}")
    header = ["column", "mean", "std", "mode", "median", f"{args.share:.0%} from", "to", "densest region"]
    rows = []
    for name, own in columns.items():
        numbers = [own["mean"], own["std"], own["mode"], own["median"], *own["interval"]]
        region = ", ".join(f"{low:.4g} to {high:.4g}" for low, high in own["region"])
        rows.append([name, *(f"{value:.4g}" for value in numbers), region])
    print_table(header, rows)
    if args.probability is not None:
        print(f"probability of the region: {mass.value:.4f} +- {mass.standard_error:.4f}")


@torch.no_grad()
def summarize(density: Density, names: Sequence[str], share: float) -> dict[str, dict[str, Any]]:
    """Mean, standard deviation, mode, median, interval and region of every column.

    >>> from discoformer.baselines.kde import KDE
    >>> found = summarize(KDE(1.0).fit([[-1.0], [1.0]]), ["a"], 0.5)["a"]
    >>> abs(found["median"]) < 1e-9, found["interval"][0] < 0 < found["interval"][1]
    (True, True)
    """
    points = draw(density).cpu().numpy()
    top = mode(density)
    shares = torch.tensor([0.5, (1 - share) / 2, (1 + share) / 2], dtype=torch.float64)
    found = {}
    for j, name in enumerate(names):
        margin = density.marginal([j]) if density.dim > 1 else density
        median, low, high = margin.quantile(shares).flatten().tolist()
        found[name] = {
            "mean": float(points[:, j].mean()),
            "std": float(np.std(points[:, j])),
            "mode": float(top[j]),
            "median": median,
            "interval": (low, high),
            "region": highest_density_region(margin, share).intervals,
        }
    return found


def _place(names: Sequence[str], name: str) -> int:
    if name not in names:
        raise DataError(f"no column {name!r}: there are {', '.join(map(repr, names))}")
    return names.index(name)


def _values(text: str) -> dict[str, float]:
    """Numbers by column name.

    >>> _values("age=40, height=1.8")
    {'age': 40.0, 'height': 1.8}
    """
    found = {}
    for part in filter(None, map(str.strip, text.split(","))):
        name, _, value = part.rpartition("=")
        try:
            found[name.strip()] = float(value)
        except ValueError:
            name = ""
        if not name.strip():
            raise argparse.ArgumentTypeError(f"{part!r}: write column=number, as in age=40")
    return found
