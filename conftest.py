"""Modules whose library may not be installed: their examples are left out then."""

from importlib.util import find_spec

collect_ignore = [] if find_spec("skpro") else ["src/discoformer/adapters/skpro.py"]
