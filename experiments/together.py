"""Fit one `TGGMRegressor` per split of a data set, all of them in one compiled program.

The members of all models are trained side by side by the package's own loop: they share the table on the
device and see it through their own rows and standardisations. Each model ends as `fit` would have left it,
up to the order of its mini-batches. On a GPU twenty splits take little longer than one.
"""

import dataclasses
from typing import Any

import jax
import numpy as np

from tggm import TGGMRegressor
from tggm.estimators.base import CAPACITY
from tggm.learning import Context, Rows, Scaling, hold_out, membership, train
from tggm.learning.loop import Layout, Plan
from tggm.learning.training import steps_per_epoch


def fit_together(
    models: list[TGGMRegressor], X: np.ndarray, y: np.ndarray, parts: list[np.ndarray], *, seed: int = 0
) -> None:
    """Fit `models[i]` on the rows `parts[i]`; all models have the same settings."""
    centre, spread = X.mean(0), np.maximum(np.abs(X - X.mean(0)).max(0), 1e-300)
    table, mid, unit = (X - centre) / spread, y.mean(), y.std()  # float32 keeps the digits that vary
    works, scalings, holds = [], [], []
    for model, rows in zip(models, parts, strict=True):
        model._check_settings()
        X_, targets, weight = model._checked(X[rows], y[rows], None, reset=True)
        rng = model._generator()
        model._x, model._y = model._standardise(X_, weight), model._standardise_targets(targets.Y, weight)
        works.append(model._work(X_, targets, weight, None, rng))
        view = Scaling(
            (model._x.shift - centre) / spread, model._x.scale / spread,
            (model._y.shift - mid) / unit, model._y.scale / unit,
        )  # fmt: skip
        fraction = model.validation_fraction if model.early_stopping else 0.0
        for _ in range(model.n_members):
            scalings.append(view)
            holds.append(hold_out(rng, rows, fraction))
    first, dtype = models[0], np.dtype(models[0].dtype)
    members = membership(holds)
    params = jax.tree.map(lambda *leaves: np.concatenate(leaves), *(w.params for w in works))
    stacked = jax.tree.map(lambda *leaves: np.stack(leaves).astype(dtype), *scalings)
    context = Context(np.concatenate([w.context.s0 for w in works]), stacked)
    batch, epochs = first._schedule(int(members.n_train.max()))
    plan = Plan(
        Layout.of(params, axes=1), batch, CAPACITY, first.optimizer, first.schedule, first.average > 0
    )
    steps = epochs * steps_per_epoch(plan, members)
    hyper = jax.tree.map(
        lambda a: np.concatenate([a] * len(models)), first._hyper(works[0], steps, first._patience(epochs))
    )
    data = Rows(table.astype(dtype), ((y - mid) / unit)[:, None].astype(dtype))
    with first._precision():
        result = train(
            plan, works[0].objective, params, members, context, hyper, data, np.ones(len(y), dtype),
            max_epochs=epochs, seed=seed,
        )  # fmt: skip
    for i, (model, work) in enumerate(zip(models, works, strict=True)):
        model._store(_members(result, slice(i * model.n_members, (i + 1) * model.n_members)), work)
        model._state = None


def _members(result: Any, part: slice) -> Any:
    """The part of a training result that belongs to one model."""
    fields = ("params", "state", "train", "held", "best_epoch", "undone")
    return dataclasses.replace(
        result,
        **{name: jax.tree.map(lambda a: np.asarray(a)[part], getattr(result, name)) for name in fields},
    )
