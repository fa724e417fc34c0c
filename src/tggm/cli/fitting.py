"""The work of `tggm fit`: a table in, a model with its preparation and honest figures out."""

import os
import re
import time
import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tggm.cli.errors import CommandError
from tggm.cli.files import say
from tggm.cli.judging import judge
from tggm.cli.options import names_in
from tggm.cli.progress import Progress
from tggm.tables import Preparation, Table, choose_target, prepare
from tggm.tables.baselines import Baselines, fit_classes, fit_regression
from tggm.tables.preparation import Fitted
from tggm.training.checkpoints import CheckpointError, remove_checkpoints
from tggm.training.processes import is_first

_OPTION = re.compile(r"`(?:n_|max_)?(\w+)`")  # a setting as messages of estimators name it
LEAST_ROWS = 10
QUICK_STEPS = 2000.0  # of the gradient, for a first look
MOST_HELD_OUT = 10_000  # rows; more would not make the figures more honest, only later


@dataclass(frozen=True)
class Wish:
    """What the user asked for; None leaves the choice to us."""

    target: str
    task: str | None = None
    method: str = "moments"
    hidden: tuple[int, ...] | None = None
    members: int | None = None
    epochs: int | None = None
    seed: int = 0
    test_size: float = 0.2
    ignore: tuple[str, ...] = ()
    categorical: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    quick: bool = False


@dataclass(frozen=True)
class Outcome:
    """A fitted model and what there is to say about it."""

    model: Any
    preparation: Preparation
    test: Table | None  # the held-out rows
    reason: str  # how the task was found
    notes: list[str]
    interrupted: bool


def fit_table(
    table: Table, wish: Wish, *, quiet: bool = False, checkpoint: str | None = None, resume: bool = False
) -> Outcome:
    """Split, prepare, train, and judge on the held-out rows; the model is the one that was judged."""
    require_rows(table, wish.target)
    target, reason = choose_target(table, wish.target, wish.task)
    known, notes = target.known(table), list[str]()
    if not known.all():
        notes.append(f"{target.name}: {int((~known).sum())} rows without a target left out")
    table = table.take(known)
    values = target.values(table)
    notes += rare_classes(values, target.name) if target.is_class else []
    train, test = split(values, wish.test_size, wish.seed, stratified=target.is_class)
    preparation = prepare(
        table.take(train),
        target,
        ignore=names_in(wish.ignore, table.names),
        categorical=names_in(wish.categorical, table.names),
        gaps=wish.missing,
    )
    notes += [f"{name}: left out, {why}" for name, why in preparation.left_out]
    X = preparation.features(table, notes)
    model = estimator(wish, target.is_class, len(train))
    if not quiet:
        rows = f"{len(train)} rows to learn from, {len(test)} held out"
        say(f"{target.task} of {target.name!r} ({reason}): {rows}")
        for note in notes:
            say(f"  note: {note}")
    begin = time.perf_counter()
    messages = train_model(model, X[train], values[train], quiet, checkpoint, resume)
    notes += messages
    preparation = replace(preparation, baselines=baselines(X[train], values[train], target.is_class))
    seconds = time.perf_counter() - begin
    figures = judge(model, preparation, X[test], values[test]) if len(test) else {}
    fitted = Fitted(table.source, len(train), len(test), wish.seed, seconds, figures)
    held_out = table.take(test) if len(test) else None
    interrupted = model._interrupted
    return Outcome(model, replace(preparation, fitted=fitted), held_out, reason, notes, interrupted)


def require_rows(table: Table, target: str) -> None:
    """Raise if there are too few rows with a target; that there are none at all is said elsewhere."""
    table.require([target])
    rows = sum(word is not None for word in table.words(target))
    if 0 < rows < LEAST_ROWS:
        found = f"{rows} row{'s' * (rows > 1)}{' with a target' * (rows < len(table))}"
        raise CommandError(f"{table.source} has {found}; a fit needs {LEAST_ROWS} or more: gather more rows.")


def split(
    y: NDArray[Any], fraction: float, seed: int, *, stratified: bool
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Rows to learn from and rows to hold out, in order; each class keeps its share, and one row at least."""
    if not 0 <= fraction < 1:
        raise CommandError(f"--test-size must be at least 0 and less than 1, as 0.2; got {fraction:g}.")
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


def rare_classes(labels: NDArray[Any], name: str, least: int = 5) -> list[str]:
    """A note on classes of which there are too few rows."""
    classes, count = np.unique(labels, return_counts=True)
    rare = classes[count < least].tolist()
    shown = ", ".join(map(repr, rare[:3])) + ", ..." * (len(rare) > 3)
    return [f"{name}: classes of fewer than {least} rows can hardly be learned ({shown})"] if rare else []


def estimator(wish: Wish, is_class: bool, n_rows: int) -> Any:
    """An unfitted estimator with the settings asked for, or those that suit so many rows."""
    from tggm.estimators import TGGMClassifier, TGGMRegressor
    from tggm.estimators.schedule import default_batch_size, default_epochs
    from tggm.training.deep import DEEP_METHODS

    if len(wish.hidden or ()) > 1 and wish.method in ("ep", "exact"):
        known = ", ".join(sorted(DEEP_METHODS["directed"]))
        raise CommandError(f"--hidden with several layers needs --method {known}; got {wish.method!r}.")
    members = 1 if is_class else 3 if wish.quick else 10 if n_rows < 50_000 else 5
    epochs = default_epochs(n_rows, default_batch_size(n_rows), QUICK_STEPS) if wish.quick else "auto"
    units = 100 if is_class or n_rows >= 10_000 else 50
    kind: Any = TGGMClassifier if is_class else TGGMRegressor
    model = kind(
        hidden=wish.hidden or (units,),
        method=wish.method,
        n_members=members if wish.members is None else wish.members,
        max_epochs=epochs if wish.epochs is None else wish.epochs,
        patience="auto",
        random_state=wish.seed,
    )
    try:
        model._check_settings()
    except ValueError as error:
        raise CommandError(_OPTION.sub(r"--\1", str(error))) from None
    return model


def train_model(
    model: Any, X: Any, y: NDArray[Any] | None, quiet: bool, checkpoint: str | None, resume: bool,
    spread: float = 1.0,
) -> list[str]:  # fmt: skip
    """Fit, showing progress and keeping checkpoints; returns what the fit warned of.

    Without `y`, X is a stream, and `spread` about the deviation of its target.
    """
    spread = spread if y is None or hasattr(model, "predict_proba") else float(y.std())
    offset = -float(np.log(spread))
    measure = "objective" if model.method == "bp" else "log-likelihood"
    if checkpoint is not None:
        _check_checkpoint(checkpoint, quiet, resume)
    with warnings.catch_warnings(record=True) as caught, Progress(quiet, measure, offset) as progress:
        warnings.simplefilter("always")
        model._progress, model.verbose, model.checkpoint = progress.watch, True, checkpoint
        model._note = lambda text: say(f"  note: {text}")
        model._resumed = lambda done: None if quiet else say(f"  going on after epoch {done}")
        try:
            model.fit(X, y)
        except CheckpointError as error:
            raise CommandError(f"{error} Leave --resume out to begin anew.") from None
        finally:
            model.verbose, model.checkpoint = False, None
            for name in ("_progress", "_note", "_resumed"):
                vars(model).pop(name, None)
    if model.n_iter_ == 0:
        raise KeyboardInterrupt
    return [f"training: {item.message}" for item in caught if item.category.__name__ == "ConvergenceWarning"]


def _check_checkpoint(path: str, quiet: bool, resume: bool) -> None:
    """Without a wish to resume there is nothing to go on from."""
    if not resume:
        if is_first():
            remove_checkpoints(path)
    elif not quiet and not os.path.exists(path):
        say(f"  no checkpoint {path}; starting anew")


def baselines(X: NDArray[Any], y: NDArray[Any], is_class: bool) -> Baselines | None:
    """The naive and the linear model of the same rows; None if their numbers overflow."""
    with np.errstate(all="ignore"):
        if is_class:
            classes, label = np.unique(y, return_inverse=True)
            found = fit_classes(X, label, len(classes))
        else:
            found = fit_regression(X, y)
    return found if found.is_finite() else None
