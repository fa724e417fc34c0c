"""Rows that a fit watches: how good the model is on them while it is trained."""

from copy import copy
from dataclasses import replace
from typing import Any

import jax
import numpy as np

from tggm import settings
from tggm.estimators.ensemble import Ensemble
from tggm.estimators.fitted import Fitted, Start
from tggm.training.layout import Layout
from tggm.training.observer import Observer, Printer
from tggm.training.parallel.processes import is_first

LOOKS = 100  # at the rows during a fit, at most


def watched(
    model: Ensemble, begun: Start, eval_set: Any, patience: int | None, observer: Observer | None
) -> "EvalWatch":
    """An observer that fills the model's `evals_result_`, and passes on what `observer` is told."""
    try:
        X, y = eval_set
        rows = (X.shape[0] if hasattr(X, "shape") else len(X), len(y))
    except (TypeError, ValueError):
        raise ValueError(
            f"`eval_set` must be a pair (X, y) of rows and targets; got a {type(eval_set).__name__}."
        ) from None
    if rows[0] != rows[1] or not rows[0]:
        raise ValueError(
            f"`eval_set` must have as many targets as rows, at least one; got {rows[1]} and {rows[0]}."
        )
    if patience is not None:
        settings.count("eval_patience", patience)
    if observer is None and model.verbose and is_first():
        observer = Printer(begun.recipe.held_fraction > 0)
    watch = EvalWatch(model, begun, X, y, patience, observer or Observer())
    model.evals_result_ = watch.result
    return watch


class EvalWatch(Observer):
    """Judges the parameters that would be kept, at the start and then at equal distances."""

    def __init__(
        self, model: Ensemble, begun: Start, X: Any, y: Any, patience: int | None, inner: Observer
    ) -> None:
        self._model, self._begun, self._rows = model, begun, (X, y)
        self._patience, self._inner = patience, inner
        self._layout, self._period = Layout.of(begun.model, axes=1), 1
        self.result: dict[str, list[float]] = {"epoch": []}

    def planned(self, epochs: int) -> None:
        """Look at the rows once before training: what is wrong with them is said at once."""
        self._period = max(1, epochs // LOOKS)
        self._inner.planned(epochs)
        self._look(0, jax.tree.map(np.asarray, self._begun.model))

    def resumed(self, epochs: int) -> None:
        """Pass it on."""
        self._inner.resumed(epochs)

    def progressed(self, epochs: int, trace: Any) -> None:
        """Pass it on."""
        self._inner.progressed(epochs, trace)

    def noted(self, text: str) -> None:
        """Pass it on."""
        self._inner.noted(text)

    def ended(self) -> None:
        """Pass it on."""
        self._inner.ended()

    def room(self, epochs: int) -> int:
        """Epochs to the next look."""
        return min(self._period - epochs % self._period, self._inner.room(epochs))

    def ends(self, epochs: int, best: Any) -> bool:
        """Look, if it is time; end if that has not become better for too long."""
        ends = self._inner.ends(epochs, best)
        if epochs % self._period == 0:
            self._look(epochs, self._layout.split_members(best))
        return ends or self._is_spent(epochs)

    def _is_spent(self, epochs: int) -> bool:
        if self._patience is None:
            return False
        first = next(name for name in self.result if name != "epoch")
        lowest = int(np.argmin(self.result[first]))
        return epochs - self.result["epoch"][lowest] >= self._patience

    def _look(self, epochs: int, members: Any) -> None:
        recipe, snapshot = self._begun.recipe, copy(self._model)
        if recipe.likelihood != snapshot.likelihood:
            members = replace(members, likelihood=members.likelihood.whole)
        snapshot.adopt(Fitted(members, self._begun.scales, snapshot.method, transform=self._begun.transform))
        self.result["epoch"].append(epochs)
        for name, value in snapshot.eval_figures(*self._rows).items():
            self.result.setdefault(name, []).append(value)
