"""The jobs of an experiment on several processes.

A job is a function and cannot travel, but its place in the list can: every worker makes the same list
anew, and is told numbers.  Neighbours in the list often share a data set, so each worker goes through a
stretch of its own, and takes from the far end of the longest one left when that is done.
"""

from __future__ import annotations

import io
import multiprocessing
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import ExitStack, redirect_stderr
from dataclasses import replace
from typing import TYPE_CHECKING

import torch

from discoformer.experiments.contestants import Networks

if TYPE_CHECKING:
    from discoformer.experiments.harness import Context, Job

__all__ = ["cut", "measured", "take"]

Values = Sequence[Mapping[str, float]]

_jobs: list[Job] = []  # of this process, if it is a worker


def measured(
    name: str, context: Context, numbers: Sequence[int], workers: int
) -> Iterator[tuple[int, Values]]:
    """Measure the jobs with these numbers of an experiment; yields a number and its values as they come.

    Every worker has one thread of torch.
    """
    stretches = cut(numbers, workers)
    waiting: dict[Future[Values], tuple[int, int]] = {}
    with ExitStack() as stack:
        plain = replace(context, networks=Networks(context.networks.model))  # without what was loaded here
        spawn = multiprocessing.get_context("spawn")  # threads of torch do not survive a fork
        make = [ProcessPoolExecutor(1, spawn, _prepare, (name, plain)) for _ in stretches]
        pools = [stack.enter_context(pool) for pool in make]
        idle = list(range(len(pools)))
        while idle or waiting:
            for worker in idle:
                number = take(stretches, worker)
                if number is not None:
                    waiting[pools[worker].submit(_measure, number)] = worker, number
            idle = []
            if not waiting:
                break
            for future in wait(waiting, return_when=FIRST_COMPLETED).done:
                worker, number = waiting.pop(future)
                idle.append(worker)
                yield number, future.result()


def cut(numbers: Sequence[int], workers: int) -> list[deque[int]]:
    """A stretch of the numbers for each worker, none empty.

    >>> cut([1, 2, 3, 5, 8], 2)
    [deque([1, 2]), deque([3, 5, 8])]
    """
    workers = min(workers, len(numbers))
    ends = [len(numbers) * worker // workers for worker in range(workers + 1)]
    return [deque(numbers[a:b]) for a, b in zip(ends[:-1], ends[1:], strict=True)]


def take(stretches: Sequence[deque[int]], worker: int) -> int | None:
    """The next number for a worker: of its own stretch, then from the end of the longest other one.

    >>> stretches = [deque([1]), deque([3, 5, 8])]
    >>> [take(stretches, 0) for _ in range(4)], take(stretches, 1), take(stretches, 1)
    ([1, 8, 5, 3], None, None)
    """
    if stretches[worker]:
        return stretches[worker].popleft()
    longest = max(stretches, key=len)
    return longest.pop() if longest else None


def _prepare(name: str, context: Context) -> None:
    """Make the list of jobs in a new worker; what is missing has been said already."""
    from discoformer.experiments import find

    torch.set_num_threads(1)
    with redirect_stderr(io.StringIO()):
        _jobs[:] = find(name).run(context)


def _measure(number: int) -> Values:
    return list(_jobs[number].measure())
