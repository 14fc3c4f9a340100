"""Optional dependencies: a clear message when an extra is not installed."""

from __future__ import annotations

from importlib.util import find_spec

from discoformer.core.checks import DataError

__all__ = ["require"]


def require(package: str, extra: str, purpose: str) -> None:
    """Raise `DataError` with the command to run if ``package`` of the given extra is missing.

    >>> require("numpy", "plot", "drawing")
    >>> require("no_such_package", "plot", "drawing")
    Traceback (most recent call last):
        ...
    discoformer.DataError: drawing needs no_such_package: pip install 'discoformer[plot]'
    """
    if find_spec(package) is None:
        raise DataError(f"{purpose} needs {package}: pip install 'discoformer[{extra}]'")
