"""The training recipes of the package: `configs/` in a checkout, `discoformer/recipes` in a wheel."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

from discoformer.core.checks import DataError

__all__ = ["find_recipe", "list_recipes"]


def list_recipes() -> dict[str, Path]:
    """The recipes of the package by name.

    >>> "default" in list_recipes()
    True
    """
    package = Path(str(resources.files("discoformer")))
    shipped = package / "recipes"
    folder = shipped if shipped.is_dir() else package.parents[1] / "configs"
    return {path.stem: path for path in sorted(folder.glob("*.yaml"))}


def find_recipe(path: str | Path) -> Path:
    """The file itself if it is there, or the recipe of the package with its name.

    >>> find_recipe("default").name
    'default.yaml'
    """
    file = Path(path)
    if file.is_file():
        return file
    shipped = list_recipes()
    if file.stem not in shipped or file.suffix not in ("", ".yaml"):
        raise DataError(f"no recipe at {path}: give a file, or a name of `discoformer recipes`")
    return shipped[file.stem]
