"""`discoformer reproduce`: the tables and figures of the paper, measured again."""

from __future__ import annotations

import argparse
from pathlib import Path

from discoformer.cli.parser import command_parser
from discoformer_paper.harness.options import add_options

__all__ = ["make_parser", "run"]

ALL, PAGE = "all", "results"
EXAMPLES = """\
examples:
  discoformer reproduce --list                 what there is
  discoformer reproduce equivariance           one table: CSV, picture, and the paper's numbers beside ours
  discoformer reproduce large_n landau         several
  discoformer reproduce all --quick            tiny sizes, to see that everything runs
  discoformer reproduce all --out results      everything; what is in the folder is not measured again
  discoformer reproduce results                only the page, results.md, from the files of the folder
"""


def make_parser(name: str) -> argparse.ArgumentParser:
    """Options of the subcommand."""
    description = "Measure the tables and figures of the paper again, beside the published numbers."
    parser = command_parser(name, description, EXAMPLES, json=False)
    add_options(parser, "docs/results if it is there, else results")
    parser.add_argument("names", metavar="NAME", nargs="*", help=f"experiments, or {ALL}, or {PAGE}")
    parser.add_argument("--list", action="store_true", help="names, titles, and how much is measured")
    parser.add_argument("--seeds", type=int, help="data sets per setting (default: the experiment's own)")
    parser.add_argument(
        "--workers",
        type=int,
        help="processes that measure at a time (default: as many as torch has threads, one with --quick); "
        "what measures times (runtime, score_matching) has the machine to itself",
    )
    return parser


def run(args: argparse.Namespace) -> None:
    """Run the experiments one after the other; unknown names are refused before any work."""
    import torch

    from discoformer.core.checks import DataError
    from discoformer_paper.experiments import NAMES, find
    from discoformer_paper.harness.contestants import Networks
    from discoformer_paper.harness.runner import open_folder, reproduce
    from discoformer_paper.page import write_page
    from discoformer_paper.printing import print_list, print_overview, print_summary

    names = dict.fromkeys(name for given in args.names for name in (NAMES if given == ALL else [given]))
    experiments = [find(name) for name in names if name != PAGE]
    if not (experiments or args.list or PAGE in names):
        raise DataError(f"nothing to do: give names, {ALL} or {PAGE}; --list shows the names")
    for option in ("seeds", "workers"):
        value = getattr(args, option)
        if value is not None and value < 1:
            raise DataError(f"--{option} {value}: give at least 1")
    workers = args.workers or (1 if args.quick else torch.get_num_threads())
    with open_folder(args.out, _usual_folder(), quick=args.quick) as folder:
        if args.list:
            print_list(folder)
            return
        networks = Networks(args.model)
        done = []
        for experiment in experiments:
            context = experiment.context(folder, networks, quick=args.quick, seeds=args.seeds)
            measured, minutes = reproduce(experiment, context, workers)
            rows = experiment.ledger(folder).rows()
            summary = experiment.summary(rows, networks.label)
            if ALL not in args.names:
                print_summary(experiment, summary, networks.label)
            told = f"{measured} measured, {len(rows) - measured} were there"
            print(f"{experiment.name}: {told}, {minutes:.1f} minutes", flush=True)
            done.append((experiment, summary, len(rows), minutes))
        if ALL in args.names:
            print_overview(done)
        page = write_page(folder)
        if not args.quick or args.out:
            print(f"wrote {page}")


def _usual_folder() -> Path:
    return Path("docs/results") if Path("docs/results").is_dir() else Path("results")
