"""A fitted field as what it is made of: tensors, wherever they are in it.

So it can be moved to another device or floating type, and a fit that nobody differentiates need not keep
account of its operations.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import is_dataclass
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

import torch
from torch import Tensor

from discoformer.core.checks import DataError, one_line, traced
from discoformer.core.fields import Field, as_field
from discoformer.core.transforms import ColumnMap, Transform

__all__ = ["is_tracked", "moved", "untracked"]

F = TypeVar("F", bound=Field)
P = ParamSpec("P")


class _Module(Protocol):
    """What has parameters."""

    def parameters(self) -> Any: ...


M = TypeVar("M", bound=_Module)


def moved(field: F, where: torch.device | torch.dtype | str) -> F:
    """A copy of a field with all its tensors on a device, or in a floating type.

    Parameters
    ----------
    field : stays as it is
    where : a device, or its name; or a floating type

    >>> from discoformer.baselines.kde import KDE
    >>> moved(KDE().fit([[0.0], [1.0]]), torch.float32).log_density(torch.zeros(1, 1)).dtype
    torch.float32
    """
    place = _place(where)

    def move(tensor: Tensor) -> Tensor:
        stays = isinstance(place, torch.dtype) and not tensor.is_floating_point()
        return tensor if stays else tensor.to(place)

    result: F = _each_tensor(as_field(field), move)
    return result


def _place(where: Any) -> torch.device | torch.dtype:
    """A device that is there, or a floating type; anything else is a `DataError`."""
    if isinstance(where, torch.dtype) and where.is_floating_point:
        return where
    if isinstance(where, str | torch.device):
        with one_line(
            f"no device {str(where)!r} here, give one that torch has, or a type such as torch.float32"
        ):
            return torch.empty(0, device=where).device
    raise DataError(f"{where!r} is no place: give a device such as 'cuda', or a type such as torch.float32")


def is_tracked(field: Field) -> bool:
    """Whether a field is a function of something that is differentiated, as of a sample with gradients.

    >>> from discoformer.baselines.kde import KDE
    >>> x = torch.randn(5, 1)
    >>> is_tracked(KDE().fit(x)), is_tracked(KDE().fit(x.requires_grad_()))
    (False, True)
    """
    found: list[Tensor] = []

    def note(tensor: Tensor) -> Tensor:
        found.append(tensor)
        return tensor

    _each_tensor(field, note)
    return any(tensor.requires_grad for tensor in found)


def untracked(
    fit: Callable[Concatenate[M, Tensor, Tensor | None, P], F],
) -> Callable[Concatenate[M, Tensor, Tensor | None, P], F]:
    """A method's fit without autograd's bookkeeping, where no derivative can be asked for.

    Of a single sample that is a fifth of the time.  What comes out are ordinary tensors.

    >>> from discoformer import load_model
    >>> field = load_model("default").fit(torch.randn(50, 1, dtype=torch.float64))
    >>> bool(field.log_weight.is_inference())
    False
    """

    @wraps(fit)
    def call(self: M, context: Tensor, weights: Tensor | None, /, *args: P.args, **options: P.kwargs) -> F:
        given = [context, *([] if weights is None else [weights]), *self.parameters()]
        tracked = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in given)
        if tracked or traced() or context.is_meta or torch.is_inference_mode_enabled():
            return fit(self, context, weights, *args, **options)
        with torch.inference_mode():
            field = fit(self, context, weights, *args, **options)
        result: F = _each_tensor(field, lambda tensor: tensor.clone() if tensor.is_inference() else tensor)
        return result

    return call


def _each_tensor(part: Any, change: Callable[[Tensor], Tensor]) -> Any:
    """A copy of something with every tensor in it changed; what was kept from earlier answers goes along."""
    if isinstance(part, Tensor):
        return change(part)
    if isinstance(part, tuple):
        parts = [_each_tensor(each, change) for each in part]
        return type(part)(*parts) if hasattr(part, "_fields") else tuple(parts)
    if isinstance(part, list):
        return [_each_tensor(each, change) for each in part]
    if isinstance(part, Mapping):
        return {key: _each_tensor(each, change) for key, each in part.items()}
    if isinstance(part, Field | Transform | ColumnMap) or is_dataclass(part) and not isinstance(part, type):
        other = copy.copy(part)
        own = {key: _each_tensor(each, change) for key, each in vars(part).items()}
        other.__dict__.update(own)
        return other
    return part
