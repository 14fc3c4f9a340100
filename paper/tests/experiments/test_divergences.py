"""Section 4.4: truths and the plug-in estimates."""

import pytest
import torch

from discoformer.baselines import kde
from discoformer.functionals import kl_divergence, relative_fisher_information
from discoformer_paper.experiments import divergences
from discoformer_paper.harness.adapters import fit_density


def test_truths_of_divergences_are_those_of_the_functionals() -> None:
    dim, seed = 2, 3
    f, g, generator = divergences.pair(dim, seed)
    x, y = f.sample(divergences.BLOCK, generator), g.sample(10, generator)
    found = (call(x, y, f, g).value for call in (kl_divergence, relative_fisher_information))
    assert divergences.truth(dim, seed, divergences.BLOCK) == pytest.approx([float(v) for v in found])


def test_the_plug_in_divergences_are_those_of_the_paper() -> None:
    x, y = torch.randn(2, 50, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    (log_f, score_f), (log_g, score_g) = (fit_density(kde.KDE(), part).estimate(x) for part in (x, y))
    expected = (float((log_f - log_g).mean()), float((score_f - score_g).square().sum(-1).mean()))
    assert divergences.by_method(kde.KDE(), x, y, split="none") == pytest.approx(expected)
