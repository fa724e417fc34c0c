"""Read the rows of a fit: `read_numbers` and `read_labels` convert the arguments of `fit` to `Data`.

Arrays and tables are one in-memory block; a stream is many blocks, of which at most 8,192 held-out rows stay
in memory.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from numbers import Real
from typing import Any, NamedTuple

import jax
import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.utils import check_array
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from tggm.arrays import Bools, Floats
from tggm.censored import Censored, read_limits, sides
from tggm.data import Stream, from_arrays
from tggm.data.standardise import LARGEST, Extent, Scales, require_moderate, require_squares, standardisation
from tggm.data.standardise import Columns as Standardisation
from tggm.data.stream import next_pass, survey, training_blocks
from tggm.estimators._holdout import Holdout, read_holdout
from tggm.estimators._settings import Settings
from tggm.estimators._support import latent_scale, scale_target
from tggm.models.layers import Incomplete
from tggm.predictive.gaussian_mixture import LogTransform
from tggm.predictive.support import Plan
from tggm.settings import plain
from tggm.tables import Table, TableTransformer
from tggm.tables.inputs import as_table, read_inputs
from tggm.tables.table import warn
from tggm.tables.transformer import CHOICES, Columns
from tggm.training import Rows
from tggm.training.rows import Blocks, Membership, RowBlock, bucket, leaves_rows_out, membership, model_inputs

FARTHEST = 1e4  # largest distance of a target from the median that training can fit, in robust deviations
UNNAMED = "y"  # name of a target without a name
STREAM_BYTES = 2**28  # a larger memory map is read as a stream
Labels = NDArray[np.int32]  # positions among the classes


class Targets(NamedTuple):
    """Targets of a regression; some may be missing, and some may be limits."""

    Y: Floats  # (rows, n), NaN where missing
    side: Floats | None  # (rows, n) 1 at least Y, −1 at most Y, 0 measured, 2 within `half` of Y; None: all 0
    half: Floats | None = None  # (rows, n); None without such intervals

    @property
    def complete(self) -> bool:
        """Return whether every target is measured."""
        return self.side is None and not np.isnan(self.Y).any()

    def of(self, rows: Any) -> "Targets":
        """Select rows."""
        return Targets(*(None if part is None else part[rows] for part in self))  # type: ignore[arg-type]  # of a union

    def standardise(self, columns: Standardisation, dtype: Any) -> Any:
        """Return targets for training: numbers, or `Incomplete` if some are missing or limits."""
        Y = columns.apply(self.Y).astype(dtype)
        if self.complete:
            return Y
        side = np.zeros_like(self.Y) if self.side is None else self.side
        half = None if self.half is None else (self.half / columns.scale).astype(dtype)
        return Incomplete(Y, side.astype(dtype), half)  # type: ignore[arg-type]  # NumPy until training

    def scales(self, weight: Floats, how: bool | str) -> Standardisation:
        """Return mean and deviation of each column over its known targets."""
        one = partial(Standardisation.robust, farthest=FARTHEST) if how == "robust" else Standardisation.of
        masks = enumerate(~np.isnan(self.Y).T)
        parts = [one(self.Y[known, j : j + 1], weight[known]) for j, known in masks]
        shift, scale = np.concatenate(parts, axis=1)
        found = Standardisation(shift, require_squares(scale, shift))
        return found if how else Standardisation.unchanged(len(shift))


@dataclass
class Data:
    """Rows in memory, encoded as numbers, and how they are standardised."""

    X: Any  # (rows, d), dense or sparse
    y: Any  # Targets, or labels as positions in `classes`
    weight: Floats  # (rows,)
    columns: Columns
    scales: Scales
    n_outputs: int
    target: str = UNNAMED
    flat: bool = True  # whether the target is a vector
    transform: LogTransform | None = None
    classes: NDArray[Any] | None = None
    calibration_rows: tuple[Any, Any] | None = None  # inputs and targets for a guarantee
    holdout: Holdout = Holdout()  # noqa: RUF009  # immutable
    plans: tuple[Plan, ...] = ()  # supports of each target

    def __post_init__(self) -> None:
        self.sparse, self.n_kept = bool(sparse.issparse(self.X)), len(self.weight)
        self.mean_weight = float(self.weight.mean())

    def blocks(self, settings: Settings, most: float, rng: np.random.Generator) -> Blocks:
        """Assign rows to members, and return the single block."""
        standard = _standardise(self.X, self.y, self.scales, settings.dtype, most)
        data = jax.tree.map(partial(_pad, settings.dtype), standard)
        weight = _pad(settings.dtype, self.weight / self.mean_weight)
        folds = self.holdout.assign(rng, self.n_kept, settings.n_members)
        partial_ = leaves_rows_out(folds, self.n_kept)
        return Blocks.of(RowBlock(membership(folds), data, weight), partial=partial_)


class StreamData:
    """A stream: all members hold out the same rows and see the rows of a block in different orders."""

    mean_weight, sparse, transform, calibration_rows = 1.0, False, None, None
    holdout, plans = Holdout(), ()

    def __init__(self, stream: Stream, settings: Settings, rng: np.random.Generator, *, labels: bool) -> None:
        if stream.table is None and (chosen := [name for name in CHOICES if len(settings.given[name])]):
            raise ValueError(
                f"`{chosen[0]}` must be empty for a stream; leave its columns out of the stream."
            )
        if not isinstance(settings.cv, float):
            raise ValueError(f"`cv` must be a fraction for a stream, for example 0.1; got {settings.cv!r}.")
        self.stream = stream
        self.survey = survey(stream, int(rng.integers(2**63)), labels)
        self.X, self._y, self._bound = self.survey.held(settings.cv)
        self.n_kept = len(self.X)
        extents = [extent for extent in (self.survey.X, self.survey.y) if extent is not None]
        self._extents: list[Extent] = extents
        self.ends = extents[0].low, extents[0].high  # of the inputs
        self.columns, self.target = Columns(len(extents[0].mean), stream.names), stream.target
        if stream.table is not None:
            self.columns = Columns.of(stream.table)
        how = settings.standardize
        x = _stream_scales(self.X, extents[0], how)
        if labels:
            self.classes: NDArray[Any] | None = known_classes(self.survey.classes)
            self.n_outputs, self.flat = len(self.classes), True
            self.scales = Scales(x, Standardisation.unchanged(self.n_outputs))
        else:
            self.classes, self.flat = None, self.survey.flat
            sample = self._y.reshape(len(self._y), -1)
            self.scales = Scales(x, _stream_scales(sample, extents[1], how))
            self.n_outputs = len(self.scales.y.scale)
            require_squares(*_stream_scales(sample, extents[1], True)[::-1])

    def _decode(self, y: Any) -> Any:
        if self.classes is not None:
            return encoded_labels(y, self.classes)
        return Targets(np.asarray(y, np.float64).reshape(len(y), -1), None)

    def blocks(self, settings: Settings, most: float, rng: np.random.Generator) -> Blocks:
        """Return blocks of one shape, each followed by the held-out rows."""
        self._require_moderate()
        seed, count = int(rng.integers(2**31)), self.survey.count - self.n_kept
        per_pass = math.ceil(count / self.stream.block_rows)
        length = math.ceil(count / per_pass)  # equal sizes: steps on a small last block would be noisy
        size = bucket(length) if length < 1024 else math.ceil(length / 1024) * 1024
        held_size = bucket(len(self.X))
        X, y = self.X.astype(np.float64, copy=False), self._decode(self._y)
        standard = _standardise(X, y, self.scales, settings.dtype, most)
        held = jax.tree.map(partial(_pad_and_append, held_size), standard)
        weight = np.ones(size + held_size, settings.dtype)
        members = partial(self._members, settings.n_members, size, held_size)

        def each(epoch: int) -> Iterator[RowBlock]:
            for part in self._parts(settings.dtype, most, seed, epoch, length, count):
                n = len(part.X)
                data = jax.tree.map(partial(_pad_and_append, size), part, held)
                yield RowBlock(members(n), data, weight, n / count)

        kept = RowBlock(self._members(settings.n_members, 0, held_size, 0), held, weight[size:])
        return Blocks(each, per_pass, count, size, (held, count, size), kept=kept)

    def _parts(
        self, dtype: str, most: float, seed: int, epoch: int, length: int, count: int
    ) -> Iterator[Rows]:
        """Yield the training rows, `length` at a time; raise if this pass differs from the first."""
        seen = 0
        pieces = next_pass(self.stream, self.survey, seed, epoch)
        for X, y in training_blocks(pieces, self.survey.seed, self._bound, length):
            seen += len(X)
            targets = self._decode(y)
            if self.classes is None:
                targets = model_inputs(targets.Y, self.scales.y, dtype)
            yield Rows(model_inputs(X, self.scales.x, dtype, most=most), targets)
        if seen != count:
            raise ValueError(
                f"the stream gave {seen} rows to train on in pass {epoch + 2}, but {count} in the first; "
                "each piece must have the same `start` in every pass."
            )

    def _members(self, K: int, size: int, held_size: int, count: int) -> Membership:
        """Return row numbers: the block's rows first, then the held-out ones, the same for all members."""
        numbers = np.arange(size + held_size, dtype=np.int32)
        train, held = (np.broadcast_to(part, (K, len(part))) for part in np.split(numbers, [size]))
        n_train, n_held = (np.full(K, number, np.int32) for number in (count, self.n_kept))
        return Membership(train, n_train, held, n_held)  # type: ignore[arg-type]  # NumPy until training

    def _require_moderate(self) -> None:
        """Raise for values that are too large after standardisation."""
        for name, extent, columns in zip(("X", "y"), self._extents, self.scales, strict=False):
            size = np.abs(columns.apply(np.stack([extent.low, extent.high]))).max(0)
            if size.max() > LARGEST:
                raise ValueError(
                    f"`{name}` has a value of size {size.max():.3g} on the scale of the model in column "
                    f"{size.argmax()}; at most {LARGEST:g} is possible. Use standardize=True, or divide it."
                )


# ---- the arguments of `fit` ----


def as_stream(X: Any, y: Any, *rest: Any) -> Stream | None:
    """Return the stream given to `fit`; None if it was given ordinary arrays."""
    if isinstance(X, Stream):
        if y is not None or any(value is not None for value in rest):
            raise ValueError(
                "a stream has its own targets; `y`, weights, groups and limits cannot be given with it."
            )
        return X
    mapped = isinstance(X, np.memmap) and X.ndim == 2 and X.nbytes > STREAM_BYTES and y is not None
    return from_arrays(X, y) if mapped and all(value is None for value in rest) else None


def _encode(estimator: Any, X: Any, y: NDArray[Any], rows: Bools, holdout: Holdout) -> tuple[Any, Columns]:
    """Return the selected rows as numbers, and the columns; fit the encoder of a table to these rows."""
    choices = {name: getattr(estimator, name) for name in CHOICES}
    if not isinstance(X, Table) and not any(len(chosen) for chosen in choices.values()):
        return X if rows.all() else X[rows], Columns(X.shape[1])
    X, units = as_table(X), holdout.units(int(rows.sum()))
    encoder = TableTransformer(task=estimator.task, **choices)
    return encoder.fit_transform(X.take(rows), y[rows], units), Columns.of(encoder)


def _encode_more(X: Any, rows: Bools, columns: Columns) -> Any:
    """Return other rows of the same table as numbers."""
    return X[rows] if columns.encoder is None else columns.encoder.transform(X.take(rows))


def _name_of(y: Any) -> str:
    name = getattr(y, "name", None)
    return name if isinstance(name, str) and name else UNNAMED


def read_numbers(
    estimator: Any, X: Any, y: Any, weight: Any, censored: Any, groups: Any, settings: Settings,
    rng: np.random.Generator,
) -> Data | StreamData:  # fmt: skip
    """Read the rows of a regression.

    Rows of weight 0 or without any target are left out. With `guarantee`, calibration rows are set aside.
    """
    if (stream := as_stream(X, y, weight, censored, groups)) is not None:
        if settings.guarantee is not None:
            raise ValueError(
                "`guarantee` must be None for a stream, which has no calibration rows; call `recalibrate` "
                "after `fit`, with rows that the model was not trained on."
            )
        if settings.target_transform == "log":
            raise ValueError("`target_transform` must be 'auto' or None for a stream; pass log targets.")
        if settings.support not in ("auto", None):
            raise ValueError(
                f"`support` must be 'auto' or None for a stream; got {settings.given['support']}."
            )
        return StreamData(stream, settings, rng, labels=False)
    half = None
    if isinstance(censored, str) or getattr(getattr(y, "dtype", None), "names", None):
        y, censored, half = read_limits(y, censored)
    options = {"dtype": np.float64, "multi_output": True, "y_numeric": True}
    X_, y_ = read_inputs(estimator, X, without_gaps(y), **options)
    targets, weight_ = read_targets(y_ if y_.ndim == 1 else y, weight, censored, half)
    kept = (weight_ > 0) & ~np.isnan(targets.Y).all(1)
    known = np.isfinite(targets.Y) & (targets.side == 0 if targets.side is not None else True)
    measured, level = kept & known.all(1), settings.guarantee
    holdout, kept, chosen = read_holdout((X, y, groups), settings.cv, kept, measured, level, rng)
    inputs, columns = _encode(estimator, X_, y_ if y_.ndim == 1 else targets.Y, kept, holdout)
    targets_, weights = targets.of(kept), weight_[kept]
    limits = targets_.side
    if limits is not None and abs(limits).min() == 1 == abs(limits.mean()):
        raise ValueError(
            "`censored` must not be a limit on the same side for every row; add rows that were measured, or "
            "with a limit on the other side."
        )
    Y, side, half, transform, plans = scale_target(settings, inputs, *targets_, weights)
    targets_ = Targets(Y, side, half)
    y_scales = targets_.scales(weights, settings.standardize)
    if limits is not None and side is not None and settings.standardize:
        y_scales = latent_scale(y_scales, Y, side)
    scales = Scales(standardisation(inputs, weights, settings.standardize), y_scales)
    calibration = None if chosen is None else (_encode_more(X_, chosen, columns), targets.of(chosen).Y)
    return Data(
        inputs, targets_, weights, columns, scales, targets_.Y.shape[1], _name_of(y), y_.ndim == 1,
        transform, calibration_rows=calibration, holdout=holdout, plans=plans,
    )  # fmt: skip


def read_labels(
    estimator: Any, X: Any, y: Any, weight: Any, groups: Any, settings: Settings,
    rng: np.random.Generator,
) -> Data | StreamData:  # fmt: skip
    """Read the rows of a classification."""
    if (stream := as_stream(X, y, weight, groups)) is not None:
        if settings.guarantee is not None:
            raise ValueError("`guarantee` must be None for a stream, which has no calibration rows.")
        if settings.class_weight is not None:
            raise ValueError(f"`class_weight` must be None for a stream; got {settings.class_weight!r}.")
        return StreamData(stream, settings, rng, labels=True)
    X_, y_ = read_inputs(estimator, X, plain_labels(y), accept_sparse="csr", dtype=[np.float64, np.float32])
    check_classification_targets(y_)
    weight_ = row_weights(weight, y_)
    rows = weight_ > 0
    holdout, rows, chosen = read_holdout((X, y, groups), settings.cv, rows, rows, settings.guarantee, rng)
    X_kept, columns = _encode(estimator, X_, y_, rows, holdout)
    known = known_classes(y_)
    label, weights = encoded_labels(y_[rows], known), weight_[rows]
    if settings.class_weight is not None:
        weights = weights * class_weights(settings.class_weight, known, label, weights)[label]
    kept = weights > 0
    if not kept.any():
        raise ValueError("no row has a positive weight: see `sample_weight` and `class_weight`.")
    inputs, label, weights = X_kept if kept.all() else X_kept[kept], label[kept], weights[kept]
    if label.min() == label.max():
        raise ValueError(
            f"only rows of class {plain(known[label[0]])!r} have a positive weight; "
            "a classifier needs at least two classes."
        )
    scales = Scales(
        standardisation(inputs, weights, settings.standardize), Standardisation.unchanged(len(known))
    )
    calibration = (
        None if chosen is None else (_encode_more(X_, chosen, columns), encoded_labels(y_[chosen], known))
    )
    return Data(
        inputs, label, weights, columns, scales, len(known), _name_of(y), classes=known,
        calibration_rows=calibration, holdout=holdout.of(kept),
    )  # fmt: skip


def read_targets(
    y: Any, sample_weight: Any, censored: ArrayLike | None, half: Floats | None = None
) -> tuple[Targets, Floats]:
    """Check targets, limits and weights; `half` are the half widths of intervals around targets, (rows,)."""
    Y = numbers_of(y).reshape(len(y), -1)
    if len(Y) == 1:
        raise ValueError("`y` has 1 sample; pass more rows, there is nothing to learn from one.")
    weight = row_weights(sample_weight, Y)
    side: Floats | None = None
    if half is not None:
        side = np.reshape(np.asarray(censored), Y.shape)
    elif censored is not None:
        if Y.shape[1] > 1:
            raise ValueError(
                f"`censored` is for one output; `y` has {Y.shape[1]}. Use tggm.Graph for limits on several."
            )
        side = sides("censored", censored, Y.shape).reshape(-1, 1)
        side = side if side.any() else None
    if np.isnan(Y).all(0).any():
        raise ValueError("`y` has a column without any target; leave it out.")
    with np.errstate(over="ignore"):
        span = np.nanmax(Y, axis=0) - np.nanmin(Y, axis=0)
    if not span.any():
        warn("`y` has the same value in every row, and so do the predictions.")
    require_squares(span[(span > 0) & (span < 1)])
    return Targets(Y, side, None if half is None else half[:, None]), weight


def numbers_of(y: Any) -> Floats:
    """Return targets as an array of numbers."""
    try:
        Y = np.asarray(y, dtype=np.float64)
    except (TypeError, ValueError):
        word = next((v for v in np.ravel(np.asarray(y, object)) if not isinstance(v, Real)), y)
        raise ValueError(f"`y` has {word!r}, which is no number; use a TGGMClassifier.") from None
    if not Y.ndim:
        raise ValueError(f"`y` must have a value for each row; got {y!r}.")
    return Y


def without_gaps(y: Any) -> Any:
    """Set missing targets of several columns to 0, for checks that do not accept NaN."""
    if isinstance(y, Censored):
        raise ValueError(
            "`y` is a Censored, which is for tggm.Graph; pass its parts: fit(X, y.value, censored=y.side)."
        )
    array = np.asarray(y)
    if array.ndim != 2 or array.shape[1] < 2 or array.dtype.kind != "f":
        return y
    return np.nan_to_num(array, nan=0.0) if np.isnan(array).any() else y


def row_weights(sample_weight: Any, X: Any) -> Floats:
    """Return one nonnegative weight per row, 1 by default; not all of them 0."""
    rows = X.shape[0]
    if sample_weight is None or isinstance(sample_weight, Real):
        given = np.full(rows, 1.0 if sample_weight is None else sample_weight)
    else:
        given = sample_weight
    options = {"ensure_2d": False, "dtype": np.float64, "input_name": "sample_weight", "allow_nd": True}
    weight: Floats = check_array(given, **options)
    if weight.shape != (rows,):
        raise ValueError(
            f"`sample_weight` must be a number for each of the {rows} rows; got shape {weight.shape}."
        )
    if weight.min() < 0:
        raise ValueError(f"Negative values in data passed to `sample_weight`: {weight.min():g} is one.")
    if not weight.any():
        raise ValueError("Sample weights must contain at least one non-zero number (`sample_weight`).")
    return weight


# ---- labels ----


def known_classes(y: ArrayLike) -> NDArray[Any]:
    """Return the distinct labels, sorted; raise for fewer than two."""
    classes = np.unique(np.asarray(y))
    kind = classes.dtype.kind
    no_words = kind == "O" and not all(isinstance(label, str) for label in classes)
    fractions = kind == "f" and bool((classes != np.round(classes)).any())
    if fractions or no_words or kind in "cSV":
        unknown = classes[classes != np.round(classes)] if fractions else classes
        raise ValueError(
            "Unknown label type: `y` must be strings, whole numbers or booleans; got "
            f"{unknown[:3].tolist()} (dtype {classes.dtype})."
        )
    classes = classes.astype(classes.dtype.newbyteorder("="))
    if len(classes) < 2:
        raise ValueError(
            f"`y` has one class only, {classes.tolist()}; a classifier needs at least two classes."
        )
    return classes


def plain_labels(y: Any) -> Any:
    """Return labels as an array, with a type of NumPy for booleans and integers of a data frame.

    Raise if a label is missing (None, NaN, or NA of a data frame), or if only some are words.
    """
    labels = np.asarray(y)
    if labels.dtype.kind != "O" or not labels.ndim:
        return labels if labels.dtype.kind in "bi" and labels.ndim else y
    for row, label in enumerate(labels.ravel()):
        missing = label is None or type(label).__name__ in ("NAType", "NaTType")
        if missing or (isinstance(label, float) and label != label):
            raise ValueError(
                f"`y` has no label in row {row + 1} ({label}); leave such rows out: keep = pd.notna(y), then "
                "fit(X[keep], y[keep])."
            )
    words = {isinstance(label, str): label for label in labels.ravel()}
    if len(words) > 1:
        raise ValueError(f"`y` has {words[True]!r} and {words[False]!r}; pass words only: y.astype(str).")
    plain = np.asarray(labels.tolist())
    return plain if plain.dtype.kind in "bi" else y


def encoded_labels(y: ArrayLike, classes: NDArray[Any]) -> Labels:
    """Return the position of each label in `classes`; raise for unknown labels."""
    y = column_or_1d(y)
    unknown = np.setdiff1d(y, classes)
    if len(unknown):
        raise ValueError(
            f"`y` contains classes that are not in `classes_`: {unknown[:5].tolist()}; "
            f"the model has {classes[:10].tolist()}."
        )
    return np.searchsorted(classes, y).astype(np.int32)


def class_weights(
    given: Mapping[Any, float] | str, classes: NDArray[Any], label: Labels, weight: Floats
) -> Floats:
    if given == "balanced":
        sums = np.bincount(label, weight, len(classes))
        missing = classes[sums == 0]
        if len(missing):
            raise ValueError(
                f"class_weight='balanced' needs rows of every class; {missing[:5].tolist()} have none. "
                "Pass a dict of weights."
            )
        return sums.sum() / (len(classes) * sums)
    found: Floats = compute_class_weight(given, classes=classes, y=classes[label])
    wrong = ~(np.isfinite(found) & (found >= 0))
    if wrong.any():
        raise ValueError(
            f"`class_weight` must be finite and at least 0; got {found[wrong][0]} for {classes[wrong][0]!r}."
        )
    return found


# ---- standardised rows ----


def _stream_scales(sample: NDArray[Any], extent: Extent, how: bool | str) -> Standardisation:
    """Return the standardisation of a stream: robust scales by a sample, others by all rows."""
    if not how:
        return Standardisation.unchanged(len(extent.mean))
    if how == "whole":
        return extent.whole()
    if how != "robust":
        return extent.columns()
    values = np.asarray(sample, np.float64)
    found, whole = Standardisation.robust(values, np.ones(len(values))), extent.columns()
    varies = np.ptp(values, axis=0) > 0
    return Standardisation(*(np.where(varies, a, b) for a, b in zip(found, whole, strict=True)))


def _standardise(X: Any, y: Any, scales: Scales, dtype: str, most: float) -> Rows:
    """Return rows on the scale of the model; inputs are clipped to `most`."""
    if not isinstance(y, Targets):
        return Rows(model_inputs(X, scales.x, dtype, most=most), y)
    with np.errstate(over="ignore"):  # checked before training
        return Rows(scales.x.apply(X, most=most).astype(dtype), y.standardise(scales.y, dtype))


def _pad(dtype: Any, a: NDArray[Any]) -> NDArray[Any]:
    """Pad rows to one of few sizes; labels stay integers."""
    if np.issubdtype(a.dtype, np.floating):
        require_moderate(a, "`X` or `y`", "use standardize=True, or divide them")
        a = a.astype(dtype)
    return np.pad(a, [(0, bucket(len(a)) - len(a)), *[(0, 0)] * (a.ndim - 1)])


def _pad_and_append(size: int, rows: NDArray[Any], *more: NDArray[Any]) -> NDArray[Any]:
    """Pad rows to `size` with zeros, and append more."""
    return np.concatenate([rows, np.zeros((size - len(rows), *rows.shape[1:]), rows.dtype), *more])
