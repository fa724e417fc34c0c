"""Numbers as people write them: ``5,969``, ``1.234,56``, ``$12,345``, ``163,461 km``, ``<0.5``.

What a comma means is seen from the whole column. Groups of exactly three digits are thousands until a word
shows otherwise; ``0,25`` and ``1.234,56`` do. A sign of money or of a unit may stand before or behind, the
same one everywhere.
"""

import re
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

_GROUP = r"['’\u00a0\u202f]"  # between thousands, where they are no comma or point
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
_DIFFERENT = 10  # values that words with a unit need to be taken for numbers


class Spelling(NamedTuple):
    """How a column writes its numbers."""

    decimal: str = "."
    unit: str = ""  # before or behind the digits

    def value(self, word: str) -> float | None:
        """What a word is worth, None if it is no finite number."""
        if self.decimal == "." and _GROUPED.fullmatch(word):  # most of them
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
        digits = re.sub(r"['’\u00a0\u202f]", "", digits)
        digits = digits.replace(".", "").replace(",", ".") if european else digits.replace(",", "")
        return finite(digits)

    def values(self, words: Iterable[str]) -> dict[str, float]:
        """The words that are numbers, and their values."""
        found = ((word, self.value(word)) for word in set(words))
        return {word: value for word, value in found if value is not None}


def finite(word: str) -> float | None:
    """A plain finite number; 1_000 and "infinity", which Python reads too, are more likely mistakes."""
    try:
        value = float(word)
    except ValueError:
        return None
    return value if np.isfinite(value) and "_" not in word else None


def spelling_of(words: Iterable[str], decimal: str = ".", unit: str | None = None) -> Spelling:
    """How different words of a column write numbers; `decimal` is what to think where none shows it.

    A unit is one that all words with any share. It needs many different numbers: 4 WD and 2 WD stay words.
    """
    parts = [found for word in set(words) if (found := _PARTS.fullmatch(word.strip()))]
    unit = _unit(parts) if unit is None else unit
    digits = [
        found["digits"] for found in parts if {found["before"].strip(), found["after"].strip()} <= {"", unit}
    ]
    comma = _shows(_SHOWS_COMMA, [word for word in digits if "," in word])
    point = _shows(_SHOWS_POINT, [word for word in digits if "." in word or word.count(",") > 1])
    return Spelling(decimal if comma == point else "," if comma else ".", unit)


def _unit(parts: list[re.Match[str]]) -> str:
    """What all words with something around their digits have there, if it can be a unit."""
    around = {(found["before"], found["after"]) for found in parts} - {("", "")}
    units = {part.strip() for pair in around for part in pair} - {""}
    possible = all(not a or _BEFORE.fullmatch(a) for a, _ in around)
    possible = possible and all(not b or _AFTER.fullmatch(b) for _, b in around)
    several = len({found["digits"] for found in parts}) >= _DIFFERENT
    return units.pop() if possible and several and len(units) == 1 else ""


def _shows(pattern: re.Pattern[str], digits: list[str]) -> bool:
    return any(pattern.fullmatch(word) for word in digits)


def limit(word: str, spelling: Spelling) -> tuple[str, float | None]:
    """A word that is no number as a mark and the number behind it: ``<0.5`` is ``<`` and 0.5."""
    found = _LIMIT.fullmatch(word)
    value = None if found is None else spelling.value(found["rest"])
    return (word, None) if found is None or value is None else (found["mark"], value)
