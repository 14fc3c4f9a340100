"""Real data that ships with scikit-learn: log-likelihood per row, held out in 5-fold cross-validation.

`discoformer.data.datasets` says which columns are used, `discoformer.evaluation.held_out` how rows are
held out.  Folds and split are those of `discoformer compare NAME`, so the numbers are those it prints.
Bar: the model is better than every rival on every data set.  Its lead over the best of them has the standard
error of the difference row by row, since rows are hard for both.  The flow (zuko, early-stopped, trained on
every fold) stands beside them with its time.  The numbers of rivals are kept in `real_data_peers.csv`, those
of networks in `real_data_models.csv`, their leads in `real_data_leads.csv`, the table in `real_data.csv`.
A full run puts it on a page of the guide, `docs/real-data.md`, and into the README.
"""

from __future__ import annotations

import csv
from argparse import Namespace
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from discoformer.core.atomic_files import replacing
from discoformer.data.datasets import REAL, real_dataset
from discoformer.evaluation.held_out import HeldOut, held_out_log_likelihood
from discoformer_paper.harness.benchmark import PAPER, RESULTS, Session, benchmark
from discoformer_paper.harness.contestants import RIVALS, Contestant, rival
from discoformer_paper.harness.ledger import Ledger

PAGES = (PAPER.parent / "docs" / "real-data.md", PAPER.parent / "README.md")
BEGIN, END = "<!-- begin: paper/benchmarks/results/real_data.csv -->\n", "<!-- end -->\n"
FLOW = "flow"
FOLDS, SEED = 5, 0
KEYS = ("data", "folds", "seed", "method")
VALUES = ("mean", "standard_error", "seconds")
LEAD = ("mean", "standard_error")


def held_out(contestant: Contestant, data: str) -> HeldOut:
    """Log-likelihood of every row of a data set, by fits that have not seen it."""
    return held_out_log_likelihood(contestant.method, real_dataset(data).values, FOLDS, SEED)


def likelihood(contestant: Contestant, data: str) -> dict[str, float]:
    found = held_out(contestant, data)
    return dict(zip(VALUES, (found.mean, found.standard_error, found.seconds), strict=True))


def lead(ours: Contestant, peer: Contestant, data: str) -> dict[str, float]:
    """Mean and standard error of the model's lead; both are fitted again, files of means have no rows."""
    return dict(zip(LEAD, held_out(ours, data).minus(held_out(peer, data)), strict=True))


def table(run: Session, names: Sequence[str], others: Sequence[str]) -> None:
    """One row per data set: the rivals, the flow and ours."""
    peers = Ledger(run.results / "real_data_peers.csv", KEYS, VALUES)
    models = Ledger(run.results / "real_data_models.csv", KEYS, VALUES)
    leads = Ledger(run.results / "real_data_leads.csv", (*KEYS, "peer"), LEAD)
    rows = []
    for data in names:
        key = (data, FOLDS, SEED)
        results = {
            name: peers.recall((*key, name), partial(likelihood, rival(name), data)) for name in others
        }
        ours = models.recall((*key, run.ours.identity), partial(likelihood, run.ours, data))
        best = max((name for name in others if name != FLOW), key=lambda name: results[name]["mean"])
        measure = partial(lead, run.ours, rival(best), data)
        ahead = leads.recall((*key, run.ours.identity, best), measure)
        met = run.bar(f"{data}, above {best}", ahead["mean"], 0.0, below=False)
        cells = [f"{results[name]['mean']:.3f}" for name in others]
        cells += [f"{results[FLOW]['seconds']:.0f}"] if FLOW in results else []
        cells += [f"{ours['mean']:.3f}", f"{ours['standard_error']:.3f}", f"{ours['seconds']:.1f}", best]
        cells += [f"{ahead['mean']:.3f}", f"{ahead['standard_error']:.3f}", met]
        rows.append([data, *real_dataset(data).values.shape, *cells])
    header = ["data", "n", "d", *others, *(["flow s"] if FLOW in others else [])]
    mine = ["ours", "+-", "ours s", "best peer", "ahead by", "+- ahead", "bar"]
    run.finish("real_data", [*header, *mine], rows)


def page_table(path: Path) -> str:
    """The table of the default network in Markdown, from the CSV of all; the best of each line in bold."""
    lines = []
    if path.exists():
        with path.open(newline="") as file:
            lines = [line for line in csv.DictReader(file) if line["model"].split("@")[0] == "default"]
    if not lines:
        return "Not measured yet: `python paper/benchmarks/real_data.py` makes this table.\n"
    methods = {"ours": "default", **{name: name for name in (*RIVALS, FLOW) if name in lines[0]}}
    timed = {"ours s": "default, s", **({"flow s": "flow, s"} if FLOW in methods else {})}
    header = ["data", "rows", "columns", *methods.values(), "ahead by", *timed.values()]
    rows = [header, [":--", *("--:" for _ in header[1:])]]
    for line in lines:
        best = max(methods, key=lambda name: float(line[name]))
        values = [f"**{line[name]}**" if name == best else line[name] for name in methods]
        ahead = f"{line['ahead by']} ± {line['+- ahead']}"
        rows.append([line["data"], line["n"], line["d"], *values, ahead, *map(line.get, timed)])
    made = f"\nMeasured with `{lines[0]['model']}`, {FOLDS} folds, seed {lines[0]['seed']} of the split.\n"
    return "".join(f"| {' | '.join(row)} |\n" for row in rows) + made


def write_page(results: Path, page: Path) -> None:
    """Put the table of a folder of results on a page, between its marks."""
    before, rest = page.read_text(encoding="utf-8").split(BEGIN)
    after = rest.split(END)[1]
    text = f"{before}{BEGIN}{page_table(results / 'real_data.csv')}{END}{after}"
    with replacing(page) as temporary:
        temporary.write_text(text, encoding="utf-8")


@benchmark(__doc__)
def main(run: Session, args: Namespace) -> None:
    run.datasets, run.seed = 1, SEED  # each data set is one, the folds are what repeats
    if args.quick:
        table(run, ["iris"], ["kde-scott", "gmm-diag"])
    else:
        table(run, REAL, [*RIVALS, FLOW])
    if run.results == RESULTS:
        for page in PAGES:
            write_page(RESULTS, page)


if __name__ == "__main__":
    raise SystemExit(main())
