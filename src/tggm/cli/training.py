"""The work of `tggm fit`: rows in, a model with its preparation and honest figures out."""

import os
import time
import warnings
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tggm.cli.errors import CommandError
from tggm.cli.figures import judge
from tggm.cli.files import say
from tggm.cli.options import names_in
from tggm.cli.progress import Progress
from tggm.cli.sources import FolderSource, Source, TableSource
from tggm.cli.wish import Wish, as_options, estimator
from tggm.tables import Preparation, Table, Target, choose_target, prepare
from tggm.tables.baselines import Baselines, fit_classes, fit_regression
from tggm.tables.preparation import FitRecord
from tggm.tables.reading import Folder
from tggm.training.checkpoints import CheckpointError, remove_checkpoints
from tggm.training.parallel.processes import is_first

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator

LEAST_ROWS = 10


@dataclass(frozen=True)
class Outcome:
    """A fitted model and what there is to say about it."""

    model: "BaseEstimator"
    preparation: Preparation
    test: Table | None  # the held-out rows
    notes: list[str]
    interrupted: bool


@dataclass(frozen=True)
class Watch:
    """Whether a fit is silent, where it keeps its checkpoint, and whether it goes on from there."""

    quiet: bool = False
    checkpoint: str | None = None
    resume: bool = False


def fit_table(table: Table, wish: Wish, watch: Watch) -> Outcome:
    """Split, prepare, train, and judge on the held-out rows; the model is the one that was judged."""
    target, reason = chosen_target(table, wish)
    return fit_source(TableSource(table, target, wish), reason, wish, watch)


def fit_folder(path: str, wish: Wish, watch: Watch) -> Outcome:
    """As `fit_table`, for the rows of a folder."""
    folder = Folder(path, wish.missing)
    folder.require_alike(names_in(wish.ignore, folder.names))
    sample = folder.sample()
    target, reason = chosen_target(sample, wish)
    return fit_source(FolderSource(folder, sample, target, wish), reason, wish, watch)


def chosen_target(table: Table, wish: Wish) -> tuple[Target, str]:
    """The target and how its task was found; an error if too few rows have one."""
    table.require([wish.target])
    rows = int(table.known(wish.target).sum())
    if 0 < rows < LEAST_ROWS:  # that there are none at all is said elsewhere
        found = f"{rows} row{'s' * (rows > 1)}{' with a target' * (rows < len(table))}"
        raise CommandError(f"{table.source} has {found}; a fit needs {LEAST_ROWS} or more: gather more rows.")
    return choose_target(table, wish.target, wish.task)


def fit_source(source: Source, reason: str, wish: Wish, watch: Watch) -> Outcome:
    """Prepare, train and judge."""
    target, names = source.target, source.learned.names
    preparation = prepare(
        source.learned,
        target,
        ignore=names_in(wish.ignore, names),
        categorical=names_in(wish.categorical, names),
        gaps=wish.missing,
        many=source.many,
    )
    notes = [*source.notes, *(f"{name}: left out, {why}" for name, why in preparation.left_out)]
    notes += preparation.notes
    X, y, stream = source.inputs(preparation, notes)
    model = estimator(wish, target.is_class, source.rows)
    if not watch.quiet:
        say(f"{target.task} of {target.name!r} ({reason}): {source.summary}")
        for note in notes:
            say(f"  note: {note}")
    begin = time.perf_counter()
    # the model sees a standardised target, a person thinks in its units
    offset = 0.0 if target.is_class else -float(np.log(y.std()))
    notes += train_model(model, (X, y) if stream is None else (stream,), offset, watch)
    preparation = replace(preparation, baselines=baselines(X, y, target.is_class))
    seconds = time.perf_counter() - begin
    test, figures = source.held_out(), {}
    if test is not None:
        figures = judge(model, preparation, preparation.features(test), preparation.targets(test))
    held_out = 0 if test is None else len(test)
    fitted = FitRecord(source.name, source.trained, held_out, wish.seed, seconds, figures)
    return Outcome(model, replace(preparation, fitted=fitted), test, notes, bool(model.interrupted_))


def train_model(model: "BaseEstimator", data: tuple[Any, ...], offset: float, watch: Watch) -> list[str]:
    """Fit, showing progress and keeping checkpoints; returns what the fit warned of."""
    measure = "objective" if model.method == "bp" else "log-likelihood"
    if watch.checkpoint is not None:
        _check_checkpoint(watch.checkpoint, watch)
    model.set_params(checkpoint=watch.checkpoint)
    with warnings.catch_warnings(record=True) as caught, Progress(watch.quiet, measure, offset) as progress:
        warnings.simplefilter("always")
        try:
            model.fit(*data, observer=progress)
        except CheckpointError as error:
            raise CommandError(f"{error} Leave --resume out to begin anew.") from None
        except ValueError as error:
            if not str(error).startswith("`hidden`"):  # too many units for so many columns
                raise
            raise CommandError(as_options(str(error))) from None
    model.set_params(checkpoint=None)
    if model.n_iter_ == 0:
        raise KeyboardInterrupt
    return [f"training: {item.message}" for item in caught if item.category.__name__ == "ConvergenceWarning"]


def _check_checkpoint(path: str, watch: Watch) -> None:
    """Without a wish to resume there is nothing to go on from."""
    if not watch.resume:
        if is_first():
            remove_checkpoints(path)
    elif not watch.quiet and not os.path.exists(path):
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
