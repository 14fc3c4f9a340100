"""The parser that every command starts from.  It imports little, so that `--help` does not wait for torch."""

from __future__ import annotations

import argparse

__all__ = ["command_parser"]


def command_parser(
    name: str, description: str, examples: str, *, json: bool = True
) -> argparse.ArgumentParser:
    """A parser for ``discoformer NAME`` that prints its examples as they are written.

    >>> command_parser("estimate", "Estimate.", "examples:").prog
    'discoformer estimate'
    """
    parser = argparse.ArgumentParser(
        prog=f"discoformer {name}",
        description=description,
        epilog=examples,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(command=name)
    if json:
        parser.add_argument("--json", action="store_true", help="print one JSON object instead of text")
    return parser
