"""Where particles get their score from in the particle experiments: networks, and rivals by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from discoformer.core.fields import Field
from discoformer.particles.calibrated import Calibrated
from discoformer.particles.choices import choose_oracle, network_oracle
from discoformer.particles.oracles import Oracle, as_oracle
from discoformer.particles.sbtm import SBTM
from discoformer_paper.harness.contestants import Contestant

__all__ = ["CALIBRATED", "PLAIN", "SEED", "Source", "batches", "calibrated", "sources"]

SEED = 4_000_000  # of all particle experiments; other experiments and validation have their own
BATCH = 5  # samples that run together
CALIBRATED = "calibrated"
PLAIN = "not calibrated"  # of ours, the title of a column


class Source(NamedTuple):
    """What an oracle is called in a file of measurements, and how one is made for a start."""

    identity: str
    make: Callable[[Field], Oracle]


def batches(seeds: int) -> list[tuple[int, ...]]:
    """Numbers of the samples that run together; more seeds add batches to those that were there.

    >>> batches(10)
    [(0, 1, 2, 3, 4), (5, 6, 7, 8, 9)]
    """
    return [tuple(range(first, min(first + BATCH, seeds))) for first in range(0, seeds, BATCH)]


def sources(
    networks: Sequence[Contestant], rivals: Sequence[str], *, every: int = 1, quick: bool = False
) -> list[Source]:
    """Networks, and rivals by their names in `discoformer.particles.choices`; ``kde`` has Scott's rule.

    A network is fitted once in ``every`` answers and carried along in between; rivals at every answer.
    """
    ours = [Source(found.identity, partial(_network, found, every)) for found in networks]
    return ours + [Source(name, partial(_rival, name, quick)) for name in rivals]


def calibrated(found: Contestant, *, every: int) -> Source:
    """A network as in `sources`, its score calibrated to the particles."""
    return Source(found.variant(CALIBRATED), lambda start: Calibrated(_network(found, every, start)))


def _network(found: Contestant, every: int, start: Field) -> Oracle:
    return network_oracle(found.method, found.identity, every)


def _rival(name: str, quick: bool, start: Field) -> Oracle:
    if quick and name == "sbtm":  # its first fit takes half a minute
        return SBTM(start, steps=2, start_steps=10, seed=SEED)
    return as_oracle(choose_oracle({"kde": "kde-scott"}.get(name, name), start, seed=SEED))
