"""The loop: averages, clipping, resuming, several processes."""

import json
import math
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from own_prior import StripePrior

from discoformer.cli import main
from discoformer.core.checks import DataError
from discoformer.models.registry import load_model, read_card
from discoformer.priors import GMMPrior
from discoformer.training.checkpoint import save_checkpoint
from discoformer.training.config import Recipe, load_recipe
from discoformer.training.loop import Trainer
from discoformer.training.loss import Loss
from discoformer.training.tasks import draw_task, step_generator

UNIFIED = {"kind": "unified", "layers": 2, "width": 16, "heads": 2, "slots": 4}
ATTENTION = {"kind": "attention", "dim": 2, "layers": 1, "width": 16, "heads": 2, "feedforward": 32}

RECIPE = Recipe(
    name="tiny",
    core=UNIFIED,
    frame="whiten",
    prior={"name": "broad"},
    dims=[1, 2, 3],
    sizes=(16, 64),
    tokens=128,
    slots=(2, 4),
    loops=(0, 2),
    steps=12,
    decay=6,
    report_dims=[2],
    report_sizes=[32],
)


def replace(recipe: Recipe, **changes: object) -> Recipe:
    """Another recipe, checked like the first."""
    return Recipe(**{**recipe.model_dump(), **changes})


def parameters(trainer: Trainer) -> torch.Tensor:
    return torch.cat([p.detach().flatten() for p in trainer.network.parameters()])


@pytest.mark.parametrize("core", [ATTENTION, UNIFIED], ids=["attention", "unified"])
def test_resumed_run_continues_the_unbroken_one(core: dict[str, object], tmp_path: Path) -> None:
    recipe = replace(RECIPE, core=core, dims=[2], slots=None, loops=None)
    if core is UNIFIED:
        recipe = replace(recipe, loops=(0, 2), axes_off=0.5, balance=True)
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


def test_average_follows_the_weights_by_its_recursion() -> None:
    """mean <- keep * mean + (1 - keep) * weights, keep = min(average, (1 + step) / (20 + step))."""
    trainer = Trainer(replace(RECIPE, average=0.08), Path("unused"))
    expected = parameters(trainer)
    for keep in (1 / 20, 0.08, 0.08):
        trainer.train_step()
        expected = keep * expected + (1 - keep) * parameters(trainer)
    mean = torch.cat([p.flatten() for p in trainer.average.parameters()])
    torch.testing.assert_close(mean, expected)
    assert not torch.equal(mean, parameters(trainer))


def test_gradients_are_clipped_and_steps_that_are_not_finite_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    trainer = Trainer(replace(RECIPE, clip=1e-3), Path("unused"))
    trainer.train_step()
    assert trainer.running["norm"] > 1e-2
    norm = torch.cat([p.grad.flatten() for p in trainer.network.parameters() if p.grad is not None]).norm()
    torch.testing.assert_close(float(norm), 1e-3, rtol=1e-3, atol=0)
    before, moved = parameters(trainer), trainer.optimizers[0].state_dict()["state"][0]["step"].clone()
    loss = trainer.loss
    monkeypatch.setattr(trainer, "loss", lambda task: Loss(*(part * math.nan for part in loss(task))))
    trainer.train_step()
    assert torch.equal(parameters(trainer), before)
    assert trainer.optimizers[0].state_dict()["state"][0]["step"] == moved
    assert trainer.step == 2
    assert trainer.running["skipped"] > 0


def test_training_lowers_the_loss_and_leaves_loadable_weights(tmp_path: Path) -> None:
    recipe = replace(RECIPE, steps=60, decay=30, dims=[2], prior={"name": "gmm"}, lr=5e-3)
    trainer = Trainer(recipe, tmp_path)
    task = draw_task(recipe, trainer.prior, step_generator(99, 0, 0))
    before = float(trainer.loss(task).total.detach())
    trainer.run()
    assert float(trainer.loss(task).total.detach()) < before
    lines = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert lines[-1]["step"] == 60
    assert set(lines[-1]["validation"]) == {"d2 n32", "d2 n32 axes off"}
    network = load_model(tmp_path / "weights.safetensors")
    assert network.dtype == torch.float64
    card = read_card(tmp_path / "weights.safetensors")
    assert (card.dims, card.sizes, card.record["steps"]) == ((2, 2), (16, 64), 60)
    assert card.prior == GMMPrior().describe()


YAML = """
name: tiny
core: {kind: unified, layers: 1, width: 16, heads: 2, slots: 4}
frame: whiten
prior: {name: gmm}
dims: [2]
sizes: [16, 64]
tokens: 128
steps: STEPS
report_sizes: [32]
"""


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"prior": {"name": "magic"}}, "'magic' is not one of gmm"),
        ({"validation": {"name": "magic"}}, "'magic' is not one of gmm"),
        ({"prior": {"name": "no_such_module:Prior"}}, "cannot be imported"),
        ({"prior": {"name": "discoformer.core.checks:DataError"}}, "is no prior: subclass"),
        ({"frame": "sideways"}, "unknown frame"),
        ({"core": {"kind": "attention", "dim": 2, "layers": 0}, "dims": [2]}, "layers = 0"),
        ({"core": {**UNIFIED, "heads": 0}}, "heads = 0"),
    ],
)
def test_a_run_that_would_fail_at_its_first_report_does_not_start(
    change: dict[str, object], message: str
) -> None:
    with pytest.raises(DataError, match=message):
        Trainer(replace(RECIPE, slots=None, loops=None, **change), Path("unused"))


def test_options_out_of_range_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "r.yaml"
    config.write_text(YAML.replace("STEPS", "10"))
    for options, message in (
        (["--minutes", "-1"], "--minutes -1"),
        (["--report", "nan"], "--report nan"),
        (["--threads", "0"], "--threads 0"),
        (["--device", "abacus"], "device 'abacus' cannot be used"),
        (["--resume"], "nothing to resume"),
    ):
        assert main(["train", str(config), "--runs", str(tmp_path / "runs"), *options]) == 2
        assert message in capsys.readouterr().err
    assert not (tmp_path / "runs").exists()


def test_weights_that_do_not_fit_the_recipe_are_refused(tmp_path: Path) -> None:
    Trainer(RECIPE, tmp_path).save()
    wider = replace(RECIPE, core={**UNIFIED, "width": 32})
    with pytest.raises(DataError, match="of another recipe: size mismatch"):
        Trainer(wider, tmp_path).resume()
    with pytest.raises(DataError, match="has another core: size mismatch"):
        Trainer(replace(wider, start=str(tmp_path / "weights.safetensors")), tmp_path)
    trainer = Trainer(RECIPE, tmp_path)
    trainer.step = 12
    trainer.save()
    with pytest.raises(DataError, match="is at step 12, but the recipe ends at 6"):
        Trainer(replace(RECIPE, steps=6), tmp_path).resume()
    (tmp_path / "checkpoint.safetensors").write_bytes(b"not a checkpoint at all")
    with pytest.raises(DataError, match="is damaged"):
        Trainer(RECIPE, tmp_path).resume()


def test_resuming_needs_no_start(tmp_path: Path) -> None:
    first = Trainer(replace(RECIPE, seed=1), tmp_path / "first")
    first.save()
    recipe = replace(RECIPE, start=str(tmp_path / "first" / "weights.safetensors"))
    second = Trainer(recipe, tmp_path / "second")
    assert torch.equal(parameters(second), parameters(first))
    second.train_step()
    second.save()
    (tmp_path / "first" / "weights.safetensors").unlink()
    resumed = Trainer(recipe, tmp_path / "second", resume=True)
    assert resumed.step == 1
    assert torch.equal(parameters(resumed), parameters(second))
    with pytest.raises(DataError, match="start: no weights at"):
        Trainer(recipe, tmp_path / "third")


def test_a_resumed_run_keeps_its_recipe_but_for_its_length_and_reports(tmp_path: Path) -> None:
    trainer = Trainer(RECIPE, tmp_path)
    trainer.save()
    longer = replace(RECIPE, steps=24, cycles=2, decay=3, report_dims=[3], report_sizes=[16])
    Trainer(longer, tmp_path, resume=True)
    other = replace(longer, clip=0.5, prior={"name": "gmm"}, lr=1e-4, sizes=(16, 32))
    with pytest.raises(DataError, match="recipe with another clip, lr, prior, sizes: put back"):
        Trainer(other, tmp_path, resume=True)
    progress = {"step": 3, "seconds": 0.0, "running": {}}  # as older checkpoints have it
    path = tmp_path / "checkpoint.safetensors"
    save_checkpoint(path, trainer.network, trainer.average, trainer.optimizers, progress)
    assert Trainer(other, tmp_path, resume=True).step == 3


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


TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]

WORKER = """
import sys, torch
from pathlib import Path
from discoformer.training.config import load_recipe
from discoformer.training.loop import Trainer
torch.set_num_threads(1)
trainer = Trainer(load_recipe(sys.argv[1]), Path(sys.argv[2]))
def flat(tensors):
    return torch.cat([tensor.detach().flatten() for tensor in tensors])
loss = float(trainer.train_step().total.detach())
gradient = flat(p.grad for p in trainer.network.parameters())
for _ in range(2):
    trainer.train_step()
torch.save((loss, gradient, flat(trainer.network.parameters())), f"{sys.argv[2]}/rank{trainer.rank}.pt")
"""


def test_two_processes_share_parameters_but_not_seeds(tmp_path: Path) -> None:
    config = tmp_path / "r.yaml"
    config.write_text(YAML.replace("STEPS", "10") + "clip: 1.0e+6\n")  # what is clipped has lost its scale
    script = tmp_path / "worker.py"
    script.write_text(WORKER)
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    subprocess.run(
        [*TORCHRUN, str(script), str(config), str(tmp_path)],
        env=environment,
        check=True,
        capture_output=True,
        timeout=300,
    )
    ranks = [torch.load(tmp_path / f"rank{rank}.pt") for rank in (0, 1)]
    alone = Trainer(load_recipe(config), tmp_path)
    losses = [
        alone.loss(draw_task(alone.recipe, alone.prior, step_generator(0, rank, 0))).total for rank in (0, 1)
    ]
    (sum(losses) / 2).backward()  # type: ignore[union-attr]
    expected = torch.cat([p.grad.flatten() for p in alone.network.parameters() if p.grad is not None])
    for own, (loss, gradient, _) in zip(losses, ranks, strict=True):
        assert loss == pytest.approx(float(own.detach()), rel=1e-4)  # of its own data, not divided by two
        torch.testing.assert_close(gradient, expected, rtol=1e-3, atol=1e-5)
    assert ranks[0][0] != ranks[1][0]
    assert torch.equal(ranks[0][2], ranks[1][2])  # the same weights after three steps


@pytest.mark.parametrize(("options", "code"), [([], 0), (["--resume"], 2)])
def test_a_run_leaves_its_process_group_however_it_ends(
    options: list[str], code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(signal, "signal", lambda *_: None)  # Ctrl-C still ends the tests
    config = tmp_path / "r.yaml"
    config.write_text(YAML.replace("STEPS", "1"))
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        assert main(["train", str(config), "--runs", str(tmp_path), *options]) == code
        assert not dist.is_initialized()
    finally:
        if dist.is_initialized():
            dist.destroy_process_group()


@pytest.mark.slow
def test_two_processes_resume_on_the_curve_of_an_unbroken_run(tmp_path: Path) -> None:
    config = tmp_path / "r.yaml"
    config.write_text(YAML.replace("STEPS", "6"))

    def train(folder: str, *options: str) -> str:
        run = [*TORCHRUN, "-m", *command(config)[2:], "--runs", str(tmp_path / folder), *options]
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        done = subprocess.run(run, env=environment, check=True, capture_output=True, text=True, timeout=300)
        return done.stderr

    assert "stopped at step 1 of 6" in train("broken", "--minutes", "0")
    train("broken", "--resume")
    train("unbroken")
    networks = [load_model(tmp_path / x / "tiny" / "weights.safetensors") for x in ("broken", "unbroken")]
    for a, b in zip(*(network.parameters() for network in networks), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)
    log = (tmp_path / "broken" / "tiny" / "log.jsonl").read_text()  # the first rank's alone
    assert [json.loads(line)["step"] for line in log.splitlines()] == [1, 6]


def test_the_unified_core_is_reported_with_and_without_axes(tmp_path: Path) -> None:
    recipe = replace(
        RECIPE,
        core=UNIFIED,
        line_slots=(4, 8),
        loops=(0, 2),
        axes_off=0.5,
        balance=True,
        hidden_lr=1e-3,
        validation=[{"name": "gmm", "covariance": kind} for kind in ("diagonal", "rotated")],
        report_dims=[2],
        report_sizes=[32],
    )
    trainer = Trainer(recipe, tmp_path)
    for _ in range(3):
        assert bool(torch.isfinite(trainer.train_step().total.detach()))
    found = trainer.validate(datasets=1)
    assert list(found) == [
        f"{kind} d2 n32{axes}" for kind in ("diagonal", "rotated") for axes in ("", " axes off")
    ]
    assert trainer.balance.usual and all(value > 0 for value in trainer.balance.usual.values())


def test_a_prior_of_ones_own_validates_itself_unless_the_recipe_says_otherwise(tmp_path: Path) -> None:
    values = {"name": "own_prior:StripePrior", "turn": 0.5}
    plain = {"name": "mine", "core": ATTENTION, "frame": "whiten", "sizes": (16, 16), "tokens": 16}
    named = Trainer(Recipe(**plain, prior=values), tmp_path)
    assert [prior.describe() for prior in named.validation] == [values]
    given = Trainer(Recipe(**plain, prior={"name": "gmm"}), tmp_path, prior=StripePrior())
    assert given.validation == [StripePrior()] and given.recipe.validations == [StripePrior().describe()]
    told = Trainer(Recipe(**plain, prior=values, validation={"name": "gmm"}), tmp_path, prior=StripePrior())
    assert isinstance(told.validation[0], GMMPrior)
    usual = Trainer(Recipe(**plain, prior={"name": "broad"}), tmp_path, prior=GMMPrior())
    assert isinstance(usual.validation[0], GMMPrior)
