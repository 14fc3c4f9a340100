"""`discoformer reproduce`: the tables and figures of the paper, measured again."""

from __future__ import annotations

import argparse
from pathlib import Path

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


def make_parser() -> argparse.ArgumentParser:
    """Options of the subcommand."""
    parser = argparse.ArgumentParser(
        prog="discoformer reproduce",
        description="Measure the tables and figures of the paper again, beside the published numbers.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("names", metavar="NAME", nargs="*", help=f"experiments, or {ALL}, or {PAGE}")
    parser.add_argument("--list", action="store_true", help="the names, what each shows, and what is done")
    parser.add_argument(
        "--out",
        metavar="DIR",
        type=Path,
        help="folder of results (default: docs/results if it is there, else results; temporary with --quick)",
    )
    parser.add_argument("--quick", action="store_true", help="seconds each, to see that it runs")
    parser.add_argument("--seeds", type=int, help="data sets per setting (default: the experiment's own)")
    parser.add_argument(
        "--model", metavar="NAME_OR_PATH", default="default", help="our network (default: default)"
    )
    parser.add_argument(
        "--workers",
        type=int,
        help="processes that measure at a time (default: as many as torch has threads, one with --quick); "
        "what is about times alone (runtime, score_matching) has the machine to itself",
    )
    return parser


def run(args: argparse.Namespace) -> None:
    """Run the experiments one after the other; a name that does not exist is refused before all work."""
    import torch

    from discoformer.core.checks import DataError
    from discoformer_paper import NAMES, find
    from discoformer_paper.contestants import Networks
    from discoformer_paper.harness import open_folder, reproduce, tell
    from discoformer_paper.page import write_page

    names = [name for given in args.names for name in (NAMES if given == ALL else [given])]
    experiments = [find(name) for name in dict.fromkeys(names) if name != PAGE]
    if not (experiments or args.list or PAGE in names):
        raise DataError(f"nothing to do: give names, {ALL} or {PAGE}; --list shows the names")
    if args.seeds is not None and args.seeds < 1:
        raise DataError(f"--seeds {args.seeds}: give at least 1")
    if args.workers is not None and args.workers < 1:
        raise DataError(f"--workers {args.workers}: give at least 1")
    workers = args.workers or (1 if args.quick else torch.get_num_threads())
    with open_folder(args.out, quick=args.quick) as folder:
        if args.list:
            _list(folder)
            return
        networks = Networks(args.model)
        for experiment in experiments:
            context = experiment.context(folder, networks, quick=args.quick, seeds=args.seeds)
            measured, minutes = reproduce(experiment, context, workers)
            rows = experiment.ledger(folder).rows()
            tell(experiment, experiment.summary(rows, networks.label), networks.label)
            counts = f"{measured} measured, {len(rows) - measured} were there"
            print(f"{experiment.name}: {counts}, {minutes:.1f} minutes", flush=True)
        page = write_page(folder)
        if not args.quick or args.out:
            print(f"wrote {page}")


def _list(folder: Path) -> None:
    from discoformer.views.terminal import print_table
    from discoformer_paper import NAMES, find

    experiments = [find(name) for name in NAMES]
    rows = [[e.name, e.source, str(len(e.ledger(folder))), e.shows] for e in experiments]
    print_table(["name", "in the paper", "rows", "what it shows"], rows)
