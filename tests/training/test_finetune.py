"""Fine-tuning: it learns a family, is judged by rows it has not seen, and leaves the original alone."""

import copy
from pathlib import Path

import pytest
import torch
from helpers import gmm_sample, two_groups
from own_prior import StripePrior

from discoformer.core.checks import DataError
from discoformer.models.mixture.views import Views
from discoformer.models.network import Network
from discoformer.models.registry import build_network, list_models, load_model, read_card
from discoformer.priors import GMMPrior
from discoformer.training.finetune import finetune

UNIFIED = {"kind": "unified", "layers": 2, "width": 8, "heads": 2, "slots": 8, "loops": 0}


def _unified() -> Network:
    torch.manual_seed(0)
    return build_network(UNIFIED, "whiten").double().eval().requires_grad_(False)


@pytest.mark.parametrize("wrap", [lambda network: network, Views])
def test_a_few_steps_on_a_prior_help_and_do_not_touch_the_original(wrap: type) -> None:
    model = wrap(_unified())
    weights = copy.deepcopy(model.state_dict())
    tuned = finetune(model, StripePrior(), steps=30, sizes=(128, 256), lr=5e-3)
    assert tuned.steps == 30
    assert tuned.after > tuned.before + 0.01
    assert type(tuned.model) is type(model)
    assert all(torch.equal(weights[key], value) for key, value in model.state_dict().items())
    assert tuned.model.dtype == torch.float64
    assert not any(p.requires_grad for p in tuned.model.parameters())


def test_samples_are_held_out_twice_and_the_judge_decides() -> None:
    network = _unified()
    samples = [gmm_sample(200, 2, seed) for seed in range(3)]
    better = finetune(network, samples, steps=30, lr=5e-3)
    assert better.after > better.before
    good = load_model("default").network
    ruined = finetune(good, torch.from_numpy(two_groups(400, 2)), steps=3, lr=0.1)
    assert not ruined.after > ruined.before
    pairs = zip(ruined.model.parameters(), good.parameters(), strict=True)
    assert all(torch.equal(a, b) for a, b in pairs)


def test_minutes_end_it() -> None:
    assert finetune(_unified(), gmm_sample(60, 2), minutes=1e-6).steps == 1


@pytest.mark.parametrize(
    ("model", "data", "options", "message"),
    [
        ("default", torch.zeros(5, 2), {}, "at least 20 are needed"),
        ("default", gmm_sample(10, 2).repeat(6, 1), {"steps": 1}, "most values of column 0, column 1 repeat"),
        ("default", gmm_sample(200, 2).round(), {"steps": 1}, "leave out copies of rows, counts and rounded"),
        ("default", torch.zeros(2, 30, 2), {}, "more than two dimensions"),
        ("default", gmm_sample(60, 2), {"minutes": 0.0}, "give positive numbers"),
        ("default", gmm_sample(60, 2), {"steps": 0}, "give positive numbers"),
        ("default", GMMPrior, {}, "GMMPrior is a class: give an object"),
        ("default", GMMPrior(), {"dims": 2}, "give a list of whole numbers"),
    ],
)
def test_what_cannot_be_trained_on_is_refused(
    model: str, data: object, options: dict[str, float], message: str
) -> None:
    with pytest.raises(DataError, match=message):
        finetune(model, data, **options)  # type: ignore[arg-type]


def test_loading_for_training_and_on_a_device() -> None:
    frozen = load_model("default")
    free = load_model("default", torch.float32, device="cpu", trainable=True)
    assert not any(p.requires_grad for p in frozen.parameters())
    assert all(p.requires_grad and p.dtype == torch.float32 for p in free.parameters())
    assert next(load_model("default", device="meta").parameters()).device.type == "meta"
    with pytest.raises(DataError, match="device 'cuda:9' cannot be used"):
        load_model("default", device="cuda:9")
    loss = free.fit(gmm_sample(60, 2)).log_density(gmm_sample(20, 2, seed=1)).mean()
    loss.backward()
    assert any(p.grad is not None and bool(p.grad.abs().sum() > 0) for p in free.parameters())


def test_networks_without_a_normalized_density_are_not_tuned_on_samples() -> None:
    """A larger integral would pass for a better likelihood."""
    with pytest.raises(DataError, match="not normalized: give a prior"):
        finetune("attention-d2", gmm_sample(60, 2), steps=1)


@pytest.mark.parametrize("wrap", [lambda network: network, Views])
def test_what_was_tuned_is_saved_and_loaded(wrap: type, tmp_path: Path) -> None:
    tuned = finetune(wrap(_unified()), StripePrior(), steps=2, sizes=(32, 64), lr=5e-3)
    tuned.save(tmp_path / "mine.safetensors")
    loaded = load_model(tmp_path / "mine.safetensors")
    expected = getattr(tuned.model, "network", tuned.model)
    for a, b in zip(loaded.parameters(), expected.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-6, atol=1e-7)
    card = read_card(tmp_path / "mine.safetensors")
    assert card.record["finetuned"]["steps"] == 2 and card.dims == (2, 2) and card.sizes == (32, 64)


def test_the_card_covers_what_the_original_was_trained_on() -> None:
    tuned, former = finetune("default", gmm_sample(60, 2), steps=1), list_models()["default"]
    assert tuned.card.dims == former.dims and tuned.card.sizes == (48, former.sizes[1])
