"""The page of results, made from the CSV files alone: the same files give the same page.

`docs/results/` holds the measurements and `docs/results.md` the page; a test makes the page anew and
compares.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from discoformer.core.files import replacing
from discoformer_paper import NAMES, find
from discoformer_paper.harness import Experiment
from discoformer_paper.provenance import QUICK, minutes_ledger, read_runs
from discoformer_paper.summary import OURS, PUBLISHED, Claim, Summary, number

__all__ = ["page_of", "page_path", "write_page"]

OURS_LABEL = "default"
INTRODUCTION = """\
# Results

Every table and figure of the paper, measured again. `discoformer reproduce results` makes this page from the
files in `{folder}/`; `discoformer reproduce NAME` measures what is missing in one of them and
`discoformer reproduce all` in all.

- *published*: the number in the paper, where it prints one; with ≈ it is read off a figure
- *paper's core*: its Transformer, trained by us with the differences below
- *default*: the network that this package uses unless told otherwise
- *KDE*: kernel density estimate with Scott's rule, the rival of the paper
- *GMM-BIC*: scikit-learn's Gaussian mixture, the number of components by BIC; the paper has no such rival.
  Scales are diagonal for mixtures along the axes, else full; on heavy tails and in d = 100 the better of both
- *ratio*: the default over the best rival measured here, the paper's core aside; below one is better
- *worse lines*: where the default is worse than the published number, the paper's core or a rival
- *minutes*: of `discoformer reproduce NAME` from nothing; a dash where its rows were not measured in one run

Our training of the paper's core differs from the paper's in ways that decide some verdicts:

- every head has a Gaussian kernel built in, and there is no dropout; claims about attention itself are
  therefore judged by a smaller training without kernels, `ablation-whiten`
- 4 layers of width 128, in d = 100 of width 64; for large n and d = 100 the paper has 6 of width 256
- in d = 10 and 100 the data are standardized, not whitened
- n is at most 2048 in d = 2 and 3, else 1024; mixtures lie along the axes, but for half of them in the last
  stage of d = 2 and 3
- 600 to 4600 steps on one core of a processor, with 2048 points each (1024 in d = 100); the paper's up to
  150,000 on a GPU, with 32 samples of 2048 points each

A dash is what was not measured: the paper prints no number, the weights are not in the package, or n is too
large for the method. A claim of the paper is judged by the paper's core, as trained by us: *contradicted*
means that our training of it does not show what the paper says. A bar is our own. Where the paper says "well"
or "comparable", the bound is ours, too, and was chosen with an earlier training's numbers at hand.
Figure 2 of the paper is a listing, the forward pass; Table 1 measures what it is for.
"""
CLOSING = """\
## Not measured, or shown elsewhere

- Propositions 3.3 and 3.5, attention computes kernel estimates, and B.1, whitening chooses a bandwidth:
  `discoformer_paper.theory` has them as code, and its tests, `test_theory.py`, hold them to rounding.
- Figure 15, the Transformer needs less memory than KDE: `scaling.py` among the benchmarks measures time and
  peak memory, of a kernel estimate in chunks, too.
- Section 3, one backbone for density and score improves accuracy and sample efficiency: not tested; it would
  take a second training, with a backbone for each.
"""
QUICK_NOTE = """\
**From `--quick`**: tiny sizes, to see that everything runs. These numbers are no results.
"""


def page_path(folder: Path) -> Path:
    """Where the page of a folder of results goes: beside it, under its name.

    >>> page_path(Path("docs/results")).as_posix()
    'docs/results.md'
    """
    return folder.parent / f"{folder.name}.md"


def write_page(folder: Path) -> Path:
    """Write the page; an existing one is replaced in one move."""
    path = page_path(folder)
    with replacing(path) as temporary:
        temporary.write_text(page_of(folder), encoding="utf-8")
    return path


def page_of(folder: Path) -> str:
    """The page as text."""
    overview = [["experiment", "in the paper", "rows", "claims of the paper", "worse lines", "minutes"]]
    sections = []
    for name in NAMES:
        experiment = find(name)
        rows = experiment.ledger(folder).rows()
        if not len(rows):
            overview.append([f"`{name}`", experiment.source, "not run yet", "", "", ""])
            continue
        summary = experiment.summary(rows, OURS_LABEL)
        lines = sum(not math.isnan(line.found.get(OURS, math.nan)) for line in summary.lines)
        worse = f"{len(summary.worse(OURS_LABEL))} of {lines}"
        link = f"[`{name}`](#{_anchor(experiment.title)})"
        cells = [link, experiment.source, str(len(rows)), _verdicts(summary.claims), worse]
        overview.append([*cells, number(_taken(experiment, folder).get("minutes", math.nan))])
        sections.append(_section(experiment, summary, folder, len(rows)))
    notes = [QUICK_NOTE] if any(run.sizes == QUICK for run in read_runs(folder).values()) else []
    table = _markdown(overview, left=(0, 1, 3))
    return "\n".join([INTRODUCTION.format(folder=folder.name), *notes, *table, "", *sections, CLOSING])


def _section(experiment: Experiment, summary: Summary, folder: Path, count: int) -> str:
    parts = [
        f"## {experiment.title}",
        "",
        f"{experiment.source} (`{experiment.name}`). {experiment.shows}",
        "",
    ]
    if summary.lines:
        header, rows = summary.table(OURS_LABEL)
        if experiment.source.startswith("Figure"):
            rows = [_read_off(header, row) for row in rows]
        parts += [f"{summary.unit[0].upper()}{summary.unit[1:]}:", "", *_markdown([header, *rows]), ""]
    worse = [*summary.worse(OURS_LABEL), *summary.core_worse()]
    if worse:
        parts += ["Where we are worse:", "", *(f"- {_escape(sentence)}" for sentence in worse), ""]
    if summary.claims:
        parts += [*map(_claim, summary.claims), ""]
    picture = folder / f"{experiment.name}.png"
    if picture.exists():
        parts += [f"![{experiment.title}: {experiment.shows}]({folder.name}/{picture.name})", ""]
    runs = read_runs(folder)
    used = [runs[run] for run in experiment.ledger(folder).runs() if run in runs]
    where = "; ".join(f"{run.commit} on {run.machine}" for run in used)
    file = f"{experiment.name}.csv"
    told = f"{count} measurements in [{file}]({folder.name}/{file}), made at {where or 'an unknown commit'}"
    if taken := _taken(experiment, folder):
        workers = int(taken["workers"])
        told += f"; all in {number(taken['minutes'])} min, on {workers} process{'es' * (workers > 1)}"
    return "\n".join([*parts, f"{told}.", ""])


def _taken(experiment: Experiment, folder: Path) -> dict[str, float]:
    """How long an experiment took from nothing; empty if its rows are not those of that run."""
    times, ledger = minutes_ledger(folder), experiment.ledger(folder)
    found = times.get(experiment.name) or {}
    same = found.get("rows") == len(ledger) and ledger.runs() == [times.run_of(experiment.name)]
    return found if same else {}


def _read_off(header: Sequence[str], row: Sequence[str]) -> list[str]:
    """A row whose published numbers are marked as read off a picture."""
    told = [
        name.startswith(PUBLISHED) and cell != number(math.nan)
        for name, cell in zip(header, row, strict=True)
    ]
    return [f"≈{cell}" if mark else cell for mark, cell in zip(told, row, strict=True)]


def _claim(claim: Claim) -> str:
    verdicts = {
        "paper": {True: "confirmed", False: "**contradicted**", None: "open"},
        "ours": {True: "met", False: "**missed**", None: "open"},
    }
    whose = "The paper" if claim.whose == "paper" else "Our bar"
    verdict = verdicts[claim.whose][claim.holds]
    return f"- {whose}: {_escape(claim.text)}: {verdict} ({_escape(claim.evidence)})."


def _verdicts(claims: Sequence[Claim]) -> str:
    holds = [claim.holds for claim in claims if claim.whose == "paper"]
    said = {True: "confirmed", False: "contradicted", None: "open"}
    return ", ".join(f"{holds.count(kind)} {word}" for kind, word in said.items() if kind in holds)


def _markdown(rows: Sequence[Sequence[str]], left: Sequence[int] = (0,)) -> list[str]:
    """A table; columns of text, at ``left``, are aligned to the left, those of numbers to the right."""
    header, *body = [[_escape(cell) for cell in row] for row in rows]
    rule = [":--" if column in left else "--:" for column in range(len(header))]
    return [f"| {' | '.join(row)} |" for row in (header, rule, *body)]


def _escape(text: str) -> str:
    return text.replace("|", r"\|")


def _anchor(title: str) -> str:
    kept = "".join(letter for letter in title.lower() if letter.isalnum() or letter in " -_")
    return kept.replace(" ", "-")
