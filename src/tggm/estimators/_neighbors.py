"""Choose and store the neighbours of a fit (`tggm.predictive.neighbors`)."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np
from scipy.stats import norm

from tggm.arrays import Floats, Ints
from tggm.estimators._settings import Settings
from tggm.models import Model
from tggm.predictive import Observed, ScalarPredictive
from tggm.predictive import neighbors as nearest
from tggm.predictive.calibration import Calibration, HeldOut, evenly_spaced, fit_calibration
from tggm.predictive.gaussian_process import GaussianProcess, shifted
from tggm.predictive.member_moments import last_layers, measured_targets, member_means, places
from tggm.predictive.neighbors import Candidates, Losses, Neighbors, Rule
from tggm.training.rows import Blocks, RowBlock, held_out_groups, take

ROUNDS = 3  # of the calibration of rows without neighbours
SAMPLE = 2_000  # rows from which the projections are computed
_BEYOND = 4.0  # distance of the kernel of a row at a limit from it, of which kernels are at most 0.3
_POINT = 1e-9  # width of such a kernel after it is clipped


class Stored(NamedTuple):
    """Training rows that may be neighbours."""

    X: Any
    y: Any  # as in the block
    weight: Floats
    numbers: Ints | None  # row numbers in the block; None for a stream, whose members trained on all of them


class Found(NamedTuple):
    """Held-out rows, the candidates for their neighbours, and what is stored if neighbours are used."""

    asked: Ints  # numbers in the block, in the order of `candidates`
    candidates: Candidates
    stored: Stored
    projection: Floats
    points: Floats
    row_weight: Floats | None  # of the stored rows, with mean 1; None if all are equal


def stored_rows(blocks: Blocks, classes: bool, limits: Floats | None) -> Stored:
    """Return at most `MOST_STORED` training rows with a weight and a measured target, at random."""
    rng = np.random.default_rng(0)
    if blocks.only is not None:
        return _some_rows(blocks.only, len(blocks.only.weight), nearest.MOST_STORED, classes, limits, rng)
    assert blocks.each is not None
    parts: list[Stored] = []
    for block in blocks.each(0):
        count = int(np.max(block.members.n_train))
        most = round(nearest.MOST_STORED * block.share)
        parts.append(_some_rows(block, count, most, classes, limits, rng))
    X, y, weight = jax.tree.map(lambda *a: np.concatenate(a), *(tuple(part[:3]) for part in parts))
    return Stored(X, y, weight, None)


def _values(y: Any, limits: Floats | None) -> Floats:
    """Return measured targets, and points beyond the limits for the rows at them; NaN for all others."""
    found = measured_targets(y)
    for end, side in zip(() if limits is None else limits, (-1, 1), strict=False):
        found = np.where(np.asarray(y.side) == side, end + side * _BEYOND, found)
    return found


def _some_rows(
    block: RowBlock, count: int, most: int, classes: bool, limits: Any, rng: np.random.Generator
) -> Stored:
    weight = np.asarray(block.weight, np.float64)[:count]
    usable = weight > 0
    if not classes:
        usable &= np.isfinite(_values(block.data.y, limits)[:count]).all(1)
    rows = np.flatnonzero(usable)
    if len(rows) > most:
        rows = np.sort(rng.choice(rows, most, replace=False))
    data = take(block.data, rows)
    return Stored(data.X, data.y, weight[rows], rows)


def _projections(model: Model, X: Any, groups: Sequence[Sequence[int]], classes: bool) -> Floats:
    """Return the projections of last layers multiplied by the norm of each unit's output weights.

    Of classes, only differences between the scores have an effect.
    """
    W1 = np.asarray(model.arrays()["likelihood.output.W1"], np.float64)
    W1 = W1 - W1.mean(1, keepdims=True) if classes else W1
    sizes = np.sqrt((W1**2).sum(1))
    found = nearest.projections(last_layers(model, X) * sizes[:, None, :], groups)
    return np.asarray(sizes[:, :, None] * found, np.float32)


def find_candidates(
    model: Model, final: Model, blocks: Blocks, asked: Ints, count: int | None, *, classes: bool,
    limits: Floats | None = None,
) -> Found | None:  # fmt: skip
    """Find the candidates for the neighbours of held-out rows, given by their numbers in the kept block.

    The members of `model` held rows out; those of `final` predict. They differ if folds leave rows out.
    """
    block, stored = blocks.kept, stored_rows(blocks, classes, limits)
    assert block is not None
    groups = held_out_groups(block.members)
    asked = evenly_spaced(asked, nearest.MOST_TRIED)
    of_group: list[Ints] = []
    for _, held in groups:
        mine = np.isin(asked, held)
        of_group.append(asked[mine])
        asked = asked[~mine]
    groups = [group for group, rows in zip(groups, of_group, strict=True) if len(rows)]
    of_group = [rows for rows in of_group if len(rows)]
    fewest = nearest.FEWEST if count is None else 1
    if sum(map(len, of_group)) < fewest or len(stored.weight) < nearest.FEWEST:
        return None
    sample = take(stored.X, evenly_spaced(np.arange(len(stored.weight)), SAMPLE))
    everyone = list(range(len(model.arrays()["hidden.W0"])))
    own = _projections(final, sample, [everyone], classes)
    theirs = _projections(model, sample, [members for members, _ in groups], classes)
    shape = (-1, len(groups), theirs.shape[2] // len(groups))
    points, compared = places(final, stored.X, own), places(model, stored.X, theirs).reshape(shape)
    queries = [
        places(model, take(block.data.X, rows), theirs).reshape(shape)[:, g]
        for g, rows in enumerate(of_group)
    ]
    trained = [
        np.ones(len(points), np.bool_)
        if stored.numbers is None
        else np.isin(stored.numbers, np.asarray(block.members.train[members[0]]))
        for members, _ in groups
    ]
    most = max(nearest.COUNTS) if count is None else count
    candidates = nearest.find_held_out(points, compared, queries, trained, most)
    if candidates is None:
        return None
    weight = stored.weight
    row_weight = (
        None if np.ptp(weight) <= 1e-6 * weight.max() else (weight / weight.mean()).astype(np.float32)
    )
    return Found(np.concatenate(of_group), candidates, stored, own, points.astype(np.float32), row_weight)


def regression_neighbors(
    model: Model, final: Model, blocks: Blocks, held: list[HeldOut], rows: Ints,
    calibration: Sequence[Calibration], settings: Settings, limits: Floats | None,
    process: GaussianProcess | None,
) -> tuple[Neighbors | None, tuple[Calibration, ...]]:  # fmt: skip
    """Choose neighbours of a calibrated regression; `held` are the predictions of `rows` of the block.

    `limits` are those of the targets on the scale of the model, (2, n), if rows are at them. Also return the
    calibration of the rows that no neighbour predicts.
    """
    if blocks.kept is None or any(each.kind == "linear" for each in calibration):
        return None, tuple(calibration)
    measured = np.isfinite(_values(blocks.kept.data.y, limits)[rows]).all(1)
    usable = measured & np.logical_and.reduce([each.usable_mask for each in held])
    given = model, final, blocks, rows[usable], settings.neighbors
    found = find_candidates(*given, classes=False, limits=limits)
    if found is None:
        return None, tuple(calibration)
    parts = [each.take(np.searchsorted(rows, found.asked)) for each in held]
    X, Y = found.stored.X, _values(found.stored.y, limits)
    mean = shifted(process, X, member_means(model, X, settings.dtype)).mean(0)

    def stored(slope: float) -> Floats:
        return Y - slope * mean

    kinds = [kind for kind in nearest.KINDS if limits is None or kind[0] == 0]
    near = found.candidates, parts, calibration, stored, kinds, found.row_weight
    chosen = _choose_rule(*near, settings.neighbors, limits)
    if chosen is None:
        return None, tuple(calibration)
    rule, pools = chosen
    mean = mean if final is model else member_means(final, X, settings.dtype).mean(0)
    values = stored(rule.slope).astype(np.float32)
    return Neighbors(found.projection, found.points, values, found.row_weight, rule), pools


def calibration_of_rest(
    calibration: Calibration, held: HeldOut, weight: Floats, values: Floats, rule: Rule
) -> Calibration:
    """Fit a calibration again, each row weighted by the probability that no kernel predicts it.

    These are steps of EM for the mixture of the ensemble's distribution and kernels of fixed weights, (N, k),
    with the stored values of one output: rows without similar training rows have larger errors than others.
    """
    own = held.pooled()
    std = rule.width * own.law(calibration).std()[:, None]
    centre = values + rule.slope * own.centre[:, None]
    low, high = (end[:, None] for end in held.ends or (held.y, held.y))
    cell = norm.cdf((high - centre) / std) - norm.cdf((low - centre) / std)
    width = np.where(np.isfinite(high - low) & (high > low), high - low, 1.0)
    kernels = np.where(high > low, cell / width, norm.pdf(held.y[:, None], centre, std))
    explained = (weight * kernels).sum(1)
    for _ in range(ROUNDS):
        rest = (1 - weight.sum(1)) * np.exp(own.log_likelihood(calibration))
        share = rest / np.maximum(rest + explained, np.finfo(float).tiny)
        again = held._replace(weight=held.weight * share)
        found = fit_calibration(again, most=calibration.most)
        if found.kind == "linear":  # too few rows
            break
        calibration = found
    return calibration


def neighbors_on_new_rows(
    old: Neighbors, model: Model, Z: Floats, held: list[HeldOut], calibration: Sequence[Calibration],
    count: int | None, limits: Floats | None,
) -> tuple[Neighbors | None, tuple[Calibration, ...]]:  # fmt: skip
    """Choose the weights of stored neighbours again, on rows that no member was trained on."""
    usable = np.logical_and.reduce([each.usable_mask for each in held])
    rows = evenly_spaced(np.flatnonzero(usable), nearest.MOST_TRIED)
    if len(rows) < nearest.FEWEST or any(each.kind == "linear" for each in calibration):
        return None, tuple(calibration)
    most = min(max(nearest.COUNTS) if count is None else count, len(old.points))
    found = nearest.find_candidates_of(old, places(model, Z[rows], old.projection), most)
    kinds = [(old.rule.slope, width) for width in nearest.WIDTHS]
    parts = [each.take(rows) for each in held]
    chosen = _choose_rule(found, parts, calibration, lambda _: old.value, kinds, old.weight, count, limits)
    return (None, tuple(calibration)) if chosen is None else (replace(old, rule=chosen[0]), chosen[1])


def _choose_rule(
    candidates: Candidates, held: list[HeldOut], calibration: Sequence[Calibration],
    stored: Callable[[float], Floats], kinds: Sequence[tuple[float, float]], row_weight: Floats | None,
    count: int | None, limits: Floats | None,
) -> tuple[Rule, tuple[Calibration, ...]] | None:  # fmt: skip
    """Choose by the mean CRPS over outputs; `stored` returns the stored values for a slope, (rows, n).

    Also fit the calibration of each output again, for rows without similar training rows, and make kernels as
    wide as before, relative to the new distributions. Both stay as they were if CRPS is clearly worse then:
    rows that only kernels predict have no weight, and can get distributions that are much too wide.
    """
    kept, mix = tuple(calibration), held[0].weight / held[0].weight.sum()
    losses = partial(_crps_losses, held, stored, limits, candidates.stored, kept)
    rule = nearest.choose(candidates, losses, kinds, held[0].weight, row_weight, count)
    if rule is None:
        return None
    index = candidates.stored[:, : rule.count]
    near = 1.0 if row_weight is None else row_weight[index].astype(np.float64)
    weight = rule.weights(candidates.distance[:, : rule.count] * candidates.typical, near)
    values = np.moveaxis(stored(rule.slope)[index].astype(np.float64), 2, 0)
    each = zip(kept, held, values, strict=True)
    found = tuple(calibration_of_rest(one, part, weight, value, rule) for one, part, value in each)
    rows = [part.pooled() for part in held]
    before, after = (
        np.log([own.law(pool).std() for own, pool in zip(rows, pools, strict=True)]).mean()
        for pools in (kept, found)
    )
    again = replace(rule, width=min(rule.width * float(np.exp(before - after)), 1.0))
    both = ((kept, rule.width), (found, again.width))
    old, new = (_crps_losses(held, stored, limits, index, p, rule.slope, h)(weight) for p, h in both)
    loss = mix @ (new - old)
    worse = loss > nearest.LEAST_GAIN * np.sqrt(mix**2 @ (new - old - loss) ** 2)
    return (rule, kept) if worse else (again, found)


def _crps_losses(
    held: list[HeldOut], stored: Callable[[float], Floats], limits: Floats | None, index: Ints,
    calibration: Sequence[Calibration], slope: float, width: float,
) -> Losses:  # fmt: skip
    each, values = [], stored(slope)[index].astype(np.float64)
    for j, (one, part) in enumerate(zip(calibration, held, strict=True)):
        own = part.pooled()
        law: ScalarPredictive = one.distribution(own.centre, own.var, own.between)
        centre = values[:, :, j] + slope * own.centre[:, None]
        std, y = width * law.std()[:, None], part.y
        if limits is not None and part.ends is not None and np.isfinite(limits[:, j]).any():
            (low, high), (lower, upper) = part.ends, limits[:, j]
            y = np.where(np.isneginf(low), lower, np.where(np.isposinf(high), upper, y))
            std = np.where((centre < lower) | (centre > upper), _POINT, std)
            law, centre = Observed(law, lower, upper), np.clip(centre, lower, upper)
        each.append(nearest.crps_losses(law, y, centre, std))
    return lambda v: np.stack([loss(v) for loss in each]).mean(0)


def class_neighbors(
    model: Model, final: Model, blocks: Blocks, asked: Ints, log_p: Floats, settings: Settings
) -> Neighbors | None:
    """Choose neighbours of a classifier.

    `asked` are numbers of held-out rows in the kept block, ascending, and `log_p` are their log-probabilities
    by the members that held them out.
    """
    block = blocks.kept
    assert block is not None
    weight, label = np.asarray(block.weight, np.float64), np.asarray(block.data.y)
    found = find_candidates(model, final, blocks, asked[weight[asked] > 0], settings.neighbors, classes=True)
    if found is None:
        return None
    stored, rows = np.asarray(found.stored.y, np.int32), found.asked
    own = log_p[np.searchsorted(asked, rows)]
    loss = nearest.class_losses(own, label[rows], stored[found.candidates.stored])
    near = found.candidates, lambda *_: loss, nearest.KINDS[:1], weight[rows], found.row_weight
    rule = nearest.choose(*near, settings.neighbors)
    return None if rule is None else Neighbors(found.projection, found.points, stored, found.row_weight, rule)
