"""Priors by name: from the plain values of a config file or a weights header."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from discoformer.core.checks import DataError
from discoformer.priors.broad import BroadPrior
from discoformer.priors.mixed_prior import MixedPrior
from discoformer.priors.prior import AffinePrior, GaussianPrior, GMMPrior, Prior
from discoformer.priors.tables.table_prior import TablePrior

__all__ = ["PRIORS", "is_own", "prior_from_config"]

PRIORS: dict[str, type[Prior]] = {
    prior.name: prior for prior in (GMMPrior, GaussianPrior, BroadPrior, TablePrior, AffinePrior, MixedPrior)
}
"""Priors by the names that recipes use."""


def is_own(config: Mapping[str, Any]) -> bool:
    """Whether a prior is named by the import path of a class of one's own.

    >>> is_own({"name": "my_package.waves:WavePrior"}), is_own({"name": "gmm"})
    (True, False)
    """
    return ":" in str(config.get("name"))


def prior_from_config(config: Mapping[str, Any]) -> Prior:
    """Build a prior from its name and fields; lists become tuples, nested mappings nested priors.

    A name with a colon is the import path of a prior of your own, "my_package.waves:WavePrior"; modules in
    the working directory are found as well.

    >>> prior_from_config({"name": "gmm", "modes": [1, 4], "reading": "variance"})
    GMMPrior(modes=(1, 4), spread=3.0, scale=(0.2, 1.0), reading='variance', \
covariance='diagonal', weights='equal')
    """
    name = config.get("name")
    if isinstance(name, str) and is_own(config):
        kind = _imported(name)
    elif name in PRIORS:
        kind = PRIORS[name]
    else:
        raise DataError(f"prior name {name!r} is not one of {', '.join(PRIORS)}, nor a path 'module:Class'")
    known: list[str] = [field.name for field in fields(kind)] if is_dataclass(kind) else []
    values: dict[str, Any] = {}
    for key, value in config.items():
        if key == "name":
            continue
        if key not in known:
            has = ", ".join(known) or "none: make it a dataclass"
            raise DataError(f"prior {name!r} has no field {key!r}; it has {has}")
        values[key] = _value(value)
    try:
        return kind(**values)
    except TypeError as error:
        raise DataError(f"prior {name!r} cannot be made: {error}") from None


def _imported(path: str) -> type[Prior]:
    """The class behind "module:Class"."""
    module, _, attribute = path.partition(":")
    here = str(Path.cwd())
    if here not in sys.path:  # a command does not look there by itself
        sys.path.append(here)
    try:
        found: Any = import_module(module)
        for part in attribute.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError, ValueError) as error:
        raise DataError(f"prior {path!r} cannot be imported: {error}") from None
    if not (isinstance(found, type) and issubclass(found, Prior)):
        raise DataError(f"{path!r} is no prior: subclass discoformer.priors.OwnPrior")
    return found


def _value(value: Any) -> Any:
    if isinstance(value, Mapping):
        return prior_from_config(value)
    return tuple(_value(part) for part in value) if isinstance(value, list) else value
