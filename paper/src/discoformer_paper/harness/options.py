"""Options that the command and all benchmarks share."""

from __future__ import annotations

import argparse
from pathlib import Path

__all__ = ["add_options"]


def add_options(parser: argparse.ArgumentParser, folder: str) -> None:
    """The model, the folder of results (``folder`` is the usual one) and ``--quick``."""
    model = "our network, by name or path (default: default)"
    parser.add_argument("--model", metavar="NAME_OR_PATH", default="default", help=model)
    parser.add_argument("--quick", action="store_true", help="tiny sizes, to see that it runs")
    out = f"folder of results (default: {folder}; temporary with --quick)"
    parser.add_argument("--out", metavar="DIR", type=Path, help=out)
