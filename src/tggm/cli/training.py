"""The work of `tggm fit`: choose the target, hold rows out, fit an estimator to the table, compute scores.

A table is in memory. A folder of Parquet files is not: its columns are encoded as a sample of its rows
suggests, and the estimator is fitted to a stream of all rows.
"""

import csv
import os
import re
import sys
import time
import warnings
from ast import literal_eval
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from tggm.arrays import Ints
from tggm.cli.files import CommandError, say
from tggm.cli.scores import evaluate_model
from tggm.data import Piece, Stream
from tggm.data.stream import hash_rows
from tggm.estimators import TGGMClassifier, TGGMRegressor
from tggm.tables import Table, TableWarning, Target, choose_target, sample_transformer, training_features
from tggm.tables.baselines import Baselines, fit_baselines
from tggm.tables.columns import Note
from tggm.tables.reading import Folder
from tggm.tables.schema import FitRecord
from tggm.tables.table import stacked
from tggm.training import Observer
from tggm.training.checkpoint import CheckpointError, remove_checkpoint

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator

LEAST_ROWS = 10
MOST_HELD_OUT = 10_000  # rows; more would not make the scores more precise in a useful way
QUICK_STEPS = 2000  # gradient steps with --quick
MOST_ROWS_OF_TEN = 50_000  # a regression with more rows gets five members instead of ten
OPTIONS = {
    "hidden": "--hidden", "n_members": "--members", "max_epochs": "--epochs", "time_budget": "--time",
    "features": "--features", "calibrate": "--calibrate", "class_weight": "--class-weight",
    "guarantee": "--guarantee",
}  # fmt: skip
_PLAIN_SECONDS = 10.0  # between lines that are not on a terminal
_LONG_SECONDS = 30.0  # a fit that takes longer shows how to shorten it
FIXED = {"checkpoint", "network", "random_state", "verbose"}  # not set by --set


@dataclass(frozen=True)
class FitOptions:
    """The options of `tggm fit` and `tggm compare`; None leaves the choice to the program."""

    target: str
    task: str | None = None
    hidden: tuple[int, ...] | None = None
    members: int | None = None
    epochs: int | None = None
    seed: int = 0
    test_size: float = 0.2
    ignore: tuple[str, ...] = ()
    categorical: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    quick: bool = False
    settings: tuple[str, ...] = ()  # name=value
    quiet: bool = False
    checkpoint: str | None = None
    resume: bool = False


@dataclass(frozen=True)
class FitResult:
    """A fitted model, what its file stores beside it, the held-out rows and the notes for the user."""

    model: Any
    target: Target
    record: FitRecord
    baselines: Baselines | None
    test: Table | None
    notes: list[str]


# ---- settings --------------------------------------------------------------------------------------------


def names_in(texts: Sequence[str], known: Sequence[str]) -> list[str]:
    """Return column names; each text is a known name, or several names as a,b or a,"b, in metres"."""
    names: list[str] = []
    for text in texts:
        parts = [text] if text in known else next(csv.reader([text], skipinitialspace=True), [])
        names += [part if part in known else part.strip() for part in parts if part.strip()]
    return names


def parse_setting(text: str, known: Sequence[str], is_class: bool) -> dict[str, Any]:
    """Return the setting of --set NAME=VALUE: a number, True, None, a tuple, or a string."""
    name, mark, word = text.partition("=")
    if name not in known and name in OPTIONS:
        task, other = ("numbers", "classes") if is_class else ("classes", "numbers")
        raise CommandError(f"{OPTIONS[name]} is for {task}, but the target has {other}; leave it out.")
    if not mark or name not in known:
        near = get_close_matches(name, known, n=1)
        hint = f"did you mean {near[0]}?" if near else f"settings are {', '.join(known)}."
        raise CommandError(f"--set takes name=value, with the name of a setting; got {text!r}; {hint}")
    try:
        return {name: literal_eval(word)}
    except (ValueError, SyntaxError):
        return {name: word}


def build_estimator(options: FitOptions, is_class: bool, n_rows: int) -> Any:
    """Return an unfitted estimator with the settings asked for, or those for this number of rows."""
    members = 3 if options.quick else 10 if n_rows < MOST_ROWS_OF_TEN and not is_class else 5
    model: Any = (TGGMClassifier if is_class else TGGMRegressor)(n_members=members, random_state=options.seed)
    if options.quick:
        batch = min(max(n_rows / 8, 128), 512)
        model.set_params(max_epochs=max(60, round(QUICK_STEPS * batch / max(n_rows, batch))))
    given = {"hidden": options.hidden, "n_members": options.members, "max_epochs": options.epochs}
    model.set_params(**{name: value for name, value in given.items() if value is not None})
    known = sorted(set(model.get_params()) - FIXED)
    for text in options.settings:
        model.set_params(**parse_setting(text, known, is_class))
    return model


# ---- rows ------------------------------------------------------------------------------------------------


def find_target(table: Table, options: FitOptions) -> tuple[Target, str]:
    """Return the target and how its task was found; raise if too few rows have a value."""
    table.require([options.target])
    rows = int(table.known(options.target).sum())
    if 0 < rows < LEAST_ROWS:  # no rows at all is an error of `choose_target`
        found = f"{rows} row{'s' * (rows > 1)}{' with a target' * (rows < len(table))}"
        raise CommandError(f"{table.source} has {found}; a fit needs {LEAST_ROWS} or more: gather more rows.")
    return choose_target(table, options.target, options.task)


def input_columns(table: Table, options: FitOptions) -> Table:
    """Return the inputs: without the target and ignored columns, with the categories that were named."""
    known = list(table.columns)
    ignore, categorical = names_in(options.ignore, known), names_in(options.categorical, known)
    table.require([*ignore, *categorical])
    words = {name: table.words(name) for name in categorical}
    columns = {
        name: words.get(name, column)
        for name, column in table.columns.items()
        if name not in (options.target, *ignore)
    }
    categories = {**dict.fromkeys(words, ()), **table.categories}
    return Table(table.source, columns, table.decimal, categories, table.origin, options.missing)


def split(y: NDArray[Any], fraction: float, seed: int, *, stratified: bool) -> tuple[Ints, Ints]:
    """Return rows to train on and rows to hold out, in order; each class keeps at least one to train on."""
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


def rare_classes(labels: NDArray[Any], target: Target, least: int = 5) -> list[str]:
    """Return a note on classes with fewer than `least` rows."""
    classes, count = np.unique(labels, return_counts=True)
    rare = classes[count < least].tolist() if target.is_class else []
    shown = ", ".join(map(repr, rare[:3])) + ", ..." * (len(rare) > 3)
    return [f"{target.name}: classes of fewer than {least} rows are hard to learn ({shown})"] * bool(rare)


# ---- fits ------------------------------------------------------------------------------------------------


def fit_table(table: Table, options: FitOptions) -> FitResult:
    """Fit to a part of the rows and compute scores on the others."""
    target, reason = find_target(table, options)
    rows = table.take(target.known(table))
    y, without = target.values(rows), len(table) - len(rows)
    train, test = split(y, options.test_size, options.seed, stratified=target.is_class)
    model = build_estimator(options, target.is_class, len(train))
    say = _talker(target, reason, f"{len(train)} rows to train on, {len(test)} held out", options.quiet)
    notes = say([f"{target.name}: {without} rows without a target left out"] * bool(without))
    notes += say(rare_classes(y, target))
    inputs = input_columns(rows, options)
    X, begin = inputs.take(train), time.perf_counter()
    notes += train_model(model, (X, y[train]), y[train], options)
    model.fitted_ = replace(model.fitted_, target=target.name)
    notes += say(encoding_notes(model, inputs))
    held = rows.take(test) if len(test) else None
    return _result(model, target, table.source, X, y[train], len(train), held, begin, notes, options)


def fit_folder(path: str, options: FitOptions) -> FitResult:
    """Fit to the rows of a folder of Parquet files, without those that are held out by their numbers."""
    folder = Folder(path, options.missing)
    sample = folder.sample()
    target, reason = find_target(sample, options)
    limit = np.uint64(int(min(options.test_size, MOST_HELD_OUT / len(folder)) * 2**64))

    def held_out(rows: Ints) -> Any:
        return hash_rows(options.seed, rows) < limit

    rows = sample.take(target.known(sample) & ~held_out(sample.places))
    X, y = input_columns(rows, options), target.values(rows)
    transformer = sample_transformer(X, y, target.task)
    test: list[Table] = []
    trained: dict[int, int] = {}  # rows by the start of their group

    def pieces(order: np.random.Generator | None) -> Iterator[Piece]:
        for group in folder.files.ordered(order):
            table = folder.read(group)
            known, held = target.known(table), held_out(group.start + np.arange(group.rows))
            if group.start not in trained and (known & held).any():
                test.append(table.take(known & held))
            table = table.take(known & ~held)
            trained[group.start] = len(table)
            if len(table):
                yield Piece(group.start, transformer.transform(table), target.values(table))

    summary = f"{len(folder)} rows in {len(folder.files.groups)} groups"
    model = build_estimator(options, target.is_class, len(folder))
    say = _talker(target, reason, summary, options.quiet)
    notes = say([*rare_classes(y, target), *transformer.notes_])
    notes += say([f"{name}: left out, {why}" for name, why in transformer.left_out_.items()])
    begin = time.perf_counter()
    notes += train_model(model, (Stream(pieces, table=transformer, target=target.name),), y, options)
    held = stacked(test, path) if test else None
    return _result(model, target, path, X, y, sum(trained.values()), held, begin, notes, options)


def _talker(target: Target, reason: str, summary: str, quiet: bool) -> Callable[[list[str]], list[str]]:
    """Print what is fitted, and return a function that prints notes and returns them."""
    if not quiet:
        say(f"{target.task} of {target.name!r} ({reason}): {summary}")

    def notes(texts: list[str]) -> list[str]:
        for text in () if quiet else texts:
            say(f"  note: {text}")
        return texts

    return notes


def _result(
    model: "BaseEstimator", target: Target, source: str, X: Table, y: NDArray[Any], rows: int,
    test: Table | None, begin: float, notes: list[str], options: FitOptions,
) -> FitResult:  # fmt: skip
    """Fit the baselines, compute scores on the held-out rows, and return what is stored and shown."""
    features = training_features(model.table_, X, y, target.is_class)
    classes, label = np.unique(y, return_inverse=True)
    baselines = fit_baselines(features, *((label, len(classes)) if target.is_class else (y,)))
    seconds = time.perf_counter() - begin
    figures = {} if test is None else evaluate_model(model, baselines, test, target.values(test))
    held_out = 0 if test is None else len(test)
    record = FitRecord(source, rows, held_out, options.seed, seconds, figures)
    return FitResult(model, target, record, baselines, test, notes)


def encoding_notes(model: "BaseEstimator", table: Table, *, strict: bool = False) -> list[str]:
    """Return notes on values that were filled or pooled; with `strict` such values are errors."""
    notes: list[Note] = []
    table.require([column.name for column in model.table_.columns_])
    for column in model.table_.columns_:
        column.encode(table, notes)
    for note in notes:
        if strict and note.unseen:
            raise CommandError(f"{table.source}: {note.text}; correct the values, or leave --strict out.")
    return [note.text for note in notes]


def train_model(
    model: "BaseEstimator", data: tuple[Any, ...], y: NDArray[Any], options: FitOptions
) -> list[str]:
    """Fit with progress and checkpoints; return what the fit warned about, which is also shown at once."""
    if options.checkpoint is not None and not options.resume:
        remove_checkpoint(options.checkpoint)  # of an earlier fit
    elif options.checkpoint is not None and not options.quiet and not os.path.exists(options.checkpoint):
        say(f"  no checkpoint {options.checkpoint}; starting again")
    model.set_params(checkpoint=options.checkpoint)
    # the model is trained on a standardised target, and the progress is shown in the target's units
    offset = 0.0 if y.dtype.kind != "f" else -float(np.log(y.std()))
    notes: list[str] = []
    with warnings.catch_warnings(), Progress(options.quiet, offset) as progress:

        def show(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
            training = category.__name__ == "ConvergenceWarning"
            text = f"training: {message}" if training else str(message)
            if (training or issubclass(category, TableWarning)) and text not in notes:
                notes.append(text)
                progress.say(f"  note: {text}")

        warnings.simplefilter("always")
        warnings.showwarning = show
        try:
            model.fit(*data, observer=progress)
        except CheckpointError as error:
            raise CommandError(f"{error} Leave --resume out to start again.") from None
        except ValueError as error:
            argument = re.match(r"`(\w+)`", str(error))
            if argument is None or argument[1] not in model.get_params():
                raise
            message = re.sub(r"`(\w+)`", lambda m: OPTIONS.get(m[1], f"--set {m[1]}"), str(error))
            raise CommandError(message) from None
    model.set_params(checkpoint=None)
    if model.n_iter_ == 0:
        raise KeyboardInterrupt
    return notes


# ---- progress --------------------------------------------------------------------------------------------


class Progress(Observer):
    """Show the epoch, the log-likelihood per row in training and validation, and the time left at most.

    If `quiet`, only errors of checkpoints are shown. `offset` is added to both scores.
    """

    def __init__(self, quiet: bool, offset: float = 0.0) -> None:
        self._quiet, self._offset = quiet, offset
        self._live: Any = None
        self._begin = self._said = time.monotonic()
        self._epochs = 0
        self._first: int | None = None
        self._advised = False

    def __enter__(self) -> Self:
        if not self._quiet and sys.stderr.isatty():
            from rich.console import Console
            from rich.status import Status

            self._live = Status("compiling, a few seconds", console=Console(stderr=True))
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def say(self, text: str) -> None:
        """Print a line, above the live one if there is one."""
        if self._live is not None:
            self._live.console.print(text, highlight=False, markup=False)
        elif not self._quiet:
            say(text)

    def planned(self, epochs: int) -> None:
        """Store the largest number of epochs."""
        self._epochs = epochs

    def resumed(self, epochs: int) -> None:
        """Report that a checkpoint is continued."""
        self.say(f"  continuing after epoch {epochs}")

    def noted(self, text: str) -> None:
        """Report an error of a checkpoint, also if quiet."""
        say(f"  note: {text}")

    def progressed(self, epochs: int, trace: Any) -> None:
        """Update the line and, once, show what would make a long fit shorter."""
        if self._first is None:  # the time before this is compilation, or an earlier run
            self._first, self._begin = epochs, time.monotonic()
        left = self._left(epochs)
        if left is not None and not self._advised:
            self._advised = True
            if left > _LONG_SECONDS:
                how = "shorter with --quick or --epochs; Ctrl-C keeps the best model so far"
                self.say(f"  {_duration(left)} at most; {how}")
        if self._live is not None:
            self._live.update(self._line(epochs, trace, left))
        elif time.monotonic() - self._said > _PLAIN_SECONDS:
            self._said = time.monotonic()
            self.say(self._line(epochs, trace, left))

    def _left(self, done: int) -> float | None:
        """Return the seconds to the planned end, None after the first report."""
        if self._first is None or done <= self._first:
            return None
        return (time.monotonic() - self._begin) / (done - self._first) * (self._epochs - done)

    def _line(self, done: int, trace: Any, left: float | None) -> str:
        train, held = np.asarray(trace.train)[:, -1], np.asarray(trace.held)[:, -1]
        text = f"epoch {done}/{self._epochs}  log-likelihood {train.mean() + self._offset:.3f}"
        if np.isfinite(held).all():
            text += f", {held.mean() + self._offset:.3f} in validation"
        return text if left is None else f"{text}  at most {_duration(left)} left"


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"
