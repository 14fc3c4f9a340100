"""Files written in one move: the old one stays until the new one is complete."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from discoformer.core.checks import DataError

__all__ = ["check_folder", "replacing"]


def check_folder(path: Path) -> None:
    """Raise `DataError` unless a file can be put at ``path``."""
    if path.is_dir():
        raise DataError(f"{path}: a folder, not a file")
    if not path.resolve().parent.is_dir():
        raise DataError(f"{path}: its folder does not exist, create it first")


@contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    """A temporary path in the same folder that becomes ``path`` when the block ends without an error.

    The permissions of an existing file stay.  A failure of the file system is a `DataError` that
    names ``path``.
    """
    target = Path(path).resolve()  # a symbolic link stays one
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        yield temporary
        if target.exists():
            temporary.chmod(target.stat().st_mode & 0o7777)
        temporary.replace(target)
    except OSError as error:
        raise DataError(f"{path}: cannot be written: {error.strerror or error}") from error
    finally:
        temporary.unlink(missing_ok=True)
