"""The deterministic particle method: move a sample with a velocity made from its own score.

    history = integrate(Landau(), start, KDE(), dt=0.01, steps=400)

At every step the oracle gives the score at the particles, the equation turns it into a velocity, and
the particles move.  Nothing is random here: two runs from the same start are identical.
"""

from __future__ import annotations

import math
import time as clock
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from discoformer.core.atomic_files import check_folder
from discoformer.core.checks import DataError, check_points
from discoformer.core.progress import track
from discoformer.particles.equations import Equation
from discoformer.particles.history import History, Progress, Recorder, load_checkpoint, save_checkpoint
from discoformer.particles.oracles import Answer, Oracle, OracleLike, as_oracle, ask

__all__ = ["integrate"]

Scheme = Literal["euler", "heun"]
_LONGER, _SHORTER = 5.0, 0.2  # how much an adaptive step may change at once
_SHORTEST = 1e-8  # of dt


@torch.no_grad()
def integrate(
    equation: Equation,
    start: Any,
    oracle: OracleLike,
    *,
    dt: float,
    steps: int,
    time: float = 0.0,
    scheme: Scheme = "euler",
    tolerance: float | None = None,
    frames: Sequence[float] = (),
    checkpoint: str | Path | None = None,
    resume: bool = False,
    save_seconds: float = 60.0,
    label: str | None = None,
) -> History:
    """Follow the particles of an equation from ``time`` to ``time + steps * dt``.

    Parameters
    ----------
    equation : Equation
    start : (..., n, d), the particles at ``time``; a batch of samples makes a batch of runs
    oracle : a method (fitted anew at every step), an `Oracle`, or a function (points, time) -> scores
    dt, steps : length and number of steps; the history has a row before each step and one at the end
    scheme : "euler", or "heun" for second order with two scores per step
    tolerance : with "heun": cut every interval dt into steps whose local error, as a share of the
        particles' spread, is below this
    frames : times at which to keep all particles, each rounded up to a multiple of dt
    checkpoint : npz file for the state of the run, written every ``save_seconds`` and at the end
    resume : continue from the checkpoint, exactly as if the run had never stopped; all other arguments must
        be those of the call that wrote it, except that ``steps`` may be larger
    label : show a progress bar with this label

    Returns
    -------
    History
        with ``times`` (steps + 1,), moments, energy, entropy, and the particles at the end.

    >>> from discoformer.particles import OrnsteinUhlenbeck
    >>> x = torch.tensor([[-2.0], [2.0]], dtype=torch.float64)
    >>> run = integrate(OrnsteinUhlenbeck(), x, lambda x, t: 0 * x, dt=0.5, steps=2)
    >>> run.times.tolist(), run.points.flatten().tolist()
    ([0.0, 0.5, 1.0], [-0.5, 0.5])
    """
    points = check_points(start, "start", min_rows=2).to(torch.float64)
    _check(dt, steps, time, scheme, tolerance)
    source = as_oracle(oracle)
    recorder = Recorder()
    progress = Progress(points, 0, dt, 0.0)
    run: dict[str, Any] = {"equation": equation.name, "oracle": source.name, "shape": list(points.shape)}
    run |= {"dt": dt, "time": time, "scheme": scheme, "tolerance": tolerance}
    if checkpoint is not None:
        check_folder(Path(checkpoint))
        if resume:
            progress = load_checkpoint(checkpoint, run, recorder, source)
            if not recorder.began_at(points):
                raise DataError(f"{checkpoint}: was written from another start: repeat that of its run")
            progress.points = progress.points.to(points.device)
            if progress.step > steps:
                raise DataError(f"{checkpoint} is at step {progress.step} already: ask for at least as many")
    elif resume:
        raise DataError("resume needs the checkpoint to go on from: give its path")

    stepper = _Stepper(equation, source, scheme, tolerance)
    kept = {max(0, math.ceil((t - time) / dt - 1e-9)) for t in frames}
    began = clock.perf_counter() - progress.seconds
    saved = clock.perf_counter()
    todo = range(progress.step, steps)
    for step in todo if label is None else track(todo, label):
        now = time + step * dt
        if step in kept:
            recorder.add_frame(now, progress.points)
        seconds = clock.perf_counter() - began
        estimate, velocity = stepper.look(progress.points, now)
        recorder.add(now, progress.points, equation.energy(progress.points), estimate, velocity, seconds)
        stepper.advance(progress, velocity, now, dt)
        progress.step = step + 1
        progress.seconds = clock.perf_counter() - began
        if checkpoint is not None and clock.perf_counter() - saved >= save_seconds:
            save_checkpoint(checkpoint, run, progress, recorder, source)
            saved = clock.perf_counter()

    if checkpoint is not None:  # before the last answer, so that a longer run can continue from here
        save_checkpoint(checkpoint, run, progress, recorder, source)
    end = time + steps * dt
    if steps in kept:
        recorder.add_frame(end, progress.points)
    estimate, velocity = stepper.look(progress.points, end)
    recorder.add(end, progress.points, equation.energy(progress.points), estimate, velocity, progress.seconds)
    return recorder.history(progress.points)


class _Stepper:
    """One interval dt, by one step or by as many as a tolerance asks for."""

    def __init__(self, equation: Equation, oracle: Oracle, scheme: Scheme, tolerance: float | None) -> None:
        self.equation = equation
        self.oracle = oracle
        self.scheme = scheme
        self.tolerance = tolerance

    def look(self, points: Tensor, time: float) -> tuple[Answer, Tensor]:
        """The oracle's answer at these particles, and the velocity that follows from it."""
        estimate = ask(self.oracle, points, time)
        velocity = self.equation.velocity(points, estimate.score)
        if not bool(torch.isfinite(velocity).all()):
            raise DataError(
                f"oracle {self.oracle.name} made the velocity infinite at time {time:g}: "
                "use a smaller dt or another oracle"
            )
        return estimate, velocity

    def advance(self, progress: Progress, velocity: Tensor, now: float, dt: float) -> None:
        """Move the particles over the interval [now, now + dt]."""
        if self.tolerance is not None:
            self._advance_adaptively(progress, velocity, now, dt, self.tolerance)
        elif self.scheme == "euler":
            progress.points = progress.points + dt * velocity
        else:
            progress.points = self._heun(progress.points, velocity, now, dt)[0]

    def _heun(self, points: Tensor, velocity: Tensor, now: float, step: float) -> tuple[Tensor, float]:
        """A step of Heun's method and its distance from Euler's, as a share of the particles' spread."""
        ahead = points + step * velocity
        _, later = self.look(ahead, now + step)
        change = 0.5 * step * (later - velocity)
        spread = (points - points.mean(-2, keepdim=True)).square().mean((-2, -1)).sqrt()
        error = change.square().mean((-2, -1)).sqrt() / spread
        return ahead + change, float(error.max())

    def _advance_adaptively(
        self, progress: Progress, velocity: Tensor, now: float, dt: float, tolerance: float
    ) -> None:
        done = 0.0
        while True:
            last = progress.substep >= dt - done
            step = dt - done if last else progress.substep
            points, error = self._heun(progress.points, velocity, now + done, step)
            factor = 0.9 * math.sqrt(tolerance / error) if error > 0 else _LONGER
            proposal = step * min(_LONGER, max(_SHORTER, factor))
            if error <= tolerance:
                progress.points = points
                # a step cut short by the end of the interval says nothing against longer ones
                progress.substep = max(proposal, progress.substep) if last else proposal
                if last:
                    return
                done += step
                _, velocity = self.look(points, now + done)
            else:
                progress.substep = proposal
                if proposal < _SHORTEST * dt:
                    raise DataError(
                        f"the adaptive step fell below {_SHORTEST:g} dt at time {now + done:g}: "
                        "use a larger tolerance or a smoother oracle"
                    )


def _check(dt: float, steps: int, time: float, scheme: str, tolerance: float | None) -> None:
    if not (dt > 0 and math.isfinite(dt)):
        raise DataError(f"dt is {dt}, it must be a positive number")
    if not math.isfinite(time):
        raise DataError(f"time is {time}, it must be a number: the time of the start")
    if steps < 1:
        raise DataError(f"steps is {steps}, at least one is needed")
    if scheme not in ("euler", "heun"):
        raise DataError(f"scheme {scheme!r} is unknown: use 'euler' or 'heun'")
    if tolerance is not None and (scheme != "heun" or not tolerance > 0):
        raise DataError("a tolerance must be positive, and needs scheme='heun' to measure its error")
