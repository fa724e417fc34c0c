r"""Nearest training rows in the space of the last hidden layer, mixed into the predictions.

A row's place is a projection of the last layer of all members, multiplied by the size of their output
weights: rows with the same place have the same prediction (except for the linear part). With d_j the
distances to the k nearest stored rows and w_j the weights of these rows, neighbour j and the ensemble's
distribution have the probabilities

.. math::
    v_j = s\, \kappa_j / (1 + \textstyle\sum_i \kappa_i), \quad 1 - \sum_j v_j, \qquad
    \kappa_j = w_j\, r^2 / (d_j^2 + r^2 / 100),

so that a row without near neighbours has the ensemble's prediction. A neighbour contributes its class, or a
Gaussian around y_j + b (m(x) − m(x_j)), where m is the ensemble's mean and b is 0 or 1, with h times the
deviation of the ensemble's distribution.

`choose` selects k, s, r, b and h on rows that members held out. Their places come from the members that held
them out, and their neighbours are rows that these members trained on, as for a new row. A distance is divided
by the typical distance between training rows, because it depends on the number of members. The criterion is
the CRPS on the scale of the model, or the log-probability of the class. (The density of targets that repeat
would be highest with infinitely narrow kernels.) Without a gain of two standard errors no neighbours are
used.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import eigh
from scipy.spatial import cKDTree

from tggm import settings
from tggm.arrays import Bools, Floats, Ints
from tggm.formulas import gauss_hermite
from tggm.predictive.base import ScalarPredictive
from tggm.predictive.calibration import Calibration, pooled
from tggm.predictive.gaussian_mixture import GaussianMixture, LogTransform, mean_absolute
from tggm.predictive.observed import Observed
from tggm.predictive.support import Support

DIMENSIONS = 24  # of a place
MOST_STORED = 50_000  # rows
MOST_TRIED = 5_000  # held-out rows
FEWEST = 20  # held-out rows, and stored rows
COUNTS = (1, 2, 3, 5, 8, 16)
SHARES = (1.0, 0.7, 0.5, 0.35)
RADII = tuple(2.0**e for e in range(-6, 4))  # in typical distances
SLOPES, WIDTHS = (0.0, 1.0), (0.1, 0.3)
KINDS = tuple(product(SLOPES, WIDTHS))
LEAST_GAIN = 2.0  # standard errors
_SAMPLE = 1_000  # rows whose distances are measured
PREFIX = "neighbors."  # of the names of arrays in a model file
_MOST = 1e15  # largest size of a number in a model file
_NEAR = 0.01  # of the squared radius, added to squared distances


def shares(xp: Any, square: Any, weight: Any, radius: float, share: float) -> Any:
    """Return the probabilities of neighbours at these squared distances, for arrays of any namespace."""
    kappa = weight * radius**2 / (square + _NEAR * radius**2)
    return share * kappa / (1 + xp.sum(kappa, axis=1, keepdims=True))


@dataclass(frozen=True)
class Rule:
    """How neighbours are weighted."""

    count: int  # k
    share: float  # s
    radius: float  # r
    slope: float = 0.0  # b
    width: float = WIDTHS[-1]  # h

    def weights(self, distance: Floats, weight: Floats | float = 1.0) -> Floats:
        """Return the probability of each of the nearest `count` neighbours, (N, k)."""
        return shares(np, distance**2, weight, self.radius, self.share)


@dataclass(frozen=True)
class Near:
    """The neighbours of some rows, (N, k) or (N, k, outputs) each."""

    weight: Floats
    value: Any  # targets on the scale of the model minus b m(x_j), or classes
    rule: Rule

    def mix(self, law: ScalarPredictive, output: int, members: GaussianMixture) -> ScalarPredictive:
        """Mix the kernels of one output into its distribution; `members` are those of the ensemble."""
        mean = members.components[0].mean(0)
        share = self.weight.sum(1)
        centre = (self.value[:, :, output] + self.rule.slope * mean[:, None]).T
        loc, scale = law.units
        std = np.broadcast_to(self.rule.width * law.std() / scale, centre.shape)
        weight = self.weight.T / share
        return add_kernels(law, GaussianMixture(centre, std**2, weight=weight, loc=loc, scale=scale), share)

    def mix_classes(self, log_p: Any) -> Floats:
        """Mix the neighbours' classes into log-probabilities, (N, n)."""
        votes, rest = np.zeros(log_p.shape), 1 - self.weight.sum(1, keepdims=True)
        np.add.at(votes, (np.arange(len(votes))[:, None], self.value), self.weight)
        with np.errstate(divide="ignore"):
            return np.logaddexp(np.log(rest) + log_p, np.log(votes))


class KernelMixture(ScalarPredictive):
    """Y has the distribution `law` with probability 1 − share, and `kernels` with probability `share`.

    Both are in the same units, and `share` has one number per row. Every method is exact, except for the
    distance between `law` and `kernels` in the CRPS. Its quadrature has a relative error below 1e-9 if
    kernels are at most half as wide as `law`.
    """

    def __init__(self, law: ScalarPredictive, kernels: GaussianMixture, share: Floats) -> None:
        super().__init__(len(law), *law.units)
        self._law, self._kernels, self._share = law, kernels, share

    def __getitem__(self, rows: slice | Ints) -> "KernelMixture":
        return KernelMixture(self._law[rows], self._kernels[rows], self._share[rows])

    @cached_property
    def _moments(self) -> tuple[Floats, Floats]:
        (m, v), (mk, vk) = self._law._moments, self._kernels._moments
        mean = self._mixed(m, mk)
        return mean, self._mixed(v + (m - mean) ** 2, vk + (mk - mean) ** 2)

    def _mixed(self, law: Floats, kernels: Floats, rows: Ints | slice = slice(None)) -> Floats:
        share = self._share[rows]
        return (1 - share) * law + share * kernels

    def _log_mixed(self, law: Floats, kernels: Floats, rows: Ints) -> Floats:
        with np.errstate(divide="ignore"):
            mixed: Floats = np.logaddexp(
                np.log1p(-self._share[rows]) + law, np.log(self._share[rows]) + kernels
            )
        return mixed

    def _log_density(self, rows: Ints, z: Floats) -> Floats:
        return self._log_mixed(self._law._log_density(rows, z), self._kernels._log_density(rows, z), rows)

    def _log_tails(self, rows: Ints, z: Floats) -> tuple[Floats, Floats]:
        pairs = zip(self._law._log_tails(rows, z), self._kernels._log_tails(rows, z), strict=True)
        low, high = (np.minimum(self._log_mixed(*pair, rows), 0.0) for pair in pairs)
        return low, high

    def _bulk(self, rows: Ints, z: Floats) -> tuple[Floats, Floats]:
        pairs = zip(self._law._bulk(rows, z), self._kernels._bulk(rows, z), strict=True)
        cdf, density = (self._mixed(*pair, rows) for pair in pairs)
        return cdf, density

    def _bracket(self, rows: Ints, p: Floats) -> tuple[Floats, Floats]:
        low, high = self._kernels._bracket(rows, p)
        own = self._law._quantiles(rows, p)
        return np.minimum(low, own), np.maximum(high, own)

    def _distances(self, rows: Ints, z: Floats) -> tuple[Floats, Floats]:
        to_law, law_apart = self._law._distances(rows, z)
        to_kernels, kernels_apart = self._kernels._distances(rows, z)
        share = self._share[rows]
        mean, std, weight = self._kernels.components
        across = (weight * distances_to(self._law, np.arange(len(self)), mean, std, 12)).sum(0)[rows]
        apart = (1 - share) ** 2 * law_apart + share**2 * kernels_apart + 2 * share * (1 - share) * across
        return self._mixed(to_law, to_kernels, rows), apart

    def _draw(self, size: int, rng: np.random.Generator) -> Floats:
        chosen = rng.random((size, len(self))) < self._share
        return np.where(chosen, self._kernels._draw(size, rng), self._law._draw(size, rng))


def distances_to(law: ScalarPredictive, rows: Ints, mean: Floats, std: Floats, nodes: int) -> Floats:
    """Compute E|Z − K|, K ~ N(mean, std²), by quadrature; the rows of `law` are broadcast."""
    places, masses = gauss_hermite(nodes)
    points = mean[..., None] + std[..., None] * np.array(places)
    each = np.broadcast_to(rows[..., None], points.shape).ravel()
    return law._distances(each, points.ravel())[0].reshape(points.shape) @ np.array(masses)


def add_kernels(law: ScalarPredictive, kernels: GaussianMixture, share: Floats) -> ScalarPredictive:
    """Return the mixture; one of Gaussians is a `GaussianMixture`, whose exponential has a closed form."""
    if not isinstance(law, GaussianMixture):
        return KernelMixture(law, kernels, share)
    pairs = zip(law.components, kernels.components, strict=True)
    mean, std, weight = (np.concatenate(pair) for pair in pairs)
    first = np.arange(len(mean))[:, None] < len(law.components[0])
    weight = weight * np.where(first, 1 - share, share)
    return GaussianMixture(mean, std**2, weight=weight, loc=law.units[0], scale=law.units[1])


def target_laws(
    calibration: Sequence[Calibration], members: Sequence[GaussianMixture], near: Near | None,
    transform: LogTransform | None, supports: Sequence[Support | None],
) -> list[ScalarPredictive]:  # fmt: skip
    """Return the distribution of each output in units of the target; without calibration, the mixture."""
    laws: list[Any] = list(members)
    if calibration:
        laws = [pooled(*pair) for pair in zip(calibration, members, strict=True)]
    if near is not None:
        laws = [near.mix(law, j, members[j]) for j, law in enumerate(laws)]
    if transform is not None:
        laws = [transform.distribution(law) for law in laws]
    each = zip(laws, supports or len(laws) * (None,), strict=True)
    return [law if support is None else Observed(law, *support) for law, support in each]


@dataclass(frozen=True)
class Neighbors:
    """Stored training rows, and how new rows are compared with them."""

    projection: Floats  # (members, m, dimensions): places are the sum over members of last layer @ projection
    points: Floats  # (rows, dimensions)
    value: Any  # (rows, outputs) as in `Near`, or (rows,) classes
    weight: Floats | None  # (rows,) with mean 1; None if all are equal
    rule: Rule

    def near(self, points: Floats) -> Near:
        """Find the neighbours of rows at these places."""
        distance, index = self._tree.query(points, range(1, self.rule.count + 1), workers=-1)
        weight = 1.0 if self.weight is None else self.weight[index].astype(np.float64)
        return Near(self.rule.weights(distance, weight), self.value[index], self.rule)

    @cached_property
    def _tree(self) -> cKDTree:
        return cKDTree(self.points.astype(np.float64))

    def arrays(self) -> dict[str, Any]:
        """Return the arrays of a model file."""
        found = {"projection": self.projection, "points": self.points, "value": self.value}
        found |= {} if self.weight is None else {"weight": self.weight}
        return {PREFIX + name: a for name, a in found.items()}


def checked_neighbors(
    arrays: Mapping[str, Any], rule: Any, layer: tuple[int, int], outputs: int, classes: int
) -> Neighbors | None:
    """Check the neighbours in a model file; other arrays are ignored.

    `layer` has the numbers of members and of units of the last layer; `outputs` is 0 for a classifier.
    """
    found = {name.removeprefix(PREFIX): a for name, a in arrays.items() if name.startswith(PREFIX)}
    if rule is None and not found:
        return None
    names = [field.name for field in fields(Rule)]
    if not isinstance(rule, dict) or set(rule) != set(names):
        raise ValueError(f"the rule of neighbours must have the numbers {', '.join(names)}")
    if set(found) - {"weight"} != {"projection", "points", "value"}:
        raise ValueError(f"arrays of neighbours are missing or unknown: {sorted(found)}")
    rows, size = found["points"].shape if found["points"].ndim == 2 else (0, 0)
    shapes = {"projection": (*layer, size), "points": (rows, size), "weight": (rows,)}
    shapes["value"] = (rows, outputs) if outputs else (rows,)
    for name, a in found.items():
        kind = "i" if name == "value" and not outputs else "f"
        if a.shape != shapes[name] or a.dtype.kind != kind or not rows or not size:
            raise ValueError(f"array {PREFIX + name!r} has the wrong shape {a.shape} or type {a.dtype}")
        if not np.isfinite(a).all() or np.abs(a).max() > _MOST:
            raise ValueError(f"array {PREFIX + name!r} must be finite, at most {_MOST:g}")
    if not outputs and not (found["value"].min() >= 0 and found["value"].max() < classes):
        raise ValueError("classes of neighbours must be numbers of classes")
    if "weight" in found and found["weight"].min() < 0:
        raise ValueError("weights of neighbours must not be negative")
    count = settings.count("count of neighbours", rule["count"])
    numbers = {name: settings.number(f"{name} of neighbours", rule[name]) for name in names[1:]}
    good = count <= rows and 0 < numbers["share"] <= 1 and 0 < numbers["width"] <= 1
    if not good or not 0 < numbers["radius"] <= _MOST or numbers["slope"] not in SLOPES:
        raise ValueError(f"invalid rule of neighbours {rule}")
    return Neighbors(
        found["projection"], found["points"], found["value"], found.get("weight"), Rule(count, **numbers)
    )


def projections(layers: Floats, groups: Sequence[Sequence[int]]) -> Floats:
    """Return the principal directions of a sample of last layers, (members, rows, m), for groups of members.

    The result is (members, m, groups · dimensions), zero for the members that are not in a group. All groups
    have as many dimensions as the smallest allows.
    """
    K, _, m = layers.shape
    size = min(DIMENSIONS, m * min(map(len, groups)))
    found = np.zeros((K, m, len(groups) * size), np.float32)
    for g, members in enumerate(groups):
        joined = np.concatenate([layers[k] for k in members], axis=1).astype(np.float64)
        joined -= joined.mean(0)
        last = joined.shape[1] - 1
        _, vectors = eigh(joined.T @ joined, subset_by_index=(last - size + 1, last))
        parts = vectors.reshape(len(members), m, size) / np.sqrt(len(members))
        found[list(members), :, g * size : (g + 1) * size] = parts
    return found


class Candidates(NamedTuple):
    """Neighbours of held-out rows, with distances in typical distances."""

    distance: Floats  # (N, most)
    stored: Ints  # (N, most) their numbers
    typical: float  # typical distance between stored rows, by all members


def find_held_out(
    points: Floats, compared: Floats, asked: Sequence[Floats], trained: Sequence[Bools], most: int
) -> Candidates | None:
    """Find neighbours of held-out rows; None if rows are too few or at one place.

    `points` are the places of stored rows by the members that predict, and `compared`, (rows, groups,
    dimensions), those by each group of members that held rows out. Group g held out the rows at `asked[g]`
    and trained on the stored rows `trained[g]`.
    """
    most = min([most, *(int(mask.sum()) - 1 for mask in trained)])
    if most < 1:
        return None
    typical = typical_distance(points)
    parts = []
    for g, (queries, mask) in enumerate(zip(asked, trained, strict=True)):
        own = compared[mask, g]
        distance, index = cKDTree(own).query(queries, range(1, most + 1), workers=-1)
        parts.append((distance / typical_distance(own), np.flatnonzero(mask)[index]))
    distance, index = (np.concatenate(part) for part in zip(*parts, strict=True))
    return Candidates(distance, index, typical) if np.isfinite(distance).all() and typical > 0 else None


def find_candidates_of(stored: Neighbors, points: Floats, most: int) -> Candidates:
    """Find the stored rows that are nearest to new rows at these places."""
    distance, index = stored._tree.query(points, range(1, most + 1), workers=-1)
    typical = typical_distance(stored.points.astype(np.float64))
    return Candidates(distance / typical, index, typical)


def typical_distance(points: Floats) -> float:
    """Return the median distance to the nearest row at another place; NaN if there is none."""
    sample = points[np.linspace(0, len(points) - 1, min(len(points), _SAMPLE)).astype(int)]
    distance = cKDTree(points).query(sample, 2, workers=-1)[0][:, 1]
    distance = distance[distance > 0]
    return float(np.median(distance)) if len(distance) else float("nan")


Losses = Callable[[Floats], Floats]  # weights of neighbours (N, k) -> loss of each row


def choose(
    found: Candidates, losses: Callable[[float, float], Losses], kinds: Sequence[tuple[float, float]],
    weight: Floats, row_weight: Floats | None, count: int | None,
) -> Rule | None:  # fmt: skip
    """Return the rule with the smallest mean loss of held-out rows; None if it does not gain enough.

    `losses` takes b and h of `kinds`, `weight` has the weights of the held-out rows, and `row_weight` those
    of the stored rows. With `count` this number of neighbours is used without a required gain.
    """
    near = 1.0 if row_weight is None else row_weight[found.stored]
    mix, best = weight / weight.sum(), (np.inf, Rule(1, 1.0, 1.0), np.zeros(0))
    most = found.distance.shape[1]
    counts = [k for k in COUNTS if k <= most] if count is None else [min(count, most)]
    alone: Any = None
    for slope, width in kinds:
        loss_of = losses(slope, width)
        alone = loss_of(np.zeros((len(mix), 1)))

        def tried(rule: Rule, loss_of: Losses = loss_of) -> tuple[float, Rule, Floats]:
            k = rule.count
            some = near if isinstance(near, float) else near[:, :k]
            loss = loss_of(rule.weights(found.distance[:, :k], some))
            return float(mix @ loss), rule, loss

        own = tried(Rule(counts[len(counts) // 2], SHARES[0], 1.0, slope, width))
        for name in ("radius", "count", "share", "radius", "count"):
            values: dict[str, Any] = {"radius": RADII, "count": counts, "share": SHARES}
            changed = [replace(own[1], **{name: value}) for value in values[name]]
            own = min([own, *map(tried, changed)], key=lambda t: t[0])
        best = min(best, own, key=lambda t: t[0])
    _, rule, loss = best
    gain = alone - loss
    error = np.sqrt(mix**2 @ (gain - mix @ gain) ** 2)
    if count is None and not mix @ gain > LEAST_GAIN * error:
        return None
    return replace(rule, radius=rule.radius * found.typical)


def crps_losses(law: ScalarPredictive, y: Floats, centre: Floats, std: Floats) -> Losses:
    """Return the CRPS of the mixture as a function of the neighbours' weights; `centre` is (N, most).

    It is quadratic in the weights, so all expectations are computed once. The distances of `law` and kernels
    have three nodes: an error of about a hundredth of the gain, the same for all weights.
    """
    rows, std = np.arange(len(y)), np.broadcast_to(std, centre.shape)
    to_y, apart = law._distances(rows, y)
    across = distances_to(law, rows[:, None], centre, std, 3)
    kernel_to_y = mean_absolute(centre - y[:, None], std)
    both = np.hypot(std[:, :, None], std[:, None, :])
    kernels_apart = mean_absolute(centre[:, :, None] - centre[:, None, :], both)

    def losses(v: Floats) -> Floats:
        k, rest = v.shape[1], 1 - v.sum(1)
        pairs = (v[:, None] @ kernels_apart[:, :k, :k] @ v[:, :, None])[:, 0, 0]
        linear = (v * (kernel_to_y[:, :k] - rest[:, None] * across[:, :k])).sum(1)
        return rest * to_y + linear - 0.5 * (rest**2 * apart + pairs)

    return losses


def class_losses(log_p: Floats, label: Ints, classes: Ints) -> Losses:
    """Return the negative log-probability of the label as a function of the neighbours' weights."""
    p, right = np.exp(log_p[np.arange(len(label)), label]), classes == label[:, None]

    def losses(v: Floats) -> Floats:
        mixed = (1 - v.sum(1)) * p + (v * right[:, : v.shape[1]]).sum(1)
        return -np.log(np.maximum(mixed, np.finfo(float).tiny))

    return losses
