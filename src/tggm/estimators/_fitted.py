"""Store what predictions need (`Fitted`); draw the members before training, and pool them afterwards."""

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from tggm.arrays import Floats
from tggm.data.standardise import Scales, require_moderate
from tggm.estimators._data import UNNAMED, Data, StreamData
from tggm.estimators._ridge import blend, linear_rows, ridge, start_at_ridge
from tggm.estimators._settings import Settings
from tggm.estimators._support import Units, choose_support
from tggm.models import Gaussian, Model, Network
from tggm.predictive.calibration import Calibration, fit_calibration
from tggm.predictive.conformal import centre_and_width, quantile, scores_of, sorted_scores
from tggm.predictive.member_moments import (
    held_out_predictions,
    member_moments,
    new_row_predictions,
    sample_rows,
)
from tggm.predictive.support import Support
from tggm.predictive.transforms import LogTransform
from tggm.runtime import precision
from tggm.tables.transformer import Columns
from tggm.training import Trained
from tggm.training.rows import Blocks

_MOST = float(np.finfo(np.float64).max)
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
    support: Support | None = None  # of a single target

    @property
    def dtype(self) -> str:
        """Return the dtype of the parameters."""
        return str(self.model.arrays()["hidden.W0"].dtype)


def initialise(settings: Settings, data: Data | StreamData, rng: np.random.Generator) -> tuple[Model, Blocks]:
    """Draw the members and assign rows to them; linear parts start at ridge regression."""
    network, model = draw(settings, data, rng)
    blocks = data.blocks(settings, network.features.most, rng, settings.held_fraction)
    block = blocks.only
    numeric = isinstance(data, Data) and data.classes is None and not np.isnan(data.y.Y).any()
    if block is not None and network.linear and numeric and isinstance(model.likelihood, Gaussian):
        # if the user chose the schedule or optimiser, a low noise could make the first steps too large
        noise = settings.max_epochs is None and isinstance(settings.optimizer, str)
        model = start_at_ridge(model, block, noise)
    return model, blocks


def draw(settings: Settings, data: Data | StreamData, rng: np.random.Generator) -> tuple[Network, Model]:
    """Draw the members of an ensemble."""
    network = settings.network_for(data.X.shape[1], data.n_outputs, data.sparse)
    init = "small" if data.sparse else (network.likelihood or settings.task.likelihood).init
    return network, network.draw(
        rng, data.X.shape[1], data.n_outputs,
        members=settings.n_members, dtype=settings.dtype, s0=settings.task.s0, init=init,
    )  # fmt: skip


def fitted_of(model: Any, data: Data | StreamData, settings: Settings) -> Fitted:
    """Return the trained members without pooling."""
    network = settings.network_for(data.X.shape[1], data.n_outputs, data.sparse)
    return Fitted(
        jax.tree.map(np.asarray, model), network, data.columns, data.scales, data.target, data.flat,
        data.classes, transform=data.transform, support=data.plan.base,
    )  # fmt: skip


def pool_regression(trained: Trained, blocks: Blocks, data: Data | StreamData, settings: Settings) -> Fitted:
    """Blend with ridge regression, calibrate, and score the calibration rows of a guarantee.

    The blend helps for few members and a fixed number of epochs; at the defaults its effect is small.
    """
    fitted = fitted_of(trained.params, data, settings)
    complete = isinstance(data, Data) and data.y.complete
    blends = complete and fitted.network.linear and isinstance(fitted.model.likelihood, Gaussian)
    block, rows = blocks.kept, sample_rows(data.n_kept)
    with precision(settings.dtype):
        if block is not None and (blends or settings.calibrate):
            held = held_out_predictions(fitted.model, block, rows, data.n_kept, settings.dtype)
            if blends:
                model, held = blend(fitted.model, held, ridge(*linear_rows(fitted.model, block, rows)))
                fitted = replace(fitted, model=model)
            if settings.calibrate:
                light, plan = fitted.transform is not None, data.plan
                if isinstance(data, Data) and plan.base is not None and plan.base.step is not None:
                    held = [
                        units_of(fitted).cells_of(plan.base, held[0], observed_targets(fitted, data)[rows])
                    ]
                pools = tuple(map(partial(fit_calibration, light_tails=light), held))
                fitted = replace(fitted, calibration=pools)
                if isinstance(data, Data) and plan.candidates:
                    y = observed_targets(fitted, data)[rows]
                    found = choose_support(plan, held[0], y, units_of(fitted), pools[0])
                    fitted = replace(fitted, support=found[0], calibration=(found[1],))
        if data.calibration_rows is not None:
            X_new, Y_new = data.calibration_rows
            X = fitted.scales.x.apply(X_new, most=fitted.network.features.most)
            require_moderate(X, "`X`", "leave out rows that are so far from the others")
            fitted = replace(fitted, guarantee=conformal_scores(fitted, X, Y_new))
    return fitted


def units_of(fitted: Fitted) -> Units:
    """Return the units of a single target."""
    return Units(float(fitted.scales.y.shift[0]), float(fitted.scales.y.scale[0]), fitted.transform)


def observed_targets(fitted: Fitted, data: Data) -> Floats:
    """Return the single targets of a fit as they were given, (rows,)."""
    Y: Floats = data.y.Y if fitted.transform is None else fitted.transform.inverse(data.y.Y)
    y = Y[:, 0]
    if data.plan.base is None or data.y.side is None:
        return y
    (low, high), side = data.plan.base.ends, data.y.side[:, 0]
    return np.where(side < 0, low, np.where(side > 0, high, y))


def model_targets(fitted: Fitted, Y: Floats) -> Floats:
    """Transform and standardise targets."""
    return fitted.scales.y.apply(Y if fitted.transform is None else fitted.transform.forward(Y))


def recalibrate_model(fitted: Fitted, Z: Floats, Y: Floats) -> Fitted:
    """Calibrate on new rows, with inputs on the scale of the model."""
    with precision(fitted.dtype):
        rows = new_row_predictions(fitted.model, Z, model_targets(fitted, Y), fitted.dtype)
        scores = conformal_scores(fitted, Z, Y)
    if fitted.support is not None:
        rows = [rows[0]._replace(ends=units_of(fitted).ends(fitted.support, Y[:, 0]))]
    light = fitted.transform is not None
    pools = tuple(map(partial(fit_calibration, light_tails=light), rows))
    return replace(fitted, calibration=pools, guarantee=scores)


def conformal_scores(fitted: Fitted, Z: Floats, Y: Floats) -> Floats:
    """Return the sorted scores of rows that no member was trained on.

    Intervals are clipped to the support: one whose centre is beyond a limit contains the limit, and none
    contains a target outside the support.
    """
    mean, var = member_moments(fitted.model, Z, fitted.dtype)
    z = model_targets(fitted, Y)
    if fitted.support is not None:
        limits = fitted.support._replace(step=None)
        z = np.clip(mean[..., 0].mean(0), *units_of(fitted).ends(limits, Y[:, 0]))[:, None]
        z = np.where(limits.contains(Y), z, np.inf)
    return sorted_scores(np.stack([scores_of(mean[..., j], var[..., j], z[:, j]) for j in range(z.shape[1])]))


def guaranteed_interval(fitted: Fitted, Z: Floats, level: float) -> tuple[Floats, Floats]:
    """Return the ends of guaranteed intervals, (N, n) each, in units of the targets."""
    if fitted.guarantee is None:
        raise ValueError(
            "`guarantee` is True, but no rows were set aside for it: fit with "
            f"TGGMRegressor(guarantee={level:g}), or call `recalibrate` with rows that the model was not "
            "trained on."
        )
    with precision(fitted.dtype):
        mean, var = member_moments(fitted.model, Z, fitted.dtype)
    y, ends = fitted.scales.y, []
    for j, scores in enumerate(fitted.guarantee):
        q = quantile(scores, level) * (1 + _ROUNDING)
        centre, width = centre_and_width(mean[:, :, j], var[:, :, j])
        with np.errstate(over="ignore"):
            both = y.shift[j] + y.scale[j] * np.stack([centre - q * width, centre + q * width])
        both = np.clip(both, -_MOST, _MOST)
        both = both if fitted.transform is None else fitted.transform.inverse(both)
        ends.append(both if fitted.support is None else np.clip(both, *fitted.support.ends))
    lower, upper = np.stack(ends, axis=2)
    return lower, upper


def replace_model(fitted: Fitted, model: Model) -> Fitted:
    """Replace the model, keep encoder, scales and pooling rule, and remove the guarantee."""
    return replace(fitted, model=jax.tree.map(np.asarray, model), guarantee=None)
