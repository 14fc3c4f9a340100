"""A recipe: everything that decides a training run, read from a YAML file."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from discoformer.checks import DataError
from discoformer.extras import require

__all__ = ["Recipe", "load_recipe"]

SIZE_STEPS = ("log-uniform", "power-of-two")


@dataclass(frozen=True)
class Recipe:
    """One training run.

    Attributes
    ----------
    name : names the run's folder and the weights
    core : keyword values of a core, with ``kind`` "mixture" or "attention"
    frame : name of the frame the core works in
    prior : keyword values of a prior, with its ``name``
    validation : keyword values of the prior that reports are made on
    dims : dimensions, drawn uniformly; repeat one to draw it more often
    sizes : smallest and largest context size n; twice the same for a fixed n
    size_steps : "log-uniform", or "power-of-two" as in the paper
    tokens : context points in a batch: the batch size is tokens // n, at most ``max_batch``
    fresh, second : fresh draws and draws from a second distribution, as fractions of n, that are
        queries beside the context itself
    slots, refinements : ranges drawn per batch (mixture core only)
    alpha : weight of the log density in the loss alpha * density + (1 - alpha) * score
    steps, warmup, decay : length of the run and of the two ramps of the learning rate, in steps
    cycles : how often the ramps are run through, each time in an equal part of the steps: a run that ended
        while its error still fell goes on with one cycle more, from its last checkpoint
    lr, weight_decay, clip : AdamW and the gradient norm it is clipped to
    average : decay of the weights' running average, which is what is validated and shipped
    seed : of the random start and of all draws
    start : name or path of weights to begin from instead of a random start
    report_dims, report_sizes : dimensions (all of ``dims`` by default) and sizes that reports validate at
    """

    name: str
    core: dict[str, Any]
    frame: str
    prior: dict[str, Any]
    validation: dict[str, Any] = field(default_factory=lambda: {"name": "gmm", "weights": "equal"})
    dims: list[int] = field(default_factory=lambda: [2])
    sizes: tuple[int, int] = (64, 4096)
    size_steps: str = "log-uniform"
    tokens: int = 4096
    max_batch: int = 16
    fresh: float = 0.25
    second: float = 0.25
    slots: tuple[int, int] | None = None
    refinements: tuple[int, int] | None = None
    alpha: float = 1 / 3
    steps: int = 10_000
    warmup: int = 100
    decay: int = 10_000
    cycles: int = 1
    lr: float = 2e-3
    weight_decay: float = 1e-3
    clip: float = 1.0
    average: float = 0.999
    seed: int = 0
    start: str | None = None
    report_dims: list[int] | None = None
    report_sizes: list[int] = field(default_factory=lambda: [256, 1024])


def load_recipe(path: str | Path) -> Recipe:
    """Read a recipe from YAML; unknown keys and missing files are refused."""
    require("yaml", "train", "reading a recipe")
    import yaml

    try:
        values = yaml.safe_load(Path(path).read_text())
    except FileNotFoundError:
        raise DataError(f"no recipe at {path}: see the configs folder for examples") from None
    except yaml.YAMLError as error:
        raise DataError(f"{path} is not valid YAML: {' '.join(str(error).split())}") from None
    if not isinstance(values, dict):
        raise DataError(f"{path} is not a recipe: expected `key: value` lines")
    known = {item.name for item in dataclasses.fields(Recipe)}
    unknown = sorted(set(values) - known)
    if unknown:
        raise DataError(f"{path} has unknown keys {', '.join(unknown)}; known are {', '.join(sorted(known))}")
    missing = sorted({"name", "core", "frame", "prior"} - set(values))
    if missing:
        raise DataError(f"{path} lacks {', '.join(missing)}")
    for item in dataclasses.fields(Recipe):
        value = values.get(item.name, item.default)
        if isinstance(item.default, int | float) and not isinstance(value, int | float):
            raise DataError(
                f"{path}: {item.name} is not a number: {value!r} (YAML reads 1.0e-3, but not 1e-3)"
            )
    for key in ("sizes", "slots", "refinements"):
        if values.get(key) is not None:
            values[key] = tuple(values[key])
    recipe = Recipe(**values)
    if recipe.size_steps not in SIZE_STEPS:
        raise DataError(f"{path}: size_steps {recipe.size_steps!r} is not one of {', '.join(SIZE_STEPS)}")
    if recipe.cycles < 1 or recipe.steps % recipe.cycles:
        raise DataError(f"{path}: {recipe.steps} steps are not {recipe.cycles} cycles of equal length")
    return recipe
