"""Figure 10: truths, schemes, and the bars that the summary checks."""

import math
from pathlib import Path

import pytest
import torch

from discoformer.functionals import entropy, fisher_information
from discoformer.methods import resolve
from discoformer.priors import GaussianPrior
from discoformer_paper.experiments import entropy_fisher, heavy_tails
from discoformer_paper.harness.labels import CORE, KDE, OURS
from discoformer_paper.harness.ledger import Rows


def cell(*errors: float) -> Rows:
    return Rows({"error": error} for error in errors)


def test_truths_are_those_of_many_points() -> None:
    mixture = entropy_fisher.three_mode()
    x = mixture.sample(50_000, torch.Generator().manual_seed(0))
    for found, truth in zip(
        (entropy(x, mixture), fisher_information(x, mixture)), entropy_fisher.three_mode_truth(), strict=True
    ):
        assert abs(float(found.value) - truth) < 4 * float(found.standard_error)
    _, *truths = entropy_fisher.draw("gaussian", 2, 7)
    normal = GaussianPrior().draw(1, 10, torch.Generator().manual_seed(7), dtype=torch.float64)
    y = normal.sample(5000, torch.Generator().manual_seed(1))
    for found, truth in zip((entropy(y, normal), fisher_information(y, normal)), truths, strict=True):
        assert abs(float(found.value) - truth) < 4 * float(found.standard_error)
    assert entropy_fisher.true_fisher("gaussian", 7) == truths[1]


def test_both_schemes_are_what_functionals_say(model_path: Path) -> None:
    sample = heavy_tails.problem("student", 40).draw(0).context
    method = resolve(str(model_path)).method
    plain = (
        entropy(sample, method, split="none"),
        fisher_information(sample, method, form="square", split="none"),
    )
    expected = [float(found.value) for found in plain]
    assert entropy_fisher.plug_in(method, sample) == pytest.approx(expected, rel=1e-9)
    usual = [float(call(sample, method, split="balanced").value) for call in (entropy, fisher_information)]
    assert entropy_fisher.by_default(method, sample) == pytest.approx(usual, rel=1e-9)


def test_the_bar_is_the_lowest_rival_and_its_standard_error() -> None:
    cells = {OURS: cell(2.0, 4.0), CORE: cell(), KDE: cell(5.0, 7.0)}
    cells |= {name: cell(1.0, 3.0) for name in entropy_fisher.RIVALS if name != KDE}
    cells[entropy_fisher.NEIGHBOURS] = cell(math.nan, math.nan)  # no Fisher information
    assert entropy_fisher.bar(cells, "error") == pytest.approx((3.0, 2.0 + 1.0))
    nobody = {name: cell() for name in (CORE, *entropy_fisher.RIVALS)}
    assert math.isnan(entropy_fisher.bar({OURS: cell(1.0)} | nobody, "error")[1])


def test_the_absolute_error_of_fisher_information_is_found_again() -> None:
    truth = entropy_fisher.true_fisher("gaussian", 7)
    rows = Rows([{"problem": "gaussian", "seed": "7", "fisher": truth - 0.5}])
    assert entropy_fisher.with_gap(rows).mean(entropy_fisher.GAP) == pytest.approx(0.5)


def test_each_claim_has_its_own_rivals() -> None:
    """In d = 1 the paper names KDE alone; in d = 10 both, for entropy and for Fisher information apart."""
    errors = {"attention-d1": 1.0, "attention-d10": 1.0, "kde": 2.0, entropy_fisher.EMPIRICAL: 0.5}
    rows = Rows(
        {"problem": problem, "n": "128", "seed": "7", "method": method, "scheme": "paper"}
        | {"entropy_error": error, "fisher": 1.0, "fisher_error": 0.1 if "d10" in method else error}
        for problem in entropy_fisher.DIMS
        for method, error in errors.items()
    )
    claims = [c for c in entropy_fisher.summary(rows, "ours").claims if c.whose == "paper"]
    assert [claim.verdict for claim in claims] == ["shown", "not shown", "shown"]
