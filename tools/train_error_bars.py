"""Trains the error bars of a model and puts them into the package.

    python tools/train_error_bars.py                         # tools/error_bars.yaml, half an hour of one core
    python tools/train_error_bars.py --out head.safetensors  # elsewhere than in the package

Fits and their errors are kept in runs/error_bars/<weights>/, so that an interrupted run goes on where it
stopped and another head can be trained from the same fits.  Run it again, with --fresh, whenever weights
*or code* of the default change what it answers.
"""

from __future__ import annotations

import argparse
import shutil
from dataclasses import asdict
from pathlib import Path

import torch
import yaml

from discoformer.methods import resolve
from discoformer.models.error_bars import error_bars_path, save_error_head
from discoformer.models.registry import weights_checksum
from discoformer.training.config import load_recipe
from discoformer.training.error_bars import ErrorBarRecipe, collect, train_head


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--recipe", type=Path, default=Path(__file__).with_name("error_bars.yaml"))
    parser.add_argument("--tasks", type=int, help="fewer fits than the recipe says, for a trial")
    parser.add_argument("--out", type=Path, help="file to write (default: in the package)")
    parser.add_argument("--runs", type=Path, default=Path("runs") / "error_bars")
    parser.add_argument("--fresh", action="store_true", help="do not use fits of an earlier run")
    args = parser.parse_args()
    values = yaml.safe_load(args.recipe.read_text(encoding="utf-8"))
    setup = ErrorBarRecipe(**values | ({} if args.tasks is None else {"tasks": args.tasks}))
    checksum = weights_checksum(setup.model)
    folder = args.runs / checksum[:8]
    if args.fresh and folder.exists():
        shutil.rmtree(folder)
    torch.set_num_threads(1)  # many small operations
    errors = collect(setup, load_recipe(setup.recipe, []), resolve(setup.model).method, folder)
    head, found = train_head(errors, setup)
    card = {"model": setup.model, "weights": checksum, "recipe": asdict(setup), "held_out": found}
    out = args.out or error_bars_path(setup.model)
    out.parent.mkdir(parents=True, exist_ok=True)
    save_error_head(head, card, out)
    print(f"held out: {found}\nwrote {out}")


if __name__ == "__main__":
    main()
