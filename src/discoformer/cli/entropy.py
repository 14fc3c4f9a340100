"""`discoformer entropy`: differential entropy of a file of numbers."""

from discoformer.cli.functionals import command

__all__ = ["make_parser", "run"]

make_parser, run = command("entropy")
