"""How Sphinx builds the documentation; `make docs` calls it."""

import os
import sys
from pathlib import Path

import discoformer

sys.path.append(str(Path(__file__).parent / "_ext"))

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
    "docstrings",  # _ext/docstrings.py
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
    "ignore_pattern": "quickstart|own_prior",  # what `make run` runs, and what trains for minutes
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
    "secondary_sidebar_items": ["page-toc"],
}
html_sidebars = {"index": [], "changelog": [], "contributing": []}
