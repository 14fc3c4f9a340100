"""The `discoformer` command.

Each subcommand, or each group of similar ones, has a module with `make_parser(name)` and `run(args)`.  The
module is imported when its command is called, so that `discoformer --help` does not wait for torch.
"""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import TextIO

from discoformer import __version__

__all__ = ["main"]

COMMANDS = {
    "compare": "held-out log-likelihood against kernel density and mixtures",
    "describe": "what the columns of a file are, and what is done with them",
    "entropy": "differential entropy of a sample",
    "estimate": "log density and score of a file of numbers",
    "export": "a fitted sample as a file for other programs: ONNX or torch.export",
    "fisher": "Fisher information of a sample",
    "kl": "Kullback-Leibler divergence between two samples",
    "landau": "relax a plasma with a plug-in score",
    "models": "the networks in the package",
    "recipes": "the training recipes in the package",
    "report": "one page about a file, with pictures",
    "rfi": "relative Fisher information between two samples",
    "sample": "new rows that look like those of a file",
    "summary": "mean, mode, intervals and probabilities of a file",
    "train": "train a network from a recipe",
}


_THREADED = ("landau", "train")  # commands with large matrices, where threads within an operation help
_HOMES = dict.fromkeys(("entropy", "fisher", "kl", "rfi"), "functionals")  # commands that share a module


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code.

    It is 0 on success, 2 after an error (one line on standard error), 130 after an interrupt, and 141 if the
    reader of a pipe has gone.

    >>> import contextlib, io
    >>> with contextlib.redirect_stderr(io.StringIO()) as stderr:
    ...     code = main(["estimate", "no_such_file.csv"])
    >>> code, stderr.getvalue()
    (2, 'discoformer: error: no_such_file.csv: no such file\\n')
    """
    plugins = {entry.name: entry for entry in entry_points(group="discoformer.commands")}
    name, *arguments = _make_parser(plugins).parse_args(argv).command
    home = f"discoformer.cli.{_HOMES.get(name, name)}"
    command = plugins[name].load() if name in plugins else import_module(home)
    args = command.make_parser(name).parse_args(arguments)

    from discoformer.core.checks import DataError, printable
    from discoformer.core.threads import team

    threads = nullcontext() if name in plugins or name in _THREADED else team()
    try:
        with warnings.catch_warnings(), threads:
            warnings.showwarning = _show_warning
            command.run(args)
            sys.stdout.flush()
    except BrokenPipeError:  # the reader, such as head, has seen enough; keep shutdown quiet too
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except (DataError, OSError) as error:
        print(f"discoformer: error: {printable(str(error))}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    return 0


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    from discoformer.core.checks import printable

    print(f"discoformer: warning: {printable(str(message))}", file=sys.stderr)


def _make_parser(plugins: Mapping[str, EntryPoint]) -> argparse.ArgumentParser:
    """The parser for the command's name; other distributions may add commands of their own."""
    others = {name: f"from {entry.module.split('.')[0]}" for name, entry in plugins.items()}
    commands = dict(sorted({**COMMANDS, **others}.items()))
    width = max(map(len, commands))
    listed = "\n".join(f"  {name:<{width}}  {what}" for name, what in commands.items())
    parser = argparse.ArgumentParser(
        prog="discoformer",
        usage="discoformer COMMAND ...",
        description="Log density and score of a sample at any points.",
        epilog=f"commands:\n{listed}\n\n`discoformer COMMAND --help` shows options and examples.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"discoformer {__version__}")
    # PARSER is what subparsers use: a name and everything after it, options included.
    parser.add_argument(
        "command", metavar="COMMAND", nargs=argparse.PARSER, choices=commands, help=argparse.SUPPRESS
    )
    return parser
