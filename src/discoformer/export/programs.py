"""Fitted samples and networks as files that other programs run: `torch.export` (.pt2) and ONNX (.onnx).

`export_read` writes the fitted density of a sample: queries (m, d) go in, log density (m,) and score (m, d)
come out, for any m.  `export_network` writes a whole attention network: context (n, d) and queries (m, d) go
in, for any n and m.  A file holds plain tensor operations and does not need this package.  It does not check
its input: what this package would refuse gives NaN there.
"""

from __future__ import annotations

import io
import json
import logging
import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram

from discoformer.core.atomic_files import check_folder, replacing
from discoformer.core.checks import DataError, check_points
from discoformer.core.extras import require
from discoformer.core.fields import Estimate, Field, as_point_density
from discoformer.core.private import FUSED_ATTENTION
from discoformer.core.transforms import SupportWarning
from discoformer.export.readout import NetworkReadout, make_readout
from discoformer.models.attention.core import AttentionCore
from discoformer.models.network import Network

__all__ = ["FORMATS", "check_export", "export_network", "export_read", "run_exported"]

FORMATS = (".onnx", ".pt2")
_OUTPUTS = ("log_density", "score")
# How far a file's answer may be from ours, relative to our largest, before the file is refused.
_TOLERANCE = {torch.float64: 1e-6, torch.float32: 1e-3}  # tables of margins are good to 1e-7


def check_export(path: str | Path) -> str:
    """Suffix of a file to be written, if it can be; call this before the work, not after.

    >>> check_export("model.bin")
    Traceback (most recent call last):
        ...
    discoformer.DataError: model.bin: unknown format '.bin', use .onnx or .pt2
    """
    path = Path(path)
    suffix = path.suffix.lower()
    if suffix not in FORMATS:
        raise DataError(f"{path}: unknown format {suffix!r}, use {' or '.join(FORMATS)}")
    check_folder(path)
    if suffix == ".onnx":
        for package in ("onnx", "onnxscript", "onnxruntime"):
            require(package, "export", "writing and checking .onnx")
    return suffix


def export_read(
    field: Field,
    path: str | Path,
    *,
    dtype: torch.dtype = torch.float64,
    columns: Sequence[str] = (),
    probe: Any = None,
) -> None:
    """Write the field of a fitted sample: queries (m, d) to ``log_density`` (m,) and ``score`` (m, d).

    Parameters
    ----------
    field : fitted by a network, with or without bounds and left-out columns; one sample, not a batch
    path : ends in .onnx or .pt2
    dtype : precision of the queries and the answers
    columns : names to store in the file, in the order of the queries' columns
    probe : points (m, d) at which the file must give the field's own answer before it replaces an old file

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from discoformer.models.registry import build_network
    >>> network = build_network({"kind": "unified", "layers": 1, "slots": 4}, "whiten").double()
    >>> sample = torch.randn(50, 2, dtype=torch.float64)
    >>> with TemporaryDirectory() as folder, torch.no_grad():
    ...     export_read(network.fit(sample), f"{folder}/sample.pt2", probe=sample)
    ...     log_density, score = run_exported(f"{folder}/sample.pt2", sample[:3])
    >>> log_density.shape, score.shape
    (torch.Size([3]), torch.Size([3, 2]))
    """
    suffix = check_export(path)
    with torch.no_grad():
        module = make_readout(field, dtype)
        example = torch.zeros(3, field.dim, dtype=dtype)
        program = _trace(module, (example,), ({0: Dim("m")},))
    data = _to_bytes(program, suffix, ["queries"], columns)
    if probe is not None:
        queries = check_points(probe, "probe", dim=field.dim).to(dtype)
        density = as_point_density(field)
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore", SupportWarning)  # rounding may break a relation of the columns
            expected = density.estimate(queries.to(torch.float64))
        _compare(_run(data, suffix, (queries,)), expected, dtype)
    _write(data, path)


def export_network(network: Network, path: str | Path) -> None:
    """Write an attention network: context (n, d) and queries (m, d) to ``log_density`` and ``score``.

    The precision is that of the weights.  A mixture network cannot be written this way, because it starts
    with a search among the points.  Fit it, and write the field with `export_read`.
    """
    suffix = check_export(path)
    if not isinstance(network, Network) or not isinstance(network.core, AttentionCore):
        raise DataError("only attention networks take the context as an input: fit, then use export_read")
    if suffix == ".onnx" and network.frame_name == "canonical":
        raise DataError(
            "a canonical frame needs eigenvectors, and .onnx cannot compute them: use .pt2 or export_read"
        )
    dim, dtype = network.core.config.dim, network.dtype
    context = torch.randn(4 * dim + 5, dim, dtype=dtype, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        module = NetworkReadout(network)
        program = _trace(module, (context, context[:3].clone()), ({0: Dim("n")}, {0: Dim("m")}))
    data = _to_bytes(program, suffix, ["context", "queries"])
    _run(data, suffix, (context, context[:3]))
    _write(data, path)


def run_exported(path: str | Path, *inputs: Tensor) -> Estimate[Tensor]:
    """Run a file written by `export_read` or `export_network`; .onnx needs onnxruntime."""
    suffix = check_export(path)
    return _run(Path(path).read_bytes(), suffix, inputs)


def _plain_attention(
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    attn_mask: Tensor | None = None,
    scale: float | None = None,
) -> tuple[Tensor, Tensor]:
    """What the fused CPU kernel computes, in operations that every runtime has."""
    logits = (query * (1 / math.sqrt(query.shape[-1]) if scale is None else scale)) @ keys.mT
    if attn_mask is not None:
        logits = logits + attn_mask
    normalizers = logits.logsumexp(-1)
    return (logits - normalizers.unsqueeze(-1)).exp() @ values, normalizers


def _plain_expm1(x: Tensor) -> Tensor:
    """exp(x) - 1 without losing the digits of a small x; for x <= 0, as in the map of a half-line."""
    half = torch.tanh(x / 2)
    return 2 * half / (1 - half)


_PLAIN: dict[Any, Callable[..., Any]] = {torch.ops.aten.expm1.default: _plain_expm1}
if FUSED_ATTENTION is not None:
    _PLAIN[FUSED_ATTENTION.default] = _plain_attention


def _trace(module: nn.Module, example: tuple[Tensor, ...], sizes: Any) -> ExportedProgram:
    with _quiet():
        program: ExportedProgram = torch.export.export(module.eval(), example, dynamic_shapes=sizes)
        program = program.run_decompositions(_PLAIN)
    return program


def _to_bytes(
    program: ExportedProgram, suffix: str, inputs: Sequence[str], columns: Sequence[str] = ()
) -> bytes:
    names = json.dumps(list(columns))
    if suffix == ".pt2":
        buffer = io.BytesIO()
        torch.export.save(program, buffer, extra_files={"columns": names})
        return buffer.getvalue()
    with _quiet():
        converted = torch.onnx.export(
            program, dynamo=True, verbose=False, input_names=inputs, output_names=_OUTPUTS
        )
    assert converted is not None  # never with dynamo=True
    converted.model.metadata_props["columns"] = names
    return cast(bytes, converted.model_proto.SerializeToString())


def _run(data: bytes, suffix: str, inputs: Sequence[Tensor]) -> Estimate[Tensor]:
    if suffix == ".pt2":
        with _quiet():
            module = torch.export.load(io.BytesIO(data)).module()
        return Estimate(*module(*inputs))
    import onnxruntime

    try:
        session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
    except Exception as error:  # its exceptions have no common base
        if "NOT_IMPLEMENTED" not in str(error):
            raise
        raise DataError("onnxruntime lacks an operator in double precision: export in float32") from error
    names = [wanted.name for wanted in session.get_inputs()]
    feed = {name: tensor.numpy() for name, tensor in zip(names, inputs, strict=True)}
    return Estimate(*map(torch.from_numpy, session.run(list(_OUTPUTS), feed)))


def _compare(answer: Estimate[Tensor], expected: Estimate[Tensor], dtype: torch.dtype) -> None:
    assert expected.log_density is not None  # networks know their density
    within = expected.log_density.isfinite()  # rounding may put a point beyond its bound
    for ours, theirs in zip(expected, answer, strict=True):
        assert ours is not None and theirs is not None
        largest = float((ours - theirs)[within].abs().max() / ours[within].abs().max().clamp_min(1e-300))
        if not largest <= _TOLERANCE[dtype]:
            raise DataError(f"the file's answers are off by {largest:.0e} at the probe: export in float64")


def _write(data: bytes, path: str | Path) -> None:
    with replacing(path) as temporary:
        temporary.write_bytes(data)


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence what does not concern users: a deprecation inside torch, and packages that are not needed."""
    logger = logging.getLogger("torch.onnx._internal.exporter._registration")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*LeafSpec.*", category=FutureWarning)
            yield
    finally:
        logger.setLevel(level)
