"""The jobs of an experiment on several processes.

A job is a function and cannot travel, but its place in the list can: every worker makes the same list
anew, and is told numbers.  Neighbours in the list often share a data set, so each worker goes through a
stretch of its own, and takes from the far end of the longest one left when that is done.
"""

from __future__ import annotations

import io
import multiprocessing
import signal
import traceback
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import redirect_stderr, suppress
from dataclasses import replace
from multiprocessing.connection import Connection, wait
from typing import TYPE_CHECKING, NamedTuple

import torch
from threadpoolctl import threadpool_limits  # comes with scikit-learn

from discoformer.core.checks import DataError
from discoformer_paper.contestants import Networks

if TYPE_CHECKING:
    from discoformer_paper.harness import Context

__all__ = ["Answer", "cut", "measure_on_workers", "take"]


class Answer(NamedTuple):
    """What a worker says: the number of a job, its keys as text, and its values."""

    number: int
    keys: list[list[str]]
    values: Sequence[Mapping[str, float]]


def measure_on_workers(name: str, context: Context, numbers: Sequence[int], workers: int) -> Iterator[Answer]:
    """Measure the jobs with these numbers of an experiment; yields answers as they come.

    Every worker has one thread.  An error in one ends all; what was yielded is done.
    """
    stretches = cut(numbers, workers)
    plain = replace(context, networks=Networks(context.networks.model))  # without what was loaded here
    spawn = multiprocessing.get_context("spawn")  # threads of torch do not survive a fork
    ends, processes = [], []
    for _ in stretches:
        ours, theirs = spawn.Pipe()
        process = spawn.Process(target=_serve, args=(theirs, name, plain), daemon=True)
        process.start()
        theirs.close()  # so that its death is the end of the line
        ends.append(ours)
        processes.append(process)
    try:
        waiting = {end for worker, end in enumerate(ends) if _send(end, take(stretches, worker))}
        while waiting:
            for end in wait(list(waiting)):
                assert isinstance(end, Connection)
                yield _receive(end)
                if not _send(end, take(stretches, ends.index(end))):
                    waiting.remove(end)
    finally:
        for process in processes:
            process.terminate()


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


def _send(end: Connection, number: int | None) -> bool:
    """Give a worker a number; False if there is none."""
    if number is not None:
        with suppress(ConnectionError):  # it is dead: its answer will say so
            end.send(number)
    return number is not None


def _receive(end: Connection) -> Answer:
    try:
        answer = end.recv()
    except (EOFError, ConnectionError):
        raise DataError(
            "a worker was killed, perhaps for its memory; what was measured is kept: "
            "run it again, with fewer --workers"
        ) from None
    if isinstance(answer, BaseException):
        raise answer
    assert isinstance(answer, Answer)
    return answer


def _serve(end: Connection, name: str, context: Context) -> None:
    """Answer numbers until the other side is gone; an interruption from the terminal is its business."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    torch.set_num_threads(1)
    with threadpool_limits(1), suppress(EOFError, ConnectionError):
        try:
            from discoformer_paper import find

            with redirect_stderr(io.StringIO()):  # what is missing has been said already
                jobs = list(find(name).run(context))
            while True:
                number = end.recv()
                keys = [list(map(str, key)) for key in jobs[number].keys]
                end.send(Answer(number, keys, list(jobs[number].measure())))
        except (EOFError, ConnectionError):
            raise
        except DataError as error:
            end.send(error)
        except Exception:  # not every exception can travel, and none with its traceback
            end.send(RuntimeError(traceback.format_exc()))
