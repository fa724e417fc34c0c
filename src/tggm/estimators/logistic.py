"""Logistic regression, which the scores of a classifier fall back to where nothing else can be learned.

After training the scores of all members are blended with those of the regression of all rows, by the share
that makes held-out rows most probable: members are judged, each beside the regression of its own rows, on the
rows that they held out. The blend is a model again, whose weights W1 are smaller and whose linear part is
between both.
"""

import warnings
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from tggm.arrays import Floats, Ints
from tggm.estimators.class_calibration import HeldClasses
from tggm.estimators.linear_part import OUTPUT, replaced
from tggm.models import Model
from tggm.training.rows import RowBlock

STRENGTHS = np.logspace(-3, 2, 6)  # inverse penalties
ENOUGH, FOLDS = 3000, 5  # rows that choose the penalty
SHARES = (0.0, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 1.0)  # of the regression
EXPECTED, SPREAD = 0.35, 0.2  # the share before any row is seen, and how far it may be off
PROBIT = 0.8  # times a logit is about the score, between unit normals, of the same probability
MOST_ROWS = 20_000  # in larger tables the linear part has learned what there is
MOST_NUMBERS = 20_000  # coefficients
MOST_STEPS, FEWER_STEPS = 200, 40  # of a regression
DEAR = 1_000_000  # rows × classes from which fewer steps, and one fold, will do


class Logits(NamedTuple):
    """Scores A x + b of each class."""

    A: Floats  # (n, d)
    b: Floats  # (n,)


class Regressions(NamedTuple):
    """One for each group of members, of the rows that they train on, and one of all rows."""

    each: list[Logits]
    whole: Logits


def fallen_back(model: Model, block: RowBlock, held: HeldClasses) -> Model:
    """Members whose scores have the share of the regression that held-out rows advise.

    Few rows say little: the share is the most probable one if it is thought to be 0.35 ± 0.2 before.
    """
    found = _of_block(model, block, held)
    if found is None:
        return model
    rows = held.weight.sum() ** 2 / (held.weight**2).sum()  # that equal weights would be worth
    doubt = []
    for share in SHARES:
        log_p = held.log_probabilities([blended(model, logits, share) for logits in found.each])
        loss = np.average(-log_p[np.arange(len(log_p)), held.label], weights=held.weight)
        doubt.append(rows * loss + 0.5 * ((share - EXPECTED) / SPREAD) ** 2)
        if doubt[-1] > doubt[0] or (len(doubt) > 2 and doubt[-1] > doubt[-2] > doubt[-3]):
            break  # a blend of logarithms has one best share, but for rounding
    return blended(model, found.whole, SHARES[int(np.argmin(doubt))])


def blended(model: Model, logits: Logits, share: float) -> Model:
    """Members whose scores have this share of the regression."""
    if not share:
        return model
    W1, A, b1 = (np.asarray(model.arrays()[OUTPUT + name], np.float64) for name in ("W1", "A", "b1"))
    rest, score = 1 - share, share * PROBIT
    return replaced(model, rest * W1, rest * A + score * logits.A[None], rest * b1 + score * logits.b[None])


def _of_block(model: Model, block: RowBlock, held: HeldClasses) -> Regressions | None:
    """Of the rows of a fit, with the inputs that the model's linear part has; None where that is dear."""
    n, d = np.shape(model.arrays()[OUTPUT + "A"])[1:]
    weight = np.asarray(block.weight, np.float64)
    if len(weight) > MOST_ROWS or n * d > MOST_NUMBERS or not held.weight.any():
        return None
    X = np.asarray(model.features.inputs(block.data.X), np.float64)
    return regressions(X, np.asarray(block.data.y), weight, [rows for _, rows in held.groups], n)


def regressions(X: Floats, label: Ints, weight: Floats, held: list[Ints], n: int) -> Regressions | None:
    """All with the penalty that cross-validation chooses; None if a group trains on one class only."""
    used = np.flatnonzero(weight > 0)
    parts = [np.setdiff1d(used, rows) for rows in held]
    if any(len(np.unique(label[part])) < 2 for part in parts):
        return None
    strength = [_strength(X[used], label[used], weight[used], n)]
    *each, whole = (_path(X[part], label[part], weight[part], n, strength)[0] for part in (*parts, used))
    return Regressions(each, whole)


def _strength(X: Floats, label: Ints, weight: Floats, n: int) -> float:
    """The inverse penalty with which the rest of the rows, of some thousand, says most of each fold."""
    order = np.random.default_rng(0).permutation(len(X))[:ENOUGH]
    fold = np.arange(len(order)) % FOLDS
    loss = np.zeros(len(STRENGTHS))
    for k in range(1 if _dear(order, n) else FOLDS):
        part, rest = order[fold == k], order[fold != k]
        if len(part) and len(np.unique(label[rest])) > 1:
            path = _path(X[rest], label[rest], weight[rest], n, STRENGTHS)
            loss += [weight[part] @ _losses(X[part] @ A.T + b[None], label[part]) for A, b in path]
    return float(STRENGTHS[int(np.argmin(loss))])


def _path(X: Floats, label: Ints, weight: Floats, n: int, strengths: Iterable[float]) -> list[Logits]:
    """Regressions with these inverse penalties, each from where the one before ended."""
    from sklearn.linear_model import LogisticRegression
    from threadpoolctl import threadpool_limits  # scikit-learn brings it

    solver = LogisticRegression(warm_start=True, max_iter=FEWER_STEPS if _dear(X, n) else MOST_STEPS)
    # threads of BLAS would wait for each other at every one of the many small products
    with warnings.catch_warnings(), threadpool_limits(1, "blas"):
        # a regression that is nearly there will do, and so will one of more classes than half of its rows
        warnings.simplefilter("ignore", UserWarning)
        w = weight / weight.mean()
        return [_logits(solver.set_params(C=C).fit(X, label, w), n, len(X)) for C in strengths]


def _dear(rows: Floats | Ints, n: int) -> bool:
    return len(rows) * n > DEAR


def _logits(found: Any, n: int, count: int) -> Logits:
    """Of all classes; those that no row has are as rare as half a row."""
    A, b = found.coef_, found.intercept_
    if len(found.classes_) == 2:
        A, b = np.concatenate([-A, A]) / 2, np.concatenate([-b, b]) / 2
    all_A, all_b = np.zeros((n, A.shape[1])), np.full(n, b.mean() - np.log(2 * count))
    all_A[found.classes_], all_b[found.classes_] = A, b
    return Logits(all_A, all_b)


def _losses(score: Floats, label: Ints) -> Floats:
    losses: Floats = np.logaddexp.reduce(score, axis=1) - score[np.arange(len(label)), label]
    return losses
