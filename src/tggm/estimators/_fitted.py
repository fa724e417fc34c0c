"""Store what predictions need (`Fitted`): draw the members, pool them after training, and predict."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from tggm.arrays import Floats, Ints
from tggm.data.standardise import Scales, require_moderate
from tggm.estimators._data import UNNAMED, Data, StreamData
from tggm.estimators._holdout import Holdout
from tggm.estimators._neighbors import neighbors_on_new_rows, regression_neighbors
from tggm.estimators._ridge import start_at_ridge
from tggm.estimators._settings import Settings
from tggm.estimators._support import Units, choose_support
from tggm.models import Gaussian, Model, Network
from tggm.predictive import GaussianMixture, JointPredictive, ScalarPredictive, novelty
from tggm.predictive import gaussian_process as gp
from tggm.predictive import member_moments as ensemble
from tggm.predictive.calibration import Calibration, HeldOut, disagreement, fit_calibration
from tggm.predictive.conformal import centre_and_width, quantile, scores_of, sorted_scores
from tggm.predictive.gaussian_mixture import LogTransform, mixtures
from tggm.predictive.joint import pooled_joint
from tggm.predictive.marginal import Marginal, MarginalJoint, averages, fill_unknown
from tggm.predictive.neighbors import Neighbors, target_laws
from tggm.predictive.support import Support
from tggm.runtime import blas_lock, precision
from tggm.tables.transformer import Columns
from tggm.training import Program, Trained, train
from tggm.training.rows import Blocks, RowBlock
from tggm.training.train import Printer

_MOST = float(np.finfo(np.float64).max)
LEAST_ROWS = 20  # to recalibrate: the width then has a standard error of 1 / √40, a sixth
_ROUNDING = 1e-6  # relative widening of intervals, so that rounding puts no repeated target outside


@dataclass(frozen=True)
class Fitted:
    """A trained ensemble with its encoder, standardisation and pooling rule."""

    model: Model  # a leading axis of members, on the scale of the standardised data
    network: Network
    columns: Columns
    scales: Scales
    target: str = UNNAMED
    flat: bool = True  # whether the target is a vector
    classes: NDArray[Any] | None = None
    calibration: tuple[Calibration, ...] = ()  # of each output; empty: the plain mixture of members
    transform: LogTransform | None = None  # of the target, before it is standardised
    guarantee: Floats | None = None  # (n, M) sorted scores of calibration rows, see `predictive.conformal`
    neighbors: Neighbors | None = None
    train: novelty.TrainingRows | None = None  # ranges and some rows of the inputs; None for sparse inputs
    supports: tuple[Support | None, ...] = ()  # of each output; empty if no output has one
    process: gp.GaussianProcess | None = None  # averaged with the members' means

    @property
    def dtype(self) -> str:
        """Return the dtype of the parameters."""
        return str(self.model.arrays()["hidden.W0"].dtype)

    def standardised(self, X: Floats) -> Floats:
        """Return encoded inputs on the scale of the model."""
        return self.scales.x.apply(X, most=self.network.features.most)

    def filled(self, Z: Floats) -> tuple[Floats, Ints | None]:
        """Replace unknown inputs by draws, and move values far outside of columns with little effect."""
        full, starts = fill_unknown(Z, self.neighbourhood)
        return novelty.moved_inside(self.neighbourhood, full, self.calibration), starts

    def with_rows(self, data: Data | StreamData, targets: Floats | None = None) -> "Fitted":
        """Store ranges, gaps and rows of the inputs, and a Gaussian process of (n, rows) targets for gaps."""
        if data.sparse:
            return self
        ends = (data.X.min(0), data.X.max(0)) if isinstance(data, Data) else data.ends
        low, high = self.standardised(np.stack(ends))
        most = min(novelty.MOST_ROWS, novelty.MOST_NUMBERS // len(low))
        order = np.random.default_rng(0).permutation(len(data.X))
        chosen = np.sort(order[:most])
        rows = self.standardised(data.X[chosen]).astype(np.float32).astype(np.float64)  # as in a model file
        y = targets[:, chosen] if targets is not None else np.empty((0, len(rows)))
        sample = self.standardised(data.X[order[: gp.MOST_VALUES]])
        return replace(
            self, train=novelty.TrainingRows(low, high, rows, *gp.gaps_and_kernels(sample, rows, y))
        )

    @cached_property
    def neighbourhood(self) -> novelty.Neighbourhood | None:
        """Return the training rows under this model."""
        if self.train is None:
            return None
        return novelty.Neighbourhood(self.train, self._means_and_layer)

    def _means_and_layer(self, Z: Floats) -> tuple[Floats, Floats]:
        mean, layer = ensemble.means_and_layer(self.model, self.dtype, Z)
        return gp.shifted(self.process, Z, mean), layer


def initialise(settings: Settings, data: Data | StreamData, rng: np.random.Generator) -> tuple[Model, Blocks]:
    """Draw the members and assign rows to them; ridge regression initialises the linear parts."""
    numeric = isinstance(data, Data) and data.classes is None and not np.isnan(data.y.Y).any()
    network, model = draw(settings, data, rng)
    blocks = data.blocks(settings, network.features.most, rng)
    block = blocks.only
    if block is not None and network.linear and numeric and isinstance(model.likelihood, Gaussian):
        # if the user chose the schedule, a low noise could make the first steps too large
        model = start_at_ridge(model, block, noise=settings.max_epochs is None)
    return model, blocks


def draw(settings: Settings, data: Data | StreamData, rng: np.random.Generator) -> tuple[Network, Model]:
    """Draw the members of an ensemble."""
    network = settings.network_for(data.X.shape[1], data.n_outputs, data.sparse)
    init = "small" if data.sparse else (network.likelihood or settings.task.likelihood).init
    return network, network.draw(
        rng, data.X.shape[1], data.n_outputs,
        members=settings.n_members, dtype=settings.dtype, s0=settings.task.s0, init=init,
    )  # fmt: skip


def retrain(
    trained: Trained, program: Program, blocks: Blocks, data: Data | StreamData, settings: Settings,
    rng: np.random.Generator,
) -> Trained:  # fmt: skip
    """Train new members on all rows if the folds left rows out; the history stays that of the folds.

    They are trained for the share of the epochs that was best for held-out rows, the median over members.
    """
    if not (blocks.partial and isinstance(data, Data)):
        return trained
    whole = replace(data, holdout=Holdout())
    model, rows = initialise(settings, whole, rng)
    again = replace(settings, time_budget=None, checkpoint=None).program(model, rows, whole, rng)
    share = (np.median(trained.best_epoch) + 1) / program.max_epochs
    again = replace(again, max_epochs=max(1, round(share * again.max_epochs)), milestones=None)
    found = train(model, rows, again, Printer(held=False) if settings.verbose else None)
    interrupted = trained.interrupted or found.interrupted
    return replace(
        trained, params=found.params, interrupted=interrupted, failed=trained.failed | found.failed
    )


def fitted_of(model: Any, data: Data | StreamData, settings: Settings) -> Fitted:
    """Return the trained members without pooling."""
    network = settings.network_for(data.X.shape[1], data.n_outputs, data.sparse)
    bases = tuple(plan.base for plan in data.plans)
    return Fitted(
        jax.tree.map(np.asarray, model), network, data.columns, data.scales, data.target, data.flat,
        data.classes, transform=data.transform, supports=bases if any(bases) else (),
    )  # fmt: skip


def pool_regression(
    trained: Trained, final: Trained, blocks: Blocks, data: Data | StreamData, settings: Settings
) -> Fitted:
    """Choose a Gaussian process, calibrate, choose neighbours, and score the rows of a guarantee.

    `final` are the predicting members; `trained` held rows out.
    """
    block, members, targets = blocks.kept, jax.tree.map(np.asarray, trained.params), None
    if block is not None and settings.calibrate:
        targets = ensemble.measured_targets(block.data.y)[: data.n_kept].T
    # the matrices are small: several threads of LAPACK would mostly wait for each other
    with precision(settings.dtype), blas_lock():
        fitted = fitted_of(final.params, data, settings).with_rows(data, targets)
        if block is not None and settings.calibrate:
            rows, units = ensemble.sample_rows(data.n_kept), data.holdout.units(data.n_kept)
            again = fitted.model if blocks.partial else None
            given = members, block, rows, data.n_kept, settings.dtype, again, units
            held = ensemble.held_out_predictions(*given)
            fitted, held = _with_process(fitted, held, block, data, settings)
            fitted = _calibrated(fitted, held, rows, data)
            model = members if blocks.partial else fitted.model
            fitted = _with_neighbors(fitted, model, blocks, held, rows, data, settings)
        return fitted if data.calibration_rows is None else _with_guarantee(fitted, *data.calibration_rows)


def _with_process(
    fitted: Fitted, held: list[HeldOut], block: RowBlock, data: Data | StreamData, settings: Settings
) -> tuple[Fitted, list[HeldOut]]:
    """Average means and held-out predictions of one measured target with a Gaussian process."""
    if not settings.gaussian_process or settings.late or len(held) > 1 or not isinstance(data, Data):
        return fitted, held
    usable = data.y.complete and data.holdout.is_random and not data.sparse
    found = gp.choose_process(block.data.X, held[0], fitted.dtype) if usable else None
    return (fitted, held) if found is None else (replace(fitted, process=found[0]), [found[1]])


def _with_neighbors(
    fitted: Fitted, model: Model, blocks: Blocks, held: list[HeldOut], rows: Any, data: Data | StreamData,
    settings: Settings,
) -> Fitted:  # fmt: skip
    """Choose neighbours; measured rows alone would be biased where others are censored."""
    censored = isinstance(data, Data) and data.y.side is not None
    limits = _limits(fitted) if censored and fitted.supports and not data.plans[0].censored else None
    biased = censored and limits is None
    if settings.neighbors == 0 or settings.late or (biased and settings.neighbors is None):
        return fitted
    held = _with_cells(fitted, held, rows, data)
    near, pools = regression_neighbors(
        model, fitted.model, blocks, held, rows, fitted.calibration, settings, limits, fitted.process
    )
    return replace(fitted, neighbors=near, calibration=pools)


def _with_guarantee(fitted: Fitted, X: Floats, Y: Floats) -> Fitted:
    """Score the calibration rows of a guarantee."""
    Z = fitted.scales.x.apply(X, most=fitted.network.features.most)
    require_moderate(Z, "`X`", "leave out rows that are so far from the others")
    return replace(fitted, guarantee=conformal_scores(fitted, Z, Y))


def _calibrated(fitted: Fitted, held: list[HeldOut], rows: Any, data: Data | StreamData) -> Fitted:
    """Calibrate each output, and choose its support."""
    held = _with_cells(fitted, held, rows, data)
    pools = [fit_calibration(part, most=units_of(fitted, j).most) for j, part in enumerate(held)]
    supports: list[Support | None] = list(fitted.supports or len(pools) * (None,))
    for j, plan in enumerate(data.plans):
        if isinstance(data, Data) and plan.candidates:
            y, units = observed_targets(fitted, data, j)[rows], units_of(fitted, j)
            supports[j], pools[j] = choose_support(plan, held[j], y, units, pools[j])
    return replace(fitted, supports=tuple(supports) if any(supports) else (), calibration=tuple(pools))


def _with_cells(fitted: Fitted, held: list[HeldOut], rows: Any, data: Data | StreamData) -> list[HeldOut]:
    """Add the cells of the held-out targets whose support has a step."""
    found = list(held)
    for j, support in enumerate(fitted.supports):
        if isinstance(data, Data) and support is not None and support.step is not None:
            y = observed_targets(fitted, data, j)[rows]
            found[j] = units_of(fitted, j).cells_of(support, held[j], y)
    return found


def units_of(fitted: Fitted, output: int) -> Units:
    """Return the units of one output."""
    shift, scale = fitted.scales.y
    return Units(float(shift[output]), float(scale[output]), fitted.transform)


def _limits(fitted: Fitted) -> Floats | None:
    """Return lower and upper limits of all outputs in the model's units, (2, n); None without any."""
    ends = [np.array((each or Support()).ends) for each in fitted.supports]
    return np.stack([units_of(fitted, j).forward(end) for j, end in enumerate(ends)], 1) if ends else None


def observed_targets(fitted: Fitted, data: Data, output: int) -> Floats:
    """Return the targets of one output as they were given to `fit`, (rows,)."""
    Y: Floats = data.y.Y if fitted.transform is None else fitted.transform.inverse(data.y.Y)
    y, base = Y[:, output], data.plans[output].base
    if base is None or data.y.side is None:
        return y
    (low, high), side = base.ends, data.y.side[:, output]
    return np.where(side < 0, low, np.where(side == 1, high, y))


def model_targets(fitted: Fitted, Y: Floats) -> Floats:
    """Transform and standardise targets."""
    return fitted.scales.y.apply(Y if fitted.transform is None else fitted.transform.forward(Y))


def recalibrate_model(fitted: Fitted, Z: Floats, Y: Floats, weight: Floats, neighbors: int | None) -> Fitted:
    """Calibrate on new rows, with inputs on the scale of the model; choose the weights of neighbours again.

    There is no guarantee with unequal weights: it would need the weight of every row to predict.
    """
    effective = weight.sum() ** 2 / (weight**2).sum()
    if effective < LEAST_ROWS:
        equal = f" of equal weight; these weights are worth {effective:.1f}" if np.ptp(weight) else ""
        raise ValueError(
            f"`recalibrate` needs at least {LEAST_ROWS} rows{equal or f'; got {len(Z)}'}. Pass more rows."
        )
    rows = ensemble.new_row_predictions(fitted.model, Z, model_targets(fitted, Y), weight, fitted.dtype)
    if fitted.process is not None:
        rows = [
            each._replace(mean=gp.shifted(fitted.process, Z, each.mean[..., None])[..., 0]) for each in rows
        ]
    for j, support in enumerate(fitted.supports):
        if support is not None:
            rows[j] = rows[j]._replace(ends=units_of(fitted, j).ends(support, Y[:, j]))
    pools = tuple(fit_calibration(part, most=units_of(fitted, j).most) for j, part in enumerate(rows))
    found, near = replace(fitted, calibration=pools), fitted.neighbors
    if near is not None:
        inputs = Z.astype(fitted.dtype, copy=False)
        with_limits = rows, pools, neighbors, _limits(fitted)
        near, pools = neighbors_on_new_rows(near, fitted.model, inputs, *with_limits)
        found = replace(found, neighbors=near, calibration=pools)
    scores = None if np.ptp(weight) else conformal_scores(found, Z, Y)  # widths depend on the calibration
    return replace(found, guarantee=scores)


def moments(fitted: Fitted, Z: Floats, *, widen: bool = True) -> tuple[Floats, Floats]:
    """Return the members' means and variances, (K, N, n) each, widened away from the training rows."""
    mean, var = ensemble.member_moments(fitted.model, Z, fitted.dtype)
    mean = gp.shifted(fitted.process, Z, mean)
    return mean, var + widening(fitted, Z) if widen else var


def widening(fitted: Fitted, Z: Floats) -> Floats:
    """Return the variance to add to that of each member, (N, n)."""
    return novelty.added_variance(fitted.neighbourhood, Z, len(fitted.scales.y.shift), fitted.calibration)


def conformal_scores(fitted: Fitted, Z: Floats, Y: Floats) -> Floats:
    """Return the sorted scores of rows that no member was trained on.

    Intervals are clipped to the support: one whose centre is beyond a limit contains the limit, and none
    contains a target outside the support.
    """
    mean, var = moments(fitted, Z)
    z = model_targets(fitted, Y)
    for j, support in enumerate(fitted.supports):
        if support is not None:
            limits = support._replace(step=None)
            ends = units_of(fitted, j).ends(limits, Y[:, j])
            z[:, j] = np.where(limits.contains(Y[:, j]), np.clip(mean[..., j].mean(0), *ends), np.inf)
    return sorted_scores(np.stack([scores_of(mean[..., j], var[..., j], z[:, j]) for j in range(z.shape[1])]))


def guaranteed_interval(fitted: Fitted, Z: Floats, level: float) -> tuple[Floats, Floats]:
    """Return the ends of guaranteed intervals, (N, n) each, in units of the targets."""
    if fitted.guarantee is None:
        raise ValueError(
            "`guarantee` is True, but no rows were set aside for it: fit with "
            f"TGGMRegressor(guarantee={level:g}), or call `recalibrate` with rows that the model was not "
            "trained on."
        )
    Z, starts = fitted.filled(Z)
    mean, var = moments(fitted, Z)
    y, ends, supports = fitted.scales.y, [], fitted.supports or len(fitted.guarantee) * (None,)
    for j, (scores, support) in enumerate(zip(fitted.guarantee, supports, strict=True)):
        q = quantile(scores, level) * (1 + _ROUNDING)
        centre, width = centre_and_width(mean[:, :, j], var[:, :, j])
        centre, square = averages(centre, starts), averages(centre**2 + width**2, starts)
        width = width if starts is None else np.sqrt(square - centre**2)
        with np.errstate(over="ignore"):
            both = y.shift[j] + y.scale[j] * np.stack([centre - q * width, centre + q * width])
        both = np.clip(both, -_MOST, _MOST)
        both = both if fitted.transform is None else fitted.transform.inverse(both)
        ends.append(both if support is None else np.clip(both, *support.ends))
    lower, upper = np.stack(ends, axis=2)
    return lower, upper


# ---- predictions of a regressor, for standardised inputs Z ----


def standardise(fitted: Fitted, X: Floats) -> Floats:
    """Standardise encoded inputs; raise for values too large to compute with."""
    Z = fitted.standardised(X)
    require_moderate(Z, "`X`", "leave out rows that are so far from the training rows")
    return Z


def pool(fitted: Fitted, Z: Floats, found: list[GaussianMixture]) -> list[ScalarPredictive]:
    """Return the distribution of each output, in units of the target: calibrated, and with neighbours."""
    near, X = None, Z.astype(fitted.dtype, copy=False)
    if fitted.neighbors is not None:
        near = fitted.neighbors.near(ensemble.places(fitted.model, X, fitted.neighbors.projection))
    return target_laws(fitted.calibration, found, near, fitted.transform, fitted.supports)


def marginals(fitted: Fitted, Z: Floats) -> list[ScalarPredictive]:
    """Return the predictive distribution of each output, in units of the target."""
    full, starts = fitted.filled(Z)
    found = pool(fitted, full, mixtures(*moments(fitted, full), *fitted.scales.y))
    return found if starts is None else [Marginal(each, starts) for each in found]


def distribution(fitted: Fitted, Z: Floats) -> ScalarPredictive | JointPredictive[Any]:
    """Return the predictive distribution of all outputs."""
    if len(fitted.scales.y.shift) == 1:
        return marginals(fitted, Z)[0]
    full, starts = fitted.filled(Z)
    members = ensemble.joint_gaussian_mixture(fitted.model, full, *fitted.scales.y, widening(fitted, full))
    pools = pool(fitted, full, [members.marginal(j) for j in range(members.n_outputs)])
    joint = pooled_joint(fitted.calibration, members, pools)
    return joint if starts is None else MarginalJoint(joint, starts)


def mean(fitted: Fitted, Z: Floats) -> Floats:
    """Return the mean of each output, (rows, n)."""
    if fitted.transform is not None or fitted.neighbors is not None or fitted.supports:
        return np.stack([each.mean() for each in marginals(fitted, Z)], axis=1)
    y, (full, starts) = fitted.scales.y, fitted.filled(Z)
    found = gp.shifted(fitted.process, full, ensemble.member_means(fitted.model, full, fitted.dtype)).mean(0)
    return averages(found * y.scale + y.shift, starts)


def mean_and_std(fitted: Fitted, Z: Floats) -> tuple[Floats, Floats]:
    """Return mean and standard deviation of each output, (rows, n) each."""
    pairs = [(each.mean(), each.std()) for each in marginals(fitted, Z)]
    centre, spread = (np.stack(part, axis=1) for part in zip(*pairs, strict=True))
    return centre, spread


def mean_noise_disagreement(fitted: Fitted, Z: Floats) -> tuple[Floats, Floats, Floats]:
    """Return mean, noise and disagreement of members of each output; their squares add up to the variance."""
    Z, starts = fitted.filled(Z)
    mean, var = moments(fitted, Z, widen=False)
    added = widening(fitted, Z)
    members = mixtures(mean, var + added, *fitted.scales.y)
    found = []
    pools = fitted.calibration or (Calibration(),) * len(members)
    for j, (calibration, law) in enumerate(zip(pools, pool(fitted, Z, members), strict=True)):
        _, total, between = disagreement(members[j])
        noise_square = calibration.factors[0] ** 2 * (total - added[:, j])
        share = noise_square / calibration.square(total, between)
        marginal = law if starts is None else Marginal(law, starts)
        noise = averages(law.var() * share, starts)
        found.append((marginal.mean(), np.sqrt(noise), np.sqrt(np.maximum(marginal.var() - noise, 0.0))))
    centre, noise, spread = (np.stack(part, axis=1) for part in zip(*found, strict=True))
    return centre, noise, spread


def relative_squares(predicted: Floats, Y: Floats) -> Floats:
    """Return squared errors relative to each output's variance, averaged over outputs; 0 if missing."""
    variance = np.nanvar(np.where(np.isnan(Y).all(0), 0.0, Y), axis=0, keepdims=True)
    parts = (Y - predicted) ** 2 / np.where(variance > 0, variance, 1.0)
    return np.where(np.isnan(parts), 0.0, parts).mean(1)
