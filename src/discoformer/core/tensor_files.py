"""Tensors in safetensors files that can be verified: checksums inside, and finite numbers only.

Nothing is ever unpickled.
"""

from __future__ import annotations

import hashlib
import json
import stat
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from discoformer.core.atomic_files import replacing
from discoformer.core.checks import DataError, printable

__all__ = ["read_metadata", "read_tensors", "tensor_shapes", "write_tensors"]

_CHECKSUM = "tensors-sha256"
_TEXT_CHECKSUM = "metadata-sha256"  # a card decides answers as tensors do


def write_tensors(path: str | Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> None:
    """Write tensors and metadata in one move; numbers that are none are refused, and nothing is written.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_tensors(Path(folder, "a"), {"x": torch.ones(2)}, {"name": "ones"})
    ...     read_tensors(Path(folder, "a"))["x"].tolist(), read_metadata(Path(folder, "a"))["name"]
    ([1.0, 1.0], 'ones')
    """
    own = {key: tensor.detach().cpu().clone().contiguous() for key, tensor in tensors.items()}
    _refuse_lost(path, own, "would hold")
    text = {**metadata, _CHECKSUM: _digest(own)}
    data = save(own, metadata={**text, _TEXT_CHECKSUM: _text_digest(text)})
    with replacing(path) as temporary:
        temporary.write_bytes(data)


def read_tensors(path: str | Path) -> dict[str, Tensor]:
    """The tensors by name; `DataError` where the file is damaged.  Files of old have no checksum."""
    metadata = read_metadata(path)
    with safe_open(path, framework="pt") as file:
        tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
    if metadata.get(_CHECKSUM, (digest := _digest(tensors))) != digest:
        raise DataError(f"{path} is damaged: its tensors do not match their checksum, fetch it again")
    _refuse_lost(path, tensors, "is damaged:")
    return tensors


def read_metadata(path: str | Path) -> dict[str, str]:
    """The text in the header; `DataError` where it is damaged.  Files of old have no checksum of it."""
    try:
        if not stat.S_ISREG(Path(path).stat().st_mode):
            raise DataError(f"{path} is a folder, a device or a pipe, not a safetensors file")
        with safe_open(path, framework="pt") as file:
            metadata = dict(file.metadata() or {})
    except FileNotFoundError:
        raise DataError(f"no weights at {path}") from None
    except (SafetensorError, OSError) as error:
        raise DataError(
            f"{path} is not a safetensors file or is damaged: {printable(str(error), 200)}"
        ) from None
    found = metadata.pop(_TEXT_CHECKSUM, None)
    if found is not None and found != _text_digest(metadata):
        raise DataError(f"{path} is damaged: its header does not match its checksum, fetch it again")
    return metadata


def tensor_shapes(path: str | Path) -> dict[str, tuple[int, ...]]:
    """Sizes of the tensors, from the header alone."""
    with safe_open(path, framework="pt") as file:
        return {key: tuple(file.get_slice(key).get_shape()) for key in file.keys()}  # noqa: SIM118


def _digest(tensors: Mapping[str, Tensor]) -> str:
    digest = hashlib.sha256()
    for key in sorted(tensors):
        tensor = tensors[key].contiguous()
        digest.update(f"{key} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().tobytes() if tensor.numel() else b"")
    return digest.hexdigest()


def _text_digest(metadata: Mapping[str, str]) -> str:
    return hashlib.sha256(json.dumps(metadata, sort_keys=True).encode()).hexdigest()


def _refuse_lost(path: str | Path, tensors: Mapping[str, Tensor], what: str) -> None:
    for key, tensor in tensors.items():
        if tensor.is_floating_point() and not bool(torch.isfinite(tensor.double()).all()):
            raise DataError(f"{path} {what} {key}, which is not made of finite floating numbers")
