"""The numbers on the model card are those of the weights and of the committed measurements."""

import csv
import re
from importlib.util import find_spec
from pathlib import Path

from discoformer.methods import PEERS
from discoformer.models.registry import list_models
from discoformer.priors import BroadPrior, GMMPrior

ROOT = Path(__file__).parents[2]
CARD = (ROOT / "docs" / "model-card.md").read_text(encoding="utf-8")


def table(heading: str) -> list[str]:
    """The lines of the first table of a section, without its header."""
    section = CARD.split(f"## {heading}\n")[1].split("\n## ")[0]
    return [line for line in section.splitlines() if line.startswith("|")][2:]


def measured(name: str) -> list[dict[str, str]]:
    """Lines of a benchmark that are about the default."""
    with (ROOT / "paper" / "benchmarks" / "results" / f"{name}.csv").open(
        newline="", encoding="utf-8"
    ) as file:
        return [line for line in csv.DictReader(file) if line["model"].startswith("default@")]


def metric(what: str, line: dict[str, str]) -> str:
    there = [peer for peer in PEERS if line[peer] != "-"]  # the others were far behind at the n before
    best = min(there, key=lambda peer: float(line[peer]))
    cells = (what, line["n"], line["kde-scott"], f"{line[best]} ({best})", line["ours"])
    return f"| {' | '.join(cells)} |"


def test_networks_are_those_of_the_package() -> None:
    expected = []
    for name, card in list_models().items():
        dims = str(card.dims[0]) if card.dims[0] == card.dims[1] else f"{card.dims[0]} to {card.dims[1]}"
        training = (card.record.get("steps"), card.record.get("minutes"))
        of, prior = "{} steps, {} minutes".format(*training), f"`{card.prior['name']}`"
        cells = (f"`{name}`", dims, f"{card.sizes[0]} to {card.sizes[1]}", prior, of)
        expected.append(f"| {' | '.join(cells)} |")
    networks = table("The networks")
    if find_spec("discoformer_paper") is None:  # whose networks are in the table, and not to be found here
        networks = [line for line in networks if line.split("`")[1] in list_models()]
    assert networks == expected


def test_metrics_are_those_of_the_benchmarks() -> None:
    large = [line | {"n": "2048"} for line in measured("dimensions") if line["covariance"] == "diagonal"]
    mixtures = [*measured("gmm_diagonal"), *large]
    expected = [metric(f"Gaussian mixtures, d = {line['d']}", line) for line in mixtures]
    expected += [metric(line["family"], line) for line in measured("families") if line["n"] == "2048"]
    assert table("Metrics")[: len(expected)] == expected


def test_ranges_are_those_of_the_priors() -> None:
    gmm, broad = GMMPrior(), BroadPrior()
    said = re.sub(r"\s+", " ", CARD)
    assert (
        f"{gmm.modes[0]} to {gmm.modes[1]} components, means uniform in [-{gmm.spread:g}, {gmm.spread:g}]^d"
        in said
    )
    assert f"standard deviations uniform in [{gmm.scale[0]:g}, {gmm.scale[1]:g}]" in said
    assert (
        f"{broad.gmm_share:.0%} `gmm`" in said
        and f"{broad.modes[0]} to {broad.modes[1]} components that" in said
    )
    assert f"Student-t ({broad.degrees[0]:g} to {broad.degrees[1]:g} degrees of freedom)" in said
    assert f"{broad.skew:.0%} of batches are skewed, {broad.banana:.0%} bent" in said
