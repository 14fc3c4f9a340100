"""`discoformer kl`: Kullback-Leibler divergence between two files of numbers."""

from discoformer.cli.functionals import command

__all__ = ["make_parser", "run"]

make_parser, run = command("kl")
