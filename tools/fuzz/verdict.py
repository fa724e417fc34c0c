"""What becomes of a model file: it is refused at once, or it loads and predicts numbers quickly."""

import math
import tempfile
import time
import tracemalloc
from pathlib import Path

import numpy as np
from tools.fuzz.originals import TABLE

from tggm import ModelFileError
from tggm.files import parse_model
from tggm.tables import TableError, read_table

LOADING, PREDICTING = 0.05, 1.0  # seconds
TRIES = 4  # of what took longer: another process, or a program that had to be compiled
ROWS = 3
ENOUGH = 9  # rows set aside for an interval of 90 %
SUMS = 1e-3  # by which probabilities may miss one


def verdict(content, traced=False, predicts=True):
    """What became of a file: "refused", "loaded", or the violation."""
    try:
        model, preparation = timed(lambda: parse_model(content, "file"), LOADING, "loading")
        if traced:
            require_memory(content)
    except ModelFileError:
        if traced:
            require_memory(content)
        return "refused"
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    try:
        if predicts:
            predict(model, preparation)
    except Exception as error:
        return f"loaded, then {type(error).__name__}: {error}"
    return "loaded"


class SlowError(Exception):
    """It took longer than promised."""


class WrongError(Exception):
    """It predicted what is no number, or took too much memory."""


def timed(work, seconds, what):
    """The result of some work; `SlowError` if it takes more processor seconds in every try."""
    least = math.inf
    for _ in range(TRIES):
        begin = time.process_time()
        try:
            found, failure = work(), None
        except Exception as error:
            found, failure = None, error
        least = min(least, time.process_time() - begin)
        if least <= seconds:
            break
    if least > seconds:
        raise SlowError(f"{what} took {least:.3f} s")
    if failure is not None:
        raise failure
    return found


def require_memory(content):
    """Raise if reading takes more than a small multiple of the file's size."""
    tracemalloc.start()
    try:
        parse_model(content, "file")
    except ModelFileError:
        pass
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    if peak > 2**21 + 50 * len(content):
        raise WrongError(f"reading took {peak} bytes")


def predict(model, preparation):
    """Ask for everything that is predicted of a few rows like those the model says it has seen."""
    with np.errstate(all="ignore"):
        if preparation is not None:
            encode(model)
        x = model.fitted_.scales.x
        Z = np.linspace(-1.0, 2.0, ROWS * len(x.shift)).reshape(ROWS, -1)
        X = x.shift[None, :] + x.scale[None, :] * Z
        model.name_features(X.shape[1], None)
        numbers = classes(model, X) if model.task == "classification" else outputs(model, X)
    for name, value in numbers.items():
        if not np.isfinite(value).all():
            raise WrongError(f"{name} is {value[~np.isfinite(value)][0]}")


def quick(ask, *arguments, **more):
    """What is predicted, in time."""
    return timed(lambda: ask(*arguments, **more), PREDICTING, ask.__name__)


def outputs(model, X):
    """Numbers that a regressor predicts."""
    mean, std = quick(model.predict, X, return_std=True)
    if not (std > 0).all():
        raise WrongError(f"a deviation is {std.min()}")
    low, high = quick(model.predict_interval, X)
    if not (low <= high).all():
        raise WrongError("the ends of an interval are in the wrong order")
    numbers = {"mean": mean, "std": std, "low": low, "high": high}
    aside = model.fitted_.guarantee
    if aside is not None and (~np.isnan(aside)).sum(1).min() >= ENOUGH:
        numbers["sure low"], numbers["sure high"] = quick(model.predict_interval, X, guarantee=True)
    middle = quick(model.predict_quantiles, X, [0.5])[..., 0]
    return numbers | {"median": middle, "log-density": quick(model.score_samples, X, middle)}


def classes(model, X):
    """Numbers that a classifier predicts."""
    p = quick(model.predict_proba, X)
    if (p < 0).any() or not (np.abs(p.sum(1) - 1) < SUMS).all():
        raise WrongError(f"probabilities sum to {p.sum(1)}")
    if not np.isin(model.predict(X), model.classes_).all():
        raise WrongError("a label is no class")
    return {"probability": p}


def encode(model):
    """Numbers of a table, or a sentence about it."""
    try:
        features = model.table_.transform(table())
    except TableError:
        return
    if not np.isfinite(features).all():
        raise WrongError("a column of the table became no number")


_READ = []


def table():
    """The rows that tables are asked about, read once."""
    if not _READ:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, "t.csv")
            file.write_text(TABLE)
            _READ.append(read_table(str(file)))
    return _READ[0]
