"""Weights with their cards: save, check and load networks.

A weights file is safetensors whose header carries everything needed to rebuild and judge the network:
core and frame, the prior it was trained on, its range of dimensions and sizes, and the record of the run.
`weights/registry.json` lists the shipped files with their SHA-256.  Another distribution adds a folder of
the same kind through the entry point group ``discoformer.weights``.  Nothing is ever unpickled.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import warnings
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from importlib import resources
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from discoformer.core.atomic_files import replacing
from discoformer.core.checks import DataError, one_line, printable, show_cell
from discoformer.core.frames import FRAMES
from discoformer.core.tensor_files import read_metadata, read_tensors, tensor_shapes, write_tensors
from discoformer.models.attention.core import AttentionConfig, AttentionCore
from discoformer.models.attention.network import AttentionNetwork
from discoformer.models.mixture.unified import UnifiedConfig, UnifiedCore
from discoformer.models.mixture.unified_network import UnifiedNetwork
from discoformer.models.mixture.views import Views
from discoformer.models.network import Network

__all__ = [
    "Card",
    "build_network",
    "is_shipped",
    "list_models",
    "load_model",
    "load_network",
    "read_card",
    "register",
    "save_model",
    "shipped_card",
    "weights_checksum",
    "write_card",
]

_FORMAT = "discoformer-1"
_LIST = "registry.json"


@dataclass(frozen=True)
class Card:
    """The description in a weights file.

    Attributes
    ----------
    core : keyword values of the core, with its ``kind``
    frame : name of the frame
    prior : name and all ranges of the training prior (`Prior.describe`)
    dims, sizes : smallest and largest dimension and context size in training
    record : the run: recipe, steps, minutes, seeds
    """

    core: dict[str, Any]
    frame: str
    prior: dict[str, Any] = field(default_factory=dict)
    dims: tuple[int, int] = (1, 1)
    sizes: tuple[int, int] = (2, 2)
    record: dict[str, Any] = field(default_factory=dict)


def build_network(core: dict[str, Any], frame: str) -> Network:
    """A network with random weights from its description.

    >>> build_network({"kind": "attention", "dim": 2, "layers": 2}, "whiten").core.config.layers
    2
    """
    values = dict(core)
    kind = values.pop("kind", None)
    if frame not in FRAMES:
        raise DataError(f"unknown frame {frame!r}: choose one of {', '.join(FRAMES)}")
    try:
        return _build(kind, values, frame)
    except (TypeError, RuntimeError) as error:  # the latter if such sizes exceed memory
        raise DataError(f"core {kind!r} cannot be built: {str(error).splitlines()[0]}") from None


def _build(kind: object, values: dict[str, Any], frame: str) -> Network:
    if kind == "attention":
        return AttentionNetwork(AttentionCore(AttentionConfig(**values)), frame)
    if kind == "unified":
        if frame != "whiten":
            raise DataError(f"the unified core works in whitened coordinates: frame {frame!r} must be whiten")
        return UnifiedNetwork(UnifiedCore(UnifiedConfig(**values)))
    raise DataError(f"unknown core {kind!r}: choose unified or attention")


def save_model(network: Network, card: Card, path: str | Path) -> None:
    """Write weights and card, in float32, whole or not at all.

    The card records all that determines the answers: every value of the core, defaults included.
    """
    card = replace(card, core={"kind": card.core["kind"], **asdict(network.core.config)})
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    tensors = {k: v.detach().to(torch.float32) for k, v in network.core.state_dict().items()}
    _write(tensors, card, path)


def write_card(card: Card, path: str | Path) -> None:
    """Give a weights file another card; its tensors stay as they are (for maintainers)."""
    read_card(path)
    _write(read_tensors(path), card, path)


def _write(tensors: dict[str, Tensor], card: Card, path: str | Path) -> None:
    write_tensors(path, tensors, {"format": _FORMAT, "card": json.dumps(asdict(card))})


def read_card(path: str | Path) -> Card:
    """The card in a weights file's header."""
    metadata = read_metadata(path)
    if metadata.get("format") != _FORMAT:
        raise DataError(f"{path} was not written by discoformer (format {show_cell(metadata.get('format'))})")
    try:
        values = json.loads(metadata["card"])
        values["dims"], values["sizes"] = _range(values["dims"]), _range(values["sizes"])
        card = Card(**values)
        for key, kind in (("core", dict), ("frame", str), ("prior", dict), ("record", dict)):
            if not isinstance(getattr(card, key), kind):
                raise TypeError(f"{key} is not a {kind.__name__}")
        return card
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise DataError(f"{path} has a damaged card: {printable(repr(error), 200)}") from None


def _range(pair: list[int]) -> tuple[int, int]:
    low, high = pair
    if not (type(low) is type(high) is int and 1 <= low <= high):
        raise ValueError(f"{pair} is not a range of numbers of columns or rows")
    return low, high


def load_model(
    name: str | Path = "default",
    dtype: torch.dtype = torch.float64,
    *,
    device: str | torch.device | None = None,
    trainable: bool = False,
) -> AttentionNetwork | Views:
    """Load a shipped model by name, or weights by path, ready for inference.

    An attention network is a `Network`.  A mixture network comes as `Views`, which looks several times;
    its attribute ``network`` is the network alone.

    Parameters
    ----------
    name : a name of `list_models`, "default", or a path to a safetensors file
    dtype : floating type of weights and arithmetic; double precision unless asked otherwise
    device : where the weights live; samples and queries have to be there, too
    trainable : whether the weights require gradients; a loaded network is frozen otherwise.
        `discoformer.training.finetune` trains a copy for you.

    Examples
    --------
    >>> model = load_model("default")
    >>> model.network.frame_name, model.dtype
    ('whiten', torch.float64)
    """
    network = load_network(name, dtype).requires_grad_(trainable)
    try:
        network = network if device is None else network.to(device)
    except (RuntimeError, AssertionError) as error:  # the latter if torch was built without it
        raise DataError(f"device {str(device)!r} cannot be used: {str(error).splitlines()[0]}") from None
    if isinstance(network, UnifiedNetwork):
        return Views(network)
    assert isinstance(network, AttentionNetwork)
    return network


def load_network(name: str | Path, dtype: torch.dtype = torch.float64) -> Network:
    """The network alone, a core in its frame, without the views that `load_model` adds."""
    if dtype not in (torch.float32, torch.float64):  # half precision has no decompositions of matrices
        raise DataError(f"dtype={dtype!r}: give torch.float32 or torch.float64")
    registry = _registry()
    key = str(name)
    entry = registry.get(key)
    if entry is None:
        if not os.path.exists(name):  # False, not an error, for names that no file can have
            shipped = ", ".join(registry)
            raise DataError(f"no model {show_cell(key)}: choose one of {shipped}, or give a path to weights")
        return _load_network(Path(name), dtype)
    return _load_shipped(key, dtype)


def _load_shipped(name: str, dtype: torch.dtype) -> Network:
    path = _path_of(name)
    if not os.path.exists(path):
        raise DataError(f"the weights of {name!r} are missing: reinstall discoformer")
    if hashlib.sha256(path.read_bytes()).hexdigest() != _registry()[name]["sha256"]:
        raise DataError(f"the weights of {name!r} do not match their checksum: reinstall discoformer")
    return _load_network(path, dtype, known=True)


def _path_of(name: str) -> Path:
    entry = _registry()[name]
    file: str = entry["file"]
    if Path(file).name != file or file in ("", ".."):
        raise DataError(f"{entry['folder'] / _LIST}: {show_cell(file)} is not in this folder: reinstall")
    return Path(entry["folder"]) / file


def _load_network(path: Path, dtype: torch.dtype, *, known: bool = False) -> Network:
    """A network from its file; of one whose checksum is known, the card need not be doubted."""
    card = read_card(path)
    if not known:
        shapes = tensor_shapes(path)
        _check_sizes(card.core, shapes, path)
        with torch.device("meta"):  # costs no memory, whatever the card asks for, but a second of imports
            plan = build_network(card.core, card.frame)
            _fill(plan, {key: torch.empty(shape) for key, shape in shapes.items()}, path)
    tensors = read_tensors(path)
    for key, tensor in tensors.items():
        if not tensor.is_floating_point():
            raise DataError(f"{path} is damaged: {key} is not made of finite floating numbers")
    network = build_network(card.core, card.frame)
    _fill(network, tensors, path)
    network.to(dtype)
    return network.eval().requires_grad_(False)


def _fill(network: Network, tensors: dict[str, Tensor], path: Path) -> None:
    """Copy tensors into a network; `DataError` if names or sizes do not match."""
    try:
        network.core.load_state_dict(tensors)
    except RuntimeError as error:
        raise DataError(
            f"{path} does not fit its own header: {str(error).splitlines()[-1].strip()}"
        ) from None


def _check_sizes(core: dict[str, Any], shapes: dict[str, tuple[int, ...]], path: Path) -> None:
    """Raise `DataError`, before anything is built, if a card asks for more than its tensors can hold."""
    most = sum(math.prod(shape) for shape in shapes.values())
    for key, value in core.items():
        # small sizes cost nothing, and later checks say what is wrong with them
        limit = max(len(shapes), 100) if key in ("layers", "loops") else max(most, 10_000)
        if isinstance(value, int | float) and value > limit:
            raise DataError(
                f"{path} does not fit its own header: core {core.get('kind')!r} cannot be built with "
                f"{key} = {show_cell(value)} from {len(shapes)} tensors of {most} numbers"
            )


def list_models() -> dict[str, Card]:
    """Names and cards of the shipped models.

    >>> list_models()["default"].core["kind"]
    'unified'
    """
    return {name: shipped_card(name) for name in _registry()}


def is_shipped(name: str) -> bool:
    """Whether this is a name of `list_models`."""
    return name in _registry()


def shipped_card(name: str) -> Card:
    """The card of a shipped model."""
    return read_card(_path_of(name))


def weights_checksum(name: str) -> str:
    """SHA-256 of the file of a shipped model: what belongs to these weights says so by it."""
    checksum: str = _registry()[name]["sha256"]
    return checksum


def register(name: str, path: str | Path) -> None:
    """Put a weights file into the package under a name, with its checksum (for maintainers).

    The file's name holds a part of its checksum and the list is replaced last, in one move: anyone reading
    at the same time gets either the old weights or the new ones, with the matching checksum.  The file of
    the old weights therefore stays until you remove it.
    """

    if Path(name).name != name:
        raise DataError(f"{show_cell(name)}: a name without folders, please")
    read_card(path)
    data = Path(path).read_bytes()
    digest = hashlib.sha256(data).hexdigest()
    file = f"{name}-{digest[:8]}.safetensors"
    folder = _weights_folder()
    folder.mkdir(exist_ok=True)
    with replacing(folder / _LIST) as listing, replacing(folder / file) as weights:
        weights.write_bytes(data)
        listing.write_text(_listing(name, {"file": file, "sha256": digest}))
    _registry.cache_clear()


def _listing(name: str, entry: dict[str, Any]) -> str:
    """The package's list with one more entry, as text."""
    entries = {**_read_list(_weights_folder()), name: entry}
    return json.dumps(dict(sorted(entries.items())), indent=2) + "\n"


def _weights_folder() -> Path:
    return Path(str(resources.files("discoformer.models"))) / "weights"


def _further_folders() -> list[Path]:
    """Folders of weights in other distributions; a broken one is left out with a warning."""
    folders = []
    for entry in entry_points(group="discoformer.weights"):
        try:
            folder = Path(entry.load())
            _read_list(folder)
        except Exception as error:  # whatever their code raises
            said = printable(str(error), 200) or type(error).__name__
            warnings.warn(f"weights of {show_cell(entry.value)} are left out: {said}", stacklevel=2)
        else:
            folders.append(folder)
    return folders


@cache
def _registry() -> dict[str, dict[str, Any]]:
    """All entries by name, each with its folder; no other distribution can take a name of the package."""
    entries = {
        name: {**entry, "folder": folder}
        for folder in (*_further_folders(), _weights_folder())
        for name, entry in _read_list(folder).items()
    }
    return dict(sorted(entries.items()))


def _read_list(folder: Path) -> dict[str, dict[str, Any]]:
    path = folder / _LIST
    if not path.exists():
        return {}
    with one_line(f"{path}: damaged: reinstall the package that it is in"):
        entries: dict[str, dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))
        for entry in entries.values():
            if not isinstance(entry["file"], str) or not isinstance(entry["sha256"], str):
                raise TypeError("not a file and its checksum")
    return entries
