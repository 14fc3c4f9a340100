"""The paper's propositions on attention and kernel density estimates, as code that runs.

Proposition 3.3, "cross-attention computes reweighted Gaussian kernel smoothing": a softmax head is a
Gaussian kernel whose context points are reweighted.  Corollary 3.4, "attention recovers KDE on
constant-norm context": where the points have the same norm, the weights cancel.
Proposition 3.5, "cross-attention represents the KDE score and log-density": with the squared norm as
an extra coordinate and the log-normalizer as an extra output, one residual cross-attention block is a
kernel density estimate, and `kde_block` writes down its weights; Corollary 3.6 is the case of
self-attention.  The appendix adds that whitening is a choice of bandwidth matrix (Proposition B.1,
`framed_kde`) and that there is no density without the normalizer (Remark A.5, `three_points`).
All of it holds exactly in real arithmetic; the tests hold it to 1e-10 in float64.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from discoformer.baselines.kde import KDE
from discoformer.core.fields import Estimate, as_point_density
from discoformer.core.transforms import Frame

__all__ = [
    "CrossAttention",
    "KDEBlock",
    "attention_weights",
    "frame_bandwidth",
    "framed_kde",
    "kde_block",
    "kernel_weights",
    "lift",
    "three_points",
]


def attention_weights(queries: Tensor, context: Tensor, form: Tensor) -> Tensor:
    """Cross-attention matrix A_ij = softmax_j(y_i' B x_j), left side of Proposition 3.3.

    Parameters
    ----------
    queries : (..., m, d), rows y_i
    context : (..., n, d), rows x_j
    form : (d, d)
        Symmetric positive semi-definite B, in a Transformer W_Q W_K' / sqrt(d_k).

    Returns
    -------
    (..., m, n), rows sum to one

    >>> y, x = torch.tensor([[1.0]]), torch.tensor([[0.0], [1.0]])
    >>> a = attention_weights(y, x, torch.eye(1))
    >>> bool(torch.isclose(a[0, 1] / a[0, 0], torch.tensor(math.e)))
    True
    """
    return torch.softmax(queries @ form @ context.mT, -1)


def kernel_weights(queries: Tensor, context: Tensor, form: Tensor, *, reweighted: bool) -> Tensor:
    """Normalized Gaussian kernel with precision B, right side of Proposition 3.3 and of Corollary 3.4.

    With |z|_B^2 = z' B z,

        K_ij = w_j exp(-|y_i - x_j|_B^2 / 2) / sum_k w_k exp(-|y_i - x_k|_B^2 / 2).

    Reweighted, w_j = exp(|x_j|_B^2 / 2): then K is the attention matrix (Proposition 3.3).  Otherwise
    w_j = 1: then K is the kernel of a density estimate, and equals the attention matrix where the
    context has constant norm |x_j|_B (Corollary 3.4), because constant weights cancel.

    >>> y, x = torch.tensor([[0.3, 0.1]]), torch.tensor([[0.6, 0.8], [1.0, 0.0]])  # |x_j| = 1
    >>> plain = kernel_weights(y, x, torch.eye(2), reweighted=False)
    >>> torch.allclose(plain, attention_weights(y, x, torch.eye(2)))
    True
    """
    difference = queries.unsqueeze(-2) - context.unsqueeze(-3)  # (..., m, n, d)
    exponents = -0.5 * _squared_norm(difference, form)  # (..., m, n)
    if reweighted:
        exponents = exponents + 0.5 * _squared_norm(context, form).unsqueeze(-2)
    return torch.softmax(exponents, -1)


@dataclass(frozen=True)
class CrossAttention:
    """A bare residual cross-attention block: one head, exact softmax, no norm, no feed-forward.

        H1_i = H0_i + sum_j softmax_j(q_i' k_j / sqrt(d_k)) v_j W_O
        q = H0 W_Q + b_Q,  k = C W_K,  v = C W_V

    Attributes
    ----------
    query, key : (d_model, d_k), W_Q and W_K
    value : (d_model, d_v), W_V
    out : (d_v, d_model), W_O
    query_bias : (d_k,), b_Q
    """

    query: Tensor
    key: Tensor
    value: Tensor
    out: Tensor
    query_bias: Tensor

    def __call__(self, stream: Tensor, context: Tensor) -> tuple[Tensor, Tensor]:
        """Block output (..., m, d_model) and log-normalizer (..., m) of query stream and context tokens."""
        q = stream @ self.query + self.query_bias
        logits = q @ (context @ self.key).mT / math.sqrt(self.key.shape[-1])  # (..., m, n)
        mixed = torch.softmax(logits, -1) @ (context @ self.value)
        return stream + mixed @ self.out, torch.logsumexp(logits, -1)


def lift(points: Tensor, *, constant: bool = False) -> Tensor:
    """Tokens [z, |z|^2, 0_d] of Proposition 3.5, with a trailing 1 for the strictly linear variant.

    >>> lift(torch.tensor([[3.0, 4.0]]), constant=True).tolist()
    [[3.0, 4.0, 25.0, 0.0, 0.0, 1.0]]
    """
    norm = points.square().sum(-1, keepdim=True)
    parts = [points, norm, torch.zeros_like(points)]
    return torch.cat([*parts, torch.ones_like(norm)] if constant else parts, -1)


@dataclass(frozen=True)
class KDEBlock:
    """A cross-attention block and affine readouts that together are a kernel density estimate.

    Attributes
    ----------
    attention : CrossAttention
    constant : bool
        Whether tokens carry a constant coordinate; then every bias is zero.
    score_readout : (d_model, d)
    density_readout : (d_model + 2,)
        Acts on [H1_i, l_i, l0_i]: block output, log-normalizer and log-normalizer of zero logits.
    density_bias : float
    """

    attention: CrossAttention
    constant: bool
    score_readout: Tensor
    density_readout: Tensor
    density_bias: float

    def estimate(self, queries: Tensor, context: Tensor) -> Estimate[Tensor]:
        """Log density (..., m) and score (..., m, d) at queries (..., m, d) of context (..., n, d)."""
        stream, tokens = lift(queries, constant=self.constant), lift(context, constant=self.constant)
        output, normalizer = self.attention(stream, tokens)
        # a query of zeros has zero logits, so its log-normalizer is log n for every n
        size = torch.logsumexp(torch.zeros_like(tokens[..., 0]), -1, keepdim=True).expand_as(normalizer)
        features = torch.cat([output, normalizer.unsqueeze(-1), size.unsqueeze(-1)], -1)
        return Estimate(features @ self.density_readout + self.density_bias, output @ self.score_readout)


def kde_block(dim: int, bandwidth: float, *, linear: bool = False) -> KDEBlock:
    """Weights that make a residual cross-attention block the KDE of bandwidth h (Proposition 3.5).

    Tokens are [z, |z|^2, 0_d] (`lift`), width 2d + 1.  With d_k = d + 1 and

        q_i = sqrt(d_k) [y_i / h, 1],   k_j = [x_j / h, -|x_j|^2 / (2 h^2)],   v_j = x_j,

    the scaled logit is -|y_i - x_j|^2 / (2 h^2) + |y_i|^2 / (2 h^2); the last term cancels in the
    softmax, W_O writes the mean m_i = sum_j a_ij x_j into the d empty coordinates, and

        score_i       = (m_i - y_i) / h^2
        log density_i = l_i - |y_i|^2 / (2 h^2) - log n - d/2 log(2 pi h^2)

    are affine in the output [y_i, |y_i|^2, m_i] and the log-normalizer l_i.

    Parameters
    ----------
    dim : int
    bandwidth : float
        h > 0.
    linear : bool
        Strictly linear projections and readouts: tokens carry a constant 1 (width 2d + 2) that
        replaces the biases of the query and of the readout.

    >>> block = kde_block(1, 1.0)
    >>> x = torch.tensor([[-1.0], [1.0]], dtype=torch.float64)
    >>> log_density, score = block.estimate(torch.zeros(1, 1, dtype=torch.float64), x)
    >>> round(log_density.item(), 6), score.item()
    (-1.418939, 0.0)
    """
    d, h = dim, bandwidth
    width = 2 * d + (2 if linear else 1)
    position, norm, scratch = slice(0, d), d, slice(d + 1, 2 * d + 1)
    eye = torch.eye(d, dtype=torch.float64)
    scale = math.sqrt(d + 1)

    query, key = _zeros(width, d + 1), _zeros(width, d + 1)
    query[position, :d] = eye * (scale / h)
    key[position, :d] = eye / h
    key[norm, d] = -1 / (2 * h**2)
    value, out = _zeros(width, d), _zeros(d, width)
    value[position] = eye
    out[:, scratch] = eye

    score_readout = _zeros(width, d)
    score_readout[scratch] = eye / h**2
    score_readout[position] = -eye / h**2
    density_readout = _zeros(width + 2)
    density_readout[norm] = -1 / (2 * h**2)
    density_readout[-2:] = torch.tensor([1.0, -1.0])
    log_volume = 0.5 * d * math.log(2 * math.pi * h**2)

    query_bias = _zeros(d + 1)
    if linear:
        query[-1, d] = scale
        density_readout[width - 1] = -log_volume
    else:
        query_bias[d] = scale
    attention = CrossAttention(query, key, value, out, query_bias)
    return KDEBlock(attention, linear, score_readout, density_readout, 0.0 if linear else -log_volume)


def framed_kde(queries: Tensor, context: Tensor, frame: Frame, bandwidth: float) -> Estimate[Tensor]:
    """KDE with a scalar bandwidth in a frame's coordinates, carried back to the data's.

    Proposition B.1, "whitening induces data-adaptive bandwidth": for the frame that whitens by S^(-1/2)
    this is the KDE with the bandwidth matrix H = h^2 S of `frame_bandwidth`.

    >>> from discoformer.core.frames import Whiten
    >>> x = torch.randn(50, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    >>> frame = Whiten().fit(x)
    >>> direct = KDE(frame_bandwidth(frame, 0.3)).fit(x).log_density(x)
    >>> torch.allclose(framed_kde(x, x, frame, 0.3).log_density, direct)
    True
    """
    field = as_point_density(KDE(bandwidth).fit(frame.normalize(context)))
    return frame.denormalize_estimate(field.estimate(frame.normalize(queries)))


def frame_bandwidth(frame: Frame, bandwidth: float) -> Tensor:
    """Bandwidth matrix H = h^2 S (..., d, d), where S is what the frame maps to the identity.

    >>> from discoformer.core.frames import Identity
    >>> frame_bandwidth(Identity().fit(torch.zeros(3, 1)), 0.5).item()
    0.25
    """
    return bandwidth**2 * frame.inverse.mT @ frame.inverse


def three_points(spread: float, bandwidth: float) -> tuple[Tensor, Tensor]:
    """Block output (2d + 1,) and log density at y = 0 for the context {0, a, -a}, a = ``spread``.

    The counterexample of Remark A.5, "the density needs the normalizer, not just the value output":
    [y, |y|^2, m] = [0, 0, 0] is the same for every a, yet the density is
    (1 + 2 exp(-a^2 / (2 h^2))) / (3 h sqrt(2 pi)).  So the value output carries the score but not the
    density, which needs the log-normalizer.

    >>> near, far = three_points(0.5, 1.0), three_points(2.0, 1.0)
    >>> torch.allclose(near[0], far[0], atol=1e-15), bool(near[1] > far[1])
    (True, True)
    """
    block = kde_block(1, bandwidth)
    query = torch.zeros(1, 1, dtype=torch.float64)
    context = torch.tensor([[0.0], [spread], [-spread]], dtype=torch.float64)
    output, _ = block.attention(lift(query), lift(context))
    log_density, _ = block.estimate(query, context)
    return output[0], log_density[0]


def _squared_norm(points: Tensor, form: Tensor) -> Tensor:
    return ((points @ form) * points).sum(-1)


def _zeros(*shape: int) -> Tensor:
    return torch.zeros(*shape, dtype=torch.float64)
