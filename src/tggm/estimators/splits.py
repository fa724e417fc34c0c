"""Fit many regressors to parts of one table, all of them in one compiled program.

Splits of a benchmark, folds of a cross-validation, points of a grid: their members are trained side by side
by the one training loop, share the table on the device, and see it through their own rows and
standardisations. On a GPU twenty splits take little longer than one.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from numpy.typing import ArrayLike, NDArray

from tggm.estimators.base import Work
from tggm.estimators.columns import Floats
from tggm.estimators.regressor import TGGMRegressor
from tggm.estimators.settings import layers
from tggm.training import Context, Layout, Rows, Scaling, Training, hold_out, membership, train
from tggm.training.loop import start
from tggm.training.rows import Index
from tggm.training.training import steps_per_epoch

# what one compiled program can take for each member apart; all else must be the same
OWN = {"random_state", "sigma0", "noise", "init", "learning_rate", "weight_decay", "clip", "patience"}


class _Share:
    """The part of one model in the common training problem."""

    def __init__(self, model: TGGMRegressor, X: Floats, y: Floats, rows: NDArray[np.intp]) -> None:
        X_, targets, weight = model._checked(X[rows], y[rows], None, reset=True)
        rng = model._generator()
        model._x, model._y = model._standardise(X_, weight), model._standardise_targets(targets.Y, weight)
        # the same draws in the same order as in `fit`
        self.work: Work = model._work(X_, targets, weight, None, rng)
        fraction = model.validation_fraction if model.early_stopping else 0.0
        self.holds: list[tuple[Index, Index]] = [
            hold_out(rng, rows, fraction) for _ in range(model.n_members)
        ]
        seed = int(rng.integers(2**31))
        self.seeds = np.random.default_rng(seed).integers(0, 2**32, model.n_members, np.uint32)


def fit_together(
    models: Sequence[TGGMRegressor], X: ArrayLike, y: ArrayLike, parts: Sequence[ArrayLike]
) -> list[TGGMRegressor]:
    """Fit each model to its part of the rows of a table, all at once.

    Each ends as its own `fit` on these rows would have left it, up to rounding and to patience: training ends
    when the last member of all models has lost its own.

    Parameters
    ----------
    models : sequence of TGGMRegressor
        With one hidden layer. Settings may differ in `random_state`, `sigma0`, `noise`, `init`,
        `learning_rate`, `weight_decay`, `clip` and `patience`.
    X : array_like, shape (n_rows, n_features)
    y : array_like, shape (n_rows,) or (n_rows, n_outputs)
        Complete: no value is missing.
    parts : sequence of arrays of int
        ``parts[i]`` are the numbers of the rows that ``models[i]`` is fitted to.

    Returns
    -------
    list of TGGMRegressor
        The models, fitted.
    """
    models = list(models)
    _check(models, parts)
    X_, y_ = np.asarray(X, np.float64), np.asarray(y, np.float64)
    rows = [np.asarray(part, np.intp) for part in parts]
    shares = [_Share(model, X_, y_, part) for model, part in zip(models, rows, strict=True)]
    result = _train(models, shares, X_, y_.reshape(len(X_), -1))
    K = models[0].n_members
    for i, (model, share) in enumerate(zip(models, shares, strict=True)):
        model._store(_members(result, slice(i * K, (i + 1) * K)), share.work)
        model._state = None
    return models


def _check(models: list[TGGMRegressor], parts: Sequence[ArrayLike]) -> None:
    if not models or len(models) != len(parts):
        raise ValueError(
            f"`parts` must hold one list of rows for each model; got {len(parts)} for {len(models)} models."
        )
    first = models[0].get_params()
    for model in models:
        model._check_settings()
        differing = [k for k, v in model.get_params().items() if k not in OWN and v != first[k]]
        if differing:
            raise ValueError(
                f"`models` must agree in all settings but {', '.join(sorted(OWN))}; they differ in "
                f"{', '.join(differing)}. Fit those apart."
            )
    model = models[0]
    if len(layers(model.hidden)) > 1 or model.lateral or model.checkpoint is not None:
        raise ValueError(
            "`models` must have one hidden layer, lateral=0 and no checkpoint; use `fit` for the others."
        )


def _train(models: list[TGGMRegressor], shares: list[_Share], X: Floats, Y: Floats) -> Training:
    first, dtype = models[0], np.dtype(models[0].dtype)
    # the table is shifted and scaled as a whole, so that float32 keeps the digits that vary
    (X, *x), (Y, *y) = _compact(X), _compact(Y)
    views = [_view(model, *x, *y) for model in models for _ in range(model.n_members)]
    scaling = jax.tree.map(lambda *leaves: np.stack(leaves).astype(dtype), *views)
    context = Context(np.concatenate([share.work.context.s0 for share in shares]), scaling)  # type: ignore[arg-type]  # NumPy until training
    members = membership([hold for share in shares for hold in share.holds])
    params = _joined([share.work.params for share in shares])
    batch, epochs = first._schedule(int(members.n_train.max()))
    layout = Layout.of(params, axes=1)
    plan = first._plan(layout, batch)
    steps = epochs * steps_per_epoch(plan, members)
    hyper = _joined(
        [m._hyper(share.work, steps, m._patience(epochs)) for m, share in zip(models, shares, strict=True)]
    )
    data = Rows(X.astype(dtype), Y.astype(dtype))  # type: ignore[arg-type]  # NumPy
    with first._precision():
        return train(
            plan, shares[0].work.objective, params, members, context, hyper, data, np.ones(len(X), dtype),
            max_epochs=epochs, state=start(plan, params, np.concatenate([s.seeds for s in shares])),
        )  # fmt: skip


def _compact(A: Floats) -> tuple[Floats, Floats, Floats]:
    """Columns brought into [−1, 1], and the shift and scale that did it."""
    shift = A.mean(0)
    scale = np.maximum(np.abs(A - shift[None, :]).max(0), 1e-300)
    return (A - shift[None, :]) / scale[None, :], shift, scale


def _view(
    model: TGGMRegressor, x_shift: Floats, x_scale: Floats, y_shift: Floats, y_scale: Floats
) -> Scaling:
    """How a model's own standardisation is had from the compact table."""
    x, y = model._x, model._y
    columns: Any = (
        (x.shift - x_shift) / x_scale, x.scale / x_scale, (y.shift - y_shift) / y_scale, y.scale / y_scale
    )  # fmt: skip
    return Scaling(*columns)


def _joined(trees: list[Any]) -> Any:
    return jax.tree.map(lambda *leaves: np.concatenate(leaves), *trees)


def _members(result: Training, part: slice) -> Training:
    """The part of a training result that belongs to one model."""
    fields = ("state", "params", "train", "held", "best_epoch", "undone", "failed")
    cut = {name: jax.tree.map(lambda a: np.asarray(a)[part], getattr(result, name)) for name in fields}
    return dataclasses.replace(result, **cut)
