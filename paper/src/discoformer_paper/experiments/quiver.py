"""Figure 3: the score of a Gaussian in the plane as arrows, n = 1000.

Standard normal samples; mean squared error per coordinate at all sample points, and at the
tenth that lies farthest from the centre, where the sample is sparse.  With this reading Scott's rule has
about the error that the paper's figure shows for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import torch
from torch import Tensor

from discoformer.core.fields import Method
from discoformer_paper.harness.contestants import Contestant, rival
from discoformer_paper.harness.figures import Figure, arrows, panels, title_of
from discoformer_paper.harness.jobs import Context, Job, Rows
from discoformer_paper.harness.labels import CORE, IN_FAMILY, KDE, OURS, PUBLISHED, PUBLISHED_KDE, columns
from discoformer_paper.harness.problems import seed_of
from discoformer_paper.harness.summary import Line, Summary, against, judge

KEYS = ("n", "seed", "method")
SIZE, QUICK_SIZE = 1000, 100
PUBLISHED_ERRORS = {PUBLISHED: 0.0077, PUBLISHED_KDE: 0.1528}  # read off the figure
PARTS = {"score_mse": "all points", "sparse_mse": "the tenth farthest out"}
VALUES = tuple(PARTS)
SHOWN = 250  # arrows in a panel


def draw(size: int, index: int) -> Tensor:
    """A sample (n, 2); its exact score is minus itself."""
    return torch.randn(size, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(seed_of(index)))


def scores(method: Method, sample: Tensor) -> Tensor:
    with torch.no_grad():
        return method.fit(sample).score(sample)


def measure(method: Method, size: int, index: int) -> dict[str, float]:
    """Mean squared errors per coordinate."""
    sample = draw(size, index)
    squares = (scores(method, sample) + sample).square().mean(-1)
    far = sample.norm(dim=-1).argsort()[-(size // 10) :]
    return {"score_mse": float(squares.mean()), "sparse_mse": float(squares[far].mean())}


def contestants(context: Context) -> list[Contestant]:
    return [*context.networks.for_dim(2), rival("kde-scott"), rival("gmm-full")]


def run(context: Context) -> Iterator[Job]:
    size = QUICK_SIZE if context.quick else SIZE
    for index in range(context.seeds):
        for contestant in contestants(context):
            key = (size, seed_of(index), contestant.identity)
            yield Job.single(key, partial(measure, contestant.method, size, index))


def summary(rows: Rows, ours: str) -> Summary:
    methods = columns(2, ours, "gmm-full")
    whole, sparse = (Line(what, rows.columns(methods, value)) for value, what in PARTS.items())
    lines = [Line(whole.what, {**whole.found, **PUBLISHED_ERRORS}), sparse]
    text = "less error than KDE even on a Gaussian, also where the sample is sparse"
    left = [line.found[CORE] / line.found[KDE] for line in (sparse, whole)]  # share of KDE's error
    especially = "more accurate especially there (error over that of KDE)"
    claims = [
        judge("paper", text, against(lines, CORE, KDE)),
        judge("paper", especially, {"ratios": (left[0], left[1])}),
        judge("ours", text, against(lines, OURS, KDE)),
    ]
    return Summary("mean squared error of the score, per coordinate", lines, claims, reasons=IN_FAMILY)


def figure(rows: Rows, context: Context) -> Figure:
    size = QUICK_SIZE if context.quick else SIZE
    sample = draw(size, 0)
    drawn: dict[str, Tensor] = {"exact": -sample}
    for contestant in reversed(contestants(context)):
        if contestant.label != "gmm-full":
            drawn[contestant.label] = scores(contestant.method, sample)
    picture, axes = panels(len(drawn), width=3.5, height=4.5)
    few = slice(SHOWN)
    worst = float((drawn["kde-scott"] + sample).norm(dim=-1).quantile(0.98))
    for panel, (name, score) in zip(axes, drawn.items(), strict=True):
        gap = (score + sample).norm(dim=-1)
        colours = {"values": gap[few], "cmap": "viridis", "clim": (0, worst)}
        # the paper plots the negated score, which points outwards
        shown = arrows(panel, sample[few], -score[few], unit=3.0, **colours)
        error, usual = float((score + sample).square().mean()), rows.where(method=name, n=size)
        told = f"mean squared error here {error:.4f},\nof {len(usual)} samples {usual.mean('score_mse'):.4f}"
        title = "exact" if name == "exact" else f"{title_of(name)}\n{told}"
        panel.set(title=title, xlabel="$x_1$", xlim=(-4.2, 4.2), ylim=(-4.2, 4.2))
    axes[0].set_ylabel("$x_2$")
    picture.colorbar(shown, ax=axes, label="length of the score's error", extend="max", pad=0.01)
    note = f"negated score, a third of its length, at {min(SHOWN, size)} of {size} sample points"
    picture.supxlabel(note, fontsize=10)
    return picture
