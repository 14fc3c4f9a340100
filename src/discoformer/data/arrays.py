"""Tables in npy and npz files."""

from __future__ import annotations

import zipfile
from typing import IO, TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from discoformer.core.checks import DataError, one_line, show_cell
from discoformer.core.extras import require
from discoformer.data.limits import check_size
from discoformer.data.packed import Content, check_zip
from discoformer.data.table import How, RawTable, generated_names

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["read_array", "read_npy", "read_npz"]


def read_npy(content: Content) -> RawTable:
    """An array (n, d) of numbers, a vector (n,) as one column, or an array of records."""
    array = read_array(content)
    if array.dtype.names:
        return RawTable(_frame(array), How(content.label, "npy", len(array), len(array.dtype.names)))
    frame = _frame(array, generated_names(array.shape[1]))
    return RawTable(frame, How(content.label, "npy", len(array), array.shape[1], header="none"), named=False)


def read_array(content: Content) -> NDArray[Any]:
    """The array of an npy file as (n, d), or as records (n,)."""
    with content.open() as file:
        return _load(file, content.size, content.label)


def _load(file: IO[bytes], size: int, label: str) -> NDArray[Any]:
    """An array, after a look at what its header claims: no more than the file can hold."""
    with one_line(f"{label}: not an npy file of numbers"):
        version = np.lib.format.read_magic(file)
        read = (
            np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        )
        shape, _, dtype = read(file)
    if dtype.names is None and dtype.kind not in "biuf":
        raise DataError(f"{label}: not an npy file of real numbers")
    if len(shape) not in ((1,) if dtype.names else (1, 2)):
        raise DataError(f"{label}: has shape {shape}, expected (rows, columns)")
    check_size(label, shape[0], shape[1] if len(shape) == 2 else 1)
    if min(shape) < 0 or int(np.prod(shape, dtype=object)) * dtype.itemsize > size:
        raise DataError(
            f"{label}: broken, its header claims shape {shape} but it has {size} bytes: save it again"
        )
    file.seek(0)
    with one_line(f"{label}: not an npy file of numbers"):
        array: NDArray[Any] = np.load(file, allow_pickle=False)
    return array[:, None] if array.ndim == 1 and not dtype.names else array


def read_npz(content: Content) -> RawTable:
    """An archive of one array (n, d), or of columns (n,) by their names."""
    check_zip(content)
    arrays: dict[str, NDArray[Any]] = {}
    broken = one_line(f"{content.label}: not a npz file, or a broken one")
    with broken, content.open() as packed, zipfile.ZipFile(packed) as archive:
        for member in archive.infolist():
            name = member.filename.removesuffix(".npy")
            with archive.open(member) as file:
                arrays[name] = _load(file, member.file_size, f"{content.label}, array {show_cell(name)}")
    if not arrays:
        raise DataError(f"{content.label}: has no array in it")
    if len(arrays) == 1:
        (array,) = arrays.values()
        names = tuple(arrays) if array.shape[-1] == 1 else generated_names(array.shape[1])
        named = array.shape[-1] == 1
        how = How(content.label, "npz", len(array), array.shape[1], header="" if named else "none")
        return RawTable(_frame(array, names), how, named)
    shapes = {name: array.shape for name, array in arrays.items()}
    rows = next(iter(shapes.values()))[0]
    if any(shape != (rows, 1) for shape in shapes.values()):
        raise DataError(
            f"{content.label}: has {len(arrays)} arrays that are not columns of one length: "
            "save one array (n, d), or a vector by name for every column"
        )
    require("pandas", "cli", "reading .npz")
    import pandas as pd

    check_size(content.label, rows, len(arrays))
    frame = pd.DataFrame({name: array[:, 0] for name, array in arrays.items()})
    return RawTable(frame, How(content.label, "npz", *frame.shape))


def _frame(array: NDArray[Any], names: tuple[str, ...] | None = None) -> pd.DataFrame:
    require("pandas", "cli", "reading arrays as tables")
    import pandas as pd

    return pd.DataFrame(array, columns=None if names is None else list(names))
