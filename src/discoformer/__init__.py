"""Log density and score of a sample at any points.

A *method* turns a sample into a *field*; a field answers with log density and score:

>>> import numpy as np
>>> from discoformer import KDE
>>> sample = np.random.default_rng(0).normal(size=(500, 2))
>>> log_density, score = KDE().fit(sample).estimate(sample[:3])
>>> log_density.shape, score.shape
((3,), (3, 2))
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from discoformer.api.detector import DensityDetector
    from discoformer.api.estimate import estimate
    from discoformer.api.estimator import DiScoFormer
    from discoformer.api.evidence import evidence, savage_dickey
    from discoformer.api.imputer import DiScoFormerImputer
    from discoformer.api.ratio import ratio
    from discoformer.baselines.kde import KDE
    from discoformer.core.checks import DataError
    from discoformer.core.fields import Density, Estimate, Field, Method, PointDensity
    from discoformer.core.transforms import SupportWarning
    from discoformer.methods import RangeWarning
    from discoformer.models.registry import load_model
    from discoformer.training.finetune import finetune

__version__ = "0.1.0"

__all__ = [
    "KDE",
    "DataError",
    "Density",
    "DensityDetector",
    "DiScoFormer",
    "DiScoFormerImputer",
    "Estimate",
    "Field",
    "Method",
    "PointDensity",
    "RangeWarning",
    "SupportWarning",
    "__version__",
    "estimate",
    "evidence",
    "finetune",
    "load_model",
    "ratio",
    "savage_dickey",
]

# Names load on first use (PEP 562), so that `discoformer --help` does not wait for torch.
_HOMES = {
    "KDE": "discoformer.baselines.kde",
    "DataError": "discoformer.core.checks",
    "Density": "discoformer.core.fields",
    "DensityDetector": "discoformer.api.detector",
    "DiScoFormer": "discoformer.api.estimator",
    "DiScoFormerImputer": "discoformer.api.imputer",
    "Estimate": "discoformer.core.fields",
    "Field": "discoformer.core.fields",
    "Method": "discoformer.core.fields",
    "PointDensity": "discoformer.core.fields",
    "RangeWarning": "discoformer.methods",
    "SupportWarning": "discoformer.core.transforms",
    "estimate": "discoformer.api.estimate",
    "evidence": "discoformer.api.evidence",
    "finetune": "discoformer.training.finetune",
    "load_model": "discoformer.models.registry",
    "ratio": "discoformer.api.ratio",
    "savage_dickey": "discoformer.api.evidence",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(_HOMES[name]), name)
    return found


def __dir__() -> list[str]:
    return sorted(__all__)
