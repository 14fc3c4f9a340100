"""Error bars in one pass: a small network that has learned how wrong the default is.

The features and sizes of `error_features` go in; out come standard deviations of log density and score such
that 1.645 of them hold the truth in 90 % of all cases.  They were trained by the pinball loss, a proper
scoring rule, on exact truths of the prior that the default itself was trained on: errors have heavy tails, so
the quantile is asked for and not the variance.  Bias counts, which no bootstrap sees.

The weights belong to one version of the default; their card says to which.
"""

from __future__ import annotations

import json
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from discoformer.core.checks import DataError
from discoformer.core.fields import Estimate, Field
from discoformer.core.tensor_files import read_metadata, read_tensors, write_tensors
from discoformer.models.mixture.error_features import (
    COLUMN_FEATURES,
    ROW_FEATURES,
    ErrorFeatures,
    error_features,
)
from discoformer.models.registry import weights_checksum

__all__ = [
    "NINETY",
    "ErrorHead",
    "error_bars_path",
    "load_error_head",
    "read_error_card",
    "save_error_head",
    "shipped_error_head",
]

NINETY = 1.6449  # standard deviations of a normal law that hold 90 %
_FORMAT = "discoformer-error-bars-1"


class ErrorHead(nn.Module):
    """Two perceptrons, of a row and of a row and a column, with logarithms of factors to the sizes.

    >>> head = ErrorHead(width=8).double()
    >>> x = torch.randn(100, 2, dtype=torch.float64)
    >>> from discoformer.methods import resolve
    >>> head.spread(resolve("default").method.fit(x), x[:3]).score.shape
    torch.Size([3, 2])
    """

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.row = _Perceptron(ROW_FEATURES, width)
        self.column = _Perceptron(ROW_FEATURES + COLUMN_FEATURES, width)

    def log_factors(self, row: Tensor, column: Tensor) -> tuple[Tensor, Tensor]:
        """Logarithms (..., m) and (..., m, d) of the half-widths of 90 % intervals over the sizes."""
        both = torch.cat([row.unsqueeze(-2).expand(*column.shape[:-1], -1), column], -1)
        return self.row(row), self.column(both)

    @torch.no_grad()
    def spread(self, field: Field, queries: Tensor) -> Estimate[Tensor]:
        """Standard deviations of log density (..., m) and score (..., m, d) at queries (..., m, d)."""
        found: ErrorFeatures = error_features(field, queries.to(torch.float64))
        density, score = self.log_factors(found.row, found.column)
        return Estimate(found.log_density * density.exp() / NINETY, found.score * score.exp() / NINETY)


class _Perceptron(nn.Module):
    """Standardized features to a number, by two hidden layers."""

    def __init__(self, features: int, width: int) -> None:
        super().__init__()
        self.register_buffer("center", torch.zeros(features))
        self.register_buffer("scale", torch.ones(features))
        self.layers = nn.Sequential(
            nn.Linear(features, width), nn.SiLU(), nn.Linear(width, width), nn.SiLU(), nn.Linear(width, 1)
        )

    def standardize(self, features: Tensor) -> None:
        """Center and scale by the features (k, F) of a training set."""
        self.center, self.scale = features.mean(0), features.std(0).clamp_min(1e-3)

    def forward(self, features: Tensor) -> Tensor:
        # what is far from all training data is answered as what is just outside of it
        inside = ((features - self.center) / self.scale).clamp(-4.0, 4.0)
        found: Tensor = self.layers(inside).squeeze(-1)
        return found


def save_error_head(head: ErrorHead, card: dict[str, Any], path: str | Path) -> None:
    """Write weights, in single precision, and a card that says what made them."""
    tensors = {key: value.to(torch.float32) for key, value in head.state_dict().items()}
    write_tensors(path, tensors, {"format": _FORMAT, "card": json.dumps(card)})


def read_error_card(path: str | Path) -> dict[str, Any]:
    """What made the weights, and which model they belong to.

    >>> read_error_card(error_bars_path("default"))["model"]
    'default'
    """
    metadata = read_metadata(path)
    if metadata.get("format") != _FORMAT:
        raise DataError(f"{path} holds no error bars: train them with tools/train_error_bars.py")
    card: dict[str, Any] = json.loads(metadata["card"])
    return card


def load_error_head(path: str | Path) -> ErrorHead:
    """The head in a file."""
    card, tensors = read_error_card(path), read_tensors(path)
    head = ErrorHead(int(card["recipe"]["width"]))
    try:
        head.load_state_dict(tensors)
    except RuntimeError as error:
        raise DataError(f"{path} does not fit its card: {str(error).splitlines()[-1].strip()}") from None
    return head.double().eval().requires_grad_(False)


def error_bars_path(model: str) -> Path:
    """Where the package keeps the error bars of a model."""
    folder = Path(str(resources.files("discoformer.models"))) / "weights" / "error_bars"
    return folder / f"{model}.safetensors"


@lru_cache(maxsize=4)
def shipped_error_head(model: str) -> ErrorHead | None:
    """The head of a model of the package; None if it has none that belongs to its present weights.

    >>> shipped_error_head("default-gmm") is None
    True
    """
    path = error_bars_path(model)
    if not path.exists() or read_error_card(path)["weights"] != weights_checksum(model):
        return None
    return load_error_head(path)
