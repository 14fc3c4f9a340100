"""`discoformer models`: the shipped networks as a table."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict

from discoformer.cli.parser import command_parser
from discoformer.models.registry import Card, list_models, load_model
from discoformer.views.terminal import print_table

__all__ = ["make_parser", "run"]


def make_parser(name: str) -> argparse.ArgumentParser:
    """Options of the subcommand."""
    parser = command_parser(
        name,
        "List the networks in the package: size, frame, training range and prior.",
        "example:\n  discoformer models --json",
    )
    return parser


def run(args: argparse.Namespace) -> None:
    """Print a row per model."""
    cards = list_models()
    if args.json:
        print(json.dumps({name: asdict(card) for name, card in cards.items()}))
        return
    header = ["model", "core", "frame", "parameters", "d", "n", "prior", "steps", "minutes"]
    print_table(header, [_row(name, card) for name, card in cards.items()])


def _alone(card: Card) -> str:
    """Which of the two a network with one head estimates; empty for both."""
    heads = card.core.get("estimates", "both")
    return "" if heads == "both" else f", {heads} alone"


def _row(name: str, card: Card) -> list[str]:
    parameters = sum(p.numel() for p in load_model(name).parameters())
    return [
        name,
        str(card.core.get("kind")) + _alone(card),
        card.frame,
        f"{parameters / 1e6:.2f}M",
        "-".join(map(str, sorted(set(card.dims)))),
        "-".join(map(str, card.sizes)),
        str(card.prior.get("name")),
        str(card.record.get("steps", "")),
        str(card.record.get("minutes", "")),
    ]
