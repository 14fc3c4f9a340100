"""What the functions of an experiment receive and return: a context, jobs, rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from discoformer_paper.harness.contestants import Networks
from discoformer_paper.harness.ledger import Rows

__all__ = ["Context", "Job", "Key", "Rows", "Values"]

Key = tuple[object, ...]
Values = Mapping[str, float]


class Job(NamedTuple):
    """Rows that are measured together: their keys, and a function that returns their numbers in order."""

    keys: Sequence[Key]
    measure: Callable[[], Sequence[Values]]

    @classmethod
    def single(cls, key: Key, measure: Callable[[], Values]) -> Job:
        """One row."""
        return cls([key], lambda: [measure()])


@dataclass(frozen=True)
class Context:
    """What a run is given.

    Attributes
    ----------
    folder : where results go
    scratch : a folder for unfinished work (checkpoints), removed when the experiment is complete
    seeds : data sets, samples or trials per setting
    quick : tiny sizes, to check that it runs
    networks : who takes part
    """

    folder: Path
    scratch: Path
    seeds: int
    quick: bool
    networks: Networks
