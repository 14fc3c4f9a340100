"""Bytes of a file, unpacked if it is compressed: gzip, bzip2, xz, zstandard, zip with one member."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import sys
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from discoformer.core.checks import DataError, one_line
from discoformer.core.extras import require
from discoformer.data.limits import EXPANDED_MOST, check_expanded

__all__ = ["PACKED", "Content", "check_zip", "open_content"]

PACKED = (".gz", ".bz2", ".xz", ".zst", ".zip")
_MAGIC = {
    b"\x1f\x8b": ".gz",
    b"BZh": ".bz2",
    b"\xfd7zXZ\x00": ".xz",
    b"\x28\xb5\x2f\xfd": ".zst",
    b"PK\x03\x04": ".zip",
}
_STEP = 2**20
_SHEETS = ("[Content_Types].xml", "mimetype")  # what workbooks, which are zip files too, begin with


@dataclass(frozen=True)
class Content:
    """A file that can be opened more than once.

    Attributes
    ----------
    label : for messages
    suffix : of the format, without that of the compression
    path : of a file that is not compressed, else None
    data : bytes in memory, where there is no such file
    packing : suffix of the compression, if there was one
    """

    label: str
    suffix: str
    path: Path | None = None
    data: bytes = b""
    packing: str = ""

    def open(self) -> IO[bytes]:
        """The bytes from the start."""
        return io.BytesIO(self.data) if self.path is None else self.path.open("rb")

    @property
    def size(self) -> int:
        """Number of bytes."""
        return len(self.data) if self.path is None else self.path.stat().st_size

    def head(self, count: int) -> bytes:
        """The first bytes."""
        with self.open() as file:
            return file.read(count)


def open_content(path: str | Path) -> Content:
    """The content of a file, or of standard input (``-``), unpacked.

    The bytes count more than the suffix: a gzip file called .csv is unpacked all the same.
    """
    if str(path) == "-":
        data = sys.stdin.buffer.read(EXPANDED_MOST + 1)
        check_expanded("standard input", len(data), len(data))
        return _unpack(Content("standard input", "", data=data))
    path = Path(path)
    if not path.exists():
        raise DataError(f"{path}: no such file")
    if path.is_dir():
        raise DataError(f"{path}: a folder, not a file")
    content = Content(str(path), path.suffix.lower(), path)
    if content.size == 0:
        raise DataError(f"{path}: the file is empty")
    return _unpack(content)


def _unpack(content: Content) -> Content:
    if not content.size:
        raise DataError(f"{content.label}: the file is empty")
    head = content.head(64)
    packing = next((name for magic, name in _MAGIC.items() if head.startswith(magic)), "")
    if not packing:
        if content.suffix in PACKED:
            raise DataError(f"{content.label}: is not a {content.suffix[1:]} file, give it the right suffix")
        return content
    inner = content.suffix
    if inner == packing:
        inner = Path(Path(content.label).stem).suffix.lower()
    with one_line(f"{content.label}: broken {packing[1:]} file, fetch or pack it again"):
        if packing == ".zip":
            return _unzip(content, inner)
        data = _expand(content, packing)
    if not data:
        raise DataError(f"{content.label}: the file is empty")
    return Content(content.label, inner, data=data, packing=packing)


def _expand(content: Content, packing: str) -> bytes:
    """All bytes, piece by piece, so that a file that grows beyond reason is left early."""
    openers: dict[str, Callable[[Any], Any]] = {
        ".gz": lambda file: gzip.GzipFile(fileobj=file),
        ".bz2": bz2.BZ2File,
        ".xz": lzma.LZMAFile,
        ".zst": _open_zst,
    }
    pieces, expanded = [], 0
    with content.open() as packed, openers[packing](packed) as file:
        while piece := file.read(_STEP):
            pieces.append(piece)
            expanded += len(piece)
            check_expanded(content.label, content.size, expanded)
    return b"".join(pieces)


def _open_zst(file: Any) -> Any:
    require("pyarrow", "cli", "reading .zst")
    import pyarrow as pa

    return pa.CompressedInputStream(pa.PythonFile(file, mode="r"), "zstd")


def _unzip(content: Content, inner: str) -> Content:
    """The one file of an archive; workbooks and npz files are zip files themselves and stay as they are."""
    with content.open() as packed, zipfile.ZipFile(packed) as archive:
        members = [member for member in archive.infolist() if not member.is_dir()]
        names = [member.filename for member in members]
        if inner in (".xlsx", ".ods", ".npz") or any(name in _SHEETS for name in names):
            return content
        if not content.suffix and all(name.endswith(".npy") for name in names):
            return content
        tables = [member for member in members if not member.filename.startswith("__MACOSX/")]
        if len(tables) != 1:
            raise DataError(
                f"{content.label}: has {len(tables)} files in it: unpack it and name the one to read"
            )
        member = tables[0]
        if member.flag_bits & 1:
            raise DataError(f"{content.label}: is locked with a password, unpack it first")
        check_expanded(content.label, content.size, member.file_size)
        return Content(
            content.label, Path(member.filename).suffix.lower(), data=archive.read(member), packing=".zip"
        )


def check_zip(content: Content) -> None:
    """Raise `DataError` if what is in a workbook or an npz file grows beyond reason."""
    with (
        one_line(f"{content.label}: not a {content.suffix[1:]} file, or a broken one"),
        content.open() as packed,
        zipfile.ZipFile(packed) as archive,
    ):
        check_expanded(content.label, content.size, sum(member.file_size for member in archive.infolist()))
