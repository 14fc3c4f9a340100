"""The page itself: filled-in templates, with style and scripts inside.

The files in `js/` are ordinary ES modules that import each other by name.  A page that is one file cannot
import, so `bundle` writes them one after another, each after what it imports, without import lines and
export keywords.  All names then share one scope, so no two files may declare the same name at their top
level; a test checks this.
"""

from __future__ import annotations

import json
import math
import re
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from discoformer.views.page.headline import Moment, Name, calibrated, cell, suggested

__all__ = ["bundle", "number_text", "read_asset", "render_page", "script_json"]

_STYLES = ("base.css", "explorer.css", "report.css")
_IMPORT = re.compile(r'^import \{[^}]*\} from "\./([\w-]+\.js)";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (?!default\b)", re.MULTILINE)


def render_page(**values: Any) -> str:
    """The report as HTML.  ``data`` goes into a script tag; the template escapes everything else."""
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    environment = Environment(
        loader=PackageLoader("discoformer.views.page"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    environment.filters.update(number=_number, words=_words)
    environment.globals.update(cell=cell, calibrated=calibrated, suggested=suggested)
    style = "\n".join(read_asset(f"css/{name}") for name in _STYLES)
    return (
        environment.get_template("report.html.j2").render(
            style=Markup(style),
            script=Markup(bundle("page.js")),
            live=values["data"]["density"] is not None,
            data=Markup(script_json(values.pop("data"))),
            **values,
        )
        + "\n"
    )


def script_json(data: Any) -> str:
    """JSON that may stand inside a script tag: no text in it can end the tag or open a comment.

    >>> print(script_json(["</script><!--", 1.5]))
    ["\\u003c/script\\u003e\\u003c!--",1.5]
    """
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    for letter in "<>&\u2028\u2029":
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    return text


def number_text(value: float) -> str:
    """A number for people to read: four digits, or a whole number in full.

    >>> [number_text(x) for x in (4380000.0, 2014, 19301.99, 0.0123456, 1.5e-7, 2.5e16)]
    ['4,380,000', '2014', '19,302', '0.01235', '1.5e-07', '2.5e+16']
    """
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    size = abs(value)
    if value == round(value) and size < 1e12:
        return f"{value:,.0f}" if size >= 10_000 else f"{value:.0f}"
    if size >= 1e12 or size < 1e-4:
        return f"{value:.4g}"
    decimals = max(0, 3 - math.floor(math.log10(size)))
    text = f"{value:,.{decimals}f}" if size >= 10_000 else f"{value:.{decimals}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _number(value: float) -> Any:
    """A number that the page can rewrite in the reader's format."""
    from markupsafe import Markup

    return Markup('<data value="{}">{}</data>').format(repr(float(value)), number_text(value))


def _words(pieces: Any) -> Any:
    """A sentence of `headline`: numbers and names marked, everything escaped."""
    from markupsafe import Markup, escape

    def piece(part: Any) -> Any:
        if isinstance(part, Name):
            return Markup('<b class="name">{}</b>').format(str(part))
        if isinstance(part, Moment):
            return Markup('<time datetime="{0}">{0}</time>').format(str(part))
        return escape(part) if isinstance(part, str) else _number(part)

    return Markup("").join(map(piece, pieces))


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
