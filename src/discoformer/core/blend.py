"""Several densities of the same columns as one: their mixture, every verb in closed form."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from discoformer.core.checks import DataError, check_points
from discoformer.core.fields import Density, Estimate
from discoformer.core.quantiles import find_quantile
from discoformer.core.tracing import traced

__all__ = ["Blend"]


def less_unseen(left_out: Tensor, inside: Tensor, unseen: float) -> Tensor:
    """Log densities of rows that are left out, without the optimism that leaving out does not see.

    Where slots are and which view is right would change, too, if a row was not there.  With the gain
    g = log f - log f_-i of a row that the fit has seen, ``unseen`` log(1 + g) comes off: about that share of
    a small gain, and less of a large one, for a row that lies alone has hardly any say in where slots are.

    >>> less_unseen(torch.tensor([-1.0, -9.0]), torch.tensor([-0.9, -1.0]), 0.7)
    tensor([ -1.0667, -10.5381])
    """
    return left_out - unseen * (inside - left_out).clamp_min(0.0).log1p()


@dataclass(frozen=True, repr=False)
class Blend(Density):
    """The mixture sum_k w_k f_k of densities.

    Attributes
    ----------
    parts : K densities of the same columns
    log_weight : (..., K), log of the weights, which sum to one; a part of weight zero is not asked
    unseen : how much choices among the parts, and inside them, add to the optimism that `left_out` of the
        parts sees (`less_unseen`)

    Examples
    --------
    >>> from discoformer.baselines.kde import KDE
    >>> left, right = (KDE(1.0).fit([[x], [x + 1.0]]) for x in (-9.0, 8.0))
    >>> both = Blend((left, right), torch.tensor([0.5, 0.5]).double().log())
    >>> round(float(both.cdf(torch.zeros(1, 1).double())), 6)
    0.5
    """

    parts: tuple[Density, ...]
    log_weight: Tensor
    unseen: float = 0.0

    @property
    def dim(self) -> int:
        return self.parts[0].dim

    @property
    def support(self) -> list[int]:
        return self.parts[0].support

    @property
    def gaps(self) -> bool:
        return all(part.gaps for part in self.parts)

    @property
    def _heard(self) -> list[int]:
        """The parts that have a weight, in any sample of the batch; all of them while a call is traced."""
        every = list(range(len(self.parts)))
        if traced() or self.log_weight.is_meta:
            return every
        return [k for k in every if bool((self.log_weight[..., k] > -torch.inf).any())]

    def _estimate(self, queries: Tensor) -> Estimate[Tensor]:
        heard = self._heard
        answers = [self.parts[k]._estimate(queries) for k in heard]
        terms = torch.stack([answer.log_density for answer in answers], -1)  # (..., m, K)
        terms = terms + self.log_weight[..., heard].unsqueeze(-2).to(terms)
        log_density = terms.logsumexp(-1)
        # where no part has mass, all answer with a score of zero
        share = (terms - log_density.unsqueeze(-1)).exp().nan_to_num(0.0).unsqueeze(-1)
        scores = torch.stack([answer.score for answer in answers], -2)  # (..., m, K, d)
        return Estimate(log_density, (share * scores).sum(-2))

    def sample(self, n: int, generator: torch.Generator | None = None) -> Tensor:
        """Draw from every part as often as chance says; in a batch, where that differs, n from each."""
        flat = self.log_weight.exp().reshape(-1, len(self.parts))
        if self.log_weight.ndim == 1:
            chosen = torch.multinomial(flat[0], n, replacement=True, generator=generator)
            counts = torch.bincount(chosen, minlength=len(self.parts)).tolist()
            draws = [part.sample(k, generator) for part, k in zip(self.parts, counts, strict=True) if k]
            return torch.cat(draws)[chosen.argsort(stable=True).argsort()]
        draws = [part.sample(n, generator) for part in self.parts]
        chosen = torch.multinomial(flat, n, replacement=True, generator=generator)
        index = chosen.reshape(*self.log_weight.shape[:-1], 1, n, 1)
        return torch.stack(draws, -3).take_along_dim(index, -3).squeeze(-3)

    def marginal(self, columns: Sequence[int]) -> Density:
        return Blend(tuple(part.marginal(columns) for part in self.parts), self.log_weight)

    def conditional(self, columns: Sequence[int], values: Any) -> Density:
        """The weights move to the parts that explain the values."""
        rest = tuple(part.conditional(columns, values) for part in self.parts)
        given = torch.as_tensor(values, dtype=torch.float64).unsqueeze(-2)
        given = given if self.gaps else check_points(given, "values")
        log_density = [part.marginal(columns)._estimate(given).log_density for part in self.parts]
        log_weight = self.log_weight + torch.cat(log_density, -1).to(self.log_weight)
        if not bool(log_weight.isfinite().any(-1).all()):
            raise DataError("the values given have no density: no part of the fit can explain them")
        return Blend(rest, torch.log_softmax(log_weight, -1))

    def cdf(self, queries: Any) -> Tensor:
        self._check_one_column("the distribution function")
        below = torch.stack([part.cdf(queries) for part in self.parts], -1)
        return (below * self.log_weight.exp().unsqueeze(-2).to(below)).sum(-1)

    def quantile(self, shares: Any) -> Tensor:
        self._check_one_column("a quantile")

        def bracket(share: Tensor) -> Tensor:
            return torch.cat([part.quantile(share) for part in self.parts], -1)

        return find_quantile(self.cdf, bracket, shares, self.log_weight)

    def complete(self, rows: Tensor, which: Tensor, chance: Callable[[int], Tensor]) -> Tensor:
        """Every draw by the part that explains what is there, at random where several do."""
        terms = torch.stack([part._estimate(rows).log_density for part in self.parts], -1) + self.log_weight
        below = terms.softmax(-1).cumsum(-1)[which]
        chosen = (chance(1) * below[..., -1:] > below).sum(-1).clamp_max(len(self.parts) - 1)
        found = rows[which]
        for k, part in enumerate(self.parts):
            own = (chosen == k).nonzero().flatten()
            if len(own):
                asked, place = which[own].unique(return_inverse=True)
                found[own] = part.complete(rows[asked], place, partial(_of_rows, chance, own))
        return found

    def left_out(self, rows: Tensor, weights: Tensor | None = None) -> Tensor:
        """The parts without the row; their weights are those of all rows.

        A fit without the row would choose otherwise, which no part sees: `less_unseen` takes it off.
        """
        heard = self._heard
        parts = torch.stack([self.parts[k].left_out(rows, weights) for k in heard], -1)
        found = (parts + self.log_weight[..., heard].unsqueeze(-2).to(parts)).logsumexp(-1)
        return less_unseen(found, self.log_density(rows), self.unseen) if self.unseen else found

    def transform(self, matrix: Tensor, shift: Tensor) -> Density:
        return Blend(
            tuple(part.transform(matrix, shift) for part in self.parts), self.log_weight, self.unseen
        )

    def moments(self) -> tuple[Tensor, Tensor] | None:
        """Those of the parts, where all that have a weight know theirs."""
        heard = self._heard
        known = [found for k in heard if (found := self.parts[k].moments()) is not None]
        if len(known) < len(heard):
            return None
        means, covariances = (
            torch.stack(torch.broadcast_tensors(*part)) for part in zip(*known, strict=True)
        )
        share = self.log_weight[..., heard].exp().movedim(-1, 0).unsqueeze(-1).to(means)  # (K, ..., 1)
        mean = (share * means).sum(0)
        off = (means - mean).unsqueeze(-1)
        return mean, (share.unsqueeze(-1) * (covariances + off * off.mT)).sum(0)

    def blurred(self, noise: Tensor) -> Density | None:
        parts = tuple(part.blurred(noise) for part in self.parts)
        known = tuple(part for part in parts if part is not None)
        return Blend(known, self.log_weight, self.unseen) if len(known) == len(parts) else None

    def __repr__(self) -> str:
        mean = self.log_weight.exp().reshape(-1, len(self.parts)).mean(0)
        weights = ", ".join(f"{weight:.2f}" for weight in mean.tolist())
        return f"Blend in {self.dim} column(s)\n  of {len(self.parts)} densities\n  with weights {weights}"


def _of_rows(chance: Callable[[int], Tensor], rows: Tensor, count: int) -> Tensor:
    """The chances (k, count) of some of the rows."""
    return chance(count)[rows]
