"""What a served model answers: which columns it takes, and predictions for rows, as JSON can hold them.

Rows come as text, go through the reader of CSV files and the preparation of the model, and nothing else.
"""

import csv
import io
import json
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np

from tggm.arrays import Floats
from tggm.tables import Preparation, Table, TableError
from tggm.tables.columns import Category, Column, DateColumn, Number, Ordinal, Statistic
from tggm.tables.reading import parse_csv

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator

NAME = "the request"
MOST_ROWS = 10_000
MOST_DENSITIES = 20  # rows of which a density is drawn
MOST_WORDS = 200  # of a column that are offered
POINTS = 161
LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)
REACH = 3.0  # deviations of a column that a slider covers


class Answers:
    """A model that takes numbers, with the preparation of its table."""

    def __init__(self, model: "BaseEstimator", preparation: Preparation) -> None:
        self._predictor, self._preparation = model, preparation
        self._lock = Lock()  # one prediction at a time

    def description(self) -> dict[str, Any]:
        """What the page shows: target and columns."""
        target = self._preparation.target
        x = self._predictor.fitted_.scales.x
        columns, begin = [], 0
        for column in self._preparation.columns:
            columns.append(_described(column, float(x.shift[begin]), float(x.scale[begin])))
            begin += len(column.features)
        return {"target": target.name, "task": target.task, "columns": columns}

    def example(self) -> bytes:
        """A question that every model can answer."""
        row = {column["name"]: column.get("value") for column in self.description()["columns"]}
        return json.dumps({"rows": [row]}).encode()

    def of_json(self, content: bytes) -> dict[str, Any]:
        """Predictions for ``{"rows": [{column: value, ...}, ...]}``; a value may be null."""
        try:
            rows = json.loads(content)["rows"]
        except (ValueError, KeyError, TypeError, RecursionError):
            raise TableError('the body must be JSON, as {"rows": [{"size": 3, "kind": "a"}]}.') from None
        if not isinstance(rows, list) or not rows or not all(isinstance(row, dict) for row in rows):
            raise TableError("`rows` must be a list of objects, one at least.")
        names = [column.name for column in self._preparation.columns]
        missing = [name for name in names if name not in rows[0]]
        if missing:
            raise TableError(f"a row has no column {missing[0]!r}; it needs {', '.join(names)}.")
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(["row", *names])
        writer.writerows([k, *(_cell(row.get(name)) for name in names)] for k, row in enumerate(rows))
        return self.of_csv(text.getvalue().encode(), ",")

    def of_csv(self, content: bytes, delimiter: str | None = None) -> dict[str, Any]:
        """Predictions for the rows of a CSV file."""
        try:
            text = content.decode("utf-8-sig")
        except UnicodeDecodeError:
            raise TableError("the body must be UTF-8 text.") from None
        table = parse_csv(text, NAME, delimiter=delimiter, missing=self._preparation.gaps)
        if len(table) > MOST_ROWS:
            raise TableError(f"{len(table)} rows at once are too many; send {MOST_ROWS} at most.")
        return self._predicted(table)

    def _predicted(self, table: Table) -> dict[str, Any]:
        notes: list[str] = []
        X = self._preparation.features(table, notes)
        with self._lock:
            found = self._classes(X) if self._preparation.target.is_class else self._numbers(X)
        return found | {"notes": notes}

    def _classes(self, X: Floats) -> dict[str, Any]:
        p = self._predictor.predict_proba(X)
        labels = [str(label) for label in self._predictor.classes_.tolist()]
        best = [labels[k] for k in p.argmax(1)]
        return {"labels": labels, "probabilities": p.tolist(), "label": best}

    def _numbers(self, X: Floats) -> dict[str, Any]:
        law = self._predictor.predict_dist(X)
        found = {"mean": _finite(law.mean()), "deviation": _finite(law.std()), "levels": LEVELS}
        found["quantiles"] = _finite(law.ppf(np.array([LEVELS])))
        few = law[np.arange(min(len(X), MOST_DENSITIES))]
        low, high = (few.ppf(q)[:, None] for q in (0.001, 0.999))
        y = low + (high - low) * np.linspace(0, 1, POINTS)[None, :]
        found["densities"] = [
            {"y": a, "density": b} for a, b in zip(_finite(y), _finite(few.pdf(y)), strict=True)
        ]
        return found


def _described(column: Column, middle: float, spread: float) -> dict[str, Any]:
    """What the page needs to make an input of a column."""
    made: dict[str, Any] = {"name": column.name, "about": column.description[:200], "kind": "text"}
    match column:
        case Number(fill=fill):
            ends = {"low": middle - REACH * spread, "high": middle + REACH * spread}
            made |= {"kind": "number", "value": fill, **ends}
        case Category(levels=levels) | Ordinal(levels=levels) | Statistic(levels=levels):
            made |= {
                "kind": "words",
                "words": list(levels[:MOST_WORDS]),
                "value": levels[0] if levels else "",
            }
        case DateColumn(origin=origin, fill=fill, clock=clock):
            day = np.datetime64("1970-01-01") + np.timedelta64(int(origin + 365.2425 * fill), "D")
            made |= {"value": "12:00" if clock else str(day)}
    return made


def _cell(value: Any) -> str:
    """A value of JSON as a field of a CSV file."""
    if value is None:
        return ""
    if isinstance(value, str | int | float):
        return str(value).replace("\0", "")
    raise TableError(f"a value must be a number, a word or null; got a {type(value).__name__}.")


def _finite(values: Any) -> Any:
    """Lists of numbers; what is no number is null, for JSON has no other."""
    array = np.asarray(values, dtype=np.float64).astype(object)
    array[~np.isfinite(np.asarray(values, dtype=np.float64))] = None
    return array.tolist()
