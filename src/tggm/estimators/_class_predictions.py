"""Class probabilities: the probit integral over the moments of the scores, mixed over members.

Scores are approximated by normals with exact means and with variances that fit those of the differences
between likely classes (`tggm.formulas.contended_std`).

A classifier is blended with logistic regression, with a weight that is fitted on held-out rows. Each member
is blended with the regression of its own training rows and evaluated on the rows that it held out. The blend
of scores is a model of the same kind, with a smaller W1 and a weighted mean of linear parts.
"""

import math
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray
from scipy import sparse

from tggm.arrays import Floats, Ints
from tggm.data.standardise import Columns
from tggm.estimators._data import Data, StreamData
from tggm.estimators._fitted import Fitted, fitted_of
from tggm.estimators._neighbors import class_neighbors
from tggm.estimators._ridge import OUTPUT
from tggm.estimators._settings import Settings
from tggm.models import Model
from tggm.models.layers import Product
from tggm.predictive import member_moments as ensemble
from tggm.predictive.conformal import class_scores, sorted_scores
from tggm.predictive.marginal import averages
from tggm.predictive.numpy_network import Network, Outputs, class_log_probabilities
from tggm.runtime import GPU_COMPILER_OPTIONS, full_precision, precision
from tggm.training import Trained
from tggm.training.rows import Blocks, Fold, RowBlock, bucket, held_out_groups, model_inputs

SPARSE_BLOCK = 512  # rows of a sparse table
FAR = 1e7  # standard deviations
STRENGTHS = np.logspace(-3, 2, 6)  # inverse penalties
ENOUGH, FOLDS = 3000, 5  # rows and folds used to choose the penalty
SHARES = (0.0, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 1.0)  # weights of the regression
EXPECTED, SPREAD = 0.35, 0.2  # mean and deviation of the prior of the weight
PROBIT = 0.8  # ratio of the probit score to the logit of the same probability, approximately
MOST_ROWS = 20_000  # larger tables are not blended: the linear part is trained well enough
MOST_NUMBERS = 20_000  # coefficients
MOST_STEPS, FEWER_STEPS = 200, 40  # of a regression
LARGE = 1_000_000  # rows × classes from which fewer steps and one fold are used
MOST_HELD = 5_000  # held-out rows used to choose the weight
_BLOCK = 1024  # rows predicted at once


def log_probabilities(fitted: Fitted, X: Any) -> Floats:
    """Return log-probabilities, (rows, n), accurate even where a probability underflows.

    Inputs are those of `fit`, encoded.
    """
    X, starts = _filled(fitted, X)
    log_p = averages(_evaluate(fitted, X), starts, log=True)
    log_p -= np.logaddexp.reduce(log_p, axis=1)[:, None]
    return log_p


def _filled(fitted: Fitted, X: Any) -> tuple[Any, Ints | None]:
    """Replace rows with unknown inputs by draws; inputs are not standardised."""
    if not isinstance(X, np.ndarray) or not np.isnan(X).any():
        return X, None
    shift, scale = (a[None, :] for a in fitted.scales.x)
    full, starts = fitted.filled(fitted.standardised(X))
    whole = X if starts is None else np.repeat(X, np.diff(starts), axis=0)
    return np.where(np.isnan(whole), shift + scale * full, whole), starts


def _evaluate(fitted: Fitted, X: Any) -> Floats:
    """Evaluate the logarithm of the mixture of members, (rows, n), in double precision."""
    if (network := ensemble.numpy_network(fitted.model, X)) is not None:
        return _finite(_evaluate_in_numpy(fitted, network, X), fitted.dtype)
    model, columns = fitted.model, fitted.scales.x
    shifted = sparse.issparse(X) and bool(columns.shift.any())  # the training rows were dense
    stays_sparse = sparse.issparse(X) and not shifted
    by_scipy = stays_sparse and model.features.linear and jax.default_backend() == "cpu"
    dense = by_scipy or not stays_sparse
    size = ensemble.block_size(model, X.shape[0]) if dense else SPARSE_BLOCK
    rows = ensemble.padded_to(X.shape[0], size)

    def block(at: slice) -> NDArray[Any]:
        """Compute each row with the nodes that it needs, independently of the other rows."""
        inputs = _rows(X[at].toarray() if shifted else X[at], model, columns, by_scipy)
        count = jax.tree.leaves(inputs)[0].shape[-2]
        padded = _pad(inputs, count, rows)
        mean, std = map(np.asarray, _scores(model, padded, by_scipy))
        found = ensemble.class_mixture(mean, std)[:count]
        if fitted.neighbors is None:
            return found
        points = ensemble.member_places(model, padded, fitted.neighbors.projection, by_scipy)
        return fitted.neighbors.near(np.asarray(points)[:count]).mix_classes(found)

    with precision(fitted.dtype):
        parts = ensemble.over_blocks(block, X.shape[0], size)
    return _finite(np.concatenate(parts).astype(np.float64), fitted.dtype)


def _evaluate_in_numpy(fitted: Fitted, network: Network, X: Floats) -> Floats:
    """Evaluate the mixture for few rows, in double precision."""

    def parts(outputs: Outputs) -> tuple[Floats, ...]:
        found = class_log_probabilities(*outputs.scores())
        return found, *(() if near is None else (outputs.places(near.projection),))

    near = fitted.neighbors
    with np.errstate(all="ignore"):  # `_finite` checks the result
        Z = fitted.standardised(X).astype(fitted.dtype).astype(np.float64)
        lost = np.asarray(~np.isfinite(Z).all(1))
        found, *places = ensemble.outputs_by_blocks(
            network, np.where(lost[:, None], 0.0, Z), parts, variances=True
        )
    found[lost] = np.nan
    return found if near is None else near.near(places[0]).mix_classes(found)


def _finite(result: Floats, dtype: str) -> Floats:
    """Raise for rows whose probabilities could not be computed."""
    lost = np.isnan(result).any(1) | (result.max(1) == -np.inf)
    if lost.any():
        row = int(np.argmax(lost))
        raise ValueError(
            f"`X` has values that are too large (first in row {row}); leave out rows that are so far from "
            "the training rows."
        )
    return np.maximum(result, -np.finfo(dtype).max)


def _rows(X: Any, model: Model, columns: Columns, by_scipy: bool) -> Any:
    """Return inputs for the model; sparse inputs are already multiplied by W0 and A."""
    W0 = model.arrays()["hidden.W0"]
    if not by_scipy:
        return model_inputs(X, columns, W0.dtype, most=model.features.most)
    A = model.arrays().get("likelihood.output.A")
    with np.errstate(over="ignore", invalid="ignore"):  # checked later
        products: list[Any] = [
            None
            if W is None
            else _product(X.astype(W.dtype, copy=False), W / columns.scale.astype(W.dtype)[None, None])
            for W in (W0, A)
        ]
    return Product(*products)


def _product(X: Any, W: NDArray[Any]) -> NDArray[Any]:
    """Return sparse rows times Wᵀ of each member, (members, rows, m)."""
    members, m, d = W.shape
    product: NDArray[Any] = X @ W.reshape(members * m, d).T
    return np.moveaxis(product.reshape(-1, members, m), 1, 0)


def _pad(inputs: Any, count: int, rows: int) -> Any:
    extra = rows - count
    if not extra:
        return inputs  # no copy
    return jax.tree.map(lambda a: np.pad(a, [(0, 0)] * (a.ndim - 2) + [(0, extra), (0, 0)]), inputs)


def mixture_of(model: Model, inputs: Any, members: list[int]) -> NDArray[Any]:
    """Return log-probabilities of the mixture of some members, (rows, n); inputs are standardised."""
    count = jax.tree.leaves(inputs)[0].shape[-2]
    mean, std = map(np.asarray, _scores(model, _pad(inputs, count, bucket(count)), False))
    # one member at a time: groups of any size use the same compiled program
    each = [ensemble.class_mixture(mean[[k]], std[[k]])[:count] for k in members]
    return np.logaddexp.reduce(each) - math.log(len(each))


@partial(jax.jit, static_argnames="per_member", compiler_options=GPU_COMPILER_OPTIONS)
@full_precision
def _scores(model: Model, X: Any, per_member: bool) -> tuple[Array, Array]:
    """Return means and deviations of z, (members, rows, n); `per_member`: each member has its own inputs."""

    def scores(member: Model, X: Any) -> Any:
        likelihood, latent = member.at(X)
        return likelihood.contended_scores(latent)

    mean, std = jax.vmap(scores, in_axes=(0, 0 if per_member else None))(model, X)
    # clip score differences so that their squares fit in float32
    return jnp.maximum(mean - mean.max(-1, keepdims=True), -FAR * std.max(-1, keepdims=True)), std


# ---- the blend with logistic regression, neighbours, and a guarantee ----


class Logits(NamedTuple):
    """Scores A x + b of each class."""

    A: Floats  # (n, d)
    b: Floats  # (n,)


class HeldOutRows:
    """Rows that groups of members held out, and their predictions."""

    def __init__(self, block: RowBlock) -> None:
        self.groups = held_out_groups(block.members)
        most = -(-MOST_HELD // max(len(self.groups), 1))
        self._rows = [held[:most] for _, held in self.groups]
        self._X = block.data.X
        self.rows = np.concatenate([np.zeros(0, np.int32), *self._rows])
        self.label = np.asarray(block.data.y)[self.rows]
        self.weight = np.asarray(block.weight, np.float64)[self.rows]

    def log_probabilities(self, models: Sequence[Model]) -> Floats:
        """Return log-probabilities of the mixture of each group, (rows, n), with one model per group."""
        found = []
        for model, (members, _), held in zip(models, self.groups, self._rows, strict=True):
            for begin in range(0, len(held), _BLOCK):
                rows = held[begin : begin + _BLOCK]
                inputs = jax.tree.map(lambda a, rows=rows: np.asarray(a)[rows], self._X)
                found.append(mixture_of(model, inputs, members).astype(np.float64))
        log_p = np.concatenate(found)
        log_p -= np.logaddexp.reduce(log_p, axis=1)[:, None]
        return log_p


def pool_classes(
    trained: Trained, final: Trained, blocks: Blocks, data: Data | StreamData, settings: Settings
) -> Fitted:
    """Blend with logistic regression, choose neighbours, and score the calibration rows of a guarantee.

    All choices use held-out rows. `final` are the predicting members; `trained` held rows out.
    """
    fitted = fitted_of(final.params, data, settings).with_rows(data)
    model: Any = jax.tree.map(np.asarray, trained.params)
    with precision(settings.dtype):
        if fitted.network.linear and not data.sparse and blocks.only is not None:
            random = data.holdout.is_random
            fitted = replace(fitted, model=blend_with_logistic(model, fitted.model, blocks.only, random))
        if settings.neighbors != 0 and blocks.kept is not None and not settings.late:
            held = HeldOutRows(blocks.kept)
            if held.groups:
                pair = model if blocks.partial else fitted.model, fitted.model
                log_p = held.log_probabilities([pair[0]] * len(held.groups))
                rows, first = np.unique(held.rows, return_index=True)
                chosen = class_neighbors(*pair, blocks, rows, log_p[first], settings)
                fitted = replace(fitted, neighbors=chosen)
    if data.calibration_rows is not None:
        X_new, label = data.calibration_rows
        scores = class_scores(np.exp(log_probabilities(fitted, X_new)))[np.arange(len(label)), label]
        fitted = replace(fitted, guarantee=sorted_scores(scores[None, :]))
    return fitted


def blend_with_logistic(model: Model, final: Model, block: RowBlock, random: bool = True) -> Model:
    """Return `final` with scores blended with the regression; the weight is a MAP estimate for `model`.

    The penalty is chosen on random rows if rows were held out at random, else on the held-out rows.
    """
    held = HeldOutRows(block)
    found = _regressions_of_block(model, block, held, random)
    if found is None:
        return final
    *each, whole = found
    rows = held.weight.sum() ** 2 / (held.weight**2).sum()  # effective number
    losses: list[float] = []
    for share in SHARES:
        log_p = held.log_probabilities([blend_scores(model, logits, share) for logits in each])
        loss = np.average(-log_p[np.arange(len(log_p)), held.label], weights=held.weight)
        losses.append(float(rows * loss + 0.5 * ((share - EXPECTED) / SPREAD) ** 2))
        if losses[-1] > losses[0] or (len(losses) > 2 and losses[-1] > losses[-2] > losses[-3]):
            break  # the loss has one minimum, up to rounding
    return blend_scores(final, whole, SHARES[int(np.argmin(losses))])


def blend_scores(model: Model, logits: Logits, share: float) -> Model:
    """Return members whose scores have this weight of the regression."""
    if not share:
        return model
    W1, A, b1 = (np.asarray(model.arrays()[OUTPUT + name], np.float64) for name in ("W1", "A", "b1"))
    rest, score = 1 - share, share * PROBIT
    A, b1 = rest * A + score * logits.A[None], rest * b1 + score * logits.b[None]
    return model.with_arrays({OUTPUT + "W1": rest * W1, OUTPUT + "A": A, OUTPUT + "b1": b1})


def _regressions_of_block(
    model: Model, block: RowBlock, held: HeldOutRows, random: bool
) -> list[Logits] | None:
    """Return the regressions on the inputs of the model's linear part; None for large tables."""
    n, d = np.shape(model.arrays()[OUTPUT + "A"])[1:]
    weight = np.asarray(block.weight, np.float64)
    if len(weight) > MOST_ROWS or n * d > MOST_NUMBERS or not held.weight.any():
        return None
    X = np.asarray(model.features.inputs(block.data.X), np.float64)
    members = block.members
    parts = [np.sort(np.asarray(members.train[k])[: int(members.n_train[k])]) for (k, *_), _ in held.groups]
    folds = None if random else list(zip(parts, [rows for _, rows in held.groups], strict=True))
    return regressions(X, np.asarray(block.data.y), weight, parts, n, folds)


def regressions(
    X: Floats, label: Ints, weight: Floats, parts: list[Ints], n: int, folds: list[Fold] | None = None
) -> list[Logits] | None:
    """Fit the regression of the training rows of each group of members (`parts`), and that of all rows.

    The penalty is chosen on `folds`, by default random ones of 3,000 rows. None if a group has one class.
    """
    used = np.flatnonzero(weight > 0)
    if any(len(np.unique(label[part])) < 2 for part in parts):
        return None
    if folds is None:
        order = used[np.random.default_rng(0).permutation(len(used))[:ENOUGH]]
        fold = np.arange(len(order)) % FOLDS
        folds = [(order[fold != k], order[fold == k]) for k in range(1 if _large(order, n) else FOLDS)]
    strength = [_strength(X, label, weight, n, folds)]
    return [_path(X[part], label[part], weight[part], n, strength)[0] for part in (*parts, used)]


def _strength(X: Floats, label: Ints, weight: Floats, n: int, folds: list[Fold]) -> float:
    """Return the inverse penalty with the best cross-validated log-likelihood."""
    loss = np.zeros(len(STRENGTHS))
    for rest, part in folds:
        if len(part) and len(np.unique(label[rest])) > 1:
            path = _path(X[rest], label[rest], weight[rest], n, STRENGTHS)
            loss += [weight[part] @ losses(X[part] @ A.T + b[None], label[part]) for A, b in path]
    return float(STRENGTHS[int(np.argmin(loss))])


def _path(X: Floats, label: Ints, weight: Floats, n: int, strengths: Iterable[float]) -> list[Logits]:
    """Fit regressions with these inverse penalties, each starting from the one before."""
    from sklearn.linear_model import LogisticRegression
    from threadpoolctl import threadpool_limits  # a dependency of scikit-learn

    solver = LogisticRegression(warm_start=True, max_iter=FEWER_STEPS if _large(X, n) else MOST_STEPS)
    # threads of BLAS slow down many small products
    with warnings.catch_warnings(), threadpool_limits(1, "blas"):
        # do not warn about an approximate solution, or about more classes than half of the rows
        warnings.simplefilter("ignore", UserWarning)
        w = weight / weight.mean()
        return [_logits(solver.set_params(C=C).fit(X, label, w), n, len(X)) for C in strengths]


def _large(rows: Floats | Ints, n: int) -> bool:
    return len(rows) * n > LARGE


def _logits(found: Any, n: int, count: int) -> Logits:
    """Return the scores of all classes; a class without rows counts as half a row."""
    A, b = found.coef_, found.intercept_
    if len(found.classes_) == 2:
        A, b = np.concatenate([-A, A]) / 2, np.concatenate([-b, b]) / 2
    all_A, all_b = np.zeros((n, A.shape[1])), np.full(n, b.mean() - np.log(2 * count))
    all_A[found.classes_], all_b[found.classes_] = A, b
    return Logits(all_A, all_b)


def losses(score: Floats, label: Ints) -> Floats:
    """Return the negative log-probabilities of labels with these logits."""
    return np.logaddexp.reduce(score, axis=1) - score[np.arange(len(label)), label]
