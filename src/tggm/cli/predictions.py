"""Read the model and table of `tggm predict`, `evaluate` and `report`, and make columns of predictions."""

import warnings
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tggm.cli.files import CommandError, read_data, read_model, say
from tggm.cli.training import encoding_notes
from tggm.report.scores import REMEDY, drift_warnings, log_score
from tggm.tables import Preparation, Table, TableWarning
from tggm.tables.baselines import Figures, score_all

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator

BLOCK = 100_000  # rows predicted at once
LOSS = 0.5  # decrease of the mean log-score since the fit, in nats, that is reported
LEAST_ROWS = 20  # from which it is reported
Columns = dict[str, NDArray[Any]]
_FIT = "With the command line: tggm fit --guarantee"


class Inputs(NamedTuple):
    """A model, the description of its table, and rows for it."""

    model: Any
    stored: Preparation
    table: Table
    y: NDArray[Any]  # empty unless targets are read
    notes: list[str]


def read_inputs(given: Any, *, targets: bool = False) -> Inputs:
    """Read model and table and print notes; with `targets`, keep only rows that have one."""
    model, stored = read_model(given.model, given.data)
    if getattr(given, "threshold", None) is not None and len(getattr(model, "classes_", ())) != 2:
        raise CommandError("--threshold is for two classes; leave it out.")
    table = read_data(given, stored.gaps)
    notes: list[str] = []
    y: NDArray[Any] = np.empty(0)
    if targets:
        table, y = rows_with_target(model, stored, table, notes)
    names = [column.name for column in model.table_.columns_]
    if given.strict:
        table.require(names)
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        table = table.completed(names)
    notes += [str(warning.message) for warning in found]
    notes += encoding_notes(model, table, strict=given.strict)
    for note in () if given.quiet else notes:
        say(f"note: {note}")
    return Inputs(model, stored, table, y, notes)


def rows_with_target(
    model: "BaseEstimator", stored: Preparation, table: Table, notes: list[str]
) -> tuple[Table, NDArray[Any]]:
    """Return the rows that have a target, and their targets; classes must be those of the model."""
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
    if target.is_class and len(strange := np.setdiff1d(y, model.classes_)):
        shown = ", ".join(repr(label) for label in strange[:3].tolist())
        raise CommandError(
            f"{table.source} has classes of {target.name!r} that the model was not fitted to ({shown}); "
            "leave those rows out, or fit again with them."
        )
    return table, y


def score_inputs(inputs: Inputs, threshold: float | None) -> tuple[Figures, list[str]]:
    """Return scores of the model and of its baselines, and warnings about a drift of the rows."""
    stored, model = inputs.stored, inputs.model
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TableWarning)  # `encoding_notes` has reported these
        X = model.table_.transform(inputs.table)
        figures = score_all(model, inputs.table, stored.baselines, X, inputs.y, threshold)
    found = drift_warnings(model, X, stored.feature_names)
    if stored.fitted is not None and stored.fitted.figures and len(X) >= LEAST_ROWS:
        new, known = log_score(figures["model"]), log_score(stored.fitted.figures["model"])
        if new <= known - LOSS:
            text = "observations are less likely than those held out in the fit"
            found.append(f"{text}: {new:.2f} and {known:.2f} nats per row; {REMEDY}")
    return figures, found


def predicted_columns(inputs: Inputs, given: Any) -> Columns:
    """Return the columns of predictions, named after the target."""
    predicted, blocks = _classes if inputs.stored.target.is_class else _numbers, []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TableWarning)  # `encoding_notes` has reported these
        for begin in range(0, len(inputs.table), BLOCK):
            rows = inputs.table.take(np.arange(begin, min(begin + BLOCK, len(inputs.table))))
            blocks.append(predicted(inputs.model, inputs.stored.target.name, rows, given))
        columns = {key: np.concatenate([block[key] for block in blocks]) for key in blocks[0]}
        return columns | (_explanation(inputs, given.threshold) if given.explain else {})


def _numbers(model: "BaseEstimator", name: str, rows: Table, given: Any) -> Columns:
    mean, std = model.predict(rows, return_std=True)
    tail = (1 - given.interval) / 2
    ends = model.predict_quantiles(rows, [tail, 1 - tail, *given.quantiles])
    low, high = ends[:, 0], ends[:, 1]
    if given.guarantee:
        try:
            low, high = model.predict_interval(rows, given.interval, guarantee=True)
        except ValueError as error:
            raise CommandError(f"{error} {_FIT} {given.interval:g}.") from None
    columns = {name: mean, f"{name}_std": std, f"{name}_low": low, f"{name}_high": high}
    if given.parts:
        _, noise, disagreement = model.predict(rows, return_std="parts")
        columns |= {f"{name}_noise": noise, f"{name}_disagreement": disagreement}
    columns |= {f"{name}_q{level:g}": ends[:, 2 + k] for k, level in enumerate(given.quantiles)}
    return columns | _novelty(model, rows)


def _classes(model: "BaseEstimator", name: str, rows: Table, given: Any) -> Columns:
    p = model.predict_proba(rows)
    best = _choose_class(p, given.threshold)
    columns = {name: model.classes_[best], f"{name}_probability": p[np.arange(len(p)), best]}
    if given.guarantee:
        try:
            found = model.predict_set(rows, given.interval)
        except ValueError as error:
            raise CommandError(f"{error} {_FIT} {given.interval:g}.") from None
        labels = np.array([str(label) for label in model.classes_.tolist()])
        columns[f"{name}_set"] = np.array(["|".join(labels[row]) for row in found], dtype=object)
    columns |= {f"p({label})": p[:, k] for k, label in enumerate(model.classes_.tolist())}
    return columns | _novelty(model, rows)


def _novelty(model: "BaseEstimator", rows: Table) -> Columns:
    """Return how unlike the training rows each row is; nothing if the model stores no training rows."""
    return {} if model.fitted_.train is None else {"novelty": model.novelty(rows).round(3)}


def _choose_class(p: NDArray[Any], threshold: float | None) -> NDArray[Any]:
    best: NDArray[Any] = p.argmax(1) if threshold is None else (p[:, 1] >= threshold).astype(int)
    return best


def _explanation(inputs: Inputs, threshold: float | None) -> Columns:
    """Return a base and the contribution of each column used, which add up to the prediction.

    For classes they add up to the probability of the class that is predicted for the row.
    """
    found = inputs.model.explain(inputs.table)
    base, parts = np.broadcast_to(found.base, found.prediction.shape), found.parts
    if inputs.stored.target.is_class:
        if base.ndim == 1:  # of the second of two classes
            base, parts = np.stack([1 - base, base], axis=1), np.stack([-parts, parts], axis=2)
        rows, best = np.arange(len(base)), _choose_class(base + parts.sum(1), threshold)
        base, parts = base[rows, best], parts[rows, :, best]
    used = {column.name for column in inputs.stored.columns}
    return {"base": base} | {
        f"part({name})": parts[:, k] for k, name in enumerate(found.names) if name in used
    }


def copied_columns(table: Table, predicted: Columns, plain: bool) -> Columns:
    """Return the columns of the table; one with the name of a prediction gets the suffix "_observed".

    With `plain`, columns of numbers stay numbers; without, they are text with all their digits.
    """
    return {
        f"{name}_observed" if name in predicted else name:
            values if plain and values.dtype.kind == "f" else table.words(name)
        for name, values in table.columns.items()
    }  # fmt: skip


def provenance(inputs: Inputs, path: str) -> list[tuple[str, str]]:
    """Return names and values about the origin of a report."""
    stored, table, fitted = inputs.stored, inputs.table, inputs.stored.fitted
    origin = {"model": path}
    if fitted is not None:
        origin["fitted to"] = f"{fitted.rows} rows of {fitted.source}, seed {fitted.seed}"
    origin |= {
        "scored on": f"{len(table)} rows of {table.source}",
        "date of this page": datetime.now(UTC).strftime("%Y-%m-%d"),
        "columns used": ", ".join(column.name for column in stored.columns),
        "columns left out": "; ".join(f"{name}: {why}" for name, why in stored.left_out) or "none",
        "notes on these rows": "; ".join(inputs.notes) or "none",
    }
    return list(origin.items())
