"""`discoformer recipes`: the training recipes in the package, or one of them to copy and edit."""

from __future__ import annotations

import argparse
import json
from itertools import takewhile

from discoformer.cli.parser import command_parser
from discoformer.training.recipes import find_recipe, list_recipes

__all__ = ["make_parser", "run"]

EXAMPLES = """\
examples:
  discoformer recipes                        what there is
  discoformer recipes default > mine.yaml    a recipe to edit; then `discoformer train mine.yaml`
"""


def make_parser(name: str) -> argparse.ArgumentParser:
    """Options of the subcommand."""
    parser = command_parser(name, "List the training recipes in the package, or print one.", EXAMPLES)
    parser.add_argument("recipe", metavar="NAME", nargs="?", help="print this recipe")
    return parser


def run(args: argparse.Namespace) -> None:
    """Print a line per recipe, with its opening comment, or the text of one recipe."""
    if args.recipe is not None:
        text = find_recipe(args.recipe).read_text(encoding="utf-8")
        print(json.dumps({args.recipe: text}) if args.json else text, end="\n" if args.json else "")
        return
    about = {name: _comment(path.read_text(encoding="utf-8")) for name, path in list_recipes().items()}
    if args.json:
        print(json.dumps(about))
        return
    width = max(map(len, about))
    for name, what in about.items():
        print(f"{name:<{width}}  {what}")


def _comment(text: str) -> str:
    lines = takewhile(lambda line: line.startswith("#"), text.splitlines())
    return " ".join(line.removeprefix("#").strip() for line in lines)
