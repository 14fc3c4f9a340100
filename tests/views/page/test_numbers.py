"""Densities as numbers: there and back, exactly; what cannot travel is refused."""

import json
from pathlib import Path

import pytest
import torch
from helpers import normal
from page_densities import KINDS, fit_case, mixture

from discoformer.baselines.kde import KDE
from discoformer.core.checks import DataError
from discoformer.core.composed import Pushforward
from discoformer.core.frames import FRAMES
from discoformer.models.registry import load_model
from discoformer.views.page.numbers import density_numbers, read_density


@pytest.mark.parametrize("kind", KINDS)
def test_numbers_are_the_density(kind: str, model_path: Path) -> None:
    """Through the text of JSON, and with every verb."""
    field, rows = fit_case(kind, model_path)
    text = json.dumps(density_numbers(field), allow_nan=False)
    again = read_density(json.loads(text))
    assert again.support == field.support
    assert torch.equal(again.log_density(rows), field.log_density(rows))
    first, *others = field.support
    assert torch.equal(
        again.conditional([first], rows[0, [first]]).log_density(rows[:, others]),
        field.conditional([first], rows[0, [first]]).log_density(rows[:, others]),
    )


def test_numbers_are_a_few_kilobytes(model_path: Path) -> None:
    field, _ = fit_case("plain", model_path)
    assert len(json.dumps(density_numbers(field))) < 12_000


def test_what_has_no_closed_form_is_refused() -> None:
    sample = normal(30, 2)
    with pytest.raises(DataError, match=r"KDEField has no closed form .* such as 'default'"):
        density_numbers(KDE().fit(sample))
    with pytest.raises(DataError, match="has no closed form"):
        density_numbers(load_model("attention-d2").fit(sample))


def test_batches_are_refused() -> None:
    batch = mixture(2).map(lambda t: torch.stack([t, t]))
    with pytest.raises(DataError, match="one table at a time"):
        density_numbers(batch)
    frame = FRAMES["whiten"].fit(normal(2, 30, 2), None)
    with pytest.raises(DataError, match="one table at a time"):
        density_numbers(Pushforward(mixture(2), [frame]))
