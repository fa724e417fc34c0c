"""Read the model and table of `tggm predict`, `evaluate` and `report`, and make columns of predictions."""

import warnings
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tggm.cli.files import CommandError, read_data, read_model, say, table_rows
from tggm.metrics import cost_threshold
from tggm.predictive.calibration import evenly_spaced
from tggm.report.scores import REMEDY, aligned, by_group, drift_warnings, four_digits, log_score
from tggm.tables import Preparation, Table, TableWarning
from tggm.tables.baselines import Figures, choose_class, positive_class, score_all

BLOCK = 100_000  # rows predicted at once
FEW_ROWS = 5000  # that NumPy predicts in less time than JAX and scikit-learn are imported (1.3 s)
LOSS = 0.5  # decrease of the mean log-score since the fit, in nats, that is reported
LEAST_ROWS = 20  # from which it is reported
EXPLAINED = 300  # rows for average contributions
Columns = dict[str, NDArray[Any]]


class Inputs(NamedTuple):
    """A model, the description of its table, and rows for it."""

    model: Any
    stored: Preparation
    table: Table
    y: NDArray[Any]  # empty unless targets are read
    notes: list[str]
    positive: int | None  # place of the positive one of two classes
    threshold: float | None  # probability from which it is chosen
    groups: NDArray[Any] | None = None  # a label for each row

    @property
    def positive_name(self) -> str:
        """Return the name of the positive class."""
        return "" if self.positive is None else str(self.model.classes_[self.positive])


def read_inputs(given: Any, *, targets: bool = False, backends: Sequence[str] = ("jax",)) -> Inputs:
    """Read model and table and print notes; with `targets`, keep only rows that have one."""
    model, stored = read_model(given.model, given.data, backends)
    threshold, named = getattr(given, "threshold", None), getattr(given, "positive", None)
    classes, named = getattr(model, "classes_", ()), named or (stored.fitted and stored.fitted.positive)
    table = read_data(given, stored.gaps)
    if len(table) > FEW_ROWS and len(backends) > 1:
        model, _ = read_model(given.model, given.data)
    notes: list[str] = []
    y: NDArray[Any] = np.empty(0)
    if targets:
        table, y = rows_with_target(model, stored, table, notes)
    positive = positive_class(classes, y, named, stored.baselines)
    if positive is None and (threshold or getattr(given, "costs", None)):
        raise CommandError("--threshold and --costs are for two classes; leave them out.")
    wide = getattr(given, "interval", 0.9) != 0.9 and not getattr(given, "guarantee", True)
    if stored.target.is_class and (wide or getattr(given, "quantiles", None)):
        option = "--interval" if wide else "--quantiles"
        raise CommandError(f"{option} is for numbers, but the model predicts classes; leave it out.")
    groups = None
    if (name := getattr(given, "groups", None)) is not None:
        table.require([name])
        groups = table.numbers_or_none(name)
        groups = np.asarray(table.words(name), object) if groups is None else groups
    names = [column.name for column in model.table_.columns_]
    with warnings.catch_warnings(record=True, action="always") as found:
        table = table.completed(names)
    notes += [str(warning.message) for warning in found]
    notes += model.table_.replacement_notes(table)
    for note in () if given.quiet else notes:
        say(f"note: {note}")
    return Inputs(model, stored, table, y, notes, positive, threshold, groups)


def rows_with_target(model: Any, stored: Preparation, table: Table, notes: list[str]) -> tuple[Table, Any]:
    """Return the rows that have a target, and their targets; classes must be those of the model."""
    target = stored.target
    table.require([target.name])
    known = target.known(table)
    if not known.any():
        raise CommandError(f"{table.source} has no value of the target {target.name!r}; nothing to compare.")
    if not known.all():
        notes.append(f"{target.name}: {int((~known).sum())} rows without a target are left out")
    table = table.take(known)
    y = target.values(table)
    if target.is_class and len(strange := np.setdiff1d(y, model.classes_)):
        shown = ", ".join(repr(label) for label in strange[:3].tolist())
        raise CommandError(f"the model has no class {shown} of {target.name!r}; drop such rows or fit again.")
    return table, y


def score_inputs(inputs: Inputs, censored: str | None = None) -> tuple[Figures, Any, list[str]]:
    """Return scores of the model and its baselines, coverage of groups, and warnings about a drift."""
    from tggm.cli.training import sides_of  # needs JAX

    stored, model, choice = inputs.stored, inputs.model, (inputs.threshold, inputs.positive)
    with warnings.catch_warnings(action="ignore", category=TableWarning):  # `read_inputs` has reported these
        X = model.table_.transform(inputs.table)
        side = sides_of(inputs.table, censored, stored.target)
        figures = score_all(model, inputs.table, stored.baselines, X, inputs.y, *choice, side)
        is_class = stored.target.is_class
        prediction = (model.predict_log_proba if is_class else model.predict_dist)(inputs.table)
    outcome = np.searchsorted(model.classes_, inputs.y) if is_class else inputs.y
    parts = by_group(prediction, outcome, inputs.groups) if side is None else {}
    found = drift_warnings(model, X, stored.feature_names)
    if stored.fitted is not None and stored.fitted.figures and len(X) >= LEAST_ROWS:
        new, known = log_score(figures["model"]), log_score(stored.fitted.figures["model"])
        if new <= known - LOSS:
            text = "the log-likelihood is lower than on the rows held out in the fit"
            found.append(f"{text}: {new:.2f} instead of {known:.2f} per row; {REMEDY}")
    return figures, parts, found


def choose_threshold(inputs: Inputs, costs: list[float]) -> tuple[Inputs, str]:
    """Return inputs with the threshold of lowest cost on these rows, and a sentence about it."""
    p = inputs.model.predict_proba(inputs.table)[:, inputs.positive]
    alarm, miss = costs
    is_positive = inputs.y == inputs.model.classes_[inputs.positive]
    best, cost = cost_threshold(is_positive, p, false_alarm=alarm, miss=miss)
    usual = np.mean(np.where(is_positive, miss * (p < 0.5), alarm * (p >= 0.5)))
    name = inputs.positive_name
    text = (
        f"threshold {best:.4g} has the lowest cost on these rows, {cost:.4g} per row (at 0.5: {usual:.4g}),\n"
        f"if a false alarm costs {alarm:g} and a miss of class {name} costs {miss:g}; these scores use it;\n"
        f"predict with it: tggm predict --threshold {best:.4g} --positive {name}"
    )
    return inputs._replace(threshold=best), text


def predicted_columns(inputs: Inputs, given: Any) -> Columns:
    """Return the columns of predictions, named after the target."""
    predicted, blocks = _classes if inputs.stored.target.is_class else _numbers, []
    with warnings.catch_warnings(action="ignore", category=TableWarning):  # `read_inputs` has reported these
        for begin in range(0, len(inputs.table), BLOCK):
            rows = inputs.table.take(np.arange(begin, min(begin + BLOCK, len(inputs.table))))
            try:
                blocks.append(predicted(inputs, rows, given))
            except ValueError as error:
                if not given.guarantee:
                    raise
                how = f"With the command line: tggm fit --guarantee {given.interval:g}."
                raise CommandError(f"{error} {how}") from None
        columns = {key: np.concatenate([block[key] for block in blocks]) for key in blocks[0]}
        return columns | (explanation(inputs) if given.explain else {})


def _numbers(inputs: Inputs, rows: Table, given: Any) -> Columns:
    model, name = inputs.model, inputs.stored.target.name
    dist, tail = model.predict_dist(rows), (1 - given.interval) / 2
    low, high, *more = dist.ppf(np.array([[tail, 1 - tail, *given.quantiles]])).T
    if given.guarantee:
        low, high = model.predict_interval(rows, given.interval, guarantee=True)
    columns = {name: dist.mean(), f"{name}_std": dist.std(), f"{name}_low": low, f"{name}_high": high}
    columns |= {f"{name}_q{level:g}": ends for level, ends in zip(given.quantiles, more, strict=True)}
    return columns | _novelty(model, rows)


def _classes(inputs: Inputs, rows: Table, given: Any) -> Columns:
    model, name = inputs.model, inputs.stored.target.name
    p = model.predict_proba(rows)
    best = choose_class(p, inputs.threshold, inputs.positive)
    columns = {name: model.classes_[best], f"{name}_probability": p[np.arange(len(p)), best]}
    if given.guarantee:
        found = model.predict_set(rows, given.interval)
        labels = np.array([str(label) for label in model.classes_.tolist()])
        columns[f"{name}_set"] = np.array(["|".join(labels[row]) for row in found], dtype=object)
    columns |= {f"p({label})": p[:, k] for k, label in enumerate(model.classes_.tolist())}
    return columns | _novelty(model, rows)


def _novelty(model: Any, rows: Table) -> Columns:
    """Return how unlike the training rows each row is; nothing if the model stores no training rows."""
    return {} if model.fitted_.train is None else {"novelty": model.novelty(rows).round(3)}


def explanation(inputs: Inputs, background: Table | None = None) -> Columns:
    """Return a base and the contribution of each column used, which add up to the prediction.

    For classes they add up to the probability of the class that is predicted for the row.
    """
    found = inputs.model.explain(inputs.table, background)
    base, parts = np.broadcast_to(found.base, found.prediction.shape), found.parts
    if inputs.stored.target.is_class:
        if base.ndim == 1:  # of the second of two classes
            base, parts = np.stack([1 - base, base], axis=1), np.stack([-parts, parts], axis=2)
        best = choose_class(base + parts.sum(1), inputs.threshold, inputs.positive)
        rows = np.arange(len(base))
        base, parts = base[rows, best], parts[rows, :, best]
    used = {column.name for column in inputs.stored.columns}
    return {"base": base} | {f"part({n})": parts[:, k] for k, n in enumerate(found.names) if n in used}


def explained(inputs: Inputs, row: int | None) -> tuple[Columns, str]:
    """Return the contribution of each column to one row, or its average size, as columns and as text."""
    table, name = inputs.table, inputs.stored.target.name
    if row is not None and row > len(table):
        raise CommandError(f"--row {row} is beyond the {len(table)} rows of {table.source}.")
    some = table.take(evenly_spaced(np.arange(len(table)), EXPLAINED))
    part = explanation(inputs._replace(table=some if row is None else table.take(np.array([row - 1]))), some)
    base = float(part.pop("base")[0])
    names = [key.removeprefix("part(").removesuffix(")") for key in part]
    sizes = np.array([values[0] if row is not None else np.abs(values).mean() for values in part.values()])
    found: Columns = {"column": np.array(names, dtype=object), "contribution": sizes}
    if row is not None:
        found["value"] = np.array([table.words(key)[row - 1] for key in names], dtype=object)
    elif name in table.columns and table.known(name).all():
        worth = inputs.model.permutation_importances(some, inputs.stored.target.values(some))
        place = [worth.names.index(key) for key in names]
        found |= {"importance": worth.mean[place], "error": np.nan_to_num(worth.error[place])}
    found = {key: values[np.argsort(-np.abs(sizes), kind="stable")] for key, values in found.items()}
    lines = [[four_digits(x) if isinstance(x, float) else str(x) for x in line] for line in table_rows(found)]
    of = repr(name)
    if inputs.stored.target.is_class:
        label = "the predicted class" if row is None else inputs.model.predict(table)[row - 1]
        of = f"the probability that {name!r} is {label}"
    text = f"average size of contributions to {of} over {len(some)} rows"
    if row is not None:
        value = four_digits(base + sizes.sum())
        text = f"row {row}: the prediction of {of} is {value}, the average is {four_digits(base)}"
    elif "importance" in found:
        score = "log-probability per row" if inputs.stored.target.is_class else "R²"
        text += f"; importance: loss of {score} if the column is shuffled"
    return found, f"{text}\n\n{aligned([list(found), *lines])}\n"


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
