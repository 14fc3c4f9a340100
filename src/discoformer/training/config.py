"""A recipe: everything that decides a training run, read from a YAML file."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from discoformer.core.checks import DataError
from discoformer.core.extras import require

__all__ = ["Recipe", "load_recipe"]

_SIZE_STEPS = ("log-uniform", "power-of-two")
_POSITIVE = ("tokens", "max_batch", "steps", "cycles", "lr", "clip")
_NOT_NEGATIVE = ("fresh", "second", "warmup", "decay", "weight_decay", "seed")
_SHARES = ("alpha", "average", "axes_off")
_RANGES = {"sizes": 2, "slots": 1, "line_slots": 1, "refinements": 0, "loops": 0}  # and their least values


@dataclass(frozen=True)
class Recipe:
    """One training run; values that could not be trained with are refused at once, not hours later.

    Attributes
    ----------
    name : names the run's folder and the weights
    core : keyword values of a core, with ``kind`` "unified", "mixture" or "attention"
    frame : name of the frame the core works in
    prior : keyword values of a prior, with its ``name``
    validation : keyword values of the prior that reports are made on, or a list of them for several
    dims : dimensions, drawn uniformly; repeat one to draw it more often
    sizes : smallest and largest context size n; twice the same for a fixed n.  Where a dimension d is
        drawn for which n < 2d + 2, it is raised to that
    size_steps : "log-uniform", or "power-of-two" as in the paper
    tokens : context points in a batch: the batch size is tokens // n, at most ``max_batch``
    fresh, second : fresh draws and draws from a second distribution, as fractions of n, that are
        queries beside the context itself
    slots, refinements : ranges drawn per batch (mixture cores only; the unified one has no refinements)
    line_slots : the range of slots in one dimension, where margins have many narrow heaps; that of all others
        by default
    loops : range drawn per batch of how often the last layer is repeated (unified core only)
    axes_off : share of the batches in which the axes do not count (unified core only)
    balance : whether errors count relative to those usual for the dimension and size of their task
    alpha : weight of the log density in the loss alpha * density + (1 - alpha) * score
    steps, warmup, decay : length of the run and of the two ramps of the learning rate, in steps
    cycles : how often the ramps are run through, each time in an equal part of the steps: a run that ended
        while its error still fell goes on with one cycle more, from its last checkpoint
    lr, weight_decay, clip : AdamW and the gradient norm it is clipped to
    hidden_lr : rate of Muon for the large matrices; None leaves them to AdamW
    average : decay of the weights' running average, which is what is validated and shipped
    seed : of the random start and of all draws
    start : name or path of weights to begin from instead of a random start
    report_dims, report_sizes : dimensions (all of ``dims`` by default) and sizes that reports validate at

    Examples
    --------
    >>> core = {"kind": "attention", "dim": 2}
    >>> Recipe("mine", core, "whiten", {"name": "gmm"}, sizes=(128, 1024), lr=1e-3).steps
    10000
    >>> Recipe("mine", core, "whiten", {"name": "gmm"}, sizes=(1024, 128))
    Traceback (most recent call last):
        ...
    discoformer.DataError: sizes = (1024, 128): give two whole numbers from 2, the smaller one first
    """

    name: str
    core: dict[str, Any]
    frame: str
    prior: dict[str, Any]
    validation: dict[str, Any] | list[dict[str, Any]] = field(
        default_factory=lambda: {"name": "gmm", "weights": "equal"}
    )
    dims: list[int] = field(default_factory=lambda: [2])
    sizes: tuple[int, int] = (64, 4096)
    size_steps: str = "log-uniform"
    tokens: int = 4096
    max_batch: int = 16
    fresh: float = 0.25
    second: float = 0.25
    slots: tuple[int, int] | None = None
    refinements: tuple[int, int] | None = None
    line_slots: tuple[int, int] | None = None
    loops: tuple[int, int] | None = None
    axes_off: float = 0.0
    balance: bool = False
    alpha: float = 1 / 3
    steps: int = 10_000
    warmup: int = 100
    decay: int = 10_000
    cycles: int = 1
    lr: float = 2e-3
    hidden_lr: float | None = None
    weight_decay: float = 1e-3
    clip: float = 1.0
    average: float = 0.999
    seed: int = 0
    start: str | None = None
    report_dims: list[int] | None = None
    report_sizes: list[int] = field(default_factory=lambda: [256, 1024])

    def __post_init__(self) -> None:
        _check_kinds(self)
        _check_numbers(self)
        _check_ranges(self)
        _check_core(self)

    @property
    def validations(self) -> list[dict[str, Any]]:
        """The priors that reports are made on, as a list."""
        return self.validation if isinstance(self.validation, list) else [self.validation]


def load_recipe(path: str | Path) -> Recipe:
    """Read a recipe from YAML; missing files, unknown keys and values out of range are refused."""
    require("yaml", "train", "reading a recipe")
    import yaml

    try:
        values = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise DataError(f"no recipe at {path}: see the configs folder for examples") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise DataError(f"{path} is not valid YAML: {' '.join(str(error).split())}") from None
    if not isinstance(values, dict):
        raise DataError(f"{path} is not a recipe: expected `key: value` lines")
    known = {item.name for item in dataclasses.fields(Recipe)}
    unknown = sorted(str(key) for key in set(values) - known)
    if unknown:
        raise DataError(f"{path} has unknown keys {', '.join(unknown)}; known are {', '.join(sorted(known))}")
    missing = sorted({"name", "core", "frame", "prior"} - set(values))
    if missing:
        raise DataError(f"{path} lacks {', '.join(missing)}")
    for key in _RANGES:
        if isinstance(values.get(key), list):
            values[key] = tuple(values[key])
    try:
        return Recipe(**values)
    except DataError as error:
        raise DataError(f"{path}: {error}") from None


def _check_kinds(recipe: Recipe) -> None:
    """Words, mappings, numbers and lists where they belong."""
    for key in ("name", "frame"):
        if not isinstance(getattr(recipe, key), str):
            raise DataError(f"{key} = {getattr(recipe, key)!r} is not a word")
    if Path(recipe.name).name != recipe.name or recipe.name in ("", ".."):
        raise DataError(f"name = {recipe.name!r} cannot name a folder")
    mappings = [("core", recipe.core), ("prior", recipe.prior)]
    for key, found in mappings + [("validation", prior) for prior in recipe.validations]:
        if not isinstance(found, Mapping):
            raise DataError(f"{key} = {found!r} is not a mapping such as {{key: value}}")
    if not recipe.validations:
        raise DataError("validation = []: give at least one prior to report on")
    if not isinstance(recipe.balance, bool):
        raise DataError(f"balance = {recipe.balance!r} is neither true nor false")
    for item in dataclasses.fields(Recipe):
        value = getattr(recipe, item.name)
        if _is_whole(item.default) and not _is_whole(value):
            raise DataError(f"{item.name} is not a whole number: {value!r}")
        if isinstance(item.default, float) and not (isinstance(value, float) or _is_whole(value)):
            raise DataError(f"{item.name} is not a number: {value!r} (YAML reads 1.0e-3, but not 1e-3)")
    for key, least in (("dims", 1), ("report_dims", 1), ("report_sizes", 2)):
        values = getattr(recipe, key)
        if key == "report_dims" and values is None:
            continue
        whole = isinstance(values, list) and all(_is_whole(value) and value >= least for value in values)
        if not whole or not values:
            raise DataError(f"{key} = {values!r}: give a list of whole numbers from {least}")


def _check_numbers(recipe: Recipe) -> None:
    """Every number in its range; the comparisons are such that NaN is refused, too."""
    for key in _POSITIVE:
        if not getattr(recipe, key) > 0:
            raise DataError(f"{key} = {getattr(recipe, key)!r} must be positive")
    for key in _NOT_NEGATIVE:
        if not getattr(recipe, key) >= 0:
            raise DataError(f"{key} = {getattr(recipe, key)!r} must not be negative")
    for key in _SHARES:
        if not 0 <= getattr(recipe, key) <= 1:
            raise DataError(f"{key} = {getattr(recipe, key)!r} must be between 0 and 1")
    if recipe.hidden_lr is not None and not recipe.hidden_lr > 0:
        raise DataError(f"hidden_lr = {recipe.hidden_lr!r} must be positive")
    if recipe.steps % recipe.cycles:
        raise DataError(f"{recipe.steps} steps are not {recipe.cycles} cycles of equal length")


def _check_ranges(recipe: Recipe) -> None:
    """Pairs of whole numbers, the smaller one first."""
    for key, least in _RANGES.items():
        pair = getattr(recipe, key)
        if key != "sizes" and pair is None:
            continue
        whole = isinstance(pair, tuple) and len(pair) == 2 and all(map(_is_whole, pair))
        if not whole or not least <= pair[0] <= pair[1]:
            raise DataError(f"{key} = {pair!r}: give two whole numbers from {least}, the smaller one first")
    if recipe.size_steps not in _SIZE_STEPS:
        raise DataError(f"size_steps {recipe.size_steps!r} is not one of {', '.join(_SIZE_STEPS)}")
    if recipe.size_steps == "power-of-two" and any(size & (size - 1) for size in recipe.sizes):
        raise DataError(f"sizes = {recipe.sizes!r} are not powers of two, as size_steps asks for")


def _check_core(recipe: Recipe) -> None:
    """The attention core serves one dimension and has no slots; only the unified one loops and has axes."""
    kind = recipe.core.get("kind")
    if kind != "unified" and (recipe.loops is not None or recipe.axes_off):
        raise DataError(f"loops and axes_off are of the unified core, this core is {kind}")
    if kind == "unified" and recipe.refinements is not None:
        raise DataError("refinements are of the mixture core, the unified one has loops")
    if kind != "attention":
        return
    dims = {*recipe.dims, *(recipe.report_dims or ())}
    if dims != {recipe.core.get("dim")}:
        raise DataError(
            f"the attention core is for dim {recipe.core.get('dim')!r} only, "
            f"but dims and report_dims have {', '.join(map(str, sorted(dims)))}"
        )
    if (recipe.slots, recipe.line_slots, recipe.refinements) != (None, None, None):
        raise DataError("slots and refinements are of the mixture core, this core is attention")


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
