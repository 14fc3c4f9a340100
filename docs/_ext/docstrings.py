"""From the docstrings of the house to those that numpydoc reads.

Ours are made to be read in the source: a parameter and what it is in one line, formulas such as |s|^2, an
example at the end without a heading.
"""

import re
from typing import Any

from sphinx.application import Sphinx

_LISTS = ("Parameters", "Attributes", "Returns")
_ENTRY = re.compile(r"(\w[\w, *]*) : (.+)")


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("autodoc-process-docstring", _rewrite, priority=400)  # before numpydoc
    app.connect("autodoc-skip-member", _skip_foreign)
    return {"parallel_read_safe": True}


def _rewrite(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    lines[:] = rewrite(lines)


def rewrite(lines: list[str]) -> list[str]:
    """The same docstring as numpydoc wants it.

    >>> rewrite(["Parameters", "----------", "x : with |x| > 0"])
    ['Parameters', '----------', 'x', '    with \\\\|x\\\\| > 0']
    >>> rewrite(["Returns", "-------", "y", "", ">>> 1 | 2"])[3:]
    ['', 'Examples', '--------', '>>> 1 | 2']
    """
    result: list[str] = []
    section, example = "", False
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        if re.fullmatch(r"-{3,}", line):
            section = result[-1]
        begins = line.lstrip().startswith(">>>")
        if begins and not example and section and section != "Examples":
            result += ["Examples", "--------"]
            section = "Examples"
        example = bool(line.strip()) and (example or begins)
        if example:
            result.append(line)
            continue
        line = _escape(line)
        entry = _ENTRY.fullmatch(line) if section in _LISTS else None
        if entry and not _is_type(entry[2], following):
            result += [entry[1], f"    {entry[2]}"]
        else:
            result.append(line)
    return result


def _escape(line: str) -> str:
    """Bars, and stars before names, are no markup; what is in double backticks stays."""
    parts = re.split(r"(``.*?``)", line)
    parts[::2] = [re.sub(r"\||(?<=\()\*(?=\w)", r"\\\g<0>", part) for part in parts[::2]]
    return "".join(parts)


def _is_type(text: str, following: str) -> bool:
    """Whether a description follows, in sentences of its own: then the text is a type."""
    return len(text) < 60 and following.startswith("    ") and following.strip()[:1].isupper()


def _skip_foreign(app: Sphinx, what: str, name: str, obj: Any, skip: bool, options: Any) -> bool | None:
    """Members that come from torch, scikit-learn or pydantic are documented there."""
    home = getattr(obj, "__module__", None) or "discoformer"
    return None if home.startswith("discoformer") else True
