"""What `discoformer reproduce` prints: the list of experiments, the summary of one, an overview of all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from discoformer_paper.experiments import NAMES, find
from discoformer_paper.harness.runner import Experiment
from discoformer_paper.harness.summary import Summary
from discoformer_paper.harness.terminal import print_folded
from discoformer_paper.page import VERDICTS

__all__ = ["print_list", "print_overview", "print_summary"]


def print_list(folder: Path) -> None:
    """Names, titles, and how many rows a folder holds."""
    rows = [[e.name, e.source, str(len(e.ledger(folder))), e.title] for e in map(find, NAMES)]
    print_folded(["name", "in the paper", "rows", "title"], rows)


def print_summary(experiment: Experiment, summary: Summary, ours: str) -> None:
    """The table of an experiment, the lines where ours is worse, and the claims."""
    print(f"\n{experiment.title} ({experiment.source}): {summary.unit}")
    if summary.lines:
        print_folded(*summary.table(ours))
    for sentence in (*summary.worse(ours), *summary.core_worse()):
        print(f"worse: {sentence}")
    for claim in summary.claims:
        verdict = VERDICTS[claim.whose][claim.verdict]
        verdict = verdict.upper() if claim.verdict == "not shown" else verdict
        print(f"{claim.whose}, {verdict}: {claim.text} ({claim.evidence})")


def print_overview(done: Sequence[tuple[Experiment, Summary, int, float]]) -> None:
    """A line for each group of experiments: rows, verdicts on the paper's claims and our bars, minutes."""
    bars = {kind: VERDICTS["ours"][kind] for kind in ("shown", "not shown")}
    columns = ["rows", *VERDICTS["paper"], *bars.values(), "minutes"]
    counts = [
        {"about": experiment.about, "rows": rows, "minutes": minutes}
        | Counter(claim.verdict for claim in summary.claims if claim.whose == "paper")
        | Counter(bars.get(claim.verdict, "") for claim in summary.claims if claim.whose == "ours")
        for experiment, summary, rows, minutes in done
    ]
    table = pd.DataFrame(counts).groupby("about", sort=False).sum().reindex(columns=columns, fill_value=0)
    table.loc["all"] = table.sum()
    cells = table.map("{:.0f}".format).assign(minutes=table["minutes"].map("{:.1f}".format))
    print_folded(["about", *columns], [[str(name), *row] for name, *row in cells.itertuples()])
