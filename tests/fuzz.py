"""Random tables as hostile users have them, and the laws that every fit must keep.

    python tests/fuzz.py --minutes 10 [--seed 0] [--table NUMBER]

A table is drawn from its number: ties, grids, atoms, heavy tails, columns linear in others, scales from 1e-12
to 1e12, bounds, weights, layouts.  Every law that is checked on it is a case.  A fit may be refused by a
`DataError`; any other error, and any answer that breaks a law, is a failure, printed with its table's number.
"""

from __future__ import annotations

import argparse
import math
import pickle
import sys
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from discoformer import DataError, DiScoFormer

Points = NDArray[np.float64]
NEAR = 1e-6  # of log densities that must agree


@dataclass
class Table:
    """A table to fit, and how."""

    number: int
    x: Points
    unit: Points
    bounds: list[tuple[float, float] | None]
    weights: Points | None
    model: str
    rng: np.random.Generator = field(repr=False)

    def estimator(self, types: str | None = None) -> DiScoFormer:
        bounds = self.bounds if any(self.bounds) else None
        return DiScoFormer(model=self.model, bounds=bounds, types=types)

    def queries(self) -> Points:
        rows = self.x[self.rng.integers(0, len(self.x), 12)]
        return rows + 0.05 * self.unit * self.rng.normal(size=rows.shape) * [not b for b in self.bounds]


def make_table(number: int) -> Table:
    """The table of this number."""
    rng = np.random.default_rng(number)
    n, d = int(rng.integers(12, 120)), int(rng.integers(1, 5))
    x = rng.normal(size=(n, d)) @ (np.eye(d) + 0.3 * rng.normal(size=(d, d)))
    bounds: list[tuple[float, float] | None] = [None] * d
    for j in range(d):
        kind = rng.integers(0, 10)
        if kind == 0:
            x[:, j] = np.round(x[:, j], 1)
        elif kind == 1:
            x[:, j], bounds[j] = np.exp(x[:, j]), (0.0, math.inf)
        elif kind == 2:
            x[:, j], bounds[j] = 1 / (1 + np.exp(-x[:, j])), (0.0, 1.0)
        elif kind == 3:
            x[:, j] = rng.standard_t(2, n)
        elif kind == 4 and j:
            x[:, j] = 2 * x[:, j - 1] - 1
        elif kind == 5:
            x[: n // 2, j] = x[0, j]
    if rng.random() < 0.1:
        x = np.vstack([x, x[rng.integers(0, n, n)]])
    free = np.array([bound is None for bound in bounds])
    unit = np.where(free, 10.0 ** rng.uniform(-12, 12, d) if rng.random() < 0.5 else 1.0, 1.0)
    x = (x + np.where(free, rng.choice([0.0, 100.0]), 0.0)) * unit
    weights = rng.gamma(1.0, size=len(x)) if rng.random() < 0.2 else None
    model = str(rng.choice(["default", "kde-scott", "kde-loo"]))
    return Table(number, x, unit, bounds, weights, model, rng)


def close(found: Any, expected: Any, near: float = NEAR) -> None:
    np.testing.assert_allclose(found, expected, rtol=near, atol=near)


def layout(table: Table, est: DiScoFormer) -> None:
    """Memory order, holders and read-only flags change nothing."""
    x = table.x
    frame = table.number % 6 == 2
    holders: list[Callable[[], Any]] = [
        lambda: np.asfortranarray(x),
        lambda: x[::-1][::-1],
        lambda: pd.DataFrame(x),
        lambda: x.astype(object),
        lambda: np.ma.MaskedArray(x),
        lambda: torch.tensor(x),
    ]
    given = holders[table.number % len(holders)]()
    # The columns of a frame may be counts or have masses, which those of an array have not.
    again = table.estimator("continuous" if frame else None).fit(given, sample_weight=table.weights)
    queries = table.queries()
    close(np.asarray(again.score_samples(queries)), est.score_samples(queries))


def order(table: Table, est: DiScoFormer) -> None:
    """The order of the rows changes nothing."""
    turn = table.rng.permutation(len(table.x))
    weights = None if table.weights is None else table.weights[turn]
    queries = table.queries()
    again = table.estimator().fit(table.x[turn], sample_weight=weights)
    close(again.score_samples(queries), est.score_samples(queries))


def frames(table: Table, est: DiScoFormer) -> None:
    """A frame, whose columns may be counts or have masses: order is nothing, draws have a density."""
    if table.model != "default":
        return
    turn = table.rng.permutation(len(table.x))
    frame = pd.DataFrame(table.x)
    weights = table.weights
    first = table.estimator().fit(frame, sample_weight=weights)
    again = table.estimator().fit(frame.iloc[turn], sample_weight=None if weights is None else weights[turn])
    assert [column.kind for column in first.schema_] == [column.kind for column in again.schema_]
    close(again.score_samples(frame[:12]), first.score_samples(frame[:12]))
    draws = first.sample(100, random_state=table.number)
    assert list(draws.columns) == list(frame.columns)
    assert np.isfinite(first.score_samples(draws)).all()


def units(table: Table, est: DiScoFormer) -> None:
    """Another unit of the free columns changes log densities by the logarithm of the units that count."""
    free = [bound is None for bound in table.bounds]
    factor = np.where(free, 2.0 ** table.rng.integers(-8, 9, len(free)), 1.0)
    again = table.estimator().fit(table.x * factor, sample_weight=table.weights)
    queries = table.queries()
    change = np.log(factor[est.support_]).sum()
    assert (again.support_ == est.support_).all()
    close(again.score_samples(queries * factor) + change, est.score_samples(queries))


def gradient(table: Table, est: DiScoFormer) -> None:
    """The score is the gradient of the log density."""
    queries = torch.tensor(table.queries(), requires_grad=True)
    log_density, score = est.estimate(queries)
    within = log_density.isfinite()
    if not bool(within.any()):
        return
    (slope,) = torch.autograd.grad(log_density[within].sum(), queries)
    unit = torch.tensor(table.unit)
    close((score * unit)[within].detach().numpy(), (slope * unit)[within].numpy(), 1e-5)


def one_by_one(table: Table, est: DiScoFormer) -> None:
    """Queries do not see one another."""
    queries = table.queries()
    close([est.score_samples(row[None])[0] for row in queries[:4]], est.score_samples(queries)[:4], 1e-9)


def zero_weights(table: Table, est: DiScoFormer) -> None:
    """A row without weight is not there, and the unit of weights does not count."""
    weights = np.ones(len(table.x)) if table.weights is None else table.weights
    more = np.vstack([table.x, table.x[:3]])
    again = table.estimator().fit(more, sample_weight=np.append(7 * weights, [0.0, 0.0, 0.0]))
    same = table.estimator().fit(table.x, sample_weight=weights)
    queries = table.queries()
    close(again.score_samples(queries), same.score_samples(queries))


def draws(table: Table, est: DiScoFormer) -> None:
    """Draws are finite, within bounds, and have a density."""
    rows = est.sample(200, random_state=table.number)
    assert np.isfinite(rows).all()
    for column, bound in zip(rows.T, table.bounds, strict=True):
        assert bound is None or bool(((column >= bound[0]) & (column <= bound[1])).all())
    assert np.isfinite(est.score_samples(rows)).all()


def beyond(table: Table, est: DiScoFormer) -> None:
    """There is no mass beyond bounds."""
    for j, bound in enumerate(table.bounds):
        if bound is not None:
            row = table.x[:1].copy()
            row[0, j] = bound[0] - 0.1
            assert est.score_samples(row)[0] == -math.inf


def pickled(table: Table, est: DiScoFormer) -> None:
    """A pickle is the same estimator."""
    queries = table.queries()
    copy = pickle.loads(pickle.dumps(est))
    np.testing.assert_array_equal(copy.score_samples(queries), est.score_samples(queries))


def margin(table: Table, est: DiScoFormer) -> None:
    """Quantiles invert the distribution function, and its slope is the density."""
    column = int(table.rng.choice(np.flatnonzero(est.support_)))
    _keeps_its_law(est.marginal([column]).field_)


def normalized(table: Table, est: DiScoFormer) -> None:
    """So do those of a column given all others; the whole of it has the mass one."""
    support = [int(j) for j in table.rng.permutation(np.flatnonzero(est.support_))]
    if len(support) < 2:
        return
    row = table.queries()[0]
    _keeps_its_law(est.conditional(support[1:], row[support[1:]]).field_)


def _keeps_its_law(part: Any) -> None:
    shares = torch.tensor([0.1, 0.5, 0.9], dtype=torch.float64)
    at = part.quantile(shares)
    close(part.cdf(at).numpy(), shares.numpy())
    density = part.log_density(at).exp()
    step = 1e-4 / density.unsqueeze(-1)  # a share of 1e-4 to each side where the density is smooth
    for _ in range(3):
        slope = (part.cdf(at + step) - part.cdf(at - step)) / (2 * step.squeeze(-1))
        if bool((slope / density - 1).abs().max() < 1e-2):
            return
        step = step / 30
    raise AssertionError(f"slope {slope.tolist()} of the distribution function, density {density.tolist()}")


def integral(table: Table, est: DiScoFormer) -> None:
    """The integral of the joint density over a column is the density of the others."""
    support = [int(j) for j in np.flatnonzero(est.support_)]
    if len(support) < 2:
        return
    over = int(table.rng.choice(support))
    rest = [j for j in support if j != over]
    row = table.queries()[0]
    expected = est.marginal(rest).score_samples(row[None, rest])[0]
    part = est.conditional(rest, row[rest]).field_
    # Tails may hide a narrow cluster of a thousandth of the mass, which nodes far apart would miss.
    shares = torch.cat([torch.logspace(-7, -2, 51)[:-1], torch.linspace(0.01, 0.5, 30)]).double()
    edges = part.quantile(torch.cat([shares, 1 - shares.flip(0)[1:]])).flatten().numpy()

    def joint(at: Points) -> Points:
        rows = np.repeat(row[None], at.size, 0)
        rows[:, over] = at.ravel()
        return np.exp(est.score_samples(rows) - expected).reshape(at.shape)

    close(_integrate(joint, np.unique(edges)), 1.0, 1e-4)


def _integrate(function: Callable[[Points], Points], edges: Points) -> float:
    """Gauss's rule with 8 and with 16 nodes between edges; where they differ, both halves anew."""
    total, low, high = 0.0, edges[:-1], edges[1:]
    for _ in range(40):
        middle, half = (low + high) / 2, (high - low) / 2
        coarse, fine = (
            (function(middle[:, None] + half[:, None] * nodes) * half[:, None]) @ weights
            for nodes, weights in map(np.polynomial.legendre.leggauss, (8, 16))
        )
        done = np.abs(fine - coarse) <= 1e-7
        total += float(fine[done].sum())
        low, high = np.r_[low[~done], middle[~done]], np.r_[middle[~done], high[~done]]
        if not low.size:
            break
    return total


def chain(table: Table, est: DiScoFormer) -> None:
    """The joint density is that of some columns times that of the others given them."""
    support = [int(j) for j in np.flatnonzero(est.support_)]
    if len(support) < 2:
        return
    given = [int(j) for j in table.rng.permutation(support)[: int(table.rng.integers(1, len(support)))]]
    rest = [j for j in support if j not in given]
    for row in table.queries()[:3]:
        joint = est.score_samples(row[None])[0]
        parts = est.marginal(given).score_samples(row[None, given])[0]
        parts += est.conditional(given, row[given]).score_samples(row[None, rest])[0]
        close(parts, joint)


def far(table: Table, est: DiScoFormer) -> None:
    """Far away there is a finite answer, none at all in words, or no mass."""
    for size in (1e3, 1e8, 1e15):
        row = table.x[:1] + size * table.unit * [not bound for bound in table.bounds]
        try:
            assert not np.isnan(est.score_samples(row)).any()
        except DataError:
            return


LAWS = (layout, order, frames, units, gradient, one_by_one, zero_weights, draws, beyond, pickled)
LAWS += (margin, normalized, integral, chain, far)


def check(number: int) -> Iterator[tuple[str, str]]:
    """Every law on one table: its name, and what is wrong, or nothing."""
    table = make_table(number)
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        for category in (UserWarning, FutureWarning):
            warnings.simplefilter("ignore", category)
        try:
            est = table.estimator().fit(table.x, sample_weight=table.weights)
        except DataError:
            yield "refused", ""
            return
        except Exception:
            yield "fit", traceback.format_exc(limit=-3)
            return
        for law in LAWS:
            try:
                law(table, est)
            except Exception:
                yield law.__name__, traceback.format_exc(limit=-3)
            else:
                yield law.__name__, ""


def run(seed: int, *, minutes: float = math.inf, tables: int | None = None) -> Counter[str]:
    """Check tables until the time is over; prints failures, returns how often each law failed."""
    tried: Counter[str] = Counter()
    failed: Counter[str] = Counter()
    end, number = time.monotonic() + 60 * minutes, 1_000_000 * seed
    while time.monotonic() < end and (tables is None or number < 1_000_000 * seed + tables):
        for law, wrong in check(number):
            tried[law] += 1
            if wrong:
                failed[law] += 1
                print(f"table {number}, {law}: {wrong}", flush=True)
        number += 1
    listed = ", ".join(f"{law} {count}" for law, count in tried.items())
    print(
        f"seed {seed}: {number - 1_000_000 * seed} tables, {tried.total()} cases ({listed}), "
        f"{failed.total()} failures"
    )
    return failed


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--table", type=int, help="this one only")
    args = parser.parse_args()
    if args.table is not None:
        sys.exit(any(wrong and not print(law, wrong) for law, wrong in check(args.table)))
    sys.exit(bool(run(args.seed, minutes=args.minutes)))
