"""Measure seconds and test scores of a fit, and those of other libraries for the same task.

    TGGM_DATA=... python benchmarks/fit.py [--datasets concrete,power]

One run on the same training and test rows, each library with its defaults and all cores: the default of
`tggm` (a first fit, compilation included, and a second one) and the opponents. Opponents without a predictive
width get the root mean square of their training errors. `tggm` and CatBoost get tables with words unchanged,
the others get numbers. Writes benchmarks/results/fit.json.
"""

import sys
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "experiments"))
from datasets import UCI, load_uci
from opponents import OPPONENTS, Predict, catboost_classes, catboost_uncertain, installed, network, rms, trees
from scores import Gaussian, distribution, labels
from sklearn.ensemble import HistGradientBoostingRegressor
from store import BENCHMARKS, complete, options, some

from tables import TABLES, Split
from tggm import TGGMClassifier, TGGMRegressor

DATASETS = ("concrete", "power", "protein", "kin40k", "ames", "adult")
SEED = 0


def with_training_width(make: Callable[[Any, int], Any], X: Any, y: Any, seed: int) -> Predict:
    """Fit a model once; its width is that of its training errors."""
    model = make(X, seed).fit(X, y)
    width = rms(y - model.predict(X))
    return lambda rows: (model.predict(rows), np.full(len(rows), width))


MODELS = {
    "mlp": OPPONENTS["mlp"]._replace(regression=partial(with_training_width, network)),
    "hgb": OPPONENTS["hgb"]._replace(
        regression=partial(with_training_width, partial(trees, HistGradientBoostingRegressor))
    ),
    "ngboost": OPPONENTS["ngboost"],
    "catboost-ll": OPPONENTS["catboost-ll"]._replace(
        regression=partial(catboost_uncertain, thread_count=-1),
        classification=partial(catboost_classes, thread_count=-1),
    ),
}


def parts(name: str, frames: bool) -> tuple[Split, str]:
    """Return the first split as numbers or as data frames, and the task."""
    if name in UCI:
        data = load_uci(name)
        train, test = data.splits[0]
        return Split(data.X[train], data.y[train], data.X[test], data.y[test]), "regression"
    known = TABLES[name]
    return known.raw(0) if frames and known.words else known.split(0), known.task


def work(dataset: str, model: str) -> dict[str, Any]:
    """Fit and score one model."""
    warnings.simplefilter("ignore")
    ours = model.startswith("tggm")
    split, task = parts(dataset, ours or model == "catboost-ll")
    clock = time.perf_counter()
    if ours:
        estimator = TGGMClassifier if task == "classification" else TGGMRegressor
        fitted = estimator(random_state=SEED).fit(split.X_train, split.y_train)
        predict = fitted.predict_proba if task == "classification" else fitted.predict_dist
    else:
        predict = getattr(MODELS[model], task)(split.X_train, split.y_train, SEED)
    seconds = time.perf_counter() - clock
    found = predict(split.X_test)
    if task == "classification":
        figures = labels(split.y_test, np.unique(split.y_train), np.asarray(found))
    else:
        figures = distribution(found if ours else Gaussian(*found), split.y_test)
    return {"rows": len(split.y_train), "seconds": seconds, **figures}


def main() -> None:
    p = options(__doc__)
    p.add_argument("--datasets", type=some(DATASETS), default=list(DATASETS))
    args = p.parse_args()
    models = ["tggm, first fit", "tggm", *installed(list(MODELS))]
    tasks = [(dataset, model) for dataset in args.datasets for model in models]
    complete(args.out or BENCHMARKS / "fit.json", ("dataset", "model"), work, tasks, force=True)


if __name__ == "__main__":
    main()
