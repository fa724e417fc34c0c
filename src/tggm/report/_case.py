"""The subject of a report: a fitted model, labelled rows, their predictions and their names."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted

from tggm.arrays import Floats, Ints
from tggm.estimators import numeric_model, table_description
from tggm.plotting.canvas import named_rows
from tggm.report.scores import Score, class_scores, regression_scores
from tggm.tables.baselines import Baselines, fit_baselines

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator

MAX_ROWS = 10_000  # of a report; more rows are sampled
MAX_ENTRIES = 20_000_000  # of a training table for which a linear baseline is fitted


class Scored(NamedTuple):
    """Scores of one model, and the log-density or log-probability of each observation."""

    scores: list[Score]
    log_score: Floats  # (rows,)


@dataclass(frozen=True, eq=False)
class _Data:
    """A model and labelled rows."""

    model: Any
    X: Any  # (rows, d), an array or a sparse matrix
    y: NDArray[Any]  # (rows,)
    row: Ints  # (rows,) position of each row in the given data
    number: Ints  # (rows,) name of each row
    given_rows: int
    names: tuple[str, ...]
    target: str
    train: tuple[Any, NDArray[Any]] | None
    baselines: Baselines | None
    shown: Mapping[str, Sequence[Any]]  # columns of the user's table
    groups: Mapping[str, Mapping[str, int]]  # categories: the column of each level
    parts: Mapping[str, Sequence[int]]  # other columns of a table: the columns of X that encode them
    output: int

    def named(self, X: Any) -> Any:
        """Return rows with column names if the model was fitted with them."""
        return X if sparse.issparse(X) else named_rows(self.model, X)

    def sample(self, count: int) -> Ints:
        return sample(len(self.y), count)


class RegressionCase(_Data):
    """One output of a regression."""

    kind = "regression"
    labels = (None,)  # of the columns of a response

    @property
    def unit(self) -> str:
        return self.target

    @cached_property
    def prediction(self) -> Any:
        """Predictive distributions of the rows."""
        return self.dist(self.X)

    def dist(self, X: Any) -> Any:
        """Return the predictive distributions of the output of the report."""
        dist = self.model.predict_dist(self.named(X))
        return dist.marginal(self.output) if hasattr(dist, "marginal") else dist

    def score(self, prediction: Any) -> Scored:
        y = self.y.astype(float)
        return Scored(regression_scores(prediction, y), np.asarray(prediction.logpdf(y)))

    def response(self, X: Floats) -> Floats:
        """Return means of the output."""
        mean = np.asarray(self.model.predict(self.named(X)))
        return mean[:, None] if mean.ndim == 1 else mean[:, [self.output]]

    def losses(self, X: Floats, rows: Ints) -> Floats:
        """Return squared errors relative to the variance."""
        y = self.y.astype(float)
        squares: Floats = (self.response(X)[:, 0] - y[rows]) ** 2 / (np.var(y) or 1.0)
        return squares

    def deviations(self) -> tuple[Floats, Floats]:
        """Return the deviations of the rows due to noise and due to disagreement of the networks."""
        _, *both = self.model.predict(self.named(self.X), return_std="parts")
        noise, between = (np.asarray(a) if np.ndim(a) == 1 else np.asarray(a)[:, self.output] for a in both)
        return noise, between


class ClassCase(_Data):
    """A classification."""

    kind, unit = "classification", "probability"

    def __post_init__(self) -> None:
        self.class_numbers(self.y)

    @property
    def classes(self) -> NDArray[Any]:
        return np.asarray(self.model.classes_)

    @property
    def labels(self) -> tuple[str, ...]:
        return tuple(str(name) for name in self.classes)

    def class_numbers(self, y: ArrayLike) -> Ints:
        """Return labels as positions in the model's classes."""
        values = np.asarray(y)
        found = np.minimum(np.searchsorted(self.classes, values), len(self.classes) - 1)
        unknown = self.classes[found] != values
        if unknown.any():
            raise ValueError(
                f"`y` has the label {values[unknown][0]!r}, which is not a class of the model "
                f"({', '.join(map(str, self.classes[:20]))}); remove such rows."
            )
        return found

    @cached_property
    def label(self) -> Ints:
        """The class number of each row."""
        return self.class_numbers(self.y)

    @cached_property
    def prediction(self) -> Any:
        """Log-probabilities of the classes, (rows, classes)."""
        return self.model.predict_log_proba(self.named(self.X))

    def score(self, prediction: Any) -> Scored:
        own = prediction[np.arange(len(self.label)), self.label]
        return Scored(class_scores(prediction, self.label), own)

    def response(self, X: Floats) -> Floats:
        """Return probabilities of the classes."""
        return np.asarray(self.model.predict_proba(self.named(X)))

    def losses(self, X: Floats, rows: Ints) -> Floats:
        """Return negative log-probabilities."""
        costs: Floats = -np.log(self.response(X)[np.arange(len(rows)), self.label[rows]])
        return costs


Case = RegressionCase | ClassCase


def score_all(case: Case) -> dict[str, Scored]:
    """Score the model and the available baselines, by name."""
    baselines = baselines_of(case)
    X = np.empty((len(case.y), 0)) if baselines.coef is None else dense(case.X)
    others: Any = baselines.regression(X) if isinstance(case, RegressionCase) else baselines.classes(X)
    found = {"this model": case.prediction, **others}
    return {name: case.score(found[name]) for name in ("this model", "linear", "naive") if name in found}


def baselines_of(case: Case) -> Baselines:
    """Return the given baselines, or fit them to the training rows, or the naive one to these rows."""
    if case.baselines is not None:
        return case.baselines
    X, y = (None, case.y) if case.train is None else case.train
    naive = X is None or np.prod(X.shape) > MAX_ENTRIES
    if isinstance(case, RegressionCase):
        return fit_baselines(None if naive else dense(X), y.astype(float))
    label, count = case.class_numbers(y), len(case.classes)
    naive = naive or len(np.unique(label)) < count
    return fit_baselines(None if naive else dense(X), label, count)


def examine(
    model: "BaseEstimator",
    X: Any,
    y: ArrayLike,
    *,
    feature_names: Sequence[str] | None = None,
    target_name: str = "y",
    train: tuple[Any, ArrayLike] | None = None,
    baselines: Baselines | None = None,
    shown: Mapping[str, Sequence[Any]] | None = None,
    groups: Mapping[str, Mapping[str, int]] | None = None,
    parts: Mapping[str, Sequence[int]] | None = None,
    row_numbers: Sequence[int] | None = None,
    output: int = 0,
) -> Case:
    """Check the arguments of `write_report`; sample at most `MAX_ROWS` rows."""
    kinds: dict[str | None, type[Case]] = {"regressor": RegressionCase, "classifier": ClassCase}
    try:
        kind = kinds[get_tags(model).estimator_type]
    except (AttributeError, KeyError):
        name = type(model).__name__
        raise TypeError(f"`model` must be a TGGMRegressor or a TGGMClassifier; got {name}.") from None
    check_is_fitted(model)
    if model.table_ is not None and (prepared := table_description(model)) is not None:
        encode = model.table_.transform
        train = None if train is None else (encode(train[0]), train[1])
        groups = prepared.groups if groups is None else groups
        parts = prepared.parts if parts is None else parts
        model, X = numeric_model(model), encode(X)
    table, target = _table("X", X), _column("y", y, output)
    count, width = table.shape
    if not count or len(target) != count:
        raise ValueError(
            f"`X` and `y` must have the same number of rows, at least one; got {count} and {len(target)}."
        )
    if width != model.n_features_in_:
        raise ValueError(f"`X` must have the model's {model.n_features_in_} columns; got {width}.")
    names = _names(feature_names, X, model, width)
    numbers = np.arange(1, count + 1) if row_numbers is None else np.asarray(row_numbers, np.intp)
    by_row = {"row_numbers": numbers, **{f"shown[{k!r}]": v for k, v in (shown or {}).items()}}
    for name, values in by_row.items():
        if len(values) != count:
            raise ValueError(f"`{name}` must have {count} values, one for each row; got {len(values)}.")
    places = {f"groups[{k!r}]": list(v.values()) for k, v in (groups or {}).items()}
    places |= {f"parts[{k!r}]": list(v) for k, v in (parts or {}).items()}
    for name, columns_of in places.items():
        if not columns_of or not all(0 <= j < width for j in columns_of):
            raise ValueError(f"`{name}` must be column numbers below {width}; got {columns_of}.")
    rows = sample(count, MAX_ROWS)
    known = None if train is None else (_table("train", train[0]), _column("train", train[1], output))
    return kind(
        model, table[rows], target[rows], rows, numbers[rows], count, names, target_name, known, baselines,
        shown or {}, groups or {}, parts or {}, output,
    )  # fmt: skip


def sample(count: int, most: int) -> Ints:
    """Return at most `most` of the numbers below `count` in order, sampled with a fixed seed."""
    if count <= most:
        return np.arange(count)
    return np.sort(np.random.default_rng(0).choice(count, most, replace=False))


def dense(X: Any) -> Floats:
    """Return an array of floats, also from a sparse matrix."""
    values: Floats = np.asarray(X.todense() if sparse.issparse(X) else X, np.float64)
    return values


def _table(name: str, X: Any) -> Any:
    if sparse.issparse(X):
        return X.tocsr()
    values = np.asarray(X, np.float64)
    if values.ndim != 2:
        raise ValueError(f"`{name}` must be a table of rows and columns; got shape {values.shape}.")
    return values


def _column(name: str, y: ArrayLike, output: int) -> NDArray[Any]:
    values = np.asarray(y)
    if values.ndim == 2 and 0 <= output < values.shape[1]:
        values = values[:, output]
    if values.ndim != 1:
        raise ValueError(
            f"`{name}` must have one value per row, or a column number {output}; got shape {values.shape}."
        )
    return values


def _names(given: Sequence[str] | None, X: Any, model: "BaseEstimator", width: int) -> tuple[str, ...]:
    for found in (given, getattr(X, "columns", None), getattr(model, "feature_names_in_", None)):
        if found is not None:
            if len(found) != width:
                raise ValueError(f"`feature_names` must have {width} names; got {len(found)}.")
            return tuple(str(name) for name in found)
    return tuple(f"x{j + 1}" for j in range(width))
