"""`fit` for rows that do not fit into memory: survey, then train on blocks that are read ahead."""

import math
from collections.abc import Iterator
from functools import partial
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from tggm.estimators.base import Work
from tggm.estimators.columns import LARGEST
from tggm.estimators.inputs import prepared
from tggm.estimators.labels import encoded, known_classes
from tggm.estimators.passes import again, cut, require_as_before
from tggm.estimators.starting import fits, sizes_of
from tggm.estimators.survey import Survey, surveyed
from tggm.estimators.targets import Targets, checked
from tggm.streams import Stream, from_arrays
from tggm.training import Layout, Rows
from tggm.training.classification import Labelled
from tggm.training.rows import bucket
from tggm.training.streaming import Blocks, train_blocks

STREAM_BYTES = 2**28  # a memory map of more is not read into memory
_SQUARED = 1e150  # deviations whose squares are numbers


def as_stream(X: Any, y: Any, *rest: Any) -> Stream | None:
    """The source of rows that `fit` was given, None if it was given ordinary arrays."""
    if isinstance(X, Stream):
        if y is not None or any(value is not None for value in rest):
            raise ValueError("a stream brings its targets; `y`, weights and limits cannot be given with it.")
        return X
    mapped = isinstance(X, np.memmap) and X.ndim == 2 and X.nbytes > STREAM_BYTES and y is not None
    return from_arrays(X, y) if mapped and all(value is None for value in rest) else None


def fit_stream(model: Any, stream: Stream) -> Any:
    """Fit a regressor or classifier to a stream; settings mean what they mean for arrays.

    All members hold out the same rows, at most 8192, and see the rows of a block in different orders.
    """
    is_class = hasattr(model, "predict_proba")
    if is_class and model.class_weight is not None:
        raise ValueError(f"`class_weight` must be None for a stream; got {model.class_weight!r}.")
    rng = model._generator()
    survey = surveyed(stream, int(rng.integers(2**63)), is_class)
    fraction = model.validation_fraction if model.early_stopping else 1.0
    X, y, bound = survey.held(fraction)
    if not model.early_stopping:
        bound = np.uint64(0)
    warm = _adopted(model, survey, stream)
    _require_moderate(model, survey)
    work = _work(model, X, y, warm, rng)
    n_held = len(X) if model.early_stopping else 0
    blocks = _blocks(model, stream, survey, work, bound, n_held, int(rng.integers(2**31)))
    result = _trained(model, work, blocks, int(rng.integers(2**31)))
    if is_class:
        model._adopt(jax.tree.map(np.asarray, result.params))
        model._record(result)
    else:
        model._store(result, work)
    model._state = None
    return model


def _adopted(model: Any, survey: Survey, stream: Stream) -> Any:
    """Set what the survey decides on the model; the parameters of a warm start, or None."""
    assert survey.X is not None
    before: Any = getattr(model, "classes_", None)
    if survey.is_class:
        model.classes_ = known_classes(survey.classes)
        n = len(model.classes_)
    else:
        assert survey.y is not None
        model._flat, n = survey.flat, len(survey.y.mean)
    model.n_features_in_ = len(survey.X.mean)
    vars(model).pop("feature_names_in_", None)
    if stream.names is not None:
        model.feature_names_in_ = np.asarray(stream.names, dtype=object)
    warm = getattr(model, "_params", None) if model.warm_start else None
    same = not survey.is_class or np.array_equal(before, model.classes_)
    if fits(model, warm, sizes_of(model, model.n_features_in_, n)) and same:
        return warm
    plain = not model.standardize
    found = survey.X.whole() if model.standardize == "whole" else survey.X.columns()
    model._x = found.unchanged(model.n_features_in_) if plain else found
    if survey.y is not None:
        model._y = found.unchanged(n) if plain else survey.y.columns()
        if (model._y.scale > _SQUARED).any():
            raise ValueError(
                f"`y` has a standard deviation of {model._y.scale.max():.3g}, whose square overflows; "
                "divide it."
            )
    return None


def _require_moderate(model: Any, survey: Survey) -> None:
    """Raise for what is too large on the scale of the model; as the range is known, no row need be read."""
    for name, spread, columns in (("X", survey.X, model._x), ("y", survey.y, getattr(model, "_y", None))):
        if spread is None or columns is None:
            continue
        size = np.abs(columns.apply(np.stack([spread.low, spread.high]))).max(0)
        if size.max() > LARGEST:
            raise ValueError(
                f"`{name}` has a value of size {size.max():.3g} on the scale of the model in column "
                f"{size.argmax()}, where {LARGEST:g} is the most that can be computed with; use "
                "standardize=True, or divide it."
            )


def _work(model: Any, X: NDArray[Any], y: NDArray[Any], params: Any, rng: np.random.Generator) -> Work:
    """The training problem of these rows."""
    one = np.ones(len(X))
    X = X.astype(np.float64, copy=False)
    if hasattr(model, "predict_proba"):
        return model._work(X, encoded(y, model.classes_), one, params, rng)  # type: ignore[no-any-return]  # a Work
    Y = np.asarray(y, np.float64).reshape(len(X), -1)
    targets: Targets = checked(Y, None, model.method, model.lateral)
    return model._work(X, targets, one, params, rng)  # type: ignore[no-any-return]  # a Work


def _blocks(
    model: Any, stream: Stream, survey: Survey, work: Work, bound: np.uint64, n_held: int, seed: int
) -> Blocks:
    n_rows = survey.count - n_held
    per_pass = math.ceil(n_rows / stream.block_rows)
    rows = math.ceil(n_rows / per_pass)  # blocks of equal size: a small one would take noisy steps
    size = bucket(rows) if rows < 1024 else math.ceil(rows / 1024) * 1024

    def each(epoch: int) -> Iterator[tuple[Any, int]]:
        seen = 0
        for number, X, y in cut(again(stream, survey, seed, epoch), survey.seed, bound, rows):
            seen += len(X)
            data = _data(model, X, y)
            require_as_before(data, number, epoch)
            yield jax.tree.map(partial(_joined, size), data, held), len(X)
        if seen != n_rows:
            raise ValueError(
                f"the stream gave {seen} rows to train on in pass {epoch + 2}, but {n_rows} in the first; "
                "each piece must have the same `start` in every pass."
            )

    held_size = bucket(len(work.weight))
    held = jax.tree.map(partial(_joined, held_size), work.data)
    return Blocks(each, size, held_size, n_held, n_rows, per_pass)


def _data(model: Any, X: NDArray[Any], y: NDArray[Any]) -> Any:
    """Rows as training takes them, in single precision throughout if that costs no digits."""
    Z = prepared(X, model._x, model.dtype)
    if hasattr(model, "predict_proba"):
        return Labelled(Z, encoded(y, model.classes_))  # type: ignore[arg-type]  # NumPy until training
    return Rows(Z, prepared(y.reshape(len(X), -1), model._y, model.dtype))


def _joined(size: int, rows: NDArray[Any], *more: NDArray[Any]) -> NDArray[Any]:
    """Rows, padded to `size` by such as do not count, and more."""
    return np.concatenate([rows, np.zeros((size - len(rows), *rows.shape[1:]), rows.dtype), *more])


def _trained(model: Any, work: Work, blocks: Blocks, seed: int) -> Any:
    batch, epochs = model._schedule(blocks.n_rows)
    layout = Layout.of(work.params, axes=1)
    plan = model._plan(layout, batch, 1)
    rows = math.ceil(blocks.n_rows / blocks.per_pass)
    steps = blocks.per_pass * math.ceil(rows / min(batch, blocks.size))
    hyper = model._hyper(work, epochs * steps, model._patience(epochs) * blocks.per_pass)
    watcher = model._watched(epochs)
    with model._precision():
        kept = model._checkpoints(plan, work, (model._x, blocks.n_rows, blocks.size))
        resume = None if kept is None else kept.read()
        if resume is not None:
            watcher.resumed(resume.train.shape[1] // blocks.per_pass)
        result = train_blocks(
            plan, work.objective, work.params, blocks, work.context, hyper, max_epochs=epochs, seed=seed,
            report=watcher.progressed, resume=resume, keep=None if kept is None else kept.keep,
        )  # fmt: skip
    if kept is not None:
        kept.write(finished=not result.interrupted)
    return result
