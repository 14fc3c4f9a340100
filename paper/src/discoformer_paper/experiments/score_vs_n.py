"""Figure 4, left: score error against n on mixtures of three modes, in 1 and 10 dimensions.

Diagonal Gaussian mixtures, standard deviations in [0.2, 1], at the sample points.  The error is the mean
of |s_hat - s|^2 over points and data sets, divided by d.  The paper prints no numbers for this figure.
"""

from __future__ import annotations

from collections.abc import Iterator

from discoformer_paper.harness.contestants import rival
from discoformer_paper.harness.figures import Figure, curves, finish, panels
from discoformer_paper.harness.jobs import Context, Job, Rows
from discoformer_paper.harness.labels import CORE, IN_FAMILY, KDE, OURS, columns
from discoformer_paper.harness.problems import gmm_problem, score_jobs
from discoformer_paper.harness.summary import Line, Summary, against, judge, measured, slope

DIMS = (1, 10)
SIZES = tuple(2**k for k in range(7, 14))


def run(context: Context) -> Iterator[Job]:
    for dim in DIMS:
        for size in SIZES[:2] if context.quick else SIZES:
            rivals = [rival("kde-scott"), rival("gmm-diag")]
            problem = gmm_problem("diagonal", dim, size, modes=(3,))
            yield from score_jobs(problem, context.networks.for_dim(dim, size) + rivals, range(context.seeds))


def summary(rows: Rows, ours: str) -> Summary:
    lines, slopes = [], {}
    shares: dict[int, dict[float, float]] = {}  # the core's error over KDE's, by dimension and n
    for dim in DIMS:
        methods = columns(dim, ours)
        found = {n: rows.where(d=dim, n=n).columns(methods, "score_mse", 1 / dim) for n in _sizes(rows, dim)}
        lines += [Line(f"d={dim}, n={n}", errors) for n, errors in found.items()]
        both = {n: errors for n, errors in found.items() if errors[CORE] > 0}  # where the core was measured
        shares[dim] = {n: errors[CORE] / errors[KDE] for n, errors in both.items()}
        if len(both) > 1:
            core, kde = (slope({n: errors[who] for n, errors in both.items()}) for who in (CORE, KDE))
            slopes[f"d={dim}"] = (core, kde)
    low, high = (shares[dim] for dim in DIMS)
    especially = {f"n={n}": (share, low[n]) for n, share in high.items() if n in low}
    claims = [
        judge(
            "paper",
            "the Transformer beats KDE in 1 and in 10 dimensions, at every n",
            measured(against(lines, CORE, KDE)),
        ),
        judge("paper", "excellent scaling in n: the error falls faster than KDE's (slopes, log-log)", slopes),
        judge("paper", "more accurate especially in 10 dimensions (error over that of KDE)", especially),
        judge("ours", "below KDE in 1 and in 10 dimensions, at every n", against(lines, OURS, KDE)),
    ]
    return Summary("mean squared error of the score, per coordinate", lines, claims, reasons=IN_FAMILY)


def _sizes(rows: Rows, dim: int) -> list[int | float]:
    return rows.where(d=dim).numbers("n")


def figure(rows: Rows, context: Context) -> Figure:
    picture, axes = panels(len(DIMS))
    for panel, dim in zip(axes, DIMS, strict=True):
        curves(panel, rows.where(d=dim), "score_mse", scale=1 / dim)
        panel.set(title=f"three modes, d = {dim}", xlabel="n", ylabel="squared score error per coordinate")
    return finish(picture, axes, log="xy", base=2)
