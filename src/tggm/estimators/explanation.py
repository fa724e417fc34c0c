"""What a fitted estimator says of itself: parts of its predictions, and what each column is worth."""

from abc import ABC, abstractmethod
from copy import copy
from typing import TYPE_CHECKING, Any, Self

import jax
import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from tggm import settings
from tggm.arrays import Bools, Floats, Ints, Tree
from tggm.estimators.inputs import TableInputs

if TYPE_CHECKING:
    from tggm.explanation import ColumnMap, Explanation, Importances

FEW = 20  # rows that are too few to be a background


class Explained(TableInputs, ABC):
    """Explanations, which cost nothing before they are asked for."""

    explainable: tuple[str, ...]  # what can be explained; the first by default
    _held: Any = None  # rows that members held out, and who did: (data, (members, rows))
    _importances: Floats | None = None

    @abstractmethod
    def eval_figures(self, X: Any, y: ArrayLike) -> dict[str, float]:
        """What `fit` watches of an `eval_set`; training may end when the first no longer falls."""

    @abstractmethod
    def _answers(self, X: Floats, what: str) -> Floats:
        """What is explained, (rows, k)."""

    @abstractmethod
    def _losses(self, X: Floats, y: Any) -> Floats:
        """Loss of each row, (rows,)."""

    @abstractmethod
    def _held_losses(self, Z: Floats, y: Any, members: list[int]) -> Floats:
        """The same of some members, for inputs and targets in units of the model."""

    def explain(
        self,
        X: Any,
        background: Any = None,
        *,
        what: str = "auto",
        n_walks: int | str = "auto",
        random_state: Any = 0,
    ) -> "Explanation":
        """Parts of each row's prediction, one for each column, that add up to it.

        They are Shapley values: a column's part is what the prediction changes by when the column is set from
        the value of a background row to the row's own, on average over background rows and over the orders
        in which columns are set. They say how the model answers, not what causes what.

        Parameters
        ----------
        X : array_like or data frame, shape (n_rows, n_columns)
            Rows to explain. A column of words or dates is one column, whatever it becomes inside.
        background : array_like or data frame, optional
            Rows that predictions are compared with, usually those of training. By default the rows of `X`
            or, of fewer than 20, one row with the mean of all inputs in training.
        what : {"auto", "mean", "std"} or {"auto", "probability", "log-odds"}
            What is explained: of a regression the mean ("auto") or the standard deviation; of a
            classification probabilities ("auto"), that of the second of two classes, or log-odds as
            `decision_function` has them.
        n_walks : int or "auto", default "auto"
            Orders that are tried, each with a background row of its own and in both directions; "auto" takes
            about 512 predictions a row, and no fewer than twice as many as there are columns.
        random_state : int, RandomState or None, default 0
            For orders and background rows.

        Returns
        -------
        Explanation
            `base`, `parts`, `names` of the columns, and the `prediction` that base and parts add up to.
            `tggm.plotting.plot_explanation` draws it.
        """
        from tggm.explanation import shapley_values

        check_is_fitted(self, "fitted_")
        what = self.explainable[0] if what == "auto" else settings.one_of("what", what, self.explainable)
        walks = None if n_walks == "auto" else settings.count("n_walks", n_walks)
        inside, numbers = self._inside(X)
        others = self._background(numbers, background)
        rng = check_random_state(random_state)
        return shapley_values(
            lambda rows: inside._answers(rows, what), numbers, others, self.column_map(), walks, rng
        )

    def permutation_importances(
        self, X: Any, y: ArrayLike, *, n_repeats: int | str = "auto", random_state: Any = 0
    ) -> "Importances":
        """What each column is worth on these rows: how much worse predictions are where it is shuffled.

        Parameters
        ----------
        X, y
            Rows that the model was not fitted to, and their targets.
        n_repeats : int or "auto", default "auto"
            Shuffles of each column; "auto" is 5, fewer for large tables.
        random_state : int, RandomState or None, default 0
            For the shuffles.

        Returns
        -------
        Importances
            `mean` and its standard `error`: of a regression the part of the target's variance that is lost
            (R² falls by so much), of a classification the rise of the negative log-probability in nats a row;
            and `names` of the columns.
        """
        from tggm.explanation import permutation_importances

        check_is_fitted(self, "fitted_")
        repeats = None if n_repeats == "auto" else settings.count("n_repeats", n_repeats)
        inside, numbers = self._inside(X)
        target = np.asarray(y)
        if not len(target) or len(target) != len(numbers):
            raise ValueError(f"`y` must have {len(numbers)} targets, one for each row; got {len(target)}.")

        def loss(rows: Floats, place: Ints) -> Floats:
            return inside._losses(rows, target[place])

        rng = check_random_state(random_state)
        return permutation_importances(loss, numbers, self.column_map(), repeats, rng)

    @property
    def feature_importances_(self) -> Floats:
        """What each column is worth on rows that were held out, shape (n_features_in_,).

        As `permutation_importances`, with the rows that members held out in `fit` (a thousand at most, which
        are kept for it), each judged by the members that held it out; a transformed target stays transformed.
        They are computed when first asked for. A model file keeps them if they were, and no rows.
        """
        check_is_fitted(self, "fitted_")
        known = self._importances
        if known is None or len(known) != self.n_features_in_:  # a file may say anything
            known = self._importances = self._held_importances()
        return known

    def _held_importances(self) -> Floats:
        """Mean over groups of members that held out the same rows, by their numbers of rows."""
        from tggm.explanation import permutation_importances

        if self._held is None or not isinstance(self._held[0].X, np.ndarray) or not self._held[1].any():
            raise AttributeError(
                "`feature_importances_` are known after `fit` with held-out rows of a dense table in memory, "
                "and in model files if they were asked for before; call permutation_importances(X, y) with "
                "rows that the model was not fitted to."
            )
        data, there = self._held
        total, count = np.zeros(self.n_features_in_), 0
        for members, rows in _groups(there):
            Z, y = _taken(data, rows)

            def loss(moved: Floats, place: Ints, y: Any = y, members: list[int] = members) -> Floats:
                return self._held_losses(moved, _taken(y, place), members)

            found = permutation_importances(loss, Z, self.column_map(), None, np.random.default_rng(0))
            total, count = total + len(rows) * found.mean, count + len(rows)
        return total / count

    def column_map(self) -> "ColumnMap":
        """Which inputs of the model belong to which column."""
        from tggm.explanation import ColumnMap

        prepared = self.table_preparation()
        if prepared is not None:
            widths = {column.name: len(column.features) for column in prepared.columns}
            return ColumnMap.from_widths(prepared.names, widths)
        plain = [f"x{k}" for k in range(self.n_features_in_)]
        return ColumnMap.identity([str(name) for name in getattr(self, "feature_names_in_", plain)])

    def _inside(self, X: Any) -> tuple[Self, Floats]:
        """The model of nameless numbers, and rows as such."""
        numbers = self._new_rows(X, {"dtype": np.float64})
        inside = copy(self)
        inside.name_features(numbers.shape[1], None)
        return inside, numbers

    def _background(self, numbers: Floats, given: Any) -> Floats:
        """The rows given; or the rows themselves or, of few, the mean row of training."""
        if given is None:
            few = self.fitted_.scales.x.shift[None, :].astype(np.float64)
            return numbers if len(numbers) >= FEW else few
        if not len(given):
            raise ValueError("`background` must have at least one row; got none.")
        return self._inside(given)[1]


def _taken(arrays: Tree, rows: Ints) -> Any:
    """Some rows of all arrays of a tree: targets may have limits."""
    return jax.tree.map(lambda a: np.asarray(a)[rows], arrays)


def _groups(there: Bools) -> list[tuple[list[int], Ints]]:
    """Members that held out the same rows, and these rows."""
    found: dict[bytes, list[int]] = {}
    for k, rows in enumerate(there):
        found.setdefault(rows.tobytes(), []).append(k)
    pairs = [(members, np.flatnonzero(there[members[0]])) for members in found.values()]
    return [(members, rows) for members, rows in pairs if len(rows)]
