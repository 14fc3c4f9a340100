"""Picture files: which names are valid, and how they are written."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from discoformer.core.atomic_files import check_folder, replacing
from discoformer.core.checks import DataError
from discoformer.core.extras import require

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["check_picture", "save_picture"]

_SUFFIXES = (".png", ".pdf", ".svg")


def check_picture(path: str | Path) -> str:
    """Format of a picture that can be written to ``path``; call it before the work, not after.

    >>> check_picture("density.png")
    'png'
    """
    path = Path(path)
    suffix = path.suffix.lower()
    if suffix not in _SUFFIXES:
        raise DataError(f"{path}: pictures end in {', '.join(_SUFFIXES[:-1])} or {_SUFFIXES[-1]}")
    require("matplotlib", "plot", "drawing")
    check_folder(path)
    return suffix[1:]


def save_picture(figure: Figure, path: str | Path) -> None:
    """Write a figure; an existing picture is replaced whole or not at all."""
    picture = check_picture(path)
    with replacing(path) as temporary:
        figure.savefig(temporary, format=picture)
