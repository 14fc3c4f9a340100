"""What a user installs: the wheel is complete and importing it is light."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import discoformer
from discoformer import baselines

ROOT = Path(__file__).parent.parent


def test_every_exported_name_is_there() -> None:
    for package in (discoformer, baselines):
        for name in package.__all__:
            assert getattr(package, name) is not None
        with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
            package.nonsense  # noqa: B018


def test_import_leaves_the_heavy_packages_alone() -> None:
    heavy = {"matplotlib", "pandas", "sklearn"}
    code = f"import sys, discoformer; discoformer.KDE; print({heavy} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


def test_wheel_ships_types_and_weights(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = tmp_path.glob(f"discoformer-{discoformer.__version__}-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        shipped = set(archive.namelist())
    package = ROOT / "src" / "discoformer"
    weights = package / "models" / "weights"
    networks = list(weights.glob("*.safetensors"))
    assert networks
    wanted = [*package.rglob("*.py"), package / "py.typed", weights / "registry.json", *networks]
    assert {str(path.relative_to(package.parent)) for path in wanted} <= shipped
