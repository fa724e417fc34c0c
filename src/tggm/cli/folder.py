"""`tggm fit` of a folder of Parquet files, which never is in memory whole.

How columns become numbers, and the baselines, are learned from a sample spread over the folder; the model
sees every row. The rows held out for the figures are chosen by their numbers, and collected in the pass that
measures the columns.
"""

import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tggm.cli.errors import CommandError
from tggm.cli.files import say
from tggm.cli.fitting import (
    MOST_HELD_OUT,
    Outcome,
    Wish,
    baselines,
    estimator,
    rare_classes,
    require_rows,
    train_model,
)
from tggm.cli.judging import judge
from tggm.cli.options import names_in
from tggm.estimators.survey import scattered
from tggm.streams import Piece, Stream
from tggm.tables import Preparation, Table, choose_target, prepare
from tggm.tables.folder import Folder, stacked
from tggm.tables.preparation import Fitted


def held_out(seed: int, rows: NDArray[np.integer[Any]], fraction: float) -> NDArray[np.bool_]:
    """Which rows are held out for the figures, by their numbers."""
    return scattered(seed, rows) < np.uint64(int(fraction * 2**64))


class Rows:
    """The rows of a folder as a model sees them, without those held out, which are kept."""

    def __init__(self, folder: Folder, preparation: Preparation, fraction: float, seed: int) -> None:
        self._folder, self._preparation, self._seed, self._fraction = folder, preparation, seed, fraction
        self.test: list[Table] = []
        self.trained = 0
        self._first = True

    def pieces(self, order: np.random.Generator | None) -> Iterator[Piece]:
        """What a `Stream` takes."""
        groups = self._folder.groups
        chosen = range(len(groups)) if order is None else order.permutation(len(groups)).tolist()
        for k in chosen:
            table = self._folder.read(groups[k])
            known = self._preparation.target.known(table)
            numbers = groups[k].start + np.arange(len(table))
            held = held_out(self._seed, numbers, self._fraction)
            if self._first and (known & held).any():
                self.test.append(table.take(known & held))
            table = table.take(known & ~held)
            if len(table):
                self.trained += self._first * len(table)
                X, y = self._preparation.features(table), self._preparation.targets(table)
                yield Piece(groups[k].start, X, y)
        self._first = False


def fit_folder(
    path: str, wish: Wish, *, quiet: bool = False, checkpoint: str | None = None, resume: bool = False
) -> Outcome:
    """As `fit_table`, for the rows of a folder."""
    if not 0 <= wish.test_size < 1:
        raise CommandError(f"--test-size must be at least 0 and less than 1; got {wish.test_size:g}.")
    folder = Folder(path, wish.missing)
    folder.require_alike(names_in(wish.ignore, folder.names))
    sample = folder.sample()
    require_rows(sample, wish.target)
    target, reason = choose_target(sample, wish.target, wish.task)
    fraction = min(wish.test_size, MOST_HELD_OUT / folder.rows)
    sample = sample.take(target.known(sample) & ~held_out(wish.seed, sample.places, fraction))
    values = target.values(sample)
    notes = rare_classes(values, target.name) if target.is_class else []
    preparation = prepare(
        sample,
        target,
        ignore=names_in(wish.ignore, sample.names),
        categorical=names_in(wish.categorical, sample.names),
        gaps=wish.missing,
    )
    notes += [f"{name}: left out, {why}" for name, why in preparation.left_out]
    rows = Rows(folder, preparation, fraction, wish.seed)
    model = estimator(wish, target.is_class, folder.rows)
    if not quiet:
        say(f"{target.task} of {target.name!r} ({reason}): {folder.rows} rows in {len(folder.groups)} groups")
        for note in notes:
            say(f"  note: {note}")
    begin = time.perf_counter()
    spread = 1.0 if target.is_class else float(values.std())
    notes += train_model(model, Stream(rows.pieces), None, quiet, checkpoint, resume, spread)
    known = preparation.features(sample)
    preparation = replace(preparation, baselines=baselines(known, values, target.is_class))
    seconds = time.perf_counter() - begin
    test = stacked(rows.test, path) if rows.test else None
    figures = {}
    if test is not None:
        figures = judge(model, preparation, preparation.features(test), preparation.targets(test))
    fitted = Fitted(path, rows.trained, 0 if test is None else len(test), wish.seed, seconds, figures)
    done = replace(preparation, fitted=fitted)
    return Outcome(model, done, test, reason, notes, model._interrupted)
