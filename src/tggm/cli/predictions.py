"""Model and table as `tggm predict`, `evaluate` and `report` read them, and the columns of predictions."""

import math
import warnings
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tggm.cli.files import CommandError, read_model, say
from tggm.cli.training import encoding_notes
from tggm.tables import Preparation, Table, TableWarning, read_table

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator

BLOCK = 100_000  # rows predicted at once
MOST_DIGITS = 12  # of a number in the report's table of the worst rows
Columns = dict[str, NDArray[Any]]


class Inputs(NamedTuple):
    """A model, the description of its table, and rows for it."""

    model: Any
    stored: Preparation
    table: Table
    y: NDArray[Any]  # empty unless targets are read
    notes: list[str]


def read_inputs(
    model_path: str, data: str, *, strict: bool, quiet: bool, targets: bool = False, **reading: Any
) -> Inputs:
    """Read model and table and print notes; with `targets`, keep only rows that have one."""
    model, stored = read_model(model_path, data)
    table = read_table(data, missing=stored.gaps, **reading)
    notes: list[str] = []
    y: NDArray[Any] = np.empty(0)
    if targets:
        table, y = rows_with_target(model, stored, table, notes)
    notes += encoding_notes(model, table, strict=strict)
    for note in () if quiet else notes:
        say(f"note: {note}")
    return Inputs(model, stored, table, y, notes)


def rows_with_target(
    model: "BaseEstimator", stored: Preparation, table: Table, notes: list[str]
) -> tuple[Table, NDArray[Any]]:
    """Return the rows that have a target, and their targets; classes must be known to the model."""
    target = stored.target
    table.require([target.name])
    known = target.known(table)
    if not known.any():
        raise CommandError(
            f"the target {target.name!r} of {table.source} is empty in all rows; nothing to compare."
        )
    if not known.all():
        notes.append(f"{target.name}: {int((~known).sum())} rows without a target left out")
    table = table.take(known)
    y = target.values(table)
    if target.is_class:
        strange = ~np.isin(y, model.classes_)
        if strange.any():
            shown = ", ".join(repr(label) for label in np.unique(y[strange])[:3].tolist())
            raise CommandError(
                f"{table.source} has classes of {target.name!r} that the model does not know ({shown}); "
                "leave those rows out, or fit again with them."
            )
    return table, y


def parse_levels(interval: float, quantiles: str | None) -> list[float]:
    """Return the quantile levels; they and the interval must be strictly between 0 and 1."""
    if not 0 < interval < 1:
        raise CommandError(f"--interval is a probability, as 0.9; got {interval:g}.")
    try:
        levels = [float(word) for word in (quantiles or "").split(",") if word.strip()]
    except ValueError:
        levels = [-1.0]
    if not all(0 < level < 1 for level in levels):
        raise CommandError(f"--quantiles are probabilities, as 0.05,0.5,0.95; got {quantiles!r}.")
    return levels


def predicted_columns(
    given: Inputs, interval: float, levels: list[float], *, parts: bool, guarantee: bool,
    threshold: float | None, explain: bool,
) -> Columns:  # fmt: skip
    """Return the columns of predictions, named after the target."""
    name, blocks = given.stored.target.name, []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TableWarning)  # `encoding_notes` has reported these
        for begin in range(0, len(given.table), BLOCK):
            rows = given.table.take(np.arange(begin, min(begin + BLOCK, len(given.table))))
            if given.stored.target.is_class:
                blocks.append(_classes(given.model, name, rows, threshold))
            else:
                blocks.append(_numbers(given.model, name, rows, interval, levels, parts, guarantee))
        columns = {key: np.concatenate([block[key] for block in blocks]) for key in blocks[0]}
        return columns | (_explanation(given, threshold) if explain else {})


def _numbers(
    model: "BaseEstimator", name: str, rows: Table, interval: float, levels: list[float],
    parts: bool, guarantee: bool,
) -> Columns:  # fmt: skip
    mean, std = model.predict(rows, return_std=True)
    tail = (1 - interval) / 2
    ends = model.predict_quantiles(rows, [tail, 1 - tail, *levels])
    low, high = ends[:, 0], ends[:, 1]
    if guarantee:
        try:
            low, high = model.predict_interval(rows, interval, guarantee=True)
        except ValueError as error:
            raise CommandError(f"{error} With the command line: tggm fit --guarantee {interval:g}.") from None
    columns = {name: mean, f"{name}_std": std, f"{name}_low": low, f"{name}_high": high}
    if parts:
        _, noise, disagreement = model.predict(rows, return_std="parts")
        columns |= {f"{name}_noise": noise, f"{name}_disagreement": disagreement}
    return columns | {f"{name}_q{level:g}": ends[:, 2 + k] for k, level in enumerate(levels)}


def _classes(model: "BaseEstimator", name: str, rows: Table, threshold: float | None) -> Columns:
    p = model.predict_proba(rows)
    best = _chosen(p, threshold)
    columns = {name: model.classes_[best], f"{name}_probability": p[np.arange(len(p)), best]}
    return columns | {f"p({label})": p[:, k] for k, label in enumerate(model.classes_.tolist())}


def _chosen(p: NDArray[Any], threshold: float | None) -> NDArray[Any]:
    best: NDArray[Any] = p.argmax(1) if threshold is None else (p[:, 1] >= threshold).astype(int)
    return best


def _explanation(given: Inputs, threshold: float | None) -> Columns:
    """Return a base and the contribution of each column used, which add up to the prediction.

    For classes they add up to the probability of the class that is predicted for the row.
    """
    found = given.model.explain(given.table)
    base, parts = np.broadcast_to(found.base, found.prediction.shape), found.parts
    if given.stored.target.is_class:
        if base.ndim == 1:  # of the second of two classes
            base, parts = np.stack([1 - base, base], axis=1), np.stack([-parts, parts], axis=2)
        rows, best = np.arange(len(base)), _chosen(base + parts.sum(1), threshold)
        base, parts = base[rows, best], parts[rows, :, best]
    used = {column.name for column in given.model.table_.columns_}
    return {"base": base} | {
        f"part({name})": parts[:, k] for k, name in enumerate(found.names) if name in used
    }


def copied_columns(table: Table, predicted: Columns, plain: bool) -> Columns:
    """Return the columns of the table; one with the name of a prediction gets the suffix "_observed".

    With `plain`, columns of numbers stay numbers; without, they are text with all their digits.
    """
    columns = {}
    for name in table.names:
        values = table.columns[name]
        as_read = values if plain and values.dtype.kind == "f" else table.words(name)
        columns[f"{name}_observed" if name in predicted else name] = as_read
    return columns


# ---- report ----------------------------------------------------------------------------------------------


def report_arguments(given: Inputs, model_path: str) -> dict[str, Any]:
    """Return what `render_report` needs beside the model, the rows and their targets."""
    stored, table, fitted = given.stored, given.table, given.stored.fitted
    origin = {"model": model_path}
    if fitted is not None:
        origin["fitted to"] = f"{fitted.rows} rows of {fitted.source}, seed {fitted.seed}"
    origin |= {
        "judged on": f"{len(table)} rows of {table.source}",
        "date of this page": datetime.now(UTC).strftime("%Y-%m-%d"),
        "columns used": ", ".join(column.name for column in stored.columns),
        "columns left out": "; ".join(f"{name}: {why}" for name, why in stored.left_out) or "none",
        "notes on these rows": "; ".join(given.notes) or "none",
    }
    return {
        "target_name": stored.target.name,
        "baselines": stored.baselines,
        "row_numbers": table.places + 1,
        "shown": _shown_columns(given),
        "provenance": list(origin.items()),
    }


def _shown_columns(given: Inputs) -> dict[str, list[Any]]:
    """Return the columns of the table except the target, those of the model first, as numbers or words."""
    table, used = given.table, {column.name: column.categories for column in given.stored.columns}
    others = [name for name in table.names if name not in used and name != given.stored.target.name]

    def cells(name: str) -> list[Any]:  # numbers as in the table, sorted by their value
        words = ["" if word is None else word for word in table.words(name)]
        numbers = table.numbers_or_none(name)
        if used.get(name, True) or numbers is None:  # categories, or not used by the model
            return words
        return [
            (word if len(word) <= MOST_DIGITS else f"{x:.6g}", None if math.isnan(x) else x)
            for word, x in zip(words, numbers.tolist(), strict=True)
        ]

    return {name: cells(name) for name in (*used, *others)}
