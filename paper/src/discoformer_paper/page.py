"""The page of results, made from the CSV files and `page.md` alone: the same files give the same page.

`docs/results/` holds the measurements and `docs/results.md` the page; a test makes the page again and
compares the two.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from discoformer.core.atomic_files import replacing
from discoformer.models.registry import list_models, read_card
from discoformer_paper.experiments import NAMES, find
from discoformer_paper.harness.contestants import NETWORKS, network_name
from discoformer_paper.harness.labels import OURS, PUBLISHED
from discoformer_paper.harness.provenance import QUICK, minutes_ledger, read_runs
from discoformer_paper.harness.runner import Experiment
from discoformer_paper.harness.summary import Claim, Summary, Verdict, Whose, number

__all__ = ["VERDICTS", "count_verdicts", "page_of", "page_path", "write_page"]

OURS_LABEL = "default"
VERDICTS: dict[Whose, dict[Verdict, str]] = {
    "paper": {
        "shown": "shown",
        "not shown": "not shown by our training",
        "undecided": "undecided",
        "not tested": "not tested here",
    },
    "assumption": {
        "shown": "the measurement agrees",
        "not shown": "the measurement does not agree",
        "undecided": "undecided",
        "not tested": "not tested here",
    },
    "ours": {"shown": "met", "not shown": "missed", "undecided": "undecided", "not tested": "not measured"},
}
_WHOSE = {"paper": "The paper", "assumption": "Assumed in the paper's theory", "ours": "Our bar"}
QUICK_NOTE = """\
**From `--quick`**: tiny sizes, to see that everything runs. These numbers are no results.
"""


def page_path(folder: Path) -> Path:
    """Where the page of a folder of results goes: beside the folder, under its name.

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
    for experiment in map(find, NAMES):
        rows = experiment.ledger(folder).rows()
        if not len(rows):
            overview.append([f"`{experiment.name}`", experiment.source, "not run yet", "", "", ""])
            continue
        summary = experiment.summary(rows, OURS_LABEL)
        lines = sum(not math.isnan(line.found.get(OURS, math.nan)) for line in summary.lines)
        worse = f"{len(summary.worse(OURS_LABEL))} of {lines}"
        link = f"[`{experiment.name}`](#{_anchor(experiment.title)})"
        cells = [link, experiment.source, str(len(rows)), count_verdicts(summary.claims, "paper"), worse]
        overview.append([*cells, number(_taken(experiment, folder).get("minutes", math.nan))])
        sections.append(_section(experiment, summary, folder, len(rows)))
    notes = [QUICK_NOTE] if any(run.sizes == QUICK for run in read_runs(folder).values()) else []
    results = "\n".join([*notes, *_markdown(overview, left=(0, 1, 3)), "", *sections])
    template = Path(__file__).with_suffix(".md").read_text(encoding="utf-8")
    networks = "\n".join(_markdown(_networks(), left=range(6)))
    return template.format(folder=folder.name, results=results.rstrip("\n"), networks=networks)


def _networks() -> list[list[str]]:
    """A table of the networks that stand for the paper's, from their cards."""
    table = [["used for", "network", "kernels", "frame", "dropout", "loss", "n", "steps", "minutes"]]
    cards = list_models()
    for kind, names in NETWORKS.items():
        for key, name in names.items():
            row = [f"{kind}, {f'd = {key}' if key.isdigit() else key}", f"`{network_name(kind, key)}`"]
            card = cards.get(name) or (read_card(name) if Path(name).is_file() else None)
            if card is None:
                table.append([*row, "not installed", *[""] * 6])
                continue
            recipe = card.record.get("recipe", {})
            row += [
                "yes" if card.core.get("lift") else "no",
                card.frame,
                f"{card.core.get('dropout', 0.1):g}",
            ]
            row += [recipe.get("loss", "relative"), "-".join(map(str, card.sizes))]
            table.append([*row, *(str(card.record.get(what, "")) for what in ("steps", "minutes"))])
    return table


def count_verdicts(claims: Sequence[Claim], whose: Whose) -> str:
    """How many claims got which verdict; verdicts that do not occur are left out.

    >>> count_verdicts([Claim("paper", "a", "shown", ""), Claim("paper", "b", "undecided", "")], "paper")
    '1 shown, 1 undecided'
    """
    found = [claim.verdict for claim in claims if claim.whose == whose]
    return ", ".join(f"{found.count(kind)} {word}" for kind, word in VERDICTS[whose].items() if kind in found)


def _section(experiment: Experiment, summary: Summary, folder: Path, count: int) -> str:
    source = f"{experiment.source} (`{experiment.name}`). {experiment.shows}"
    parts = [f"## {experiment.title}", "", source, ""]
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
    if summary.notes:
        parts += [*map(_escape, summary.notes), ""]
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
    """How long an experiment took from an empty folder; empty if its rows come from other runs."""
    times, ledger = minutes_ledger(folder), experiment.ledger(folder)
    found = times.get(experiment.name) or {}
    same = found.get("rows") == len(ledger) and ledger.runs() == [times.run_of(experiment.name)]
    return found if same else {}


def _read_off(header: Sequence[str], row: Sequence[str]) -> list[str]:
    """A row whose published numbers are marked as read off a figure."""
    missing = number(math.nan)
    return [
        f"≈{cell}" if name.startswith(PUBLISHED) and cell != missing else cell
        for name, cell in zip(header, row, strict=True)
    ]


def _claim(claim: Claim) -> str:
    verdict = VERDICTS[claim.whose][claim.verdict]
    verdict = f"**{verdict}**" if claim.verdict == "not shown" and claim.whose != "assumption" else verdict
    return f"- {_WHOSE[claim.whose]}: {_escape(claim.text)}: {verdict} ({_escape(claim.evidence)})."


def _markdown(rows: Sequence[Sequence[str]], left: Sequence[int] = (0,)) -> list[str]:
    """A Markdown table; columns of text, at ``left``, are left-aligned, those of numbers right-aligned."""
    header, *body = [[_escape(cell) for cell in row] for row in rows]
    rule = [":--" if column in left else "--:" for column in range(len(header))]
    return [f"| {' | '.join(row)} |" for row in (header, rule, *body)]


def _escape(text: str) -> str:
    return text.replace("|", r"\|")


def _anchor(title: str) -> str:
    kept = "".join(letter for letter in title.lower() if letter.isalnum() or letter in " -_")
    return kept.replace(" ", "-")
