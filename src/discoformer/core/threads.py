"""All cores on a list of chunks, so that no answer depends on how many there are.

A chunk needs many small operations.  Threads inside an operation would wait for one another at its end.
Here each thread takes a whole chunk, and results come back in the order of the chunks.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

import torch

from discoformer.core.checks import traced

__all__ = ["ordered_map", "team"]

A = TypeVar("A")
B = TypeVar("B")

_pool: ContextVar[tuple[ThreadPoolExecutor, int] | None] = ContextVar("pool", default=None)


@contextmanager
def team() -> Iterator[None]:
    """Inside, torch has one thread, and `ordered_map` has the others it was set to use.

    Operations on small tensors are no faster on several threads, and ten times slower where other programs
    compete for the cores: each operation waits for its last thread.
    """
    workers = torch.get_num_threads()
    if workers == 1 or traced():  # one also on the threads of a team
        yield
        return
    with ThreadPoolExecutor(workers, initializer=torch.set_num_threads, initargs=(1,)) as pool:
        torch.set_num_threads(1)
        token = _pool.set((pool, workers))
        try:
            yield
        finally:
            _pool.reset(token)
            torch.set_num_threads(workers)


def ordered_map(function: Callable[[A], B], items: Iterable[A]) -> Iterator[B]:
    """`map` on as many threads as torch is set to use, a few items ahead of what is asked for.

    A map within a map is a plain one.

    >>> list(ordered_map(lambda x: x * x, range(4)))
    [0, 1, 4, 9]
    """
    with team():
        shared = _pool.get()
        if shared is None:
            yield from map(function, items)
            return
        pool, workers = shared
        tracked, inference = torch.is_grad_enabled(), torch.is_inference_mode_enabled()

        def call(item: A) -> B:
            with torch.inference_mode(inference), torch.set_grad_enabled(tracked):  # no thread inherits them
                return function(item)

        pending: deque[Future[B]] = deque()
        for item in items:
            pending.append(pool.submit(call, item))
            if len(pending) > workers:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
