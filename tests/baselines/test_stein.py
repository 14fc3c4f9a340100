"""Kernel score estimators: each against its definition, written out with autograd and loops."""

import pytest
import torch
from helpers import normal
from torch import Tensor
from torch.autograd.functional import hessian, jacobian

from discoformer.baselines import stein
from discoformer.baselines.kde import KDE
from discoformer.baselines.stein import CurlFreeIMQ, Gaussian, Kernel, NuMethod, SpectralStein, SteinGradient
from discoformer.core.checks import DataError
from discoformer.core.composed import PushedField
from discoformer.core.fields import Method, PointDensity
from discoformer.core.transforms import Frame
from discoformer.priors import gaussian

ROWS = 8  # of the samples that go through the definitions
METHODS: dict[str, Method] = {"stein": SteinGradient(), "spectral": SpectralStein(), "nu": NuMethod()}


def gaussian_kernel(y: Tensor, x: Tensor) -> Tensor:
    return torch.exp(-0.5 * (y - x).square().sum()) * torch.eye(len(x), dtype=x.dtype)


def curl_free_kernel(y: Tensor, x: Tensor) -> Tensor:
    return -hessian(lambda u: (1 + u @ u) ** -0.5, y - x, create_graph=True)


KERNELS = {"gaussian": (Gaussian(), gaussian_kernel), "curl-free": (CurlFreeIMQ(), curl_free_kernel)}


def divergence(kernel: object, y: Tensor, x: Tensor) -> Tensor:
    """sum_b d/dx_b K_ab(y, x), by autograd."""
    return torch.einsum("abb->a", jacobian(lambda u: kernel(y, u), x))  # type: ignore[operator]


def blocks(kernel: object, queries: Tensor, points: Tensor) -> Tensor:
    """K(y_i, x_j) as (m, n, d, d)."""
    rows = [torch.stack([kernel(y, x).detach() for x in points]) for y in queries]  # type: ignore[operator]
    return torch.stack(rows)


def zeta(kernel: object, queries: Tensor, points: Tensor, weights: Tensor) -> Tensor:
    rows = [sum(w * divergence(kernel, y, x) for w, x in zip(weights, points, strict=True)) for y in queries]
    return torch.stack(rows)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", KERNELS)
def test_kernel_sums_are_what_autograd_says(name: str) -> None:
    ours, plain = KERNELS[name]
    y, x, v, w = normal(3, 3), normal(4, 3, seed=1), normal(4, 3, seed=2), torch.rand(4, dtype=torch.float64)
    expected = torch.einsum("mnab,nb->ma", blocks(plain, y, x), v)
    torch.testing.assert_close(ours.apply(y, x, v), expected)
    torch.testing.assert_close(ours.divergence(y, x, w), zeta(plain, y, x, w))
    torch.testing.assert_close(blocks(plain, x[:1], x[:1])[0, 0], torch.eye(3, dtype=torch.float64))


def setup(method: Method, weighted: bool) -> tuple[stein.KernelScore, Tensor, Tensor]:
    """A fitted score in its frame, its points, and what the field says of them, read in the frame."""
    context = normal(ROWS, 2) * torch.tensor([1.0, 20.0])
    field = method.fit(context, normal(ROWS, seed=3).exp() if weighted else None)
    assert isinstance(field, PushedField) and isinstance(field.base, stein.KernelScore)
    (frame,) = field.transforms
    assert isinstance(frame, Frame)
    return field.base, field.base.points, field.score(context) @ frame.inverse.mT


@pytest.mark.parametrize("weighted", [False, True])
def test_stein_gradient_solves_its_linear_system(weighted: bool) -> None:
    eta = 0.3
    field, x, score = setup(SteinGradient(eta), weighted)
    w = field.weights
    matrix = blocks(gaussian_kernel, x, x)[..., 0, 0] * w  # L in terms of values at the sample
    ridge = eta * w.square().sum() * torch.eye(ROWS, dtype=torch.float64)
    right = -zeta(gaussian_kernel, x, x, w)
    torch.testing.assert_close((matrix + ridge) @ score, right)
    if not weighted:  # as Li and Turner write it
        torch.testing.assert_close((ROWS * matrix + eta * torch.eye(ROWS)) @ score, ROWS * right)


def test_stein_gradient_solves_the_equation_everywhere() -> None:
    eta = 0.3
    field, x, score = setup(SteinGradient(eta), False)
    y = normal(5, 2, seed=4)
    there = field.score(y)
    smoothed = torch.einsum("mnab,nb->ma", blocks(gaussian_kernel, y, x), score) / ROWS
    torch.testing.assert_close(smoothed + eta / ROWS * there, -zeta(gaussian_kernel, y, x, field.weights))


def test_spectral_estimator_is_an_expansion_in_eigenfunctions() -> None:
    """psi_j(y) = sqrt(n) / lambda_j sum_i u_ij k(y, x_i), coefficients -mean grad psi_j (Shi et al.)."""
    field, x, _ = setup(SpectralStein(0.9), False)
    n = len(x)
    values, vectors = torch.linalg.eigh(blocks(gaussian_kernel, x, x)[..., 0, 0])
    share = values.flip(-1).cumsum(-1) / values.sum()
    count = int((share < 0.9).sum()) + 1
    assert 1 < count < n

    def eigenfunctions(y: Tensor) -> Tensor:
        kernel = torch.exp(-0.5 * (y - x).square().sum(-1))
        return n**0.5 * (kernel @ vectors / values)[-count:]

    slopes = -torch.stack([jacobian(eigenfunctions, point) for point in x]).mean(0)  # (count, d)
    y = normal(5, 2, seed=4)
    expected = torch.stack([eigenfunctions(point) @ slopes for point in y])
    there = field.score(y)
    torch.testing.assert_close(there, expected, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("weighted", [False, True])
def test_nu_method_is_its_filter_of_the_operator(weighted: bool) -> None:
    """After t steps the residual polynomial is the Jacobi-type one: check it on the dense operator."""
    steps = 7
    field, x, score = setup(NuMethod(steps), weighted)
    w = field.weights
    operator = (
        (blocks(curl_free_kernel, x, x) * w[None, :, None, None]).transpose(1, 2).reshape(2 * ROWS, 2 * ROWS)
    )
    right = -zeta(curl_free_kernel, x, x, w).flatten()
    before, now = torch.zeros_like(right), torch.zeros_like(right)
    nu = 1.0
    for t in range(1, steps + 1):
        u = (t - 1) * (2 * t - 3) * (2 * t + 2 * nu - 1)
        u /= (t + 2 * nu - 1) * (2 * t + 4 * nu - 1) * (2 * t + 2 * nu - 3)
        omega = 4 * (2 * t + 2 * nu - 1) * (t + nu - 1) / ((t + 2 * nu - 1) * (2 * t + 4 * nu - 1))
        before, now = now, now + u * (now - before) + omega * (right - operator @ now)
    torch.testing.assert_close(score.flatten(), now)


def test_nu_method_converges_to_the_solution() -> None:
    def residual(steps: int) -> float:
        field, x, score = setup(NuMethod(steps), False)
        kernel: Kernel = field.kernel
        gap = kernel.apply(x, x, score / ROWS) + kernel.divergence(x, x, field.weights)
        return float(gap.norm())

    assert residual(1000) < 1e-2 * residual(10)


def test_nu_method_gives_a_gradient_field() -> None:
    field = NuMethod(10).fit(normal(ROWS, 2) * torch.tensor([1.0, 20.0]))
    for point in normal(3, 2, seed=5):
        slopes = jacobian(lambda y: field.score(y.unsqueeze(0))[0], point)
        torch.testing.assert_close(slopes, slopes.mT)


@pytest.mark.parametrize("name, bound", [("stein", 0.1), ("spectral", 0.1), ("nu", 0.2)])
def test_recovers_the_score_of_a_gaussian(name: str, bound: float) -> None:
    truth = gaussian(torch.tensor([3.0, -1.0]).double(), torch.tensor([[1.0, 0.6], [0.6, 2.0]]).double())
    x = truth.sample(600, torch.Generator().manual_seed(0))
    exact = truth.score(x)

    def error(method: Method) -> float:
        return float((method.fit(x).score(x) - exact).square().sum() / exact.square().sum())

    assert error(METHODS[name]) < bound
    assert error(KDE()) > 0.1  # the bounds mean something


@pytest.mark.parametrize("name", METHODS)
def test_units_batches_blocks_and_weights(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    method = METHODS[name]
    x, y = normal(2, 40, 2), normal(2, 9, 2, seed=1)
    scale = torch.tensor([1e6, 1e-3], dtype=torch.float64)
    field = method.fit(x)
    assert not isinstance(field, PointDensity)
    score = field.score(y)
    close = {"rtol": 1e-6, "atol": 1e-8}
    torch.testing.assert_close(method.fit(scale * x + 5).score(scale * y + 5) * scale, score, **close)
    torch.testing.assert_close(torch.stack([method.fit(x[b]).score(y[b]) for b in range(2)]), score, **close)
    torch.testing.assert_close(method.fit(x, torch.ones(2, 40)).score(y), score, **close)
    assert method.fit(x.float()).score(y.float()).dtype == torch.float32
    monkeypatch.setattr(stein, "_PAIRS", 100)
    torch.testing.assert_close(field.score(y), score)


def test_median_of_many_copies_is_not_zero() -> None:
    x = torch.cat([torch.zeros(40, 1), normal(5, 1)]).double()
    assert bool(torch.isfinite(SteinGradient().fit(x).score(x)).all())


def test_errors_say_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    for wrong in (lambda: SteinGradient(0), lambda: SpectralStein(1.5), lambda: NuMethod(0)):
        with pytest.raises(DataError):
            wrong()
    monkeypatch.setattr(stein, "_MAX_ROWS", 10)
    with pytest.raises(DataError, match="at most 10"):
        SteinGradient().fit(normal(11, 1))
