"""Priors by name: from the plain values of a config file or a weights header."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from discoformer.core.checks import DataError
from discoformer.priors.broad import BroadPrior
from discoformer.priors.mixed import MixedPrior
from discoformer.priors.prior import AffinePrior, GaussianPrior, GMMPrior, Prior
from discoformer.priors.tables.prior import TablePrior

__all__ = ["PRIORS", "prior_from_config"]

PRIORS: dict[str, type[Prior]] = {
    prior.name: prior for prior in (GMMPrior, GaussianPrior, BroadPrior, TablePrior, AffinePrior, MixedPrior)
}
"""Priors by the names that recipes use."""


def prior_from_config(config: Mapping[str, Any]) -> Prior:
    """Build a prior from its name and fields; lists become tuples, nested mappings nested priors.

    >>> prior_from_config({"name": "gmm", "modes": [1, 4], "reading": "variance"})
    GMMPrior(modes=(1, 4), spread=3.0, scale=(0.2, 1.0), reading='variance', \
covariance='diagonal', weights='equal')
    """
    name = config.get("name")
    if name not in PRIORS:
        raise DataError(f"prior name {name!r} is not one of {', '.join(PRIORS)}")
    kind = PRIORS[name]
    known = [field.name for field in fields(kind)]  # type: ignore[arg-type]  # every prior is a dataclass
    values: dict[str, Any] = {}
    for key, value in config.items():
        if key == "name":
            continue
        if key not in known:
            raise DataError(f"prior {name!r} has no field {key!r}; it has {', '.join(known)}")
        values[key] = _value(value)
    return kind(**values)


def _value(value: Any) -> Any:
    if isinstance(value, Mapping):
        return prior_from_config(value)
    return tuple(_value(part) for part in value) if isinstance(value, list) else value
