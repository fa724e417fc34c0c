"""Read words, numbers and dates as people write them.

Numbers: ``5,969``, ``1.234,56``, ``$12,345``, ``163,461 km``, ``<0.5``. The meaning of a comma is decided for
a whole column: groups of exactly three digits are thousands unless a word shows otherwise, as ``0,25`` and
``1.234,56`` do. A currency or unit may stand before or after the digits, the same one everywhere.

Dates: 2024-01-31 12:30, 31.01.2024, 1/31/24, 31 Jan 2024, January 31, 2024, 12:30.
"""

import re
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tggm.arrays import Bools, Floats

GAPS = (
    *("", "?", "-", "--", "NA", "N/A", "n/a", "#N/A", "#NA", "<NA>", "NaN", "nan", "-NaN", "-nan", "NaT"),
    *("null", "NULL", "None", "1.#IND", "-1.#IND", "1.#QNAN", "-1.#QNAN", "#N/A N/A"),
)  # words that mark a missing value: those of pandas, and dashes
LONGEST = 1e15  # whole numbers up to here are exact
TRUTH = {"true": 1.0, "false": 0.0}  # in upper or lower case
Words = NDArray[np.object_]  # str, or None for a gap
Dates = NDArray[np.datetime64]  # microseconds, NaT for a gap


# ---- words -----------------------------------------------------------------------------------------------


def present(words: Words) -> Bools:
    """Return which entries are not gaps."""
    found: Bools = (words != np.array(None)).astype(np.bool_)
    return found


def cleaned(values: Sequence[Any], gaps: frozenset[str]) -> Words:
    """Return values of any type as stripped words, None for gaps; true and false get a capital letter."""
    different: dict[Any, str | None] = {None: None}
    for value in set(values) - {None}:
        word = spelled(value) if isinstance(value, float) else str(value).strip()
        different[value] = None if word in gaps else word
    if all(word.lower() in TRUTH for word in different.values() if word is not None):
        different = {value: word and word.capitalize() for value, word in different.items()}
    words = np.empty(len(values), dtype=object)
    words[:] = [different[value] for value in values]
    return words


def typed(words: Words) -> NDArray[Any]:
    """Return words as numbers if that loses nothing: no codes such as 007, no very long numbers."""
    known = present(words)
    plain = plain_numbers(words[known]) if known.any() else None
    if plain is None or np.abs(plain).max() >= LONGEST:
        return words
    if any(len(word) > 1 and word[0] == "0" and word[1].isdigit() for word in words[known].tolist()):
        return words
    values = np.full(len(words), np.nan)
    values[known] = plain
    return values


def plain_numbers(words: Words) -> Floats | None:
    """Return words as float64, or None if one of them is not a plain finite number."""
    try:
        values = words.astype(np.float64)
    except ValueError:
        return None
    # Python also reads 1_000 and "infinity", which are more likely mistakes in a table
    if not np.isfinite(values).all() or any("_" in word for word in words.tolist()):
        return None
    return values


def spelled(number: float) -> str:
    """Return the shortest text of a number: 3, not 3.0."""
    return str(int(number)) if number == int(number) and abs(number) < 1e15 else repr(number)


# ---- numbers ---------------------------------------------------------------------------------------------

_GROUP = r"['’\u00a0\u202f]"  # between thousands, besides comma and point
_PARTS = re.compile(
    rf"(?P<before>[^\d+\-.,<>≤≥]*)(?P<digits>[+-]?[.,]?\d(?:[\d.,]|{_GROUP})*(?:[eE][+-]?\d+)?)(?P<after>[^\d]*)"
)
_POINT = re.compile(rf"[+-]?(\d{{1,3}}(,\d{{3}})+|\d{{1,3}}({_GROUP}\d{{3}})+|\d+)?(\.\d*)?([eE][+-]?\d+)?")
_COMMA = re.compile(rf"[+-]?(\d{{1,3}}(\.\d{{3}})+|\d{{1,3}}({_GROUP}\d{{3}})+|\d+)?(,\d*)?([eE][+-]?\d+)?")
_GROUPED = re.compile(r"[+-]?(?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]{1,15})(?:\.[0-9]*)?")
_SHOWS_COMMA = re.compile(r"[+-]?(0*,\d+|\d*,(\d{0,2}|\d{4,})|\d{1,3}(\.\d{3})+,\d*|\d{4,},\d+)")
_SHOWS_POINT = re.compile(
    r"[+-]?(\d{1,3}(,\d{3})+\.\d*|\d{1,3}(,\d{3}){2,}|\d*\.(\d{0,2}|\d{4,})|0*\.\d+)([eE][+-]?\d+)?"
)
_MONEY = r"[$€£¥₹₩]|US\$|[A-Z]{3}"
_BEFORE = re.compile(rf"({_MONEY})\s*")
_AFTER = re.compile(
    rf"\s*({_MONEY}|[%‰°]|°[CF]|[kcm]m|[km]?g|[kM]?W|kWh|m?l|min|[ms]|h)|\s+[^\W\d][^\d\s]{{0,9}}"
)
_LIMIT = re.compile(r"(?P<mark>[<>≤≥]=?)\s*(?P<rest>.+)")
_DIFFERENT = 10  # values that words with a unit need to be read as numbers


class Spelling(NamedTuple):
    """How a column writes its numbers."""

    decimal: str = "."
    unit: str = ""  # before or after the digits

    def value(self, word: str) -> float | None:
        """Return the number that a word stands for, None if it is not a finite number."""
        if self.decimal == "." and _GROUPED.fullmatch(word):  # the most frequent case
            return float(word.replace(",", ""))
        parts = _PARTS.fullmatch(word.strip())
        if parts is None or {parts["before"].strip(), parts["after"].strip()} - {"", self.unit}:
            return None
        digits = parts["digits"]
        european = self.decimal == ","
        if not (_COMMA if european else _POINT).fullmatch(digits):
            if not european or not _POINT.fullmatch(digits) or "," in digits:  # 1.5 among decimal commas
                return None
            european = False
        digits = re.sub(_GROUP, "", digits)
        digits = digits.replace(".", "").replace(",", ".") if european else digits.replace(",", "")
        try:
            value = float(digits)
        except ValueError:
            return None
        return value if np.isfinite(value) else None


def spelling_of(words: Iterable[str], decimal: str = ".", unit: str | None = None) -> Spelling:
    """Find how the words of a column write numbers; `decimal` is used if no word shows it.

    A unit must be shared by all words that have one, and needs many different numbers: 4 WD and 2 WD stay
    words.
    """
    parts = [found for word in set(words) if (found := _PARTS.fullmatch(word.strip()))]
    unit = _unit(parts) if unit is None else unit
    digits = [
        found["digits"] for found in parts if {found["before"].strip(), found["after"].strip()} <= {"", unit}
    ]
    comma = any(_SHOWS_COMMA.fullmatch(word) for word in digits if "," in word)
    point = any(_SHOWS_POINT.fullmatch(word) for word in digits if "." in word or word.count(",") > 1)
    return Spelling(decimal if comma == point else "," if comma else ".", unit)


def _unit(parts: list[re.Match[str]]) -> str:
    """Return the text that all words with text around their digits share, if it can be a unit."""
    around = {(found["before"], found["after"]) for found in parts} - {("", "")}
    units = {part.strip() for pair in around for part in pair} - {""}
    possible = all(not a or _BEFORE.fullmatch(a) for a, _ in around)
    possible = possible and all(not b or _AFTER.fullmatch(b) for _, b in around)
    several = len({found["digits"] for found in parts}) >= _DIFFERENT
    return units.pop() if possible and several and len(units) == 1 else ""


def limit(word: str, spelling: Spelling) -> tuple[str, float | None]:
    """Split a word into a mark and the number after it: ``<0.5`` gives ``<`` and 0.5."""
    found = _LIMIT.fullmatch(word)
    value = None if found is None else spelling.value(found["rest"])
    return (word, None) if found is None or value is None else (found["mark"], value)


# ---- dates -----------------------------------------------------------------------------------------------

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_NAME = rf"(?P<name>{'|'.join(_MONTHS)})[a-z]*\.?"
_HOURS = r"(?P<hour>\d{1,2}):(?P<minute>\d{2})(?::(?P<second>\d{2})(?:[.,]\d*)?)?\s*(?P<half>[ap]m)?"
_TIME = rf"(?:[T ,]+{_HOURS}(?:Z|[+-]\d{{2}}:?\d{{2}}| UTC)?)?"
_FORMS = [
    re.compile(pattern + _TIME, re.IGNORECASE)
    for pattern in (
        r"(?P<year>\d{4})(?P<mark>[-/.])(?P<month>\d{1,2})(?P=mark)(?P<day>\d{1,2})",
        r"(?P<first>\d{1,2})(?P<mark>[-/.])(?P<then>\d{1,2})(?P=mark)(?P<year>\d{4}|\d{2})",
        rf"(?P<day>\d{{1,2}})\.?[ -]{_NAME}[ ,-]+(?P<year>\d{{4}}|\d{{2}})",
        rf"{_NAME} (?P<day>\d{{1,2}}),? (?P<year>\d{{4}}|\d{{2}})",
    )
]
_CLOCK = re.compile(_HOURS, re.IGNORECASE)
_DAY_FIRST = re.compile(r"(\d{1,2})([-/.])(\d{1,2})\2\d{2,4}.*")
_MOST = 0.9  # share of words that must be dates; the others become gaps


def date_words(words: Sequence[str]) -> str:
    """Return what at least nine tenths of the words are: "date", "clock", or "" for neither."""
    for kind, forms in (("date", _FORMS), ("clock", [_CLOCK])):
        found = sum(any(form.fullmatch(word) for form in forms) for word in words)
        if words and found >= _MOST * len(words):
            return kind
    return ""


def day_first(words: Iterable[str]) -> bool | None:
    """Return whether 3/4/2024 is in April: numbers above 12 show it, points imply it; else None."""
    pairs = [found for word in words if (found := _DAY_FIRST.fullmatch(word))]
    if any(int(found[1]) > 12 for found in pairs):
        return True
    if any(int(found[3]) > 12 for found in pairs):
        return False
    return True if any(found[2] == "." for found in pairs) else None


def parse_dates(words: Sequence[str | None], first: bool) -> Dates:
    """Return dates, NaT for gaps and words that are not dates; times of day are of 1970-01-01.

    With `first`, the day comes before the month in 3/4/2024.
    """
    known = {word: _parse_date(word, first) for word in set(words) if word is not None}
    nothing = np.datetime64("NaT", "us")
    return np.array([nothing if word is None else known[word] for word in words], dtype="datetime64[us]")


def _parse_date(word: str, first: bool) -> np.datetime64:
    for form in (*_FORMS, _CLOCK):
        if found := form.fullmatch(word):
            try:
                return np.datetime64(_datetime(found.groupdict(), first), "us")
            except (ValueError, OverflowError):  # February 31
                break
    return np.datetime64("NaT", "us")


def _datetime(parts: dict[str, str | None], first: bool) -> datetime:
    year, month, day = parts.get("year"), parts.get("month"), parts.get("day")
    if (name := parts.get("name")) is not None:
        month = str(_MONTHS.index(name.lower()[:3]) + 1)
    if parts.get("first") is not None:
        day, month = (parts["first"], parts["then"]) if first else (parts["then"], parts["first"])
    full = int(year or 1970)
    if year is not None and len(year) == 2:  # as in C: 69..99 are 1969..1999
        full += 1900 if full > 68 else 2000
    hour = int(parts.get("hour") or 0)
    if (half := parts.get("half")) is not None:
        hour = hour % 12 + 12 * (half.lower() == "pm")
    minute, second = int(parts.get("minute") or 0), int(parts.get("second") or 0)
    return datetime(full, int(month or 1), int(day or 1), hour, minute, second)
