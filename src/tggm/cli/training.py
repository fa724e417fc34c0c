"""Fit a model for `tggm fit`: choose the target, hold rows out, fit an estimator, compute scores.

A table is in memory. A folder of Parquet files is not: its columns are encoded as learned from a sample of
its rows, and the estimator is fitted to a stream of all rows.
"""

import csv
import re
import sys
import time
import warnings
from argparse import Namespace
from ast import literal_eval
from collections.abc import Iterator, Sequence
from dataclasses import replace
from difflib import get_close_matches
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from tggm.arrays import Ints
from tggm.censored import sides
from tggm.cli.files import CommandError, interruption, say
from tggm.data import Piece, Stream
from tggm.data.stream import hash_rows
from tggm.estimators import TGGMClassifier, TGGMRegressor
from tggm.files import model_file
from tggm.tables import Table, TableWarning, Target, choose_target, stream_transformer, training_features
from tggm.tables.baselines import fit_baselines, positive_class, score_all
from tggm.tables.reading import Folder
from tggm.tables.schema import FitRecord
from tggm.tables.table import stack_tables
from tggm.tables.transformer import CHOICES
from tggm.training import CheckpointWarning
from tggm.training.checkpoint import CheckpointError
from tggm.training.train import Printer

LEAST_ROWS = 10
MOST_COLUMNS = 20_000
MOST_HELD_OUT = 10_000  # rows; the scores are then precise enough
QUICK_STEPS = 2000  # gradient steps with --quick
MOST_ROWS_OF_TEN = 50_000  # a regression with more rows gets five members instead of ten
# of `tggm fit`, besides --set
OPTIONS = ("hidden", "members", "epochs", "guarantee", "groups", "checkpoint", "lower", "upper")
NAMES = {"n_members": "--members", "max_epochs": "--epochs", "support": "--lower and --upper"} | {
    name: f"--{name}" for name in OPTIONS
}
Fit = tuple[Any, bytes, Table | None, dict[str, Any]]  # model, content of its file, held-out rows, facts
FIXED = {"checkpoint", "network", "random_state", "verbose", *CHOICES}  # not set by --set


def names_in(texts: Sequence[str], known: Sequence[str]) -> list[str]:
    """Return column names; each text is a known name, or several such as a,b or a,"b, in metres"."""
    names: list[str] = []
    for text in texts:
        parts = [text] if text in known else next(csv.reader([text], skipinitialspace=True), [])
        names += [part if part in known else part.strip() for part in parts if part.strip()]
    return names


def build_estimator(options: Namespace, is_class: bool, n_rows: int) -> Any:
    """Return an unfitted estimator with the given settings, or the defaults for this number of rows."""
    given: dict[str, Any] = {"hidden": options.hidden, "n_members": options.members}
    given |= {"max_epochs": options.epochs, "guarantee": options.guarantee, "checkpoint": options.checkpoint}
    if options.lower is not None or options.upper is not None:
        given["support"] = (options.lower, options.upper)
    settings = {name: value for name, value in given.items() if value is not None}
    settings |= {kind: getattr(options, kind) for kind in CHOICES}
    members = 4 if options.quick else 10 if n_rows < MOST_ROWS_OF_TEN and not is_class else 5
    model: Any = (TGGMClassifier if is_class else TGGMRegressor)(n_members=members, random_state=options.seed)
    if options.quick:
        batch = min(max(n_rows / 8, 128), 512)
        model.set_params(max_epochs=max(60, round(QUICK_STEPS * batch / max(n_rows, batch))))
    known = sorted(set(model.get_params()) - FIXED)
    for text in options.settings:
        name, mark, word = text.partition("=")
        if not mark or name not in known:
            near = get_close_matches(name, known, n=1)
            advice = f"did you mean {near[0]}?" if near else f"settings are {', '.join(known)}."
            raise CommandError(f"--set takes name=value, with the name of a setting; got {text!r}; {advice}")
        try:
            settings[name] = literal_eval(word)
        except (ValueError, SyntaxError):
            settings[name] = word
    if unknown := set(settings) - set(model.get_params()):
        name = NAMES[unknown.pop()]
        raise CommandError(f"{name} is for numbers, but the target has classes; leave it out.")
    return model.set_params(**settings)


def find_target(table: Table, options: Namespace) -> tuple[Target, str]:
    """Return the target and how its task was found; raise if too few rows have a value."""
    if len(table.columns) > MOST_COLUMNS:
        found = f"{table.source} has {len(table.columns)} columns; a fit takes at most {MOST_COLUMNS}"
        raise CommandError(f"{found}: keep those that matter, or fit a sparse matrix in Python.")
    table.require([options.target])
    rows = int(table.known(options.target).sum())
    if 0 < rows < LEAST_ROWS:  # no rows at all is an error of `choose_target`
        found = f"{rows} row{'s' * (rows > 1)}{' with a target' * (rows < len(table))}"
        raise CommandError(f"{table.source} has {found}; a fit needs {LEAST_ROWS} or more: gather more rows.")
    return choose_target(table, options.target, options.task)


def resolve_columns(table: Table, options: Namespace) -> Namespace:
    """Return the options with lists of column names, without the target and the groups."""
    names = {kind: names_in(getattr(options, kind), list(table.columns)) for kind in CHOICES}
    table.require([name for found in names.values() for name in found])
    own = (options.target, options.groups)
    kept = {kind: [name for name in found if name not in own] for kind, found in names.items()}
    return Namespace(**(vars(options) | kept))


def input_columns(table: Table, options: Namespace) -> Table:
    """Return the inputs, without the target and the groups."""
    inputs = table.without(options.target, *filter(None, (options.groups, options.censored)))
    return replace(inputs, missing=tuple(options.missing))


def sides_of(table: Table, column: str | None, target: Target) -> NDArray[Any] | None:
    """Return the sides of censored targets in a column of 0, 1 and −1, or of words."""
    if column is None:
        return None
    if target.is_class:
        raise CommandError("--censored is for numbers, but the target has classes; leave it out.")
    table.require([column])
    words = np.array([str(word) for word in table.words(column)])
    try:
        number = np.char.isdecimal(np.char.lstrip(words, "-+")).all()
        return sides("censored", words.astype(float) if number else words, words.shape)
    except ValueError as error:
        raise CommandError(f"--censored {column}{str(error).removeprefix('`censored`')}") from None


def split(y: NDArray[Any], fraction: float, seed: int, *, stratified: bool) -> tuple[Ints, Ints]:
    """Return rows to train on and rows to hold out, sorted; each class keeps at least one row to train on."""
    rng = np.random.default_rng(seed)
    fraction = min(fraction, MOST_HELD_OUT / len(y))
    if not stratified:
        rows = rng.permutation(len(y))
        test = rows[: round(fraction * len(y))]
    else:
        parts = []
        for label in np.unique(y):
            rows = rng.permutation(np.flatnonzero(y == label))
            parts.append(rows[: min(round(fraction * len(rows)), len(rows) - 1)])
        test = np.concatenate(parts)
    return np.setdiff1d(np.arange(len(y)), test), np.sort(test)


def groups_of(table: Table, options: Namespace) -> NDArray[Any] | None:
    """Return the group of each row as a word; raise if a row has none."""
    if options.groups is None:
        if options.test_groups is not None:
            raise CommandError("--test-groups needs --groups COLUMN, the column with the group of each row.")
        return None
    table.require([options.groups])
    if without := int((~table.known(options.groups)).sum()):
        raise CommandError(f"--groups {options.groups}: {without} rows have no group; fill or drop them.")
    return np.asarray(table.words(options.groups))


def split_rows(y: Any, groups: Any, options: Namespace, target: Target) -> tuple[Ints, Ints, str]:
    """Return rows to train on, rows to hold out, and a note on the latter."""
    rows = np.arange(len(y))
    if options.test_last is not None:
        first = len(y) - min(round(options.test_last * len(y)), MOST_HELD_OUT)
        train, test, how = rows[:first], rows[first:], " (the last)"
    elif options.test_groups is not None and groups is not None:
        names, place = np.unique(groups.astype(str), return_inverse=True)
        count = min(max(round(options.test_groups * len(names)), 1), len(names) - 1)
        held = np.isin(place, np.random.default_rng(options.seed).permutation(len(names))[:count])
        train, test, how = rows[~held], rows[held], f" ({count} of {len(names)} groups)"
    else:
        return *split(y, options.test_size, options.seed, stratified=target.is_class), ""
    if target.is_class and len(strange := np.setdiff1d(y[test], y[train])):
        raise CommandError(f"all rows of class {strange.tolist()[0]!r} are in the test part; take another.")
    return train, test, how


def fit_table(table: Table, options: Namespace) -> Fit:
    """Fit to a part of the rows of a table in memory, and compute scores on the others."""
    target, reason = find_target(table, options)
    rows = table.take(target.known(table))
    y, without = target.values(rows), len(table) - len(rows)
    groups = groups_of(rows, options)
    train, test, how = split_rows(y, groups, options, target)
    place = positive_class(np.unique(y) if target.is_class else (), y, options.positive)
    progress = Progress(options.quiet, y[train])
    parts = f"{len(train)} rows to train on, {len(test)} held out{how}"
    progress.say(f"{target.task} of {target.name!r} ({reason}): {parts}")
    progress.note([f"{target.name}: {without} rows without a target are left out"] * bool(without))
    inputs, options = input_columns(rows, options), resolve_columns(rows, options)
    side = sides_of(rows.take(train), options.censored, target)
    X, begin = inputs.take(train), time.perf_counter()
    groups = None if groups is None else groups[train]
    model = train_model(options, target, len(train), (X, y[train]), progress, groups, side)
    model.fitted_ = replace(model.fitted_, target=target.name)
    progress.note(model.table_.replacement_notes(inputs))
    held = rows.take(test) if len(test) else None
    found = table.source, X, y[train], groups, len(train), held
    return _result(model, target, *found, place, begin, progress, options)


def fit_folder(path: str, options: Namespace) -> Fit:
    """Fit to the rows of a folder of Parquet files; rows are held out by a hash of their numbers."""
    if (options.groups, options.test_groups, options.test_last, options.censored) != (None,) * 4:
        raise CommandError("--groups, --test-groups, --test-last and --censored need one file, not a folder.")
    folder = Folder(path, options.missing)
    sample = folder.sample()
    target, reason = find_target(sample, options)
    limit = np.uint64(int(min(options.test_size, MOST_HELD_OUT / len(folder)) * 2**64))

    def held_out(rows: Ints) -> Any:
        return hash_rows(options.seed, rows) < limit

    rows = sample.take(target.known(sample) & ~held_out(sample.places))
    X, y, options = input_columns(rows, options), target.values(rows), resolve_columns(rows, options)
    test: list[Table] = []
    trained: dict[int, int] = {}  # rows by the start of their group

    def parts(order: np.random.Generator | None = None) -> Iterator[tuple[int, Table, NDArray[Any]]]:
        for group in folder.files.order_groups(order):
            table = folder.read(group)
            known, held = target.known(table), held_out(group.start + np.arange(group.rows))
            if group.start not in trained and (known & held).any():
                test.append(table.take(known & held))
            table = table.take(known & ~held)
            trained[group.start] = len(table)
            if len(table):
                yield group.start, table, target.values(table)

    choices = {kind: getattr(options, kind) for kind in CHOICES}
    transformer, encode = stream_transformer(X, y, target.task, parts, **choices)

    def pieces(order: np.random.Generator | None) -> Iterator[Piece]:
        for start, table, targets in parts(order):
            yield Piece(start, encode(start, table), targets)

    place = positive_class(np.unique(y) if target.is_class else (), y, options.positive)
    progress = Progress(options.quiet, y)
    size = f"{len(folder)} rows in {len(folder.files.groups)} groups"
    progress.say(f"{target.task} of {target.name!r} ({reason}): {size}")
    progress.note(transformer.notes_)
    progress.note([f"{name}: left out, {why}" for name, why in transformer.left_out_.items()])
    begin = time.perf_counter()
    stream = Stream(pieces, table=transformer, target=target.name)
    model = train_model(options, target, len(folder), (stream,), progress)
    held = stack_tables(test, path) if test else None
    found = path, X, y, None, sum(trained.values()), held
    return _result(model, target, *found, place, begin, progress, options)


def _result(
    model: BaseEstimator, target: Target, source: str, X: Table, y: NDArray[Any], groups: Any,
    rows: int, test: Table | None, place: int | None, begin: float, progress: "Progress", options: Namespace,
) -> Fit:  # fmt: skip
    """Fit the baselines, compute scores on the held-out rows, and return the result."""
    features, figures = training_features(model.table_, X, y, target.is_class, groups), {}
    with warnings.catch_warnings(action="ignore", category=TableWarning):  # `fit_table` reports these
        encoded: Any = None if test is None else model.table_.transform(test)
        baselines = fit_baselines(features, y, target.is_class)
        seconds = time.perf_counter() - begin
        if test is not None:
            y_test, side = target.values(test), sides_of(test, options.censored, target)
            figures = score_all(model, test, baselines, encoded, y_test, None, place, side)
    positive = None if place is None else str(model.classes_[place])
    held = 0 if test is None else len(test)
    record = FitRecord(source, rows, held, options.seed, seconds, figures, positive)
    support = next(iter(model.fitted_.supports), None)
    facts = {
        "model": options.output, "task": target.task, "target": target.name, "rows": rows, "held_out": held,
        "columns": [column.name for column in model.table_.columns_], "hidden": model.layers_,
        "members": model.n_members, "epochs": model.n_iter_, "parameters": model.n_parameters_,
        "seconds": round(seconds, 3), "seed": options.seed, "interrupted": bool(model.interrupted_),
        "figures": figures, "notes": progress.notes, "positive": positive,
        "support": None if support is None else str(support),
    }  # fmt: skip
    return model, model_file(model, baselines, record), test, facts


def train_model(
    options: Namespace, target: Target, n_rows: int, data: tuple[Any, ...], progress: "Progress",
    groups: Any = None, side: Any = None,
) -> Any:  # fmt: skip
    """Return a fitted estimator; its warnings become notes."""

    def show(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
        training = category.__name__ == "ConvergenceWarning"
        text = f"training: {message}" if training else str(message)
        if issubclass(category, CheckpointWarning):  # also if quiet
            say(f"  note: {text}")
        elif (training or issubclass(category, TableWarning)) and text not in progress.notes:
            progress.note([text])

    model = build_estimator(options, target.is_class, n_rows)

    with warnings.catch_warnings(action="always"):
        warnings.showwarning = show
        try:
            more = {} if side is None else {"censored": side}
            model.fit(*data, groups=groups, observer=progress, **more)
        except CheckpointError as error:
            raise CommandError(str(error)) from None
        except ValueError as error:
            argument = re.match(r"`(\w+)`", str(error))
            if argument is None or argument[1] not in (*model.get_params(), "groups"):
                raise
            message = re.sub(r"`(\w+)`", lambda m: NAMES.get(m[1], f"--set {m[1]}"), str(error))
            raise CommandError(message) from None
    model.set_params(checkpoint=None)
    if model.n_iter_ == 0:
        raise KeyboardInterrupt
    return model


class Progress(Printer):
    """Print notes and progress on standard error, with the log-likelihood per row in units of the target."""

    def __init__(self, quiet: bool, y: NDArray[Any]) -> None:
        offset = -float(np.log(y.std())) if y.dtype.kind == "f" else 0.0  # it is standardised in training
        super().__init__(True, "log-likelihood", offset, sys.stderr)
        self._quiet = quiet
        self.notes: list[str] = []

    def say(self, text: str) -> None:
        """Print a line unless the command is quiet."""
        if not self._quiet:
            super().say(text)

    def note(self, texts: Sequence[str]) -> None:
        """Print notes, and store them."""
        self.notes += texts
        for text in texts:
            self.say(f"  note: {text}")

    def progressed(self, epochs: int, trace: Any) -> None:
        """End training if Ctrl-C asked for it; print progress unless the command is quiet."""
        interruption.deferred = True  # there are parameters to keep
        if interruption.asked:
            raise KeyboardInterrupt
        if not self._quiet:
            super().progressed(epochs, trace)
