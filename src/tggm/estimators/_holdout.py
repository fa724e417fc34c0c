"""Which rows of a fit are held out together: groups, the folds of a splitter, rows for a guarantee."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tggm.arrays import Bools, Ints
from tggm.predictive.conformal import MOST_ROWS, SHARE, fewest_rows
from tggm.tables.table import warn
from tggm.training.rows import Fold, assign_folds, folds_in_turn, leaves_rows_out, random_folds


@dataclass(frozen=True)
class Holdout:
    """How the rows of a fit in memory are held out."""

    cv: Any = 0.0  # a fraction of the rows, or a number of folds
    groups: Ints | None = None  # number of the group of each row
    folds: tuple[Fold, ...] | None = None  # of a splitter, which replace the two above

    @property
    def is_random(self) -> bool:
        """Return whether single rows are held out at random."""
        return self.groups is None and self.folds is None

    def of(self, kept: Bools) -> "Holdout":
        """Return what applies to the kept rows."""
        if kept.all():
            return self
        place, folds = np.cumsum(kept, dtype=np.int32) - 1, self.folds
        if folds is not None:
            parts = [tuple(place[part[kept[part]]] for part in fold) for fold in folds]
            folds = tuple((train, held) for train, held in parts if len(train) and len(held))
            if not folds:
                raise ValueError("`cv` has no fold with rows to train on and rows to hold out.")
        return replace(self, groups=None if self.groups is None else self.groups[kept], folds=folds)

    def units(self, count: int) -> Ints | None:
        """Return the unit of each of `count` rows, which are held out together; None for single rows.

        Target encodings use no targets of the same unit, and errors within a unit may be similar.
        """
        if self.groups is not None or self.folds is None:
            return self.groups
        unit = np.arange(count) + len(self.folds)  # rows that are never held out are units of their own
        for k, (_, held) in enumerate(self.folds):
            unit[held] = k
        return unit

    def assign(self, rng: np.random.Generator, count: int, members: int) -> list[Fold]:
        """Return the rows that each member trains on and holds out."""
        rows, folds = np.arange(count), self.folds
        units = count if self.groups is None else len(np.unique(self.groups))
        least = self.cv if isinstance(self.cv, int) else 2 if self.groups is not None else 0
        if folds is None and units < least:
            what = "rows" if self.groups is None else "groups"
            raise ValueError(f"`cv` is {self.cv!r}, which needs at least {least} {what}; there are {units}.")
        if folds is None and isinstance(self.cv, int):
            folds = tuple(random_folds(rng, rows, self.cv, self.groups))
        if folds is None:
            if self.cv > 0.5:
                raise ValueError(f"`cv` must hold out at most half of the rows; got {self.cv:g}. Pass 0.5.")
            return assign_folds(rng, rows, self.cv, members, self.groups)
        if len(folds) > (most := max(1, members // 2)):
            warn(
                f"`cv` has {len(folds)} folds, of which n_members={members} uses the last {most}: each fold "
                f"has at least two members. n_members={2 * len(folds)} uses all.",
                UserWarning,
            )
        return folds_in_turn(list(folds), members)


def read_holdout(
    given: tuple[Any, Any, Any], cv: Any, kept: Bools, usable: Bools, level: float | None,
    rng: np.random.Generator,
) -> tuple[Holdout, Bools, Bools | None]:  # fmt: skip
    """Return how the rows to train on are held out, a mask of these rows, and one of calibration rows.

    `given` are the X, y and groups of `fit`: a splitter splits all of its rows. A guarantee of a `level`
    reserves some of the `usable` rows for calibration.
    """
    X, y, groups = given
    if cv is None:
        raise ValueError("`cv` is None, because a model file holds no splitter; set it, for example to 0.1.")
    numbers = None if groups is None else _numbered(groups, len(kept))
    folds = None
    if hasattr(cv, "split"):
        folds = tuple(_checked_fold(fold, cv) for fold in cv.split(X, y, groups))
        if not folds:
            raise ValueError(f"`cv` has no folds; got {cv!r}.")
    holdout, chosen = Holdout(cv, numbers, folds), None
    if level is not None:
        chosen, reserved = choose_calibration_rows(usable, level, holdout, rng)
        kept = kept & ~reserved
    return holdout.of(kept), kept, chosen


def _checked_fold(fold: Any, cv: Any) -> Fold:
    train, held = (np.unique(np.asarray(part, np.int32)) for part in fold)
    both = len(np.intersect1d(train, held))
    if not len(train) or not len(held) or both:
        raise ValueError(
            "each fold of `cv` must have rows to train on and other rows to hold out; a fold of "
            f"{type(cv).__name__} has {len(train)} and {len(held)}, and {both} are in both."
        )
    return train, held


def _numbered(groups: Any, count: int) -> Ints:
    """Return the number of the group of each row."""
    values = np.asarray(groups)
    if values.shape != (count,):
        got = f"the text {groups!r}: pass the column" if isinstance(groups, str) else values.shape
        raise ValueError(f"`groups` must have one value for each of the {count} rows; got {got}.")
    seen: dict[Any, int] = {}
    for row, value in enumerate(values.tolist()):
        if value is None or type(value).__name__ == "NAType" or value != value:
            raise ValueError(f"`groups` has no value in row {row + 1}; give each row without one a new one.")
        seen.setdefault(value, len(seen))
    if len(seen) < 2:
        raise ValueError(f"`groups` must have at least two different values; got only {next(iter(seen))!r}.")
    return np.array([seen[value] for value in values.tolist()])


def choose_calibration_rows(
    usable: Bools, level: float, holdout: Holdout, rng: np.random.Generator
) -> tuple[Bools, Bools]:
    """Draw calibration rows for a guarantee from usable rows; return them, and all reserved rows.

    They are used neither for training nor for choices, so they are exchangeable with new rows. Of groups,
    whole ones are reserved, and one row of each is a calibration row: it is exchangeable with a row of a new
    group.
    """
    rows, groups = np.flatnonzero(usable), holdout.groups
    if holdout.folds is not None and leaves_rows_out(list(holdout.folds), len(usable)):
        raise ValueError(
            f"`guarantee` must be None with {type(holdout.cv).__name__} as `cv`, whose training parts leave "
            "rows out: rows in an order are not exchangeable. Call `recalibrate` with later rows."
        )
    units = rows if groups is None else np.unique(groups[rows])
    count, fewest, what = len(units), fewest_rows(level), "rows" if groups is None else "groups"
    if 2 * fewest > count:
        raise ValueError(
            f"`guarantee` is {level:g}, for which {fewest} {what} are set aside; at least {2 * fewest} "
            f"{what} with measured targets are needed, and there are {count}. Pass a smaller level, or None."
        )
    drawn = units[rng.permutation(count)[: min(max(fewest, round(SHARE * count)), MOST_ROWS)]]
    if groups is not None:
        reserved, shuffled = np.isin(groups, drawn), rng.permutation(rows)
        first = shuffled[np.unique(groups[shuffled], return_index=True)[1]]
        drawn = first[reserved[first]]
    chosen = np.isin(np.arange(len(usable)), drawn)
    return chosen, chosen if groups is None else reserved
