"""How a text file writes its table, by its first lines: encoding, separator, decimal sign, names."""

from __future__ import annotations

import codecs
import csv
import re
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile

from discoformer.columns.schema_cells import GAPS, are_codes, decimal_sign, is_number
from discoformer.core.checks import DataError, show_cell
from discoformer.data.cells import is_date
from discoformer.data.limits import check_size
from discoformer.data.packed import Content
from discoformer.data.table import refuse_twice

__all__ = ["MISSING", "SPACES", "Dialect", "find_dialect", "split_lines"]

SAMPLE = 2**18  # bytes looked at
LINES = 200  # lines looked at
SPACES = r"\s+"  # the separator for which pandas takes any number of spaces
# Where two separators fit equally well, the first: commas may be decimal signs, spaces parts of names.
SEPARATORS = ("\t", ";", "|", ",", SPACES)
# What stands for a missing number, as pandas reads it; "Na" may be sodium.
MISSING = frozenset(
    ("", "NA", "N/A", "n/a", "#N/A", "#N/A N/A", "#NA", "<NA>", "NaN", "nan", "-NaN", "-nan", "NULL", "null")
    + ("None", "1.#IND", "1.#QNAN", "-1.#IND", "-1.#QNAN")
)
_MARKS = {
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
_CONTROL = bytes([*range(9), *range(14, 27), *range(28, 32)])


@dataclass(frozen=True)
class Dialect:
    """How a table is written as text.

    Attributes
    ----------
    cells : of the first line, as they stand there
    names : whether they are names; None if they count the columns, 0, 1, 2, ..., and so may be either
    comments : whether there are lines of comments, which begin with #
    marked : whether the names are behind such a sign themselves
    codes : numbers of the columns of digits that are codes and stay text
    """

    encoding: str
    separator: str
    decimal: str
    cells: tuple[str, ...]
    names: bool | None
    comments: bool = False
    marked: bool = False
    codes: tuple[int, ...] = ()

    def is_comment(self, line: str) -> bool:
        """Whether a line is a comment: it begins with # and has fewer or more fields than the others."""
        if not _is_marked(line):
            return False
        return len(self.cells) == 1 or len(_split([line], self.separator)[0]) != len(self.cells)


def find_dialect(content: Content) -> Dialect:
    """The dialect of a file, from its first lines.

    >>> find_dialect(Content("data.csv", ".csv", data="größe;art\\n1,5;a\\n".encode("latin-1")))
    Dialect(encoding='cp1252', separator=';', decimal=',', cells=('größe', 'art'), names=True, \
comments=False, marked=False, codes=())
    """
    head = content.head(SAMPLE)
    encoding = _encoding(head, content.label)
    lines = _lines(head, encoding, content)
    plain = [line for line in lines if not _is_marked(line)] or lines
    separator = _separator(plain, content.label)
    rows = _split(plain, separator)
    check_size(content.label, 0, len(rows[0]))
    decimal, doubtful = decimal_sign((cell.strip() for row in rows[1:] or rows for cell in row), separator)
    if doubtful:
        what = "decimal signs" if decimal == "," else "thousands"
        warnings.warn(f"{content.label}: commas as in {show_cell(doubtful)} are read as {what}", stacklevel=2)
    above = list(takewhile(_is_marked, lines)) if plain is not lines else []
    heading = _heading(above, separator, rows[0], decimal)
    if heading is not None:
        rows.insert(0, heading)
    cells = tuple(cell.strip() for cell in rows[0])
    names = _are_names(cells, decimal)
    if names:
        _refuse_two_headers(rows, decimal, content.label)
        refuse_twice(cells, content.label)
    columns = range(len(cells)) if names is not False else []
    codes = tuple(
        j for j in columns if are_codes([row[j].strip() for row in rows[1:] if len(row) > j and row[j]])
    )
    comments = len(plain) < len(lines)
    return Dialect(encoding, separator, decimal, cells, names, comments, heading is not None, codes)


def _is_marked(line: str) -> bool:
    return line.lstrip().startswith("#")


def _encoding(head: bytes, label: str) -> str:
    """By its mark, or the first of UTF-8, UTF-16, Windows-1252 and Latin-1 that fits."""
    for mark, name in _MARKS.items():
        if head.startswith(mark):
            return name
    if b"\0" in head:
        zeros = [head[start::2].count(0) / max(len(head) // 2, 1) for start in (0, 1)]
        if max(zeros) < 0.4 or min(zeros) > 0.1:
            raise DataError(f"{label}: binary, not text: give csv, xlsx, json, parquet, npy or another table")
        return "utf-16-le" if zeros[1] > zeros[0] else "utf-16-be"
    if sum(map(head.count, (bytes([code]) for code in _CONTROL))) > 0.005 * len(head):
        raise DataError(f"{label}: binary, not text: give csv, xlsx, json, parquet, npy or another table")
    for name in ("utf-8", "cp1252"):
        try:
            codecs.getincrementaldecoder(name)().decode(head)  # the last character may be cut
        except UnicodeDecodeError:
            continue
        return name
    return "latin-1"


def split_lines(text: str) -> list[str]:
    """Lines by any of the usual ends; other signs that Python takes for ends stay in a cell.

    >>> split_lines("a\\r\\nb\\x0bc\\n")
    ['a', 'b\\x0bc', '']
    """
    return re.split(r"\r\n|\n|\r", text)


def _lines(head: bytes, encoding: str, content: Content) -> list[str]:
    text = codecs.getincrementaldecoder(encoding)(errors="replace").decode(head)
    lines = split_lines(text)
    if len(head) < content.size:
        lines.pop()  # it may be cut
        if not lines:
            count = max(text.count(separator) for separator in ",;\t|")
            check_size(content.label, 0, count)
            raise DataError(f"{content.label}: its first line has more than {SAMPLE} bytes: is it a table?")
    lines = [line for line in lines if line.strip()][:LINES]
    if not lines:
        raise DataError(f"{content.label}: the file has nothing but empty lines")
    return lines


def _split(lines: Sequence[str], separator: str) -> list[list[str]]:
    if separator == SPACES:
        return [line.split() for line in lines]
    try:
        return [row for row in csv.reader(lines, delimiter=separator, skipinitialspace=True) if row]
    except csv.Error:
        return [[line] for line in lines]


def _separator(lines: Sequence[str], label: str) -> str:
    """The separator by which most lines have the same number of fields, more than one."""
    best, most, title = "", 0.0, 0
    for separator in SEPARATORS:
        rows = _split(lines, separator)
        counts = Counter(map(len, rows))
        usual, lines_alike = counts.most_common(1)[0]
        share = lines_alike / len(rows)
        if separator == SPACES and share < 1:
            continue
        if len(rows[0]) == 1 and usual > 1:
            commas = all(is_number(line.strip(), ",") for line in lines[1:])  # decimal ones
            if separator != SPACES and lines_alike == len(rows) - 1 > 1 and not commas:
                title = usual
            continue
        if max(usual, len(rows[0])) > 1 and share > most:
            best, most = separator, share
    if best:
        return best
    if title:
        raise DataError(
            f"{label}: line 1 has one field, the others have {title}: "
            "remove the lines above the names of the columns"
        )
    return next((sign for sign in ",;\t|" if not any(sign in line for line in lines)), "\x1f")


def _heading(comments: Sequence[str], separator: str, first: Sequence[str], decimal: str) -> list[str] | None:
    """Names behind a #: the last of the comments above the data, if it has as many fields.

    They are names if the ``first`` line without a # has none; or if the first of them is # itself.
    """
    if not comments or len(first) == 1:
        return None
    line = comments[-1].lstrip()
    cells = _split([line if separator != SPACES else line.removeprefix("#")], separator)[0]
    alone = cells[0].strip() == "#"
    if len(cells) != len(first) or not (alone or _are_names(first, decimal) is False):
        return None
    return cells if alone else [cells[0].lstrip("# "), *cells[1:]]


def _are_names(cells: Sequence[str], decimal: str) -> bool | None:
    if _counts_columns(cells):
        return None
    return not all(cell in MISSING or is_number(cell, decimal) or is_date(cell) for cell in cells)


def _counts_columns(cells: Sequence[str]) -> bool:
    """Whether a line is 0, 1, 2, ..., perhaps after an empty cell over row labels: what pandas writes.

    >>> _counts_columns(["", "0", "1"]), _counts_columns(["0", "1.0"])
    (True, False)
    """
    numbers = cells[1:] if cells[0] == "" else cells
    return len(cells) > 1 and list(numbers) == [str(j) for j in range(len(numbers))]


def _refuse_two_headers(rows: Sequence[Sequence[str]], decimal: str, label: str) -> None:
    """Units or a second line of names, above columns of numbers."""
    if len(rows) < 4:
        return
    second = [cell.strip() for cell in rows[1]]
    texts = []
    for j, cell in enumerate(second):
        later = [row[j].strip() for row in rows[2:] if len(row) > j]
        later = [text for text in later if text not in MISSING and text.lower() not in GAPS]
        if later and all(is_number(text, decimal) for text in later):
            texts.append(cell not in MISSING and cell.lower() not in GAPS and not is_number(cell, decimal))
    if all(texts) and (len(texts) > 1 or len(texts) == len(second) == 1):
        shown = ", ".join(map(show_cell, second[:3]))
        raise DataError(f"{label}: two lines of names, the second is {shown}: remove one of them")
