"""Tables in json: a list of records, a record per line, or lists by column name."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from discoformer.columns.schema_cells import whole_numbers
from discoformer.core.checks import DataError, show_cell
from discoformer.core.extras import require
from discoformer.data.cells import convert_text
from discoformer.data.limits import check_size
from discoformer.data.packed import Content
from discoformer.data.table import How, RawTable

__all__ = ["read_json"]


def read_json(content: Content) -> RawTable:
    """Records (a list of objects, or one per line), or one object with a list for every column.

    Objects within objects become columns called outer.inner; a name that a record lacks is a gap.

    >>> table = read_json(Content("data.jsonl", ".jsonl", data=b'{"a": 1}\\n{"a": 2, "b": {"c": "x"}}\\n'))
    >>> table.names, table.how.format
    (('a', 'b.c'), 'json lines')
    """
    require("pandas", "cli", "reading json")
    import pandas as pd

    with content.open() as file:
        raw = file.read()
    try:
        text = raw.decode(json.detect_encoding(raw)).lstrip("\ufeff").strip()
    except UnicodeDecodeError as error:
        raise DataError(f"{content.label}: not UTF-8 text, save it as UTF-8") from error
    found, form = _load(text, content)
    if isinstance(found, dict):
        lists = {name: values for name, values in found.items() if isinstance(values, list)}
        lengths = {len(values) for values in lists.values()}
        if not found or len(lists) < len(found) or len(lengths) != 1:
            raise DataError(
                f"{content.label}: one object that is not a table: "
                "give a list of records, a record per line, or lists of one length by column name"
            )
        check_size(content.label, lengths.pop(), len(lists))
        frame, broken = pd.DataFrame(lists), {n for n, cells in lists.items() if float in map(type, cells)}
    else:
        frame = _from_records(found, content.label)
        broken = {name for record in found for name in _floats(record)}
    frame.columns = pd.Index([str(name) for name in frame.columns])
    for name in frame.columns:
        if frame[name].dtype.kind == "f" and name not in broken:  # because of gaps
            frame[name] = whole_numbers(frame[name])
    frame, formats = convert_text(frame)
    return RawTable(frame, How(content.label, form, *frame.shape), formats=formats)


def _floats(record: Any, before: str = "") -> Iterator[str]:
    """Names of the cells of a record that are written with decimals, as `pandas.json_normalize` has them."""
    pairs = record.items() if isinstance(record, dict) else ((f"x{j}", cell) for j, cell in enumerate(record))
    for name, cell in pairs:
        if isinstance(cell, float):
            yield f"{before}{name}"
        elif isinstance(cell, dict):
            yield from _floats(cell, f"{before}{name}.")


def _load(text: str, content: Content) -> tuple[Any, str]:
    """What the file says, and in which form: one value, or one per line."""
    label = content.label
    try:
        if content.suffix not in (".jsonl", ".ndjson"):
            try:
                return json.loads(text, object_pairs_hook=_once), "json"
            except json.JSONDecodeError as error:
                if not error.msg.startswith("Extra data"):
                    raise
        lines = [line for line in text.split("\n") if line.strip()]
        return [json.loads(line, object_pairs_hook=_once) for line in lines], "json lines"
    except json.JSONDecodeError as error:
        raise DataError(f"{label}: broken json at line {error.lineno}: {error.msg}") from error
    except RecursionError as error:
        raise DataError(f"{label}: json too deep for a table: give a list of flat records") from error
    except ValueError as error:
        raise DataError(f"{label}: {error}") from error


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    record = dict(pairs)
    if len(record) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"a record has two values for {show_cell(twice)}: rename one of them")
    return record


def _from_records(records: Sequence[Any], label: str) -> Any:
    import pandas as pd

    if not isinstance(records, list):
        raise DataError(f"{label}: is not a table: give a list of records, or a record per line")
    if records and all(isinstance(record, list) for record in records):
        lengths = {len(record) for record in records}
        if len(lengths) > 1:
            raise DataError(
                f"{label}: its rows have {min(lengths)} to {max(lengths)} values: give them all the same"
            )
        check_size(label, len(records), lengths.pop())
        return pd.DataFrame(records, columns=[f"x{j}" for j in range(len(records[0]))])
    wrong = next((j for j, record in enumerate(records) if not isinstance(record, dict)), None)
    if wrong is not None:
        raise DataError(f"{label}: record {wrong} is {show_cell(records[wrong])}, not an object with names")
    check_size(label, len(records), len({name for record in records for name in record}))
    return pd.json_normalize(records)
