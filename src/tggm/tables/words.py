"""Words of a table: which mean a gap, and what they are as numbers where a computer wrote them."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tggm.arrays import Bools, Floats

GAPS = (
    *("", "?", "-", "--", "NA", "N/A", "n/a", "#N/A", "#NA", "<NA>", "NaN", "nan", "-NaN", "-nan", "NaT"),
    *("null", "NULL", "None", "1.#IND", "-1.#IND", "1.#QNAN", "-1.#QNAN", "#N/A N/A"),
)  # words for a missing value: those of pandas, and dashes
LONGEST = 1e15  # whole numbers up to here are exact
TRUTH = {"true": 1.0, "false": 0.0}  # in any case
Words = NDArray[np.object_]  # str, or None where there is none


def present(words: Words) -> Bools:
    """Where there is a word."""
    found: Bools = (words != np.array(None)).astype(np.bool_)
    return found


def cleaned(values: Sequence[Any], gaps: frozenset[str]) -> Words:
    """Values of any type, None for gaps, as words without blanks around them; true is spelled True."""
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
    """Words of a text file as numbers, where that loses nothing of them: no code as 007, no long number."""
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
    """Words that a computer wrote as float64, None if there is another among them."""
    try:
        values = words.astype(np.float64)
    except ValueError:
        return None
    # Python reads 1_000 and "infinity" too; in a table they are more likely mistakes
    if not np.isfinite(values).all() or any("_" in word for word in words.tolist()):
        return None
    return values


def spelled(number: float) -> str:
    """The shortest spelling of a number: 3, not 3.0."""
    return str(int(number)) if number == int(number) and abs(number) < 1e15 else repr(number)
