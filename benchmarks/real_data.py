"""Real data that ships with scikit-learn: log-likelihood per row, held out in 5-fold cross-validation.

    python benchmarks/real_data.py            # all data sets, all peers, and a neural spline flow
    python benchmarks/real_data.py --quick    # iris, without the flow

`discoformer.data.datasets` says which columns are used, `discoformer.evaluation.held_out` how rows are
held out.  Folds and split are those of `discoformer compare NAME`, so the numbers are those it prints.
Bar: the model is better than every peer on every data set.  Its lead over the best of them has the standard
error of the difference row by row: rows are hard for both.  The flow (zuko, early-stopped, trained on every
fold) stands beside them with its time.  The peers' numbers are kept in `real_data_peers.csv`, those of
networks in `real_data_models.csv`, their leads in `real_data_leads.csv`, the table in `real_data.csv`, and a
full run puts it on the page of the guide, `docs/real-data.md`.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

from common import RESULTS, Session, Store, make_parser, session

from discoformer.core.files import replacing
from discoformer.data.datasets import REAL, real_dataset
from discoformer.evaluation.held_out import FLOW, PEERS, held_out_log_likelihood, make_method

PAGE = Path(__file__).parents[1] / "docs" / "real-data.md"
BEGIN, END = "<!-- begin: benchmarks/results/real_data.csv -->\n", "<!-- end -->\n"
FOLDS, SEED = 5, 0
KEYS = ("data", "folds", "seed", "method")
VALUES = ("mean", "standard_error", "seconds")
LEAD = ("mean", "standard_error")


def held_out(run: Session, store: Store, data: str, name: str) -> dict[str, float]:
    """Mean, standard error and seconds of a method on a data set, from the file if they are there."""
    ours = name == "ours"
    key = (data, FOLDS, SEED, run.identity if ours else name)
    found = store.get(*key)
    if found is None:
        method = run.model if ours else make_method(name)
        result = held_out_log_likelihood(method, real_dataset(data).values, FOLDS, SEED)
        values = (result.mean, result.standard_error, result.seconds)
        found = store.add(key, dict(zip(VALUES, values, strict=True)))
        print(f"{data} {key[-1]}: {result.mean:.3f} +- {result.standard_error:.3f}", flush=True)
    return found


def lead(run: Session, store: Store, data: str, peer: str) -> dict[str, float]:
    """Mean and standard error of the model's lead over a peer, from the file if they are there.

    Both are fitted for it: the files of means know nothing of single rows.
    """
    key = (data, FOLDS, SEED, run.identity, peer)
    found = store.get(*key)
    if found is None:
        sample = real_dataset(data).values
        ours, theirs = (
            held_out_log_likelihood(method, sample, FOLDS, SEED) for method in (run.model, make_method(peer))
        )
        found = store.add(key, dict(zip(LEAD, ours.minus(theirs), strict=True)))
        print(f"{data} {run.identity} over {peer}: {found['mean']:.3f} +- {found['standard_error']:.3f}")
    return found


def table(run: Session, names: Sequence[str], others: Sequence[str]) -> None:
    """One row per data set: the peers, the flow and ours."""
    peers = Store(run.results / "real_data_peers.csv", KEYS, VALUES)
    models = Store(run.results / "real_data_models.csv", KEYS, VALUES)
    leads = Store(run.results / "real_data_leads.csv", (*KEYS, "peer"), LEAD)
    rows = []
    for data in names:
        results = {name: held_out(run, peers, data, name) for name in others}
        n, d = real_dataset(data).values.shape
        cells = [data, str(n), str(d), *(f"{results[name]['mean']:.3f}" for name in others)]
        if FLOW in results:
            cells.append(f"{results[FLOW]['seconds']:.0f}")
        if run.model:
            ours = held_out(run, models, data, "ours")
            best = max((name for name in others if name != FLOW), key=lambda name: results[name]["mean"])
            ahead = lead(run, leads, data, best)
            met = run.bar(f"{data}, above {best}", ahead["mean"], 0.0, below=False)
            cells += [
                f"{ours['mean']:.3f}",
                f"{ours['standard_error']:.3f}",
                f"{ours['seconds']:.1f}",
                best,
                f"{ahead['mean']:.3f}",
                f"{ahead['standard_error']:.3f}",
                met,
            ]
        rows.append(cells)
    header = ["data", "n", "d", *others, *(["flow s"] if FLOW in others else [])]
    mine = ["ours", "+-", "ours s", "best peer", "ahead by", "+- ahead", "bar"] if run.model else []
    run.finish("real_data", [*header, *mine], rows)


def page_table(path: Path) -> str:
    """The table of the default network in Markdown, from the CSV of all; the best of each line in bold."""
    lines = []
    if path.exists():
        with path.open(newline="") as file:
            lines = [line for line in csv.DictReader(file) if line["model"].split("@")[0] == "default"]
    if not lines:
        return "Not measured yet: `python benchmarks/real_data.py` makes this table.\n"
    methods = {"ours": "default", **{name: name for name in (*PEERS, FLOW) if name in lines[0]}}
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


def write_page(results: Path, page: Path = PAGE) -> None:
    """Put the table of a folder of results on a page, between its marks."""
    before, rest = page.read_text(encoding="utf-8").split(BEGIN)
    after = rest.split(END)[1]
    text = f"{before}{BEGIN}{page_table(results / 'real_data.csv')}{END}{after}"
    with replacing(page) as temporary:
        temporary.write_text(text, encoding="utf-8")


def main(argv: Sequence[str] | None = None) -> int:
    args = make_parser(__doc__).parse_args(argv)
    with session(args) as run:
        run.datasets, run.seed = 1, SEED  # each data set is one, the folds are what repeats
        if args.quick:
            table(run, ["iris"], ["kde-scott", "gmm-diag"])
        else:
            table(run, REAL, [*PEERS, FLOW])
        if run.results == RESULTS:
            write_page(RESULTS)
        return run.verdict()


if __name__ == "__main__":
    raise SystemExit(main())
