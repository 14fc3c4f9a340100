"""The jobs of an experiment in several processes, which joblib starts and manages.

A job is a function that holds a network, too heavy to send to a worker, but its number in the list of jobs
is not: every worker makes the same list and is sent numbers.  Neighbours in the list share samples and fits,
so numbers are handed out in short stretches.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import redirect_stderr
from dataclasses import replace
from uuid import uuid4

from joblib import Parallel, delayed, parallel_config  # type: ignore[import-untyped]
from joblib.externals.loky.process_executor import TerminatedWorkerError  # type: ignore[import-untyped]

from discoformer.core.checks import DataError
from discoformer_paper.harness.contestants import Networks
from discoformer_paper.harness.jobs import Context, Job, Key, Values

__all__ = ["measure_on_workers"]

STRETCH = 16  # jobs handed out at a time, at most

Run = Callable[[Context], Iterable[Job]]
Found = list[tuple[Key, Values]]
_jobs: dict[str, list[Job]] = {}  # of a worker, under the name of the call


def measure_on_workers(
    run: Run, context: Context, numbers: Sequence[int], workers: int
) -> Iterator[tuple[Key, Values]]:
    """Measure the jobs of ``run`` with these numbers; yields keys and values as they come.

    Every worker has one thread.  An error in one ends all; what has been yielded is kept.
    """
    call = uuid4().hex  # joblib keeps its workers: they must not use the list of an earlier call
    plain = replace(context, networks=Networks(context.networks.model))  # without what was loaded here
    length = max(1, min(STRETCH, len(numbers) // (4 * workers)))
    stretches = [numbers[start : start + length] for start in range(0, len(numbers), length)]
    tasks = (delayed(_measure)(call, run, plain, stretch) for stretch in stretches)
    outputs = _pool(min(workers, len(stretches)))(tasks)
    try:
        for found, error in outputs:
            yield from found
            if error is not None:
                raise error
    except TerminatedWorkerError:
        raise DataError(
            "a worker was killed, perhaps for its memory; what was measured is kept: "
            "run it again, with fewer --workers"
        ) from None
    finally:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # after an error joblib warns that it has cancelled the others
            outputs.close()


def _pool(workers: int) -> Parallel:
    with parallel_config("loky", n_jobs=workers, inner_max_num_threads=1):
        return Parallel(return_as="generator_unordered", max_nbytes=None)


def _measure(call: str, run: Run, context: Context, numbers: Sequence[int]) -> tuple[Found, DataError | None]:
    """Keys and values of a stretch up to the first error, and that error."""
    found: Found = []
    try:
        if call not in _jobs:
            _jobs.clear()
            with redirect_stderr(io.StringIO()):  # missing networks have been reported already
                _jobs[call] = list(run(context))
        for job in (_jobs[call][number] for number in numbers):
            found += zip(job.keys, job.measure(), strict=True)
    except DataError as error:
        return found, error
    return found, None
