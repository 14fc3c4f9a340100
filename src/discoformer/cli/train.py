"""`discoformer train`: run a recipe, or go on with one."""

from __future__ import annotations

import argparse
import signal
import sys
from pathlib import Path

from discoformer.cli.parser import command_parser

__all__ = ["make_parser", "run"]

EXAMPLES = """\
examples:
  discoformer train one --minutes 30         a recipe of the package: a first half hour, then a checkpoint
  discoformer train one --resume             go on to the last step of the recipe
  discoformer train one --set name=try --set sizes=[64,64] --set tokens=256 --minutes 1   a small try
  discoformer train default --set start=default   from the shipped weights instead of the end of `one`
  discoformer recipes one > mine.yaml        a recipe to edit; then `discoformer train mine.yaml`
  torchrun --nproc-per-node 2 -m discoformer train one

A run writes runs/NAME/: checkpoint.safetensors (to resume), log.jsonl (a line per report) and
weights.safetensors (the averaged weights; use them with `discoformer estimate --model PATH`).
"""


def make_parser(name: str) -> argparse.ArgumentParser:
    """Options of the subcommand."""
    parser = command_parser(name, "Train a network as the recipe CONFIG (YAML) says.", EXAMPLES, json=False)
    parser.add_argument(
        "config",
        metavar="CONFIG",
        type=Path,
        help="the recipe: a YAML file, or a name of `discoformer recipes`",
    )
    parser.add_argument("--resume", action="store_true", help="go on from the run's checkpoint")
    parser.add_argument("--minutes", type=float, help="stop after this many minutes, with a checkpoint")
    parser.add_argument("--report", metavar="MINUTES", type=float, default=5.0, help="between reports (5)")
    parser.add_argument("--runs", metavar="DIR", type=Path, default=Path("runs"), help="where runs live")
    parser.add_argument("--threads", type=int, help="threads of this process (default: torch's choice)")
    drawing = "processes that draw the data, for a GPU (default: 0, the process that trains)"
    parser.add_argument("--draw-workers", metavar="N", type=int, default=0, help=drawing)
    change = "another value of the recipe, as in YAML; repeat it for several"
    parser.add_argument("--set", metavar="KEY=VALUE", action="append", default=[], help=change)
    parser.add_argument("--device", help="cpu, cuda, cuda:1 ... (default: a GPU if there is one)")
    return parser


def run(args: argparse.Namespace) -> None:
    """Train; an existing run is never overwritten without --resume."""
    import torch
    import torch.distributed as dist

    from discoformer.core.checks import DataError
    from discoformer.training.config import load_recipe
    from discoformer.training.loop import Trainer

    for option in ("minutes", "report"):
        value = getattr(args, option)
        if value is not None and not value >= 0:
            raise DataError(f"--{option} {value:g}: give a number of minutes, not negative")
    if args.threads is not None and args.threads < 1:
        raise DataError(f"--threads {args.threads}: give a whole number from 1")
    if args.draw_workers < 0:
        raise DataError(f"--draw-workers {args.draw_workers}: give a whole number from 0")
    recipe = load_recipe(args.config, args.set)
    folder = args.runs / recipe.name
    if not args.resume and (folder / "checkpoint.safetensors").exists():
        raise DataError(f"{folder} holds a run already: add --resume to go on, or remove the folder")
    if args.threads:
        torch.set_num_threads(args.threads)
    torch.set_flush_denormal(True)  # tiny weights of far points are denormal: up to 4 times slower
    try:
        trainer = Trainer(recipe, folder, args.device, resume=args.resume, workers=args.draw_workers)
        for stop in (signal.SIGINT, signal.SIGTERM):  # finish the step, report, checkpoint
            signal.signal(stop, lambda *_: trainer.stop())
        trainer.run(args.minutes, args.report)
    finally:
        if dist.is_initialized():  # with torchrun
            dist.destroy_process_group()
    if trainer.step < recipe.steps:
        print(f"stopped at step {trainer.step} of {recipe.steps}; go on with --resume", file=sys.stderr)
