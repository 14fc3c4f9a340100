"""A recipe: everything that decides a training run, read from a YAML file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, Literal, Self, TypeVar

from discoformer.core.checks import DataError
from discoformer.core.extras import require
from discoformer.priors.config import is_own
from discoformer.training.recipes import find_recipe

require("pydantic", "train", "training")

from pydantic import (  # noqa: E402
    AfterValidator,
    BaseModel,
    Field,
    NonNegativeFloat,
    NonNegativeInt,
    PlainValidator,
    PositiveFloat,
    PositiveInt,
    Strict,
    ValidationError,
    model_validator,
)

__all__ = ["Recipe", "load_recipe"]


_HINTS = {  # for some kinds of pydantic's errors, whose own words are kept for the others
    "bool_type": "give true or false",
    "dict_type": "give a mapping such as {key: value}",
    "float_type": "give a number (YAML reads 1.0e-3, but not 1e-3)",
    "int_type": "give a whole number",
    "list_type": "give a list such as [2, 3]",
    "string_pattern_mismatch": "cannot name a folder",
    "tuple_type": "give two whole numbers, the smaller one first",
}


def _check_order(pair: tuple[int, int]) -> tuple[int, int]:
    if pair[0] > pair[1]:
        raise ValueError("give the smaller number first")
    return pair


def _check_priors(found: Any) -> Any:
    priors = found if isinstance(found, list) else [found]
    if not priors or not all(isinstance(prior, dict) and all(map(_is_word, prior)) for prior in priors):
        raise ValueError("give a mapping such as {key: value}, or a list of them")
    return found


def _is_word(key: object) -> bool:
    return isinstance(key, str)


T = TypeVar("T")
Size = Annotated[int, Field(ge=2)]
Share = Annotated[float, Field(ge=0, le=1)]
Several = Annotated[list[T], Field(min_length=1)]
Priors = Annotated[dict[str, Any] | list[dict[str, Any]], PlainValidator(_check_priors)]  # one, or several
Range = Annotated[tuple[T, T], Strict(False), AfterValidator(_check_order)]  # or a list, as in YAML


class Recipe(BaseModel, frozen=True, strict=True, extra="forbid", allow_inf_nan=False):
    """One training run; a value that cannot be trained with raises `DataError` at once.

    Attributes
    ----------
    name : of the run's folder and of the weights
    core : keyword values of a core, with ``kind`` "unified" or "attention"
    frame : name of the frame the core works in
    prior : keyword values of a prior, with its ``name``
    validation : keyword values of the prior that reports use, or a list of them for several; by default a
        prior of one's own itself, and Gaussian mixtures for those of the package
    dims : dimensions, drawn uniformly; repeat one to draw it more often
    sizes : smallest and largest context size n; the same number twice fixes n.  In dimension d, n is at
        least 2d + 2
    size_steps : "log-uniform", or "power-of-two" as in the paper
    tokens : context points in a batch: the batch size is tokens // n, at most ``max_batch``
    context_queries : whether the context's own points are queries, too; not in the paper's Algorithm 1
    fresh, second : queries beside the context itself, as fractions of n: fresh draws, and draws from a
        second distribution
    rotate : whether every data set is turned at random as a whole
    slots : range drawn per batch (unified core only)
    line_slots : the range of slots in one dimension, where margins have many narrow heaps; ``slots`` by
        default
    loops : range drawn per batch of how often the last layer is repeated (unified core only)
    axes_off : share of the batches in which the axes do not count (unified core only)
    balance : whether errors count relative to those usual for the dimension and size of their task
    loss : "relative", our own, or "mse", the paper's: see `discoformer.training.loss`
    alpha : weight of the log density in the loss alpha * density + (1 - alpha) * score
    precision : of the core in training; "bfloat16" keeps weights, frames and losses in float32
    recompute : whether blocks recompute their activations in the backward pass (attention core only): a third
        more time, but long contexts fit into memory
    steps, warmup, decay : length of the run and of the two ramps of the learning rate, in steps
    cycles : how often the ramps are repeated, each time in an equal part of the steps.  To extend a finished
        run, add a cycle and resume from its last checkpoint
    lr, weight_decay, clip : AdamW, and the gradient norm it is clipped to
    hidden_lr : rate of Muon for the large matrices; None leaves them to AdamW
    average : decay of the weights' running average, which is validated and shipped
    seed : of the random start and of all draws
    start : name or path of weights to begin from instead of a random start
    report_dims, report_sizes : dimensions (all of ``dims`` by default) and sizes that reports validate at

    Examples
    --------
    >>> values = {"core": {"kind": "attention", "dim": 2}, "frame": "whiten", "prior": {"name": "gmm"}}
    >>> Recipe(name="mine", **values, sizes=(128, 1024), lr=1e-3).steps
    10000
    >>> Recipe(name="mine", **values, sizes=(1024, 128))
    Traceback (most recent call last):
        ...
    discoformer.DataError: sizes = (1024, 128): give the smaller number first
    """

    name: str = Field(pattern=r"^\w[^/\\]*$")
    core: dict[str, Any]
    frame: str
    prior: dict[str, Any]
    validation: Priors = {"name": "gmm", "weights": "equal"}
    dims: Several[PositiveInt] = [2]
    sizes: Range[Size] = (64, 4096)
    size_steps: Literal["log-uniform", "power-of-two"] = "log-uniform"
    tokens: PositiveInt = 4096
    max_batch: PositiveInt = 16
    context_queries: bool = True
    fresh: NonNegativeFloat = 0.25
    second: NonNegativeFloat = 0.25
    rotate: bool = False
    slots: Range[PositiveInt] | None = None
    line_slots: Range[PositiveInt] | None = None
    loops: Range[NonNegativeInt] | None = None
    axes_off: Share = 0.0
    balance: bool = False
    loss: Literal["relative", "mse"] = "relative"
    alpha: Share = 1 / 3
    precision: Literal["float32", "bfloat16"] = "float32"
    recompute: bool = False
    steps: PositiveInt = 10_000
    warmup: NonNegativeInt = 100
    decay: NonNegativeInt = 10_000
    cycles: PositiveInt = 1
    lr: PositiveFloat = 2e-3
    hidden_lr: PositiveFloat | None = None
    weight_decay: NonNegativeFloat = 1e-3
    clip: PositiveFloat = 1.0
    average: Share = 0.999
    seed: NonNegativeInt = 0
    start: str | None = None
    report_dims: Several[PositiveInt] | None = None
    report_sizes: Several[Size] = [256, 1024]

    def __init__(self, **values: Any) -> None:
        prior = values.get("prior")
        if isinstance(prior, dict) and is_own(prior):  # errors on other laws would say nothing about it
            values.setdefault("validation", prior)
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise DataError("; ".join(map(_explain, error.errors()))) from None

    @model_validator(mode="after")
    def _check_together(self) -> Self:
        kind, dim = self.core.get("kind"), self.core.get("dim")
        attention = kind == "attention"
        dims = sorted({*self.dims, *(self.report_dims or ())})
        if self.steps % self.cycles:
            raise ValueError(f"{self.steps} steps do not divide into {self.cycles} cycles of equal length")
        if self.size_steps == "power-of-two" and any(size & (size - 1) for size in self.sizes):
            raise ValueError(f"sizes = {self.sizes!r}: give powers of two, as size_steps asks for")
        if attention and dims != [dim]:
            raise ValueError(f"this attention core is for dim {dim!r}, but dims and report_dims have {dims}")
        if attention and (self.slots or self.line_slots or self.loops or self.axes_off):
            raise ValueError("slots, loops and axes_off belong to the unified core, this core is attention")
        trained = "score" if self.alpha == 0 else "density" if self.alpha == 1 else "both"
        if attention and self.core.get("estimates", "both") != trained:
            raise ValueError(f"alpha = {self.alpha:g} trains {trained}: say estimates: {trained} in the core")
        if self.recompute and not attention:
            raise ValueError(f"recompute belongs to the attention core, this core is {kind}")
        if not (self.context_queries or self.fresh or (self.second and self.loss == "mse")):
            raise ValueError("no queries that this loss can use: set context_queries, fresh, or loss: mse")
        if self.balance and self.loss == "mse":
            raise ValueError("balance weighs relative errors: leave it out with loss: mse")
        return self

    @property
    def validations(self) -> list[dict[str, Any]]:
        """The priors that reports use, as a list."""
        return self.validation if isinstance(self.validation, list) else [self.validation]


def load_recipe(path: str | Path, changes: Sequence[str] = ()) -> Recipe:
    """Read a recipe from a YAML file, or of the package by its name, with changes.

    Changes are such as "sizes=[64, 64]" or "core.layers=2".

    >>> load_recipe("attention-d2").core["kind"]
    'attention'
    """
    require("yaml", "train", "reading a recipe")
    import yaml

    try:
        values = yaml.safe_load(find_recipe(path).read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise DataError(f"{path} is not valid YAML: {' '.join(str(error).split())}") from None
    if not isinstance(values, dict):
        raise DataError(f"{path} is not a recipe: expected `key: value` lines")
    for change in changes:
        _change(values, change, yaml)
    try:
        return Recipe(**{str(key): value for key, value in values.items()})
    except DataError as error:
        raise DataError(f"{path}: {error}") from None


def _change(values: dict[Any, Any], change: str, yaml: ModuleType) -> None:
    """Set one value of a recipe, in place."""
    place, equals, text = change.partition("=")
    *outer, key = place.strip().split(".")
    inner: Any = values
    for part in outer:
        inner = inner.get(part) if isinstance(inner, dict) else None
    if not equals or not isinstance(inner, dict):
        raise DataError(
            f"{change!r} changes nothing: write KEY=VALUE, for example sizes=[64,64] or core.layers=2"
        )
    try:
        inner[key] = yaml.safe_load(text)
    except yaml.YAMLError:
        raise DataError(f"{change!r}: {text!r} is not a value as in YAML") from None


def _explain(problem: Any) -> str:
    """What pydantic found wrong, in words that say what to do."""
    key, kind = ".".join(map(str, problem["loc"])), problem["type"]
    if kind == "missing":
        return f"{key} is missing"
    if kind == "extra_forbidden":
        return f"unknown key {key}, known are {', '.join(sorted(Recipe.model_fields))}"
    message = _HINTS.get(kind, problem["msg"].removeprefix("Value error, ").removeprefix("Input "))
    return f"{key} = {problem['input']!r}: {message}" if key else message
