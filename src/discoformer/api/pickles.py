"""Pickles of estimators carry a format: an older one is refused, rather than read wrongly."""

from __future__ import annotations

from typing import Any

from discoformer.core.checks import DataError, show_cell

__all__ = ["FORMAT", "Pickled"]

FORMAT = 2  # raised when what they hold changes


class Pickled:
    """An estimator whose pickles carry their format.

    >>> class Something(Pickled): ...
    >>> Something().__setstate__({"_format": 1})  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    discoformer.DataError: this estimator was pickled in format 1, here it is 2: ...
    """

    def __getstate__(self) -> dict[str, Any]:
        state: Any = super().__getstate__()
        return {**(state or {}), "_format": FORMAT}

    def __setstate__(self, state: dict[str, Any]) -> None:
        found = state.pop("_format", None)
        if found != FORMAT:
            raise DataError(
                f"this estimator was pickled in format {show_cell(found)}, here it is {FORMAT}: "
                "load it with the version that wrote it, or fit it again"
            )
        super().__setstate__(state)  # type: ignore[misc]
