"""Dates and times in words: 2024-01-31 12:30, 31.01.2024, 1/31/24, 31 Jan 2024, January 31, 2024, 12:30."""

import re
from collections.abc import Iterable, Sequence
from datetime import datetime

import numpy as np
from numpy.typing import NDArray

Dates = NDArray[np.datetime64]  # microseconds, NaT where there is none
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
ENOUGH = 0.9  # of the words: the others are taken as gaps
SAMPLE = 1000  # words that are looked at first


def date_words(words: Sequence[str]) -> str:
    """What nearly all words are: "date", "clock", or "" for neither."""
    for kind, forms in (("date", _FORMS), ("clock", [_CLOCK])):
        found = sum(any(form.fullmatch(word) for form in forms) for word in words)
        if words and found >= ENOUGH * len(words):
            return kind
    return ""


def day_first(words: Iterable[str]) -> bool | None:
    """Whether 3/4/2024 is in April: a number above 12 shows it, points between mean it; else None."""
    pairs = [found for word in words if (found := _DAY_FIRST.fullmatch(word))]
    if any(int(found[1]) > 12 for found in pairs):
        return True
    if any(int(found[3]) > 12 for found in pairs):
        return False
    return True if any(found[2] == "." for found in pairs) else None


def parsed(words: Sequence[str | None], first: bool) -> Dates:
    """Moments, NaT for gaps and for words that are no dates; times of the day are of 1970-01-01."""
    known = {word: _parsed(word, first) for word in set(words) if word is not None}
    nothing = np.datetime64("NaT", "us")
    return np.array([nothing if word is None else known[word] for word in words], dtype="datetime64[us]")


def _parsed(word: str, first: bool) -> np.datetime64:
    for form in (*_FORMS, _CLOCK):
        if found := form.fullmatch(word):
            try:
                return np.datetime64(_moment(found.groupdict(), first), "us")
            except (ValueError, OverflowError):  # the 31st of February
                break
    return np.datetime64("NaT", "us")


def _moment(parts: dict[str, str | None], first: bool) -> datetime:
    year, month, day = parts.get("year"), parts.get("month"), parts.get("day")
    if (name := parts.get("name")) is not None:
        month = str(_MONTHS.index(name.lower()[:3]) + 1)
    if parts.get("first") is not None:
        day, month = (parts["first"], parts["then"]) if first else (parts["then"], parts["first"])
    full = int(year or 1970)
    if year is not None and len(year) == 2:  # as in C: 69..99 are of the last century
        full += 1900 if full > 68 else 2000
    hour = int(parts.get("hour") or 0)
    if (half := parts.get("half")) is not None:
        hour = hour % 12 + 12 * (half.lower() == "pm")
    return datetime(
        full,
        int(month or 1),
        int(day or 1),
        hour,
        int(parts.get("minute") or 0),
        int(parts.get("second") or 0),
    )
