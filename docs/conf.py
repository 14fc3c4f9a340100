"""How Sphinx builds the documentation; `make docs` calls it."""

import os
import re
from typing import Any

from sphinx.application import Sphinx

import discoformer

os.environ.setdefault("OMP_NUM_THREADS", "1")  # the gallery: more threads only wait for each other

project = "discoformer"
author = "The discoformer authors"
copyright = author
version = release = discoformer.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.viewcode",
    "numpydoc",
    "myst_nb",  # Markdown and notebooks
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["results/*.unfinished", "gallery/*.ipynb", "gallery/*.py", "gallery/*.zip"]
templates_path = ["_templates"]
default_role = "py:obj"  # `name` in a docstring is a link if it is ours, else plain code

autodoc_typehints = "none"  # the docstrings tell types and shapes
autosummary_imported_members = False
numpydoc_show_class_members = False  # the template of autosummary lists them
numpydoc_class_members_toctree = False

myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 4
nb_execution_mode = "off"  # notebooks are kept executed; a slow test runs them again

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": "/plot_",
    "ignore_pattern": "quickstart",  # what `make run` runs
    "download_all_examples": False,
    "remove_config_comments": True,
    "min_reported_time": 1,
    "reference_url": {"discoformer": None},
    "doc_module": ("discoformer",),
    "backreferences_dir": "gallery/uses",
    "abort_on_example_error": True,
}

html_theme = "pydata_sphinx_theme"
html_title = "discoformer"
html_static_path = ["_static"]
html_css_files = ["look.css"]
html_show_sourcelink = False
html_theme_options = {
    "navbar_align": "left",
    "header_links_before_dropdown": 6,
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "footer_start": ["copyright"],
    "footer_end": ["theme-version"],
    "secondary_sidebar_items": {"results": ["page-toc"], "**": ["page-toc"]},
}
html_sidebars = {"index": [], "changelog": [], "contributing": []}


def setup(app: Sphinx) -> None:
    app.connect("autodoc-process-docstring", escape_formulas, priority=400)  # before numpydoc
    app.connect("autodoc-skip-member", skip_foreign)


def escape_formulas(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Docstrings have formulas such as |s|^2 and shapes such as (*batch, n, d), which are no markup."""
    example = False
    for place, line in enumerate(lines):
        example = bool(line.strip()) and (example or line.lstrip().startswith(">>>"))
        if not example:
            parts = re.split(r"(``.*?``)", line)
            parts[::2] = [re.sub(r"\||(?<=\()\*(?=\w)", r"\\\g<0>", part) for part in parts[::2]]
            lines[place] = "".join(parts)


def skip_foreign(app: Sphinx, what: str, name: str, obj: Any, skip: bool, options: Any) -> bool | None:
    """Members that come from torch, scikit-learn or pydantic are documented there."""
    home = getattr(obj, "__module__", None) or "discoformer"
    return None if home.startswith("discoformer") else True
