"""Read words, numbers and dates in the usual notations.

Numbers: ``5,969``, ``1.234,56``, ``$12,345``, ``163,461 km``, ``<0.5``. The meaning of a comma is decided for
a whole column: groups of exactly three digits are thousands unless a word shows otherwise, such as ``0,25``
or ``1.234,56``. A currency or unit may be before or after the digits, and must be the same everywhere. Other
letters, and leading zeros, make a code, which is a word: SKU0049, INV 12, 12ABC, 02134.

Dates: 2024-01-31 12:30, 31.01.2024, 1/31/24, 31 Jan 2024, January 31, 2024.
"""

import re
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

GAPS = (
    *("", "?", "-", "--", "NA", "N/A", "n/a", "#N/A", "#NA", "<NA>", "NaN", "nan", "-NaN", "-nan", "NaT"),
    *("null", "NULL", "None", "1.#IND", "-1.#IND", "1.#QNAN", "-1.#QNAN", "#N/A N/A"),
)  # words that mark a missing value: those of pandas, and dashes
LONGEST = 1e15  # whole numbers up to here are exact
TRUTH = {"true": 1.0, "false": 0.0}  # in upper or lower case
Words = NDArray[np.object_]  # str, or None if missing
Dates = NDArray[np.datetime64]  # microseconds, NaT if missing


def clean_words(values: Sequence[Any], gaps: frozenset[str]) -> Words:
    """Return values of any type as stripped words, None if missing; true and false get a capital letter."""
    different: dict[Any, str | None] = {None: None}
    for value in set(values) - {None}:
        word = format_number(value) if isinstance(value, float) else str(value).strip()
        different[value] = None if word in gaps else word
    if all(word.lower() in TRUTH for word in different.values() if word is not None):
        different = {value: word and word.capitalize() for value, word in different.items()}
    words = np.empty(len(values), dtype=object)
    words[:] = [different[value] for value in values]
    return words


def format_number(number: float) -> str:
    """Return the shortest text of a number: 3, not 3.0."""
    return str(int(number)) if number == int(number) and abs(number) < LONGEST else repr(number)


_GROUP = r"['’\u00a0\u202f]"  # between thousands, besides comma and point
_PARTS = re.compile(
    rf"(?P<before>[^\d+\-.,<>≤≥]*)(?P<digits>[+-]?[.,]?\d(?:[\d.,]|{_GROUP})*(?:[eE][+-]?\d+)?)(?P<after>[^\d]*)"
)
_DIGITS = {
    decimal: re.compile(
        rf"[+-]?([1-9]\d{{0,2}}(({group}\d{{3}})+|({_GROUP}\d{{3}})+)|\d+)?([{decimal}]\d*)?([eE][+-]?\d+)?"
    )
    for decimal, group in ((".", ","), (",", r"\."))
}  # by the decimal mark
_CURRENCIES = (
    "AED|ARS|AUD|BDT|BGN|BRL|CAD|CHF|CLP|CNY|COP|CZK|DKK|EGP|EUR|GBP|HKD|HUF|IDR|ILS|INR|ISK|JPY|KES|KRW|"
    "KWD|MAD|MXN|MYR|NGN|NOK|NZD|PEN|PHP|PKR|PLN|QAR|RON|RSD|RUB|SAR|SEK|SGD|THB|TRY|TWD|UAH|USD|VND|ZAR"
)
_SIGN = r"[$€£¥₹₩]|US\$"
_CERTAIN = re.compile(rf"({_SIGN}|[%‰°]|°[CF]|[kcm]m|[km]?g|[kM]?W|kWh|m?l|min|[ms]|h)?")  # units
_BEFORE = re.compile(rf"(({_SIGN}|{_CURRENCIES})\s*)?")
_AFTER = re.compile(rf"(\s*({_CERTAIN.pattern}|{_CURRENCIES})|\s+[^\W\d][^\d\s]{{0,9}})?")
_LIMIT = re.compile(r"(?P<mark>[<>≤≥]=?)\s*(?P<rest>.+)")
_DIFFERENT = 10  # distinct values from which words with a unit are numbers


class Spelling(NamedTuple):
    """The number format of a column."""

    decimal: str = "."
    unit: str = ""  # before or after the digits

    @property
    def certain(self) -> bool:
        """Return whether the words cannot be codes: the unit is a usual one, or there is none."""
        return _CERTAIN.fullmatch(self.unit) is not None

    def value(self, word: str) -> float | None:
        """Return the number in a word; None if it is not a finite number."""
        parts = _PARTS.fullmatch(word.strip())
        if parts is None or not _units(parts) <= {self.unit}:
            return None
        digits = parts["digits"]
        if not _DIGITS[self.decimal].fullmatch(digits):
            return None
        value = float(re.sub(rf"[^\d{self.decimal}eE+-]", "", digits).replace(",", "."))
        return value if np.isfinite(value) else None


def spelling_of(words: Iterable[str], decimal: str = ".", unit: str | None = None) -> Spelling:
    """Find the number format of a column of words; `decimal` is used if the meaning of commas is unclear.

    A unit must be shared by all words that have one, and needs many different numbers: 4 WD and 2 WD stay
    words. A blank separates an unknown unit from the digits.
    """
    parts = [found for word in words if (found := _PARTS.fullmatch(word.strip()))]
    if unit is None:
        units = {each for found in parts for each in _units(found)}
        possible = all(_BEFORE.fullmatch(p["before"]) and _AFTER.fullmatch(p["after"]) for p in parts)
        several = len({found["digits"] for found in parts}) >= _DIFFERENT
        unit = units.pop() if possible and several and len(units) == 1 else ""
    digits = [found["digits"] for found in parts if _units(found) <= {unit}]
    readable = [{mark for mark, form in _DIGITS.items() if form.fullmatch(each)} for each in digits]
    shown = {mark for marks in readable if len(marks) == 1 for mark in marks}
    if len(shown) == 1:
        return Spelling(shown.pop(), unit)
    return Spelling(decimal if any("," in each for each in digits) else ".", unit)


def are_codes(words: Iterable[str]) -> bool:
    """Return whether all words have whole numbers, of which one has a leading zero."""
    parts = [_PARTS.fullmatch(word) for word in words]
    digits = [found["digits"] for found in parts if found and found["digits"].isdecimal()]
    return len(digits) == len(parts) and any(len(each) > 1 and each[0] == "0" for each in digits)


def _units(parts: re.Match[str]) -> set[str]:
    """Return the words before and after the digits."""
    return {parts["before"].strip(), parts["after"].strip()} - {""}


def limit(word: str, spelling: Spelling) -> tuple[str, float | None]:
    """Split a word into a mark and the number after it: ``<0.5`` gives ``<`` and 0.5."""
    found = _LIMIT.fullmatch(word)
    value = None if found is None else spelling.value(found["rest"])
    return (word, None) if found is None or value is None else (found["mark"], value)


_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_NAME = rf"(?P<name>{'|'.join(_MONTHS)})[a-z]*\.?"
_HOURS = r"(?P<hour>\d{1,2}):(?P<minute>\d{2})(?::(?P<second>\d{2})(?:[.,]\d*)?)?\s*(?P<half>[ap]m)?"
_FORMS = [
    re.compile(rf"{pattern}(?:[T ,]+{_HOURS}(?:Z|[+-]\d{{2}}:?\d{{2}}| UTC)?)?", re.IGNORECASE)
    for pattern in (
        r"(?P<year>\d{4})(?P<mark>[-/.])(?P<month>\d{1,2})(?P=mark)(?P<day>\d{1,2})",
        r"(?P<first>\d{1,2})(?P<mark>[-/.])(?P<then>\d{1,2})(?P=mark)(?P<year>\d{4}|\d{2})",
        rf"(?P<day>\d{{1,2}})\.?[ -]{_NAME}[ ,-]+(?P<year>\d{{4}}|\d{{2}})",
        rf"{_NAME} (?P<day>\d{{1,2}}),? (?P<year>\d{{4}}|\d{{2}})",
    )
]
_DAY_FIRST = re.compile(r"(\d{1,2})([-/.])(\d{1,2})\2\d{2,4}.*")
_MOST = 0.9  # share of words that must be dates; the others become missing


def are_dates(words: Sequence[str]) -> bool:
    """Return whether at least nine tenths of the words are dates."""
    found = sum(any(form.fullmatch(word) for form in _FORMS) for word in words)
    return bool(words) and found >= _MOST * len(words)


def day_first(words: Iterable[str]) -> bool | None:
    """Return whether 3/4/2024 is in April: numbers above 12 show it, points imply it; else None."""
    pairs = [found for word in words if (found := _DAY_FIRST.fullmatch(word))]
    if any(int(found[1]) > 12 for found in pairs):
        return True
    if any(int(found[3]) > 12 for found in pairs):
        return False
    return True if any(found[2] == "." for found in pairs) else None


def parse_dates(words: Sequence[str | None], first: bool) -> Dates:
    """Return dates, NaT for other words; with `first`, the day is before the month in 3/4/2024."""
    known = {word: _parse_date(word, first) for word in set(words) if word is not None}
    return np.array([known.get(word) for word in words], dtype="datetime64[us]")  # type: ignore[arg-type]  # None


def _parse_date(word: str, first: bool) -> datetime | None:
    found = next((found for form in _FORMS if (found := form.fullmatch(word))), None)
    if found is None:
        return None
    parts: dict[str, Any] = found.groupdict()
    month, day = parts.get("month"), parts.get("day")
    if (name := parts.get("name")) is not None:
        month = str(_MONTHS.index(name.lower()[:3]) + 1)
    if parts.get("first") is not None:
        day, month = (parts["first"], parts["then"]) if first else (parts["then"], parts["first"])
    year = int(parts["year"])
    if len(parts["year"]) == 2:  # as in POSIX: 69..99 are 1969..1999
        year += 1900 if year > 68 else 2000
    hour = int(parts["hour"] or 0)
    if (half := parts["half"]) is not None:
        hour = hour % 12 + 12 * (half.lower() == "pm")
    minute, second = (int(parts[name] or 0) for name in ("minute", "second"))
    try:
        return datetime(year, int(month or 1), int(day or 1), hour, minute, second)
    except ValueError:  # February 31
        return None
