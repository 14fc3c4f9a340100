"""A mixture of Student-t components as a distribution: everything about it is closed form."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, fields, replace
from typing import Any

import torch
from torch import Tensor

from discoformer.core.checks import check_points, traced
from discoformer.core.fields import Density, Estimate
from discoformer.core.private import standard_gamma
from discoformer.core.quantiles import find_quantile
from discoformer.core.threads import ordered_map
from discoformer.models.mixture.leave_one_out import Components, ScaleEvidence, leave_one_out
from discoformer.models.mixture.lift import least_logit, lift, natural_parameters, weight_and_log
from discoformer.models.mixture.slots import make_slots, student_log_density

__all__ = ["StudentMixture"]

_BUDGET = 16 * 2**20  # bytes of temporaries in one chunk of a read-out


@dataclass(frozen=True, repr=False)
class StudentMixture(Density):
    """Mixture of M multivariate Student-t distributions; a leading batch (...) everywhere.

    Attributes
    ----------
    log_weight : (..., M)
    mean : (..., M, d)
    scale : (..., M, d, d)
    nu : (..., M), degrees of freedom, above two
    evidence : what the scales rest on; None where nothing is known, or where they were fitted by maximum
        likelihood

    Examples
    --------
    >>> one = torch.ones(1, dtype=torch.float64)
    >>> normal = StudentMixture(0 * one, 0 * one[:, None], one[:, None, None], 1e8 * one)
    >>> round(float(normal.cdf(torch.tensor([[1.96]], dtype=torch.float64))), 3)
    0.975
    """

    log_weight: Tensor
    mean: Tensor
    scale: Tensor
    nu: Tensor
    evidence: ScaleEvidence | None = None

    @property
    def dim(self) -> int:
        return self.mean.shape[-1]

    @property
    def covariance(self) -> Tensor:
        """Covariance of every component (..., M, d, d): nu / (nu - 2) times its scale."""
        return (self.nu / (self.nu - 2))[..., None, None] * self.scale

    def map(self, function: Callable[[Tensor], Tensor]) -> StudentMixture:
        """Apply a function to every parameter tensor."""
        log_weight, mean, scale, nu = map(function, (self.log_weight, self.mean, self.scale, self.nu))
        evidence = None if self.evidence is None else self.evidence.map(function)
        return StudentMixture(log_weight, mean, scale, nu, evidence)

    def transform(self, matrix: Tensor, shift: Tensor) -> StudentMixture:
        """The law of x matrix + shift, matrix (..., d, e) of rank e and shift (..., 1, e)."""
        scale = matrix.mT.unsqueeze(-3) @ self.scale @ matrix.unsqueeze(-3)
        return StudentMixture(self.log_weight, self.mean @ matrix + shift, scale, self.nu)

    def _estimate(self, queries: Tensor) -> Estimate[Tensor]:
        return self.read(queries)

    def read(self, queries: Tensor, beside: Tensor | None = None) -> Estimate[Tensor]:
        """T = logsumexp_m, S = sum_m r_m u_m P_m (mu_m - y); the score is the gradient of T.

        ``beside`` (..., M, m) are log densities of whatever else is known of the queries.
        """
        count, dim = self.mean.shape[-2:]
        per_row = (4 * count + (2 + dim) * dim) * queries.element_size()
        rows = max(1, _BUDGET // (per_row * max(1, self.log_weight[..., 0].numel())))
        theta, offset, power, form = self._readout

        def part(piece: tuple[Tensor, Tensor | None]) -> tuple[Tensor, Tensor]:
            chunk, known = piece
            w, g = weight_and_log(theta, lift(chunk))  # (..., M, m)
            logits = offset - power * g
            logits = logits if known is None else logits + known
            top = logits.detach().amax(-2, keepdim=True)
            r = (logits - top).clamp_min(least_logit(top.dtype)).exp()
            total = r.sum(-2, keepdim=True)
            mixed = (form @ (r / (w * total))).unflatten(-2, (dim, dim + 1))  # (..., d, d + 1, m)
            score = -(mixed[..., 0, :] + (mixed[..., 1:, :] * chunk.mT.unsqueeze(-3)).sum(-2))
            return (total.log() + top).squeeze(-2), score.mT

        pieces = queries.split(rows, -2)
        known = [None] * len(pieces) if beside is None else beside.split(rows, -1)
        chunks = list(zip(pieces, known, strict=True))
        tracked = traced() or torch.is_grad_enabled() and (queries.requires_grad or theta.requires_grad)
        parts = map(part, chunks) if tracked or len(chunks) == 1 else ordered_map(part, chunks)
        log_densities, scores = zip(*parts, strict=True)
        return Estimate(torch.cat(log_densities, -1), torch.cat(scores, -2))

    @property
    def _readout(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Keys of the components, and P [-mu, I] times 1 + d/nu (..., d (d + 1), M); kept if they can be."""
        kept: tuple[Tensor, Tensor, Tensor, Tensor] | None = self.__dict__.get("_kept")
        if kept is not None:
            return kept
        if torch.compiler.is_compiling():
            return self._make_readout()
        with torch.inference_mode(False) if not self.mean.is_inference() else nullcontext():
            found = self._make_readout()
        if not any(t.requires_grad or t.is_inference() for t in found):  # a graph must not be kept
            self.__dict__["_kept"] = found
        return found

    def _make_readout(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        slots = make_slots(self.log_weight, self.mean, self.scale, self.nu, torch.ones_like(self.nu))
        heavy = (1 + self.dim / self.nu)[..., None, None]  # u = heavy / w
        return *slots.keys, (heavy * slots.natural.form[..., 1:, :]).flatten(-2).mT

    def left_out(self, rows: Tensor, weights: Tensor | None = None) -> Tensor:
        """Log density (..., n) at every row of the sample (..., n, d) under the fit without that row.

        >>> x = torch.tensor([[-1.0], [0.0], [1.0], [9.0]], dtype=torch.float64)
        >>> one = torch.ones(1, dtype=torch.float64)
        >>> normal = StudentMixture(0 * one, x.mean(0)[None], x.var(0, correction=0)[None, None], 1e9 * one)
        >>> (normal.log_density(x) - normal.left_out(x)).round(decimals=1).tolist()
        [0.3, 0.2, 0.1, 57.7]
        """
        batch = self.log_weight.shape[:-1]
        flat = self.map(lambda t: t.reshape((-1, *t.shape[len(batch) :])))
        points = rows.to(self.mean).expand(*batch, *rows.shape[-2:]).reshape(-1, *rows.shape[-2:])
        share = None if weights is None else weights.to(points).expand(*batch, rows.shape[-2])
        share = None if share is None else share.reshape(points.shape[:-1])
        components = Components(flat.log_weight, flat.mean, flat.scale, flat.nu)
        return leave_one_out(components, flat.evidence, points, share).reshape(*batch, rows.shape[-2])

    def moments(self) -> tuple[Tensor, Tensor]:
        """Mean (..., d) and covariance (..., d, d).

        >>> one = torch.ones(1, dtype=torch.float64)
        >>> heavy = StudentMixture(0 * one, 5 * one[:, None], one[:, None, None], 4 * one)
        >>> [part.item() for part in heavy.moments()]
        [5.0, 2.0]
        """
        share = self.log_weight.exp().unsqueeze(-1)
        mean = (share * self.mean).sum(-2)
        off = (self.mean - mean.unsqueeze(-2)).unsqueeze(-1)  # (..., M, d, 1)
        return mean, (share.unsqueeze(-1) * (self.covariance + off * off.mT)).sum(-3)

    def blurred(self, noise: Tensor) -> StudentMixture:
        """Scales with the noise (d, d) added: exact for normal components, close for heavier tails.

        >>> one = torch.ones(1, dtype=torch.float64)
        >>> normal = StudentMixture(0 * one, 0 * one[:, None], one[:, None, None], 1e8 * one)
        >>> normal.blurred(3 * one[:, None]).covariance.round(decimals=6).tolist()
        [[[4.0]]]
        """
        return replace(self, scale=self.scale + noise.to(self.scale).unsqueeze(-3))

    def __getstate__(self) -> dict[str, Any]:
        return {item.name: getattr(self, item.name) for item in fields(self)}

    def sample(self, n: int, generator: torch.Generator | None = None) -> Tensor:
        """Draw n points: (..., n, d)."""
        batch = self.log_weight.shape[:-1]
        flat = self.map(lambda t: t.reshape((-1, *t.shape[len(batch) :])))
        component = torch.multinomial(flat.log_weight.exp(), n, replacement=True, generator=generator)
        return flat.draw(component, generator).reshape(*batch, n, self.dim)

    def draw(self, component: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """A point (B, n, d) of every component named (B, n); of mixtures with a batch (B)."""
        row = torch.arange(len(component), device=component.device).unsqueeze(-1)
        factor = torch.linalg.cholesky(self.scale)
        normal = torch.randn(
            *component.shape, self.dim, 1, dtype=self.mean.dtype, device=self.mean.device, generator=generator
        )
        half = self.nu[row, component] / 2
        gamma = standard_gamma(half, generator)
        stretch = (half / gamma).sqrt().unsqueeze(-1)
        rows = max(1, _BUDGET // (len(component) * max(1, self.dim**2) * factor.element_size()))
        pieces = zip(component.split(rows, -1), normal.split(rows, 1), strict=True)
        offset = torch.cat([factor[row, which] @ noise for which, noise in pieces], 1).squeeze(-1)
        points: Tensor = self.mean[row, component] + offset * stretch
        return points

    def marginal(self, columns: Sequence[int]) -> StudentMixture:
        """The law of some of the columns."""
        keep = torch.as_tensor(columns, device=self.mean.device)
        scale = self.scale[..., keep[:, None], keep]
        return StudentMixture(self.log_weight, self.mean[..., keep], scale, self.nu)

    def conditional(self, columns: Sequence[int], values: Any) -> StudentMixture:
        """The law of the other columns, in their order, given ``values`` (..., k) of ``columns``.

        With more leading dimensions in the values than in the mixture, a batch of laws, one for each.

        Each component stays a Student-t, with nu + k degrees of freedom and a scale that grows with
        the distance of the values; the weights move to the components that explain the values.
        """
        values = torch.as_tensor(values, dtype=self.mean.dtype, device=self.mean.device)
        given = torch.as_tensor(columns, device=self.mean.device)
        rest = torch.tensor([c for c in range(self.dim) if c not in set(columns)], device=given.device)
        size = len(given)
        known = self.marginal(columns)
        offset = values.unsqueeze(-2) - known.mean  # (..., M, k)
        cross = self.scale[..., rest[:, None], given]  # (..., M, e, k)
        factor = torch.linalg.cholesky(known.scale)
        pull = torch.cholesky_solve(offset.unsqueeze(-1), factor)
        distance = (offset * pull.squeeze(-1)).sum(-1)
        mean = self.mean[..., rest] + (cross @ pull).squeeze(-1)
        shrunk = self.scale[..., rest[:, None], rest] - cross @ torch.cholesky_solve(cross.mT, factor)
        growth = (self.nu + distance) / (self.nu + size)
        log_peak = natural_parameters(known.mean, known.scale).log_peak
        log_weight = self.log_weight + student_log_density(distance, log_peak, self.nu, size)
        return StudentMixture(
            torch.log_softmax(log_weight, -1),
            mean,
            growth[..., None, None] * shrunk,
            (self.nu + size).expand(growth.shape),
        )

    def cdf(self, queries: Any) -> Tensor:
        """Distribution function (..., m) at queries (..., m, 1); one dimension only, no gradients."""
        self._check_one_column("the distribution function")
        from scipy.special import stdtr  # scikit-learn brings scipy; loading it costs, so only here

        points = check_points(queries, "queries", dim=1).to(self.mean)
        standard = (points - self.mean.mT) / self.scale[..., 0].mT.sqrt()  # (..., m, M)
        below = stdtr(self.nu.unsqueeze(-2).detach().cpu().numpy(), standard.detach().cpu().numpy())
        weight = self.log_weight.exp().unsqueeze(-2)
        return (torch.as_tensor(below, dtype=weight.dtype, device=weight.device) * weight).sum(-1)

    def quantile(self, shares: Any) -> Tensor:
        """Where `cdf` is ``shares`` (..., m), strictly between 0 and 1: (..., m, 1)."""
        self._check_one_column("a quantile")
        from scipy.special import stdtrit  # as in `cdf`

        def bracket(share: Tensor) -> Tensor:
            """The same quantile of every component (..., m, M): that of the mixture lies between them."""
            nu = self.nu.unsqueeze(-2).detach().cpu().numpy()
            standard = torch.as_tensor(stdtrit(nu, share.unsqueeze(-1).cpu().numpy())).to(self.mean)
            return self.mean.mT + standard * self.scale[..., 0].mT.sqrt()

        return find_quantile(self.cdf, bracket, shares, self.mean)

    def __repr__(self) -> str:
        return f"mixture of {self.mean.shape[-2]} Student-t component(s) in {self.dim} column(s)"
