"""Check what a model file holds, in the same way for all backends: JAX, NumPy, `tggm serve`, ONNX.

Every array is checked against the stored settings and network, even if the checksum of the file matches.
Settings of further training are checked where they are used, by the estimators.
"""

from collections.abc import Callable, Mapping
from math import prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tggm.arrays import Floats
from tggm.data.standardise import Columns, Scales, require_squares
from tggm.predictive.calibration import Calibration, checked_calibration
from tggm.predictive.conformal import STORED, checked_scores
from tggm.predictive.gaussian_mixture import LogTransform, checked_transform
from tggm.predictive.gaussian_process import PROCESS, GaussianProcess, checked_process
from tggm.predictive.neighbors import PREFIX, Neighbors, checked_neighbors
from tggm.predictive.novelty import TrainingRows, checked_rows
from tggm.predictive.support import Support, restored_supports
from tggm.settings import count, flag, layers, or_auto, precision
from tggm.tables.schema import restored_classes

Arrays = Mapping[str, np.ndarray]
Meta = Mapping[str, Any]
Shapes = Mapping[str, tuple[int, ...]]
GAUGE = {"regression": 0.1**2, "classification": 1.0}  # σ0² of the models of each task
MODEL = "model."  # prefix of the parameters
SCALES = ("x.shift", "x.scale", "y.shift", "y.scale")
HISTORY = ("train", "held_out")
COUNTS = ("best_epoch", "undone", "history.epoch")  # integers; all other arrays are floating
TRAIN = tuple(f"train.{name}" for name in TrainingRows._fields)
MOST = {"float32": 1e15, "float64": 1e20}  # largest size of an entry: sums of powers stay finite
MARGIN = 1e3  # factor by which the product of the layers' largest weights may exceed `MOST`
MOST_LOG_NOISE = {"float32": 80.0, "float64": 600.0}
LEAST_LOG_NOISE = -600.0  # its exponential is positive in double precision, in which densities are computed


class State(NamedTuple):
    """The checked content of a model file; from `flat` on, the fields are those of a fitted estimator."""

    parameters: Mapping[str, np.ndarray]  # of the model, by name, with a leading axis of members
    scales: Scales
    names: list[str] | None  # of the inputs
    flat: bool
    classes: NDArray[Any] | None
    calibration: tuple[Calibration, ...]
    transform: LogTransform | None
    guarantee: Floats | None
    neighbors: Neighbors | None
    train: TrainingRows | None
    supports: tuple[Support | None, ...]
    process: GaussianProcess | None


def checked_state(arrays: Arrays, meta: Meta, task: str, shapes: Callable[[int, int], Shapes]) -> State:
    """Return the content of a model file; raise ValueError, LookupError or TypeError if it is not valid.

    `shapes` returns the shapes of the parameters of one member, for numbers of inputs and outputs.
    """
    settings = meta["settings"]
    members, dtype = count("n_members", settings["n_members"]), precision(settings["dtype"])
    d, n = int(arrays["x.shift"].shape[-1]), int(arrays["y.shift"].shape[-1])
    units, linear = meta["network"]["units"], meta["network"]["linear"]
    if not isinstance(units, list) or not units or not all(type(m) is int and m > 0 for m in units):
        raise ValueError(f"the units of its layers must be positive integers; got {units!r}")
    if layers(settings["hidden"]) not in (None, tuple(units)):
        raise ValueError("its layers are not those of its settings")
    if type(linear) is not bool or or_auto(flag, "linear", settings["linear"]) not in (None, linear):
        raise ValueError("its linear part is not that of its settings")
    stored = sum(a.size for a in arrays.values())
    if not d or not n or members * sum(units) > stored:
        raise ValueError(f"{stored} numbers for {members} members, {d} inputs and {n} outputs")
    one = shapes(d, n)
    wanted = {MODEL + name: (members, *shape) for name, shape in one.items()}
    wanted |= {name: (size,) for name, size in zip(SCALES, (d, d, n, n), strict=True)}
    points = arrays["history.train"].shape[-1]
    wanted |= {f"history.{name}": (members, points) for name in HISTORY} | {"history.epoch": (points,)}
    wanted |= {"best_epoch": (members,), "undone": (members,)}
    regression = task == "regression"
    if STORED in arrays:
        wanted[STORED] = (n if regression else 1, arrays[STORED].shape[-1])
    if TRAIN[0] in arrays:
        rows, gaps, kernels = (len(arrays[name]) for name in TRAIN[2:])
        sizes = (d,), (d,), (rows, d), (gaps, 3), (kernels and n, d + 3)
        wanted |= dict(zip(TRAIN, sizes, strict=True))
    own = {name: a for name, a in arrays.items() if not name.startswith((PREFIX, PROCESS))}
    if set(own) != set(wanted):
        raise ValueError(f"arrays are missing or unknown: {sorted(set(own) ^ set(wanted))[:5]}")
    for name, array in own.items():
        if array.shape != wanted[name]:
            raise ValueError(f"array {name!r} has shape {array.shape}; expected {wanted[name]}")
        if array.dtype.kind != ("i" if name in COUNTS else "f"):
            raise ValueError(f"array {name!r} has the wrong type {array.dtype}")
    parameters = {name: arrays[MODEL + name] for name in one}
    if kinds := {a.dtype.name for a in parameters.values()} - {dtype}:
        raise ValueError(f"its parameters are of type {', '.join(sorted(kinds))}, not {dtype}")
    require_parameters(parameters, dtype)
    if not np.allclose(parameters["hidden.s0"], GAUGE[task], rtol=1e-5, atol=0):
        raise ValueError("its gauge σ0² is not that of the task")
    shift_x, scale_x, shift_y, scale_y = (np.asarray(arrays[name], np.float64) for name in SCALES)
    scales = Scales(Columns(shift_x, scale_x), Columns(shift_y, scale_y))
    for columns in scales:
        if not np.isfinite(columns).all() or not (columns.scale > 0).all():
            raise ValueError("shifts and scales must be finite, and scales positive")
    require_squares(scale_y, shift_y)
    if "likelihood.log_noise" in parameters:  # a likelihood of your own may have none
        with np.errstate(over="ignore", under="ignore"):
            noise = np.exp(np.asarray(parameters["likelihood.log_noise"], np.float64)) * scale_y**2
        if not ((noise > 0) & (noise < np.inf)).all():
            raise ValueError("the noise vanishes or overflows in the units of the data")
    if (np.diff(arrays["history.epoch"], prepend=0) < 1).any():
        raise ValueError("epochs of the learning curve must be positive and increasing")
    if min(arrays["best_epoch"].min(), arrays["undone"].min()) < 0:
        raise ValueError("the best epoch and the undone steps must not be negative")
    classes = restored_classes(meta) if "classes" in meta else None
    if classes is not None and len(classes) != n:
        raise ValueError(f"{len(classes)} labels for {n} classes")
    if (classes is None) != regression:
        raise ValueError("a classifier needs labels, and a regressor must have none")
    flat = meta["vector_target"]
    if not isinstance(flat, bool) or not isinstance(meta["converged"], bool):
        raise ValueError("vector_target and converged must be true or false")
    if flat and n != 1 and regression:
        raise ValueError(f"the target is a vector, but there are {n} outputs")
    pools = tuple(checked_calibration(kind, numbers) for kind, *numbers in meta["calibration"])
    if len(pools) not in (0, n):
        raise ValueError(f"{len(pools)} calibrations for {n} outputs")
    transform = checked_transform(meta["transform"])
    if transform is not None and any(each.kind not in ("linear", "scales") for each in pools):
        raise ValueError("a transformed target has no mean if tails are heavier than a Gaussian's")
    neighbors = checked_neighbors(arrays, meta["neighbors"], (members, units[-1]), n if regression else 0, n)
    if neighbors is not None and regression and not (pools and all(each.numbers for each in pools)):
        raise ValueError("neighbours need calibrated members")
    given = arrays.get(STORED)
    scores = None if given is None else checked_scores(given, classes=not regression)
    train = checked_rows(*(arrays[name] for name in TRAIN)) if TRAIN[0] in arrays else None
    supports, process = restored_supports(meta["supports"], n), checked_process(arrays, meta["process"], d)
    if not regression and (supports or any(part is not None for part in (transform, process))):
        raise ValueError("a classifier has neither a transform nor a support nor a Gaussian process")
    names: Any = meta["features"]
    if names is not None and (not isinstance(names, list) or [type(name) for name in names] != [str] * d):
        raise ValueError(f"feature names must be a list of {d} strings")
    return State(
        parameters, scales, names, flat, classes, pools, transform, scores,
        neighbors, train, supports, process,
    )  # fmt: skip


def require_parameters(arrays: Arrays, dtype: str) -> None:
    """Raise for parameters whose squares or products overflow in this precision or their own.

    The bounds are far beyond what training reaches; predictions of larger arrays would be NaN.
    """
    names = {dtype, *(np.asarray(a).dtype.name for a in arrays.values())}
    narrow = min(names, key=MOST.__getitem__)
    sizes = {name: float(np.abs(a).max()) for name, a in arrays.items()}
    if not all(map(np.isfinite, sizes.values())):
        raise ValueError("parameters must be finite")
    # inputs are multiplied by the weights of one layer after another
    together = prod(max(1.0, sizes[name]) for name, W in arrays.items() if np.ndim(W) > 2) / MARGIN
    size = max(together, *sizes.values())
    if size > MOST[narrow]:
        raise ValueError(f"parameters reach {size:.3g}; at most {MOST[narrow]:g} is possible in {narrow}")
    noise = np.asarray(arrays.get("likelihood.log_noise", 0.0))
    if noise.min() < LEAST_LOG_NOISE or noise.max() > MOST_LOG_NOISE[narrow]:
        raise ValueError(f"log-noise must be between {LEAST_LOG_NOISE:g} and {MOST_LOG_NOISE[narrow]:g}")
