"""The factory: schedules, losses, resuming, several processes."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from discoformer.checks import DataError
from discoformer.fields import Estimate
from discoformer.models.registry import load_model, read_card
from discoformer.training.config import Recipe, load_recipe
from discoformer.training.loop import Trainer
from discoformer.training.loss import task_loss
from discoformer.training.tasks import draw_task, step_generator

MIXTURE = {"kind": "mixture", "layers": 2, "width": 16, "heads": 2, "slots": 4}
ATTENTION = {"kind": "attention", "dim": 2, "layers": 1, "width": 16, "heads": 2, "feedforward": 32}

RECIPE = Recipe(
    name="tiny",
    core=MIXTURE,
    frame="whiten",
    prior={"name": "broad"},
    dims=[1, 2, 3],
    sizes=(16, 64),
    tokens=128,
    slots=(2, 4),
    refinements=(0, 2),
    steps=12,
    decay=6,
    report_dims=[2],
    report_sizes=[32],
)


def parameters(trainer: Trainer) -> torch.Tensor:
    return torch.cat([p.detach().flatten() for p in trainer.network.parameters()])


def test_loss_is_zero_at_the_truth_and_relative() -> None:
    truth = Estimate(torch.randn(2, 12), torch.randn(2, 12, 3))
    assert task_loss(truth, truth, 8, 2, 0.3).total == 0
    wrong = Estimate(truth.log_density, torch.zeros_like(truth.score))
    assert truth.log_density is not None
    nothing = task_loss(wrong, truth, 12, 0, 0.3)
    torch.testing.assert_close(nothing.score, torch.tensor(1.0))  # the zero predictor has relative error one
    scaled = Estimate(truth.log_density, 1000 * truth.score)
    torch.testing.assert_close(task_loss(wrong, scaled, 12, 0, 0.3).score, torch.tensor(1.0))


def test_far_queries_cannot_dominate_the_loss() -> None:
    truth = Estimate(torch.zeros(1, 4), torch.ones(1, 4, 1))
    truth.score[0, 3] = 1e6
    wrong = Estimate(torch.zeros(1, 4), torch.zeros(1, 4, 1))
    assert float(task_loss(wrong, truth, 2, 1, 0.0).score) <= 1.0 + 1e-6
    assert truth.log_density is not None
    truth.log_density[0, 3] = -1e9
    assert float(task_loss(wrong, truth, 2, 1, 1.0).density) <= 1.0


def test_task_draws_are_decided_by_seed_rank_and_step() -> None:
    trainer = Trainer(RECIPE, Path("unused"))
    a, b = (draw_task(RECIPE, trainer.prior, step_generator(0, 0, 5)) for _ in range(2))
    assert torch.equal(a.queries, b.queries)
    other = draw_task(RECIPE, trainer.prior, step_generator(0, 1, 5))
    assert a.queries.shape != other.queries.shape or not torch.equal(a.queries, other.queries)
    size = a.context.shape[1]
    assert torch.equal(a.queries[:, :size], a.context)
    assert a.fresh > 0
    assert a.queries.shape[1] > size + a.fresh


def test_powers_of_two() -> None:
    recipe = replace(RECIPE, size_steps="power-of-two", dims=[2], sizes=(16, 64))
    prior = Trainer(recipe, Path("unused")).prior
    sizes = {draw_task(recipe, prior, step_generator(0, 0, i)).context.shape[1] for i in range(30)}
    assert sizes == {16, 32, 64}


@pytest.mark.parametrize("core", [MIXTURE, ATTENTION], ids=["mixture", "attention"])
def test_resumed_run_continues_the_unbroken_one(core: dict[str, object], tmp_path: Path) -> None:
    recipe = replace(RECIPE, core=core, dims=[2], slots=None, refinements=None)
    unbroken = Trainer(recipe, tmp_path / "a")
    losses = [float(unbroken.train_step().total.detach()) for _ in range(10)]
    first = Trainer(recipe, tmp_path / "b")
    for _ in range(4):
        first.train_step()
    first.save()
    second = Trainer(recipe, tmp_path / "b")
    second.resume()
    rest = [float(second.train_step().total.detach()) for _ in range(6)]
    assert rest == losses[4:]
    assert torch.equal(parameters(second), parameters(unbroken))


def test_training_lowers_the_loss_and_leaves_loadable_weights(tmp_path: Path) -> None:
    recipe = replace(RECIPE, steps=60, decay=30, dims=[2], prior={"name": "gmm"}, lr=5e-3)
    trainer = Trainer(recipe, tmp_path)
    task = draw_task(recipe, trainer.prior, step_generator(99, 0, 0))
    before = float(trainer.loss(task).total.detach())
    trainer.run()
    assert float(trainer.loss(task).total.detach()) < before
    lines = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert lines[-1]["step"] == 60
    assert set(lines[-1]["validation"]) == {"d2 n32"}
    network = load_model(tmp_path / "weights.safetensors")
    assert network.dtype == torch.float64
    card = read_card(tmp_path / "weights.safetensors")
    assert (card.dims, card.sizes, card.record["steps"]) == ((2, 2), (16, 64), 60)


YAML = """
name: tiny
core: {kind: mixture, layers: 1, width: 16, heads: 2, slots: 4}
frame: whiten
prior: {name: gmm}
dims: [2]
sizes: [16, 64]
tokens: 128
steps: STEPS
report_sizes: [32]
"""


def test_recipe_errors_say_what_is_wrong(tmp_path: Path) -> None:
    path = tmp_path / "r.yaml"
    path.write_text(YAML.replace("STEPS", "10") + "colour: blue\n")
    with pytest.raises(DataError, match="unknown keys colour"):
        load_recipe(path)
    path.write_text("name: x\n")
    with pytest.raises(DataError, match="lacks core, frame, prior"):
        load_recipe(path)
    with pytest.raises(DataError, match="no recipe at"):
        load_recipe(tmp_path / "missing.yaml")
    for line, message in (
        ("lr: 1e-3", "lr is not a number: '1e-3'"),
        ("size_steps: power_of_two", "not one of log-uniform, power-of-two"),
        ("cycles: 3", "10 steps are not 3 cycles of equal length"),
    ):
        path.write_text(YAML.replace("STEPS", "10") + line)
        with pytest.raises(DataError, match=message):
            load_recipe(path)


def test_weights_that_do_not_fit_the_recipe_are_refused(tmp_path: Path) -> None:
    Trainer(RECIPE, tmp_path).save()
    wider = replace(RECIPE, core={**MIXTURE, "width": 32})
    with pytest.raises(DataError, match="of another recipe: size mismatch"):
        Trainer(wider, tmp_path).resume()
    with pytest.raises(DataError, match="of another core: size mismatch"):
        Trainer(replace(wider, start=str(tmp_path / "weights.safetensors")), tmp_path)
    (tmp_path / "checkpoint.safetensors").write_bytes(b"not a checkpoint at all")
    with pytest.raises(DataError, match="is damaged"):
        Trainer(RECIPE, tmp_path).resume()


def test_a_run_that_ended_goes_on_with_one_cycle_more(tmp_path: Path) -> None:
    """The first cycle of two is the whole run of one, so its checkpoint is where the longer run goes on."""
    first = Trainer(replace(RECIPE, steps=6), tmp_path)
    while first.step < 6:
        first.train_step()
    first.save()
    longer = Trainer(replace(RECIPE, steps=12, cycles=2), tmp_path)
    unbroken = Trainer(replace(RECIPE, steps=12, cycles=2), tmp_path / "unbroken")
    longer.resume()
    for trainer in (longer, unbroken):
        while trainer.step < 12:
            trainer.train_step()
    torch.testing.assert_close(parameters(longer), parameters(unbroken), rtol=1e-5, atol=1e-6)


def command(config: Path, *options: str) -> list[str]:
    return [sys.executable, "-m", "discoformer", "train", str(config), "--runs", str(config.parent), *options]


def test_killed_run_resumes_on_the_same_curve(tmp_path: Path) -> None:
    """SIGKILL in the middle, resume, and compare with a run that nobody touched.

    Weights to 1e-5, losses to 1e-4, not to the last bit: threads and denormal numbers differ.
    """
    config = tmp_path / "r.yaml"
    config.write_text(YAML.replace("STEPS", "200"))
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(
        command(config, "--report", "0.001"), env=environment, stdout=subprocess.DEVNULL
    )
    checkpoint = tmp_path / "tiny" / "checkpoint.safetensors"
    deadline = time.monotonic() + 120
    while not checkpoint.exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL, "the run ended before it was killed"
    refused = subprocess.run(command(config), env=environment, capture_output=True, text=True)
    assert refused.returncode == 2
    assert "--resume" in refused.stderr
    subprocess.run(command(config, "--resume"), env=environment, check=True, stdout=subprocess.DEVNULL)
    killed = load_model(tmp_path / "tiny" / "weights.safetensors")

    unbroken = Trainer(load_recipe(config), tmp_path / "unbroken")
    while unbroken.step < 200:
        unbroken.train_step()
    for a, b in zip(killed.parameters(), unbroken.average.parameters(), strict=True):
        torch.testing.assert_close(a, b.double(), rtol=1e-5, atol=1e-6)
    last = json.loads((tmp_path / "tiny" / "log.jsonl").read_text().splitlines()[-1])
    assert {key: last[key] for key in unbroken.running} == pytest.approx(unbroken.running, rel=1e-4)


WORKER = """
import sys, torch
from pathlib import Path
from discoformer.training.config import load_recipe
from discoformer.training.loop import Trainer
torch.set_num_threads(1)
trainer = Trainer(load_recipe(sys.argv[1]), Path(sys.argv[2]))
losses = [float(trainer.train_step().total.detach()) for _ in range(3)]
weights = torch.cat([p.detach().flatten() for p in trainer.network.parameters()])
torch.save((losses, weights), f"{sys.argv[2]}/rank{trainer.rank}.pt")
"""


def test_two_processes_share_parameters_but_not_seeds(tmp_path: Path) -> None:
    config = tmp_path / "r.yaml"
    config.write_text(YAML.replace("STEPS", "10"))
    script = tmp_path / "worker.py"
    script.write_text(WORKER)
    run = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    subprocess.run(
        [*run, str(script), str(config), str(tmp_path)],
        env=environment,
        check=True,
        capture_output=True,
        timeout=300,
    )
    (first, a), (second, b) = (torch.load(tmp_path / f"rank{rank}.pt") for rank in (0, 1))
    assert torch.equal(a, b)
    assert first != second  # different data on each rank
    assert 0.1 < first[0] / second[0] < 10  # but on the same scale
