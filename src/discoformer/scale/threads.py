"""All cores on a list of chunks, in a way that no answer can depend on.

What a chunk needs is many small operations.  Threads inside of each would wait for one another after
every one of them; here each thread takes a whole chunk, and results come back in the order of the chunks.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

import torch

__all__ = ["ordered_map"]

A = TypeVar("A")
B = TypeVar("B")


def ordered_map(function: Callable[[A], B], items: Iterable[A]) -> Iterator[B]:
    """`map` on as many threads as torch is set to use, a few items ahead of what is asked for.

    Inside, torch has one thread, so a map within a map is a plain one.

    >>> list(ordered_map(lambda x: x * x, range(4)))
    [0, 1, 4, 9]
    """
    workers = torch.get_num_threads()
    if workers == 1:
        yield from map(function, items)
        return
    tracked = torch.is_grad_enabled()  # a thread does not inherit it

    def call(item: A) -> B:
        with torch.set_grad_enabled(tracked):
            return function(item)

    pending: deque[Future[B]] = deque()
    try:
        with ThreadPoolExecutor(workers, initializer=torch.set_num_threads, initargs=(1,)) as pool:
            for item in items:
                pending.append(pool.submit(call, item))
                if len(pending) > workers:
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()
    finally:
        torch.set_num_threads(workers)  # the default of threads to come, which the initializer has changed
