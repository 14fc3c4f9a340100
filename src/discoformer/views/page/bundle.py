"""The JavaScript of the page as one module: no build step, no network, no loader.

The files in `js/` are ordinary ES modules that import each other by name.  A page that is one file cannot
import, so `bundle` writes them one after another, each after what it imports, without import lines and
export keywords.  All names then share one scope, so no two files may declare the same name at their top
level; a test checks this.
"""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files
from pathlib import Path

__all__ = ["bundle", "read_asset"]

_IMPORT = re.compile(r'^import \{[^}]*\} from "\./([\w-]+\.js)";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (?!default\b)", re.MULTILINE)


@cache
def bundle(*entries: str, beside: Path | None = None) -> str:
    """One module from some files of `js/` and everything they import; an ``export default`` stays.

    Files are looked for in the folder ``beside`` first, so that other pages can build on the same scripts.

    >>> "import" in bundle("special.js"), bundle("density.js").count("function lgamma(")
    (False, 1)
    """
    done: dict[str, str] = {}

    def add(name: str) -> None:
        if name in done:
            return
        done[name] = ""  # imports may be circular: functions look up names only when called
        own = beside is not None and (beside / name).exists()
        text = (beside / name).read_text(encoding="utf-8") if own and beside else read_asset(f"js/{name}")
        for needed in _IMPORT.findall(text):
            add(needed)
        del done[name]
        done[name] = _EXPORT.sub("", _IMPORT.sub("", text))

    for entry in entries:
        add(entry)
    return "\n".join(done.values())


def read_asset(name: str) -> str:
    """The text of a file beside this one."""
    return (files(__package__) / name).read_text(encoding="utf-8")
