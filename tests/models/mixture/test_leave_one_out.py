"""Leaving a row out in closed form is fitting without it, where a fit is nothing but moments."""

from dataclasses import replace

import pytest
import torch

from discoformer.core.frames import Axes
from discoformer.models.mixture.leave_one_out import ScaleEvidence
from discoformer.models.mixture.student import StudentMixture
from discoformer.models.mixture.unified import UnifiedConfig, UnifiedCore
from discoformer.models.mixture.unified_network import UnifiedNetwork

F64 = torch.float64
NORMAL = 1e9  # degrees of freedom


def moments(x: torch.Tensor, kappa: float, target: torch.Tensor, whole: float) -> StudentMixture:
    """One slot whose scatter enters in part whole, for the rest along the axes, shrunk to a target."""
    offset = x - x.mean(0)
    scatter = offset.T @ offset
    scatter = whole * scatter + (1 - whole) * scatter.diagonal().diag()
    scale = (scatter + kappa * target) / (len(x) + kappa)
    one = torch.ones(1, dtype=F64)
    return StudentMixture(0 * one, x.mean(0)[None], scale[None], NORMAL * one)


def evidence(kappa: float, whole: float, rows: int, axes: Axes | None = None) -> ScaleEvidence:
    one = torch.ones(1, dtype=F64)
    count = rows * one
    return ScaleEvidence(kappa * one, one, whole * one, (1 - whole) * one, 0 * one, count, count, axes)


@pytest.mark.parametrize("whole", [0.0, 1.0])
@pytest.mark.parametrize("kappa", [0.0, 7.0])
def test_one_slot_is_fitted_without_the_row(kappa: float, whole: float) -> None:
    x = torch.randn(12, 3, generator=torch.Generator().manual_seed(0), dtype=F64) @ torch.tensor(
        [[1.0, 0.4, 0.0], [0.0, 2.0, 0.3], [0.0, 0.0, 0.5]], dtype=F64
    )
    target = torch.eye(3, dtype=F64)
    if whole == 0.0:
        target = target.diagonal().diag()
    mixture = replace(moments(x, kappa, target, whole), evidence=evidence(kappa, whole, len(x)))
    found = mixture.left_out(x)
    for i in range(len(x)):
        rest = torch.cat([x[:i], x[i + 1 :]])
        expected = moments(rest, kappa, target, whole).log_density(x[i : i + 1])
        torch.testing.assert_close(found[i : i + 1], expected, rtol=1e-6, atol=1e-6)


def test_axes_are_those_of_the_columns() -> None:
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(30, 2, generator=generator, dtype=F64)
    turn = torch.linalg.qr(torch.randn(2, 2, generator=generator, dtype=F64))[0]
    mixture = moments(x, 3.0, torch.eye(2, dtype=F64), 0.4)
    along = replace(mixture, evidence=evidence(3.0, 0.4, 30)).left_out(x)
    axes = Axes(turn.T, turn, torch.zeros((), dtype=F64))
    turned = StudentMixture(
        mixture.log_weight,
        mixture.mean @ turn,
        turn.T @ mixture.scale @ turn,
        mixture.nu,
        evidence(3.0, 0.4, 30, axes),
    )
    torch.testing.assert_close(turned.left_out(x @ turn), along)


def test_maximum_likelihood_needs_no_evidence() -> None:
    x = torch.randn(40, 2, generator=torch.Generator().manual_seed(2), dtype=F64)
    target = torch.eye(2, dtype=F64)
    known = replace(moments(x, 0.0, target, 1.0), evidence=evidence(0.0, 1.0, 40))
    torch.testing.assert_close(moments(x, 0.0, target, 1.0).left_out(x), known.left_out(x))
    part = known.left_out(x[:7])
    torch.testing.assert_close(part, known.left_out(x)[:7])


def test_weights_are_repetitions_and_batches_are_loops() -> None:
    torch.manual_seed(0)
    network = UnifiedNetwork(UnifiedCore(UnifiedConfig(layers=2, width=16, heads=2, slots=6))).double().eval()
    x = torch.randn(2, 40, 3, dtype=F64)
    density = network.fit(x)
    left_out = density.left_out(x)
    for k in range(2):
        alone = network.fit(x[k])
        torch.testing.assert_close(left_out[k], alone.left_out(x[k]))
        torch.testing.assert_close(density.log_density(x)[k], alone.log_density(x[k]))
    equal = torch.full((40,), 1 / 40, dtype=F64)
    torch.testing.assert_close(network.fit(x[0], equal).left_out(x[0], equal), left_out[0])
    assert (left_out.mean(-1) < density.log_density(x).mean(-1)).all()


def test_it_follows_affine_maps_without_axes() -> None:
    torch.manual_seed(0)
    core = UnifiedCore(UnifiedConfig(layers=2, width=16, heads=2, slots=6))
    network = UnifiedNetwork(core, axes=False).double().eval()
    x = torch.randn(60, 2, dtype=F64)
    matrix = torch.tensor([[2.0, 1.0], [-0.5, 3.0]], dtype=F64)
    y = x @ matrix + 5.0
    moved = network.fit(y).left_out(y) + torch.linalg.slogdet(matrix)[1]
    torch.testing.assert_close(moved, network.fit(x).left_out(x), rtol=1e-9, atol=1e-9)


def test_a_slot_that_one_row_makes_up_stands_rounding() -> None:
    """Without the row little is left of the slot, and rounding must not decide what: a shift changes nothing.

    All numbers are multiples of 2^-30, so the shift itself is exact.
    """
    x = (2**10 * torch.randn(40, 3, dtype=F64, generator=torch.Generator().manual_seed(0))).round() / 2**10
    x[7] = torch.tensor([8.25, 0.75, -0.25])
    mean = torch.stack([(2**10 * x.mean(0)).round() / 2**10, x[7] - torch.tensor([1.0, 0.25, 0.5]) / 2**27])
    scale = torch.stack([torch.eye(3), 0.05 * torch.eye(3)]).to(F64)
    nu, one = torch.tensor([30.0, 3.0], dtype=F64), torch.ones(2, dtype=F64)
    count = torch.tensor([39.0 - 1e-8, 1.0 + 1e-8], dtype=F64)
    rests = ScaleEvidence(one, one, 0.3 * one, 0.7 * one, 0 * one, count, count * (nu + 3) / nu)
    mixture = StudentMixture((count / 40).log(), mean, scale, nu, rests)
    shifted = replace(mixture, mean=mean + 64)
    torch.testing.assert_close(shifted.left_out(x + 64), mixture.left_out(x), rtol=0, atol=1e-6)
