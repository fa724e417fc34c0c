"""Find columns, alone or in pairs, from which the target can be computed.

Candidates are columns, and the products, quotients, sums and differences of two columns of numbers. The R² of
a candidate is the larger of that of the rank correlation, and of the mean rank of the targets of five rows on
either side in the order of the candidate; no row is among its own neighbours. Classes have indicators, and
also the R² of the best threshold with at least five rows on either side.
"""

from collections.abc import Sequence
from itertools import combinations

import numpy as np
from scipy.stats import rankdata

from tggm.arrays import Bools, Floats
from tggm.tables.columns import Category, Column, DateColumn, Number
from tggm.tables.target_encoding import Outcomes

LIMIT = 0.99  # R² from which a candidate is reported
MOST_ROWS, LEAST_ROWS = 1000, 20
MOST_PAIRED = 20  # columns that are combined: those with the largest R²
MOST_OUTPUTS, MOST_NAMED = 4, 3
WIDTH = 5  # neighbours on either side
Candidates = dict[str, Floats]  # values of the rows by name; NaN if missing


def leak_notes(columns: Sequence[Column], X: Floats, outcome: Outcomes) -> list[str]:
    """Return a question about columns that determine the target, if there are any; `X` has encoded rows."""
    known = np.flatnonzero(~np.isnan(outcome.values).any(1))
    rows = np.random.default_rng(0).permutation(known)[:MOST_ROWS]
    outcome = outcome._replace(values=outcome.values[rows, :MOST_OUTPUTS])
    if len(rows) < LEAST_ROWS:
        return []
    values = _values(columns, X[rows])
    rating = r_squared(values, outcome)
    numbers = [c.name for c in columns if isinstance(c, Number) and rating[c.name] <= LIMIT]
    best = sorted(numbers, key=lambda name: -rating[name])[:MOST_PAIRED]
    pairs: Candidates = {}
    with np.errstate(all="ignore"):  # of quotients
        for a, b in combinations([name for name in numbers if name in best], 2):
            x, z = values[a], values[b]
            pairs |= {f"{a} * {b}": x * z, f"{a} / {b}": x / z, f"{a} + {b}": x + z, f"{a} - {b}": x - z}
    rating |= r_squared(pairs, outcome)
    found = sorted((name for name in rating if rating[name] > LIMIT), key=lambda name: -rating[name])
    named = ", ".join(f"{name} (R² {rating[name]:.3f})" for name in found[:MOST_NAMED])
    return [f"the target can be computed from {named}; is it known beforehand?"] * bool(found)


def _values(columns: Sequence[Column], X: Floats) -> Candidates:
    """Return one column of numbers for each column except dates."""
    values, start = {}, 0
    for column in columns:
        names, part = column.features, X[:, start : start + len(column.features)]
        start += len(names)
        if isinstance(column, Category):
            values[column.name] = part.argmax(1).astype(np.float64)
        elif not isinstance(column, DateColumn):
            gap = f"{column.name} is missing"
            gaps = part[:, names.index(gap)] > 0 if gap in names else False
            values[column.name] = np.where(gaps, np.nan, part[:, 0])
    return values


def r_squared(values: Candidates, outcome: Outcomes) -> dict[str, float]:
    """Return the R² of each candidate; for classes the smallest of all classes."""
    if not values:
        return {}
    x = np.array(list(values.values()))
    x = np.where(np.isfinite(x), x, np.nan)
    order, known = np.argsort(x, axis=1), np.sort(~np.isnan(x), axis=1)[:, ::-1]  # missing last
    targets = outcome.values if outcome.is_class else rankdata(outcome.values, axis=0)
    found = [_r_squared(y[order], known, outcome.is_class) for y in targets.T]
    best = np.min(found, axis=0) if outcome.is_class else np.max(found, axis=0)
    return dict(zip(values, best.tolist(), strict=True))


def _r_squared(y: Floats, known: Bools, is_class: bool) -> Floats:
    """Return the largest R² of places, neighbours and thresholds, for rows sorted by the candidate."""
    n, place = known.sum(1), np.broadcast_to(np.arange(float(known.shape[1])), known.shape)
    with np.errstate(all="ignore"):  # R² is 0 for constants and few rows
        x, y = (np.where(known, a - (a.sum(1, where=known) / n)[:, None], 0.0) for a in (place, y))
        total = (y**2).sum(1)
        line = (x * y).sum(1) ** 2 / ((x**2).sum(1) * total)
        line = 1 - (1 - line) * (n - 1) / (n - 3)
        near, count = (_window_sums(a) - a for a in (y, known.astype(np.float64)))
        error = (np.where(known, y - near / np.maximum(count, 1), 0.0) ** 2).sum(1)
        found: Floats = np.fmax(line, 1 - error / total)
        if is_class:  # no neighbours share the class of the rows at the edge of a rare one
            left = place + 1
            both = (left >= WIDTH) & (n[:, None] - left >= WIDTH)
            between = np.cumsum(y, axis=1) ** 2 * n[:, None] / (left * (n[:, None] - left))
            found = np.fmax(found, between.max(1, where=both, initial=0.0) / total)
    return np.where((n >= LEAST_ROWS) & (total > 0), np.nan_to_num(found), 0.0)


def _window_sums(a: Floats) -> Floats:
    """Return the sums of each value and `WIDTH` on either side, along the rows."""
    total = np.cumsum(np.pad(a, ((0, 0), (WIDTH + 1, WIDTH))), axis=1)
    return total[:, 2 * WIDTH + 1 :] - total[:, : a.shape[1]]
