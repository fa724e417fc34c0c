"""Fit many regressors to parts of one table, all of them in one compiled program.

Splits of a benchmark, folds of a cross-validation, points of a grid: their members are trained side by side
by the one training loop, share the table on the device, and see it through their own rows and
standardisations. On a GPU twenty splits take little longer than one.
"""

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from numpy.typing import ArrayLike

from tggm.arrays import Floats
from tggm.data.standardise import Scales
from tggm.estimators.fitted import Start
from tggm.estimators.regressor import TGGMRegressor
from tggm.training import Rows, Training, train
from tggm.training.rows import Blocks, RowBlock, Scaling, dealt, membership
from tggm.training.state import start

# what one compiled program can take for each member apart; all else must be the same
OWN = {"random_state", "sigma0", "noise", "init", "learning_rate", "weight_decay", "clip", "patience"}


def fit_together(
    models: Sequence[TGGMRegressor], X: ArrayLike, y: ArrayLike, parts: Sequence[ArrayLike]
) -> list[TGGMRegressor]:
    """Fit each model to its part of the rows of a table, all at once.

    Each model is what its own `fit` on these rows would give, up to rounding and to patience: training ends
    when the patience of the last member of all models is over. What settings leave to the number of rows is
    the same for all, as the largest part has it: "auto" of `optimizer`, `batch_size` and `max_epochs`, and
    how that changes the learning rate. Parts of very different sizes may want a `fit` each.

    Parameters
    ----------
    models : sequence of TGGMRegressor
        As `TGGMRegressor.one_layer`. Settings may differ in `random_state`, `sigma0`, `noise`, `init`,
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
    if np.isnan(X_).any():
        raise ValueError("`X` has gaps; fill them first (TableTransformer), or use `fit` for each model.")
    rows = [np.asarray(part, np.intp) for part in parts]
    starts = [model.begin(X_[part], y_[part]) for model, part in zip(models, rows, strict=True)]
    result = _train(starts, rows, X_, y_.reshape(len(X_), -1))
    K = models[0].n_members
    for i, (model, begun) in enumerate(zip(models, starts, strict=True)):
        model.finish(begun, result.part(slice(i * K, (i + 1) * K)))
    return models


def _check(models: list[TGGMRegressor], parts: Sequence[ArrayLike]) -> None:
    if not models or len(models) != len(parts):
        raise ValueError(
            f"`parts` must hold one list of rows for each model; got {len(parts)} for {len(models)} models."
        )
    first = models[0].get_params()
    for model in models:
        model.check_settings()
        differing = [k for k, v in model.get_params().items() if k not in OWN and v != first[k]]
        if differing:
            raise ValueError(
                f"`models` must agree in all settings but {', '.join(sorted(OWN))}; they differ in "
                f"{', '.join(differing)}. Fit those apart."
            )
    model, recipe = models[0], models[0].recipe()
    more = recipe.linear or model.calibrate or model.target_transform is not None
    more = more or model.guarantee is not None
    if len(recipe.layers) > 1 or recipe.lateral or more or model.checkpoint is not None:
        raise ValueError(
            "`models` must have one hidden layer, lateral=0, no checkpoint, and neither a linear part nor a "
            "transform nor calibration nor a guarantee, as TGGMRegressor.one_layer(); use `fit` for the "
            "others."
        )


def _train(starts: list[Start], rows: list[Any], X: Floats, Y: Floats) -> Training:
    recipe = starts[0].recipe
    # the same draws in the same order as in `fit`
    holds = [
        pair
        for s, part in zip(starts, rows, strict=True)
        for pair in dealt(s.rng, part, recipe.held_fraction, recipe.n_members)
    ]
    seeds = [np.random.default_rng(int(s.rng.integers(2**31))) for s in starts]
    members = membership(holds)
    # the table is shifted and scaled as a whole, so that float32 keeps the digits that vary
    (X, *x), (Y, *y) = _compact(X), _compact(Y)
    views = [_view(s.scales, *x, *y) for s in starts for _ in range(recipe.n_members)]
    view = jax.tree.map(lambda *leaves: np.stack(leaves).astype(recipe.dtype), *views)
    model = _joined([s.model for s in starts])
    data = Rows(X.astype(recipe.dtype), Y.astype(recipe.dtype))
    blocks = Blocks.of(RowBlock(members, data, np.ones(len(X), recipe.dtype)))
    programs = [s.recipe.program(model, blocks, n_features=X.shape[1]) for s in starts]
    plan, _, epochs = programs[0]
    hyper = _joined([hyper for _, hyper, _ in programs])
    state = start(
        plan, model, np.concatenate([s.integers(0, 2**32, recipe.n_members, np.uint32) for s in seeds])
    )
    with recipe.precision():
        return train(
            plan, recipe.method, model, blocks, hyper, max_epochs=epochs, view=view, state=state,
            milestones=recipe.milestones(epochs),
        )  # fmt: skip


def _compact(A: Floats) -> tuple[Floats, Floats, Floats]:
    """Columns brought into [−1, 1], and the shift and scale that did it."""
    shift = A.mean(0)
    scale = np.maximum(np.abs(A - shift[None, :]).max(0), 1e-300)
    return (A - shift[None, :]) / scale[None, :], shift, scale


def _view(scales: Scales, x_shift: Floats, x_scale: Floats, y_shift: Floats, y_scale: Floats) -> Scaling:
    """How a model's own standardisation is had from the compact table."""
    x, y = scales
    columns: Any = (
        (x.shift - x_shift) / x_scale, x.scale / x_scale, (y.shift - y_shift) / y_scale, y.scale / y_scale
    )  # fmt: skip
    return Scaling(*columns)


def _joined(trees: list[Any]) -> Any:
    return jax.tree.map(lambda *leaves: np.concatenate(leaves), *trees)
