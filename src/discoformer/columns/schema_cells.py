"""Numbers as people write them into text: 1.234,50 €, 12 %, (300), 4'500.

pandas reads plain numbers, with a decimal point or comma.  What it leaves as text is looked at here, a
column at a time and strictly: either every cell is a number of one style (or a gap), or none is touched.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from discoformer.core.checks import show_cell

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "EXACT",
    "MEASURES",
    "CellFormat",
    "are_codes",
    "decimal_sign",
    "is_number",
    "mixed_numbers",
    "parse_numbers",
    "whole_numbers",
]

# Signs that stand before or after an amount or a share,
SIGNS = ("$", "US$", "A$", "C$", "R$", "€", "£", "¥", "₹", "₩", "₽", "₺", "₪", "₫", "฿", "%", "‰") + (
    *("USD", "EUR", "GBP", "CHF", "JPY", "CNY", "INR", "CAD", "AUD", "NZD", "SEK", "NOK", "DKK"),
    *("PLN", "CZK", "HUF", "BRL", "MXN", "ZAR", "kr", "Fr.", "zł", "Kč", "Ft", "Rs.", "Rs"),
)
# and units of measures that are nothing else; 20s may be an age, 5 m a million.
MEASURES = ("kg", "mg", "km", "cm", "mm", "ml", "kW", "kWh", "km/h", "mph", "lbs", "°C", "°F")
# What stands for a missing number in a column whose other cells are numbers; elsewhere it is text.
GAPS = frozenset(
    ("?", "-", "--", "–", "—", ".", "..", "...", "*", "na", "n.a.", "n.a", "n/a", "nan", "k.a.", "none")
    + ("null", "nil", "missing", "unknown", "not available", "#div/0!", "#value!", "#ref!", "#num!", "#name?")
)
MOSTLY = 0.5  # a text column with at least this share of numbers was meant to be one of numbers
PROBED = 1000  # cells of a long column of text that are looked at before all are
CODE_DIGITS = 4  # of codes with zeros in front, at least
_MINUS = "-−"
EXACT = 2**53  # whole numbers beyond are not all floats
_SPACES = str.maketrans({"\u00a0": " ", "\u202f": " ", "\u2009": " ", "’": "'"})


@dataclass(frozen=True)
class CellFormat:
    """How the cells of a column are written, so that they can be written so again.

    Attributes
    ----------
    decimal, thousands : the signs; empty for none
    unit : a sign of currency or per cent, with its space, and whether it stands before the number
    decimals : that the cells have at most
    brackets : whether negative numbers are in brackets
    date : of `strftime`; ``ISO8601`` for dates as in 2026-01-31
    """

    decimal: str = "."
    thousands: str = ""
    unit: str = ""
    unit_first: bool = False
    decimals: int = 0
    brackets: bool = False
    date: str = ""


def _units() -> str:
    return "|".join(map(re.escape, (*SIGNS, *MEASURES)))


def _pattern(decimal: str) -> re.Pattern[str]:
    units = _units()
    thousands = "[. '_]" if decimal == "," else "[, '_]"
    point = re.escape(decimal)
    indian = "" if decimal == "," else r"(?P<indian>\d{1,2}(?:,\d{2})+,\d{3})|"
    return re.compile(
        rf"(?P<open>\()?(?P<sign>[-+−])? ?(?P<before>(?:{units}) ?)?(?P<inner>[-+−])?"
        rf"(?P<number>(?:{indian}\d{{1,3}}(?P<group>{thousands})\d{{3}}(?:(?P=group)\d{{3}})*|\d+)(?:{point}\d*)?"
        rf"|{point}\d+)(?P<power>[eE][-+]?\d+)?(?P<after> ?(?:{units}))?(?(open)\))"
    )


_PATTERNS = {decimal: _pattern(decimal) for decimal in (".", ",")}


class _Cell(NamedTuple):
    value: float
    thousands: str
    unit: str
    unit_first: bool
    whole: bool
    decimals: int
    brackets: bool


def _read(cell: str, decimal: str) -> _Cell | None:
    """One cell, or None if it is not a number in this style."""
    found = _PATTERNS[decimal].fullmatch(cell.translate(_SPACES).strip())
    if found is None or (found["before"] and found["after"]) or (found["sign"] and found["inner"]):
        return None
    group = found["group"] or ("," if found.groupdict().get("indian") else "")
    digits = found["number"].replace(group, "") if group else found["number"]
    value = float(digits.replace(decimal, ".") + (found["power"] or ""))
    sign = found["sign"] or found["inner"] or ""
    negative = bool(found["open"]) or (sign != "" and sign in _MINUS)
    before, after = found["before"] or "", found["after"] or ""
    decimals = len(digits.partition(decimal)[2])
    whole = decimal not in digits and not found["power"]
    value = -value if negative else value
    return _Cell(value, group, before or after, bool(before), whole, decimals, bool(found["open"]))


def is_number(cell: str, decimal: str = ".") -> bool:
    """Whether a cell is a number as people write them.

    >>> [is_number(cell) for cell in ("1,234.5", "12 %", "$ 3", "-inf", "1.2.2026", "tall")]
    [True, True, True, True, False, False]
    """
    return _read(cell, decimal) is not None or _float(cell) is not None


def _float(cell: str) -> float | None:
    """A number as Python writes it, infinity among them."""
    try:
        value = float(cell)
    except ValueError:
        return None
    return None if math.isnan(value) else value


def parse_numbers(cells: pd.Series[Any], decimal: str = ".") -> tuple[pd.Series[Any], CellFormat] | None:
    """A column of text as numbers, if all of it is numbers of one style; else None.

    The decimal sign of the file is tried first, then the other one.  One unit for all, or none; a zero
    may go without.  Numbers that are written without decimals are whole, beside gaps as well.

    >>> import pandas as pd
    >>> values, style = parse_numbers(pd.Series(["1.234,50 €", "?", "-7,5 €"]), ",")
    >>> values.tolist(), style.unit
    ([1234.5, nan, -7.5], ' €')
    >>> parse_numbers(pd.Series(["12", "tall"])) is None
    True
    """
    there = cells.dropna().unique().tolist()
    texts = [cell for cell in there if isinstance(cell, str)]
    numbers = {cell: float(cell) for cell in there if isinstance(cell, Real) and not isinstance(cell, bool)}
    if len(texts) + len(numbers) < len(there) or are_codes(texts):
        return None
    for sign in dict.fromkeys((decimal, ".", ",")):
        parsed = _parse_all(texts, sign)
        if parsed is not None:
            parsed = _as_thousands(texts, parsed[1]) or parsed
            values, style, whole = parsed
            both: dict[Any, float] = {**numbers, **values}
            found = cells.map(both).astype("float64")
            whole = whole and all(isinstance(cell, Integral) for cell in numbers)
            return whole_numbers(found) if whole else found, style
    return None


def _as_thousands(texts: Sequence[str], style: CellFormat) -> _Parsed | None:
    """The numbers with the other decimal sign, if they are prices that have three decimals, or none, else."""
    if style.decimals != 3 or style.thousands or style.unit.strip() in ("", "%", "‰", *MEASURES):
        return None
    other = _parse_all(texts, "," if style.decimal == "." else ".")
    return other if other is not None and other[2] else None


def whole_numbers(column: pd.Series[Any]) -> pd.Series[Any]:
    """A column of floats as whole numbers, of the type of pandas that has gaps where there are some.

    It stays as it is if a float cannot hold all of them, or there are none.

    >>> import pandas as pd
    >>> whole_numbers(pd.Series([31.0, None, 45.0])).tolist()
    [31, <NA>, 45]
    """
    there = column.dropna().to_numpy(dtype=np.float64)
    if not len(there) or not bool(((there == np.rint(there)) & (np.abs(there) <= EXACT)).all()):
        return column
    return column.astype("int64" if len(there) == len(column) else "Int64")


_Parsed = tuple[dict[str, float], CellFormat, bool]


def _parse_all(texts: Iterable[str], decimal: str) -> _Parsed | None:
    """Numbers by their texts, how they are written, and whether all are without decimals."""
    whole, decimals, brackets = True, 0, False
    values: dict[str, float] = {}
    units: set[tuple[str, bool]] = set()
    groups: set[str] = set()
    for text in texts:
        cell = _read(text, decimal)
        if cell is not None:
            values[text] = cell.value
            groups.add(cell.thousands)
            whole, decimals = whole and cell.whole, max(decimals, cell.decimals)
            brackets = brackets or cell.brackets
            if cell.unit or cell.value != 0:  # a zero may go without a unit
                units.add((cell.unit, cell.unit_first))
        elif text.strip().lower() in GAPS:
            values[text] = np.nan
        else:
            plain = _float(text) if "inf" in text.lower() else None
            if plain is None:
                return None
            values[text], whole = plain, False
    if not groups or len({(unit.strip(), first) for unit, first in units}) > 1 or len(groups - {""}) > 1:
        return None
    unit, first = max(units, key=lambda sign: len(sign[0]), default=("", False))
    style = CellFormat(decimal, "".join(groups), unit, first, decimals, brackets)
    return values, style, whole


def are_codes(texts: Sequence[str]) -> bool:
    """Whether digits are codes, such as postal codes: of one length from four on, some with zeros in front.

    >>> are_codes(["02139", "10115"]), are_codes(["01", "12"]), are_codes(["0213", "10115"])
    (True, False, False)
    """
    if not texts or len(texts[0]) < CODE_DIGITS:
        return False
    same = all(len(text) == len(texts[0]) and text.isdecimal() for text in texts)
    return same and any(text.startswith("0") for text in texts)


def mixed_numbers(cells: pd.Series[Any]) -> str | None:
    """What is wrong with a text column that was meant to hold numbers; None for text that is text.

    >>> import pandas as pd
    >>> mixed_numbers(pd.Series(["2", "tall", "1"]))
    "holds text or dates, first at row 1 ('tall')"
    >>> mixed_numbers(pd.Series(["$2", "1 €"]))
    'holds numbers with different signs of currency or per cent'
    >>> mixed_numbers(pd.Series(["02139", "10115"]))
    """
    there = cells[cells.notna()].astype(str)
    if are_codes(there.unique().tolist()):
        return None
    probe = there.iloc[:: max(1, len(there) // PROBED)]
    if not len(there) or np.mean([_is_amount(text) for text in probe]) < MOSTLY / 2:
        return None
    numbers = {text: _is_amount(text) for text in there.unique().tolist()}
    good = there.map(numbers).astype(bool)
    if good.mean() < MOSTLY:
        return None
    if not good.all():
        row = int(cells.notna().to_numpy().nonzero()[0][int((~good).to_numpy().argmax())])
        return f"holds text or dates, first at row {row} ({show_cell(cells.iloc[row])})"
    units = {cell.unit.strip() for text in numbers for cell in (_read(text, "."), _read(text, ",")) if cell}
    if len(units) > 1:
        return "holds numbers with different signs of currency or per cent"
    return "holds numbers as text"


def _is_amount(text: str) -> bool:
    """Whether it is a number, or an amount or a share; with a unit of measure it may be anything."""
    if text.rstrip().endswith(MEASURES):
        return False
    return is_number(text, ".") or is_number(text, ",")


def _voter(number: str) -> re.Pattern[str]:
    sign = rf"(?:[^\w.,]|[A-Z]{{3}}|{_units()})*"  # currencies, per cent, minus, spaces
    return re.compile(rf"{sign}(?:{number})(?:[eE][-+]?\d+)?{sign}")


_VOTERS = {
    ",": _voter(r"\d+,(?:\d{1,2}|\d{4,})|0,\d+|\d{1,3}(?:\.\d{3})+,\d+|\d{1,3}(?:\.\d{3}){2,}"),
    ".": _voter(r"\d*\.(?:\d{1,2}|\d{4,})|0\.\d+|\d{1,3}(?:,\d{3})+\.\d+|\d{1,3}(?:,\d{3}){2,}"),
}
_DOUBTFUL = _voter(r"[1-9]\d{0,2},\d{3}")


def decimal_sign(cells: Iterable[str], separator: str) -> tuple[str, str]:
    """The decimal sign that the cells of a file vote for, and a cell that leaves doubt if there is one.

    A comma with three digits behind it may be either sign: then it is a decimal comma in a file with
    semicolons, which such files use because of it, and separates thousands otherwise.

    >>> decimal_sign(["1,5", "2,250"], ";")
    (',', '')
    >>> decimal_sign(["1,234", "9"], "\\t"), decimal_sign(["1,234"], ";")
    (('.', '1,234'), (',', '1,234'))
    """
    votes = {",": 0, ".": 0}
    doubtful = ""
    for cell in cells:
        for sign, voter in _VOTERS.items():
            votes[sign] += voter.fullmatch(cell) is not None
        if not doubtful and _DOUBTFUL.fullmatch(cell):
            doubtful = cell
    if votes[","] == votes["."]:
        return ("," if doubtful and separator == ";" else "."), doubtful
    return ("," if votes[","] > votes["."] else "."), ""
