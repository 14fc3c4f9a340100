"""Private names of torch are in one file, and without them everything answers the same."""

import re
from pathlib import Path

import pytest
import torch
from helpers import F64, gmm_sample
from scipy import stats
from torch import Tensor

import discoformer
from discoformer import DiScoFormer
from discoformer.core import private
from discoformer.core.checks import holds, traced
from discoformer.models.attention.softmax import attend
from discoformer.models.registry import load_model

PACKAGE = Path(discoformer.__file__).parent
WAYS = ("_GAMMA", "INTERPRETERS", "FUSED_ATTENTION", "FUSED_ATTENTION_BACKWARD")


@pytest.fixture
def public(monkeypatch: pytest.MonkeyPatch) -> None:
    """A torch without its private names."""
    for name in WAYS:
        assert getattr(private, name) is not None, f"{name} is gone: take the public way for good"
        monkeypatch.setattr(private, name, None)


def test_private_names_are_in_one_file() -> None:
    named = re.compile(
        r"(?<!\")torch\._(?!_version)|(?<!\")torch\.\w+\._|torch\.ops\.\w+\._|peek_interpreter"
    )
    found = {path.relative_to(PACKAGE) for path in PACKAGE.rglob("*.py") if named.search(path.read_text())}
    assert found == {Path("core/private.py")}


@pytest.mark.usefixtures("public")
@pytest.mark.parametrize("shape", [0.05, 0.7, 1.0, 3.5, 400.0])
def test_gamma_draws_follow_their_law(shape: float) -> None:
    parameters = torch.full((50, 400), shape, dtype=F64)
    draws = private.standard_gamma(parameters, torch.Generator().manual_seed(1))
    again = private.standard_gamma(parameters, torch.Generator().manual_seed(1))
    assert draws.shape == parameters.shape
    assert torch.equal(draws, again)
    assert stats.kstest(draws.flatten().numpy(), stats.gamma(shape).cdf).pvalue > 1e-3


@pytest.mark.usefixtures("public")
def test_samples_follow_the_density() -> None:
    x = gmm_sample(300, 2)
    est = DiScoFormer().fit(x.numpy())
    draws = est.sample(4000, random_state=0)
    margin = est.marginal([0]).field_
    uniform = margin.cdf(torch.as_tensor(draws[:, :1])).numpy()
    assert stats.kstest(uniform, "uniform").pvalue > 1e-3


def test_attention_is_the_same_with_its_gradients(monkeypatch: pytest.MonkeyPatch) -> None:
    def both() -> list[Tensor]:
        generator = torch.Generator().manual_seed(0)
        inputs = [
            torch.randn(2, 3, rows, 8, generator=generator, dtype=F64).requires_grad_() for rows in (5, 7, 7)
        ]
        output, normalizers = attend(*inputs, None, 0.3, normalize=True)
        assert normalizers is not None
        loss = output.square().sum() + normalizers.sin().sum()
        return [output, normalizers, *torch.autograd.grad(loss, inputs)]

    fused = both()
    monkeypatch.setattr(private, "FUSED_ATTENTION", None)
    for found, expected in zip(both(), fused, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-10)


def test_the_paper_core_answers_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    x = gmm_sample(60, 2)
    network = load_model("attention-d2")
    fused = network(x, x[:5])
    for name in WAYS:
        monkeypatch.setattr(private, name, None)
    plain = network(x, x[:5])
    torch.testing.assert_close(plain.score, fused.score, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(plain.log_density, fused.log_density, rtol=1e-4, atol=1e-4)


@pytest.mark.usefixtures("public")
def test_transforms_are_found_out_without_being_told() -> None:
    mask = torch.tensor([False, True])
    assert traced()
    assert holds(mask) is True
    assert holds(mask[:1]) is False
    seen: list[bool | None] = []

    def look(value: Tensor) -> Tensor:
        seen.append(holds(value > 0))
        return value

    torch.func.vmap(look)(torch.tensor([-1.0, 1.0]))
    assert seen == [None]


@pytest.mark.usefixtures("public")
@pytest.mark.parametrize("far", [1.0, 40.0])
def test_vmap_of_grad_is_the_score(far: float) -> None:
    x = gmm_sample(80, 3)
    density = DiScoFormer().fit(x.numpy()).field_
    queries = far * x[:4]

    def log_density(row: Tensor) -> Tensor:
        return density.estimate(row.unsqueeze(0)).log_density.squeeze(0)

    slope = torch.func.vmap(torch.func.grad(log_density))(queries)
    torch.testing.assert_close(slope, density.estimate(queries).score, rtol=1e-8, atol=1e-8)
