"""Frames: exact change of variables, whitening, deficient data named by column."""

import pytest
import torch

from discoformer.core.checks import DataError
from discoformer.core.frames import FRAMES, Identity, Scatter, Standardize, Whiten, dependent_columns
from discoformer.priors import gaussian


def sample(n: int = 200, d: int = 3, batch: tuple[int, ...] = ()) -> torch.Tensor:
    generator = torch.Generator().manual_seed(n + d)
    mix = torch.randn(d, d, generator=generator, dtype=torch.float64)
    return torch.randn(*batch, n, d, generator=generator, dtype=torch.float64) @ mix + 5


@pytest.mark.parametrize("name", FRAMES)
def test_round_trip_and_log_det(name: str) -> None:
    x = sample(batch=(2,))
    frame = FRAMES[name].fit(x)
    torch.testing.assert_close(frame.denormalize(frame.normalize(x)), x)
    torch.testing.assert_close(torch.linalg.slogdet(frame.matrix)[1], frame.log_det)


def test_whiten_gives_identity_covariance_weighted_or_not() -> None:
    x = sample()
    weights = torch.rand(200, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    weights /= weights.sum()
    for w in (None, weights):
        y = Whiten().fit(x, w).normalize(x)
        p = torch.full((200, 1), 1 / 200, dtype=x.dtype) if w is None else w.unsqueeze(-1)
        torch.testing.assert_close((y * p).mT @ y, torch.eye(3, dtype=x.dtype))
        torch.testing.assert_close((y * p).sum(0), torch.zeros(3, dtype=x.dtype))


def test_integer_weights_equal_repeated_rows() -> None:
    x = sample(20)
    counts = torch.arange(20) % 3 + 1
    weights = counts / counts.sum()
    repeated = x.repeat_interleave(counts, 0)
    for kind in (Whiten(), Standardize()):
        a, b = kind.fit(x, weights.to(x)), kind.fit(repeated)
        torch.testing.assert_close(a.matrix, b.matrix)
        torch.testing.assert_close(a.center, b.center)


@pytest.mark.parametrize("name", ["whiten", "standardize"])
def test_change_of_variables_is_exact(name: str) -> None:
    """A Gaussian's log density and score, taken to the frame and back, are themselves."""
    x = sample()
    truth = gaussian(torch.ones(3, dtype=x.dtype), torch.eye(3, dtype=x.dtype) + 0.5).estimate(x)
    frame = FRAMES[name].fit(x)
    back = frame.denormalize_estimate(frame.normalize_estimate(truth))
    torch.testing.assert_close(back.log_density, truth.log_density)
    torch.testing.assert_close(back.score, truth.score)
    # In the frame the density of the mapped Gaussian must still integrate to one: compare with the
    # closed form of the mapped Gaussian.
    mean = frame.normalize(torch.ones(1, 3, dtype=x.dtype))[0]
    covariance = frame.matrix.mT @ (torch.eye(3, dtype=x.dtype) + 0.5) @ frame.matrix
    inside = gaussian(mean, covariance).estimate(frame.normalize(x))
    torch.testing.assert_close(frame.normalize_estimate(truth).log_density, inside.log_density)
    torch.testing.assert_close(frame.normalize_estimate(truth).score, inside.score)


def test_whiten_is_equivariant_up_to_a_rotation() -> None:
    x = sample()
    a = torch.randn(3, 3, generator=torch.Generator().manual_seed(0), dtype=x.dtype)
    y, z = Whiten().fit(x).normalize(x), Whiten().fit(x @ a + 1).normalize(x @ a + 1)
    torch.testing.assert_close(y @ y.mT, z @ z.mT)


def test_whiten_ignores_the_units_of_columns_exactly() -> None:
    x = sample()
    units = torch.tensor([1e-12, 1.0, 1e12], dtype=x.dtype)
    y, z = Whiten().fit(x).normalize(x), Whiten().fit(x * units).normalize(x * units)
    torch.testing.assert_close(y, z, rtol=1e-10, atol=1e-10)


def test_gradient_is_finite_for_equal_eigenvalues() -> None:
    """Through `eigh` it would be NaN: the covariance of this cross is a multiple of the identity."""
    cross = torch.tensor([[1.0, 0], [-1, 0], [0, 1], [0, -1]], dtype=torch.float64, requires_grad=True)
    (Whiten().fit(cross).normalize(cross) ** 3).sum().backward()
    assert cross.grad is not None
    assert bool(torch.isfinite(cross.grad).all())


def test_gradient_matches_finite_differences() -> None:
    x = sample(6, 2).requires_grad_()
    assert torch.autograd.gradcheck(lambda t: Whiten().fit(t).normalize(t), x)
    assert torch.autograd.gradcheck(lambda t: Whiten().fit(t).log_det, x)


def test_deficient_data_is_named_by_column() -> None:
    x = sample(50)
    constant = x.clone()
    constant[:, 1] = 7.0
    with pytest.raises(DataError, match="column 1: constant"):
        Standardize().fit(constant)
    weights = (torch.arange(50) < 25).to(x) / 25
    constant[25:, 1] = 8.0  # varies only where nothing counts
    with pytest.raises(DataError, match="column 1: constant"):
        Standardize().fit(constant, weights)
    collinear = torch.cat([x, x[:, :1] - 2 * x[:, 2:]], 1)
    with pytest.raises(DataError, match="column 3: a linear combination"):
        Whiten().fit(collinear)
    with pytest.raises(DataError, match="2 rows in 3 columns"):
        Whiten().fit(x[:2])
    assert dependent_columns(collinear) == [3]


def test_identity_changes_nothing() -> None:
    x = sample(batch=(2,))
    frame = Identity().fit(x)
    assert torch.equal(frame.normalize(x), x)
    assert torch.equal(frame.log_det, torch.zeros(2, dtype=x.dtype))


@pytest.mark.parametrize("dim", [1, 2, 3, 10])
@pytest.mark.parametrize("weighted", [False, True])
def test_a_canonical_frame_reads_a_sample_and_its_affine_images_alike(dim: int, weighted: bool) -> None:
    generator = torch.Generator().manual_seed(dim)
    x = torch.randn(200, dim, generator=generator, dtype=torch.float64).exp()
    weights = torch.rand(200, generator=generator, dtype=torch.float64) if weighted else None
    weights = None if weights is None else weights / weights.sum()
    matrix = torch.randn(dim, dim, generator=generator, dtype=torch.float64)
    frame, moved = (FRAMES["canonical"].fit(points, weights) for points in (x, x @ matrix - 7.0))
    torch.testing.assert_close(frame.normalize(x), moved.normalize(x @ matrix - 7.0), rtol=0, atol=1e-8)
    assert torch.linalg.slogdet(frame.matrix)[1] == pytest.approx(float(frame.log_det))
    torch.testing.assert_close(frame.denormalize(frame.normalize(x)), x)


def test_scatter_is_the_papers_listing() -> None:
    """S = Xc' Xc + eps I, not divided by n: coordinates shrink like 1 / sqrt(n)."""
    x = sample()
    y = Scatter(eps=0.5).fit(x).normalize(x)
    centered = x - x.mean(0)
    values, vectors = torch.linalg.eigh(centered.mT @ centered + 0.5 * torch.eye(3, dtype=x.dtype))
    torch.testing.assert_close(y, centered @ (vectors / values.sqrt()) @ vectors.mT)
    torch.testing.assert_close(Scatter(0.0).fit(x).normalize(x).square().sum(0), torch.ones(3, dtype=x.dtype))
