"""Files written in one move: the old one stays until the new one is complete."""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from discoformer.core.checks import DataError

try:
    import fcntl
except ImportError:  # not a Unix: two runs in one folder are not noticed there
    fcntl = None  # type: ignore[assignment]

__all__ = ["check_folder", "locked", "replacing"]

_PREFIX = ".discoformer-"


def check_folder(path: Path) -> None:
    """Raise `DataError` unless a file can be put at ``path``."""
    target = _target(path)
    if target.is_dir():
        raise DataError(f"{path}: a folder, not a file")
    if not target.parent.is_dir():
        raise DataError(f"{path}: its folder does not exist, create it first")
    if target.exists() and not stat.S_ISREG(target.stat().st_mode):
        raise DataError(f"{path}: a device or a pipe, not a file that can be replaced")


@contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    """A temporary path that becomes ``path`` when the block ends without an error.

    It is in a new folder beside ``path`` that nobody else can write to, so no link planted there is
    followed.  If there are several writers, the last one wins.  The permissions of an existing file stay.
    Folders of processes that were killed are cleared away.  A failure of the file system is a `DataError`
    that names ``path``.

    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with replacing(Path(folder, "answer")) as temporary:
    ...         _ = temporary.write_text("42")
    ...     Path(folder, "answer").read_text(), os.listdir(folder)
    ('42', ['answer'])
    """
    target = _target(Path(path))
    check_folder(Path(path))
    folder = None
    try:
        _clear_away(target.parent)
        folder = Path(tempfile.mkdtemp(".tmp", f"{_PREFIX}{_host()}-{os.getpid()}-", target.parent))
        temporary = folder / "new"
        yield temporary
        if target.exists():
            temporary.chmod(stat.S_IMODE(target.stat().st_mode))
        _sync(temporary)
        temporary.replace(target)
        _sync(target.parent)
    except OSError as error:
        raise DataError(f"{path}: cannot be written: {error.strerror or error}") from error
    finally:
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold a file as long as the block runs; `DataError` if another process does, or it cannot be made.

    The lock is released when the process ends, however it ends.
    """
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o666)
    except OSError as error:
        raise DataError(f"{path}: cannot be written: {error.strerror}") from None
    try:
        _lock(handle, path)
        yield
    finally:
        os.close(handle)


def _lock(handle: int, path: Path) -> None:
    if fcntl is None:
        return
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise DataError(f"{path.parent} is in use by another process: wait for it, or end it") from None
    except OSError as error:  # some network folders know no locks
        raise DataError(f"{path}: cannot be locked: {error.strerror}") from None


def _target(path: Path) -> Path:
    """Where the file is: a symbolic link stays one."""
    with suppress(OSError, RuntimeError):
        target = path.resolve()
        if not target.is_symlink():
            return target
    raise DataError(f"{path}: a link that leads back to itself: remove it")


def _sync(path: Path) -> None:
    """Wait until a file or folder is on the disk, where the system allows it."""
    with suppress(OSError):
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _host() -> str:
    """Where process numbers mean the same: a machine, or a container on it."""
    space = Path("/proc/self/ns/pid")
    inode = space.stat().st_ino if space.exists() else 0
    return hashlib.sha256(f"{platform.node()} {inode}".encode()).hexdigest()[:8]


def _clear_away(folder: Path) -> None:
    """Remove what dead processes left behind in a folder."""
    ours = f"{_PREFIX}{_host()}-"
    for entry in os.scandir(folder):
        process = entry.name.removeprefix(ours).split("-")[0]
        stale = entry.name.startswith(ours) and entry.name.endswith(".tmp") and process.isdigit()
        if stale and entry.is_dir(follow_symlinks=False) and not _runs(int(process)):
            shutil.rmtree(entry.path, ignore_errors=True)


def _runs(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True  # someone else's, or not to be told
    return True
