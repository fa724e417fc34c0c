"""Export a fitted model to one ONNX file, for runtimes in any language.

The formulas of the network are those of NumPy predictions, traced by ndonnx. A pooled distribution is a
standard distribution, shifted and scaled row by row: its quantiles and moments are constants of the graph.
"""

import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import ndtri

from tggm.arrays import Floats
from tggm.deployment.predictors import NumPyClassifier, NumPyRegressor
from tggm.formulas import COSINE_TERMS, cos_turns, log_sum
from tggm.predictive.base import ScalarPredictive
from tggm.predictive.calibration import Calibration, pooled
from tggm.predictive.gaussian_mixture import GaussianMixture
from tggm.predictive.gaussian_process import shifted
from tggm.predictive.neighbors import Neighbors, Rule, shares
from tggm.predictive.numpy_network import Outputs, class_log_mixture, log_ndtr
from tggm.storage import write_atomically
from tggm.tables import Preparation
from tggm.tables.columns import LENGTH, YEAR, Category, Column, DateColumn, Number, Ordinal, Statistic

CLASS_NODES = 192  # of class probabilities: enough for scores 75 standard deviations apart
CDF_REACH, CDF_POINTS = 10.0, 20_001  # grid of a distribution function, in arcsinh of the standardised value
PARTS, SUBDIVISIONS = 16, 9  # for the quantiles of a mixture: errors of 1e-11 of the members' differences
Array = Any  # of ndonnx


def export_onnx(
    model: Any, path: str | os.PathLike[str], *, quantiles: Sequence[float] = (0.05, 0.5, 0.95)
) -> None:
    """Write a fitted model to an ONNX file.

    The graph computes in double precision with standard operators. A regressor has the results ``mean``,
    ``deviation`` and ``quantiles``; a classifier ``probabilities`` and ``label``. A model of an array takes
    ``X``, shape (rows, columns), NaN for missing values. A model of a table takes each column by its name,
    shape (rows, 1): numbers with NaN for missing values, words with "", dates as days since 1970-01-01.
    Numbers with marks, such as ``<LOD`` in a column "dose", have a second input "dose: mark", "" for none.

    Parameters
    ----------
    model : TGGMRegressor or TGGMClassifier
        Fitted.
    path : path
        Usually ending in ``.onnx``; an existing file is replaced.
    quantiles : sequence of float
        Levels of the quantiles, in the order of the last axis; () for none.

    Raises
    ------
    ImportError
        If ndonnx is not installed: ``pip install ndonnx``.
    ValueError
        If the model has parts that cannot be exported, such as a support.
    """
    levels = [float(q) for q in quantiles]
    if not all(0 < q < 1 for q in levels):
        raise ValueError(f"`quantiles` must be levels between 0 and 1; got {levels}. For 90 % pass 0.9.")
    try:
        import ndonnx as xp
        import onnx
    except ImportError as error:
        raise ImportError("export_onnx needs the package ndonnx; pip install ndonnx.") from error
    from tggm.estimators import table_description, to_state  # needs JAX

    state = to_state(model)
    predictor = (NumPyClassifier if model.task == "classification" else NumPyRegressor).from_state(*state)
    network = predictor.network_
    inputs, X = _inputs(xp, predictor, table_description(model))
    Z = predictor.standardised(xp, X)
    found = network.outputs(xp, Z)
    if isinstance(predictor, NumPyClassifier):
        log_p = class_log_mixture(xp, *found.scores(), CLASS_NODES)
        if predictor.fitted_.neighbors is not None:
            weight, label = _neighbors(xp, predictor.fitted_.neighbors, found)
            votes = weight[:, None, :] @ _indicator(xp, label[..., None] == np.arange(log_p.shape[-1]))
            rest = 1.0 - xp.sum(weight, axis=1, keepdims=True)
            log_p = xp.log(rest * xp.exp(log_p) + votes[:, 0, :])
        labels = np.asarray(predictor.classes_)
        labels = labels.astype(str) if labels.dtype.kind == "O" else labels
        results = {"probabilities": xp.exp(log_p)}
        results["label"] = xp.take(xp.asarray(labels), xp.argmax(log_p, axis=-1))
    else:
        results = _regression(xp, predictor, found, Z, levels)
    graph = xp.build(inputs, results)
    onnx.helper.set_model_props(graph, {"quantiles": json.dumps(levels)})
    write_atomically(Path(path), graph.SerializeToString())


def _inputs(xp: Any, predictor: Any, preparation: Preparation | None) -> tuple[dict[str, Array], Array]:
    """Return the arguments of the graph, and the inputs of the network, in which no value is missing."""
    if preparation is None:
        shift = predictor.fitted_.scales.x.shift
        X = xp.argument(shape=("rows", len(shift)), dtype=xp.float64)
        return {"X": X}, xp.where(xp.isnan(X), xp.asarray(shift), X)
    arguments: dict[str, Array] = {}
    parts: list[Array] = []
    for column in preparation.columns:
        words = isinstance(column, Category | Ordinal | Statistic)
        names = {column.name: words}
        if isinstance(column, Number) and column.marks:
            names[f"{column.name}: mark"] = True
        kinds = {name: xp.utf8 if word else xp.float64 for name, word in names.items()}
        some = {name: xp.argument(shape=("rows", 1), dtype=kind) for name, kind in kinds.items()}
        arguments |= some
        parts += encode_column(column, xp, *some.values())
    return arguments, xp.concat(parts, axis=-1)


def _regression(xp: Any, predictor: Any, outputs: Outputs, Z: Array, levels: list[float]) -> dict[str, Array]:
    """Return mean, deviation and quantiles of every output, in the units of the target."""
    if supports := [str(tuple(each)) for each in predictor.fitted_.supports if each is not None]:
        raise ValueError(
            f"the model has the support {', '.join(supports)}, which ONNX files cannot hold; "
            "fit with support=None, or use load(path, backend='numpy')."
        )
    y, log = predictor.fitted_.scales.y, predictor.fitted_.transform
    mean = shifted(predictor.fitted_.process, Z, outputs.mean, xp)
    var = outputs.variances() + np.asarray(predictor.network_.noise)[:, None, :]
    near = predictor.fitted_.neighbors
    kernels = None if near is None else (*_neighbors(xp, near, outputs), near.rule)
    found: dict[str, list[Array]] = {"mean": [], "deviation": [], "quantiles": []}
    for j, pool in enumerate(predictor.pools):
        shift, scale = float(y.shift[j]), float(y.scale[j])
        moments = mean[..., j], var[..., j]
        z = _law(xp, *moments, pool, levels, None if log is None else scale, kernels, j)
        if log is not None:
            centre = xp.exp(z[0] + shift)
            found["mean"].append(centre - log.shift)
            found["deviation"].append(centre * xp.sqrt(xp.exp(z[1] - 2 * z[0]) - 1.0))
        else:
            found["mean"].append(z[0] * scale + shift)
            found["deviation"].append(xp.sqrt(z[1]) * scale)
        ends = z[2] * scale + shift
        found["quantiles"].append(ends if log is None else xp.exp(ends) - log.shift)
    if not levels:
        del found["quantiles"]
    stacked = {name: xp.stack(values, axis=1) for name, values in found.items()}
    return {name: a[:, 0, ...] if predictor.fitted_.flat else a for name, a in stacked.items()}


def _neighbors(xp: Any, near: Neighbors, outputs: Outputs) -> tuple[Array, Array]:
    """Return weights and values of the neighbours, (rows, k, ...), by comparison with all stored rows."""
    from spox.opset.ai.onnx import v21 as op  # a dependency of ndonnx

    points, k = near.points.astype(np.float64), near.rule.count
    place = outputs.places(near.projection)
    square = xp.sum(place**2, axis=1, keepdims=True) - 2.0 * (place @ xp.asarray(points.T))
    square = square + (points**2).sum(1)[None, :]
    size = op.const(np.array([k]))
    nearest = op.top_k(square.unwrap_spox(), size, largest=0)  # type: ignore[attr-defined]  # spox has no types
    least, index = map(xp.asarray, nearest)
    weight = 1.0 if near.weight is None else _look_up(xp, near.weight.astype(np.float64), index)
    found = shares(xp, xp.maximum(least, 0.0), weight, near.rule.radius, near.rule.share)
    value = near.value.astype(np.float64) if near.value.ndim > 1 else near.value
    return found, _look_up(xp, value, index)


def _look_up(xp: Any, table: Floats, index: Array) -> Array:
    """Return the entries of a table, (rows, ...), at an array of indices."""
    from spox.opset.ai.onnx import v21 as op

    gather = op.gather  # type: ignore[attr-defined]  # spox has no types
    return xp.asarray(gather(op.const(table), index.unwrap_spox()))


def _law(
    xp: Any, mean: Array, var: Array, pool: Calibration, levels: list[float], log_scale: float | None,
    kernels: tuple[Array, Array, Rule] | None, output: int,
) -> tuple[Array, Array, Array]:  # fmt: skip
    """Return mean and variance of z, or log E exp(k · scale · z) for k = 1, 2, and the quantiles of z."""
    if pool.kind == "linear":
        return _mixture(xp, mean, xp.sqrt(var), xp.ones_like(mean) / mean.shape[0], levels, log_scale)
    shape = pool.numbers[2:]
    one = GaussianMixture(np.zeros((1, 1)), np.ones((1, 1)))
    standard: Any = pooled(Calibration(pool.kind, (1.0, 1.0, *shape)), one)
    centre = xp.mean(mean, axis=0)
    between = xp.sum((mean - centre) ** 2, axis=0) / max(mean.shape[0] - 1, 1)
    width2 = pool.square(xp.mean(var, axis=0), between)
    width, deviation = xp.sqrt(width2)[None, ...], xp.sqrt(width2 * float(standard.var()[0]))[None, ...]
    places, std, weight, other = centre[None, ...], deviation, xp.ones_like(deviation), None
    if pool.kind == "scales":
        squares, masses = pool.gaussians(width2, xp)
        places, std, weight = places * np.ones_like(masses), xp.sqrt(squares), weight * masses
        deviation = xp.sqrt(xp.sum(weight * squares, axis=0, keepdims=True))
    else:
        quantiles = centre[..., None] + width[0, ..., None] * standard.ppf(np.array([levels]))[0]
        if kernels is None:
            return centre, deviation[0, ...] ** 2, quantiles
        m, w = centre[..., None, None], width[0, ..., None, None]
        other = quantiles, lambda points: _standard_cdf(xp, standard, (points - m) / w)
    if kernels is not None:
        share, value, rule = kernels
        places = xp.concat([places, value[..., output].T + rule.slope * centre[None, ...]], axis=0)
        weight = xp.concat([weight * (1.0 - xp.sum(share, axis=1)[None, ...]), share.T], axis=0)
        std = xp.concat([std, deviation * np.full((rule.count, 1), rule.width)], axis=0)
    return _mixture(xp, places, std, weight, levels, log_scale, other)


def _standard_cdf(xp: Any, standard: ScalarPredictive, t: Array) -> Array:
    """Interpolate the distribution function of a standard distribution, with errors below 1e-7.

    It is a cubic in arcsinh t on a grid.
    """
    x = np.linspace(-CDF_REACH, CDF_REACH, CDF_POINTS)
    grid, step = np.sinh(x), x[1] - x[0]
    value = standard.cdf(grid[None, :])[0]
    slope = step * standard.pdf(grid[None, :])[0] * np.cosh(x)
    size = xp.abs(t)
    asinh = xp.sign(t) * xp.minimum(xp.log(size + xp.sqrt(size**2 + 1.0)), CDF_REACH)
    place = (asinh + CDF_REACH) / step
    cell = xp.minimum(xp.floor(place), CDF_POINTS - 2.0)
    u, k = place - cell, xp.astype(cell, xp.int64)
    low, high, rise, end = (_look_up(xp, a, k) for a in (value[:-1], value[1:], slope[:-1], slope[1:]))
    smooth = u**2 * (3 - 2 * u)
    return low + smooth * (high - low) + u * (1 - u) * ((1 - u) * rise - u * end)


def _mixture(
    xp: Any, mean: Array, std: Array, weight: Array, levels: list[float], log_scale: float | None,
    other: tuple[Array, Callable[[Array], Array]] | None = None,
) -> tuple[Array, Array, Array]:  # fmt: skip
    """Return the same of a mixture of Gaussians; the first may have other quantiles and probabilities."""
    ends = mean[..., None] + std[..., None] * ndtri(np.asarray(levels))
    ends = ends if other is None else xp.concat([other[0][None, ...], ends[1:, ...]], axis=0)

    def cdf(points: Array) -> Array:
        p = xp.exp(log_ndtr(xp, (points - mean[..., None, None]) / std[..., None, None]))
        p = p if other is None else xp.concat([other[1](points)[None, ...], p[1:, ...]], axis=0)
        return xp.sum(weight[..., None, None] * p, axis=0)

    quantiles = _invert(xp, cdf, ends, levels)
    if log_scale is None:
        centre = xp.sum(weight * mean, axis=0)
        return centre, xp.sum(weight * (std**2 + (mean - centre) ** 2), axis=0), quantiles
    terms = (xp.log(weight) + mean * s + std**2 * (0.5 * s**2) for s in (log_scale, 2 * log_scale))
    first, second = (log_sum(xp, each, 0)[0, ...] for each in terms)
    return first, second, quantiles


def _invert(xp: Any, cdf: Callable[[Array], Array], ends: Array, levels: list[float]) -> Array:
    """Return quantiles by repeated subdivision; `ends` are those of the components, (·, rows, levels)."""
    q, low = np.asarray(levels), xp.min(ends, axis=0)
    width = xp.max(ends, axis=0) - low
    for _ in range(SUBDIVISIONS if levels else 0):
        width = width / PARTS
        points = low[..., None] + width[..., None] * np.arange(1.0, PARTS)
        low = low + width * xp.sum(_indicator(xp, cdf(points) < q[:, None]), axis=-1)
    return low + 0.5 * width


def encode_column(column: Column, xp: Any, given: Array, mark: Array | None = None) -> list[Array]:
    """Return the inputs that the model computes from a column, (rows, ·) each."""
    match column:
        case Number():
            return _number(column, xp, given, mark)
        case Category(levels=levels, rare=rare):
            n = len(levels)
            code = _code(xp, given, levels, other=n if rare else -2, gap=n + bool(rare))
            return [_indicator(xp, code == np.arange(len(column.categories)))]
        case Statistic(levels=levels):
            code = _code(xp, given, levels, other=len(levels), gap=len(levels) + 1)
            return [xp.take(xp.asarray(column.lookup), code[:, 0], axis=0)]
        case Ordinal(levels=levels):
            code = _code(xp, given, levels, other=-1, gap=-1)
            missing = code < 0
            parts = [xp.where(missing, column.fill, _indicator(xp, code))]
        case DateColumn():
            missing = xp.isnan(given)
            parts = [xp.where(missing, column.fill, (given - column.origin) / YEAR)]
            for part in column.parts:
                turns = given / LENGTH[part]
                waves = (cos_turns(xp, turns - late, COSINE_TERMS["float64"]) for late in (0.25, 0.0))
                parts += [xp.where(missing, 0.0, wave) for wave in waves]
        case _:
            raise ValueError(f"column {column.name!r} is {column.description}, which cannot be exported.")
    return [*parts, *[_indicator(xp, missing)] * column.indicator]


def _number(column: Number, xp: Any, given: Array, mark: Array | None) -> list[Array]:
    missing = xp.isnan(given)
    filled = xp.where(missing, column.fill, given)
    parts = [filled]
    marked = []
    if mark is not None:
        code = _code(xp, mark, column.marks, other=-1, gap=-1)
        missing = xp.logical_and(missing, code < 0)
        marked = [_indicator(xp, code == np.arange(len(column.marks)))]
    parts += [_indicator(xp, missing)] * column.indicator + marked
    if column.encoding is not None:
        values, levels = np.asarray(column.encoding.values), np.asarray(column.encoding.levels)
        parts.append(_indicator(xp, given == levels) @ (values[:-1] - values[-1]) + values[-1])
    return parts


def _code(xp: Any, given: Array, levels: tuple[str, ...], *, other: int, gap: int) -> Array:
    """Return the number of each word."""
    mapping = {word: k for k, word in enumerate(levels)} | {"": gap}
    return xp.extensions.static_map(given, mapping, default=other)


def _indicator(xp: Any, x: Array) -> Array:
    return xp.astype(x, xp.float64)
