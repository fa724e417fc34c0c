"""Score other libraries on the development tables, each with its defaults.

    TGGM_DATA=... python experiments/opponents.py [--tables autos,ames] [--models ridge,catboost]
    TGGM_DATA=... python experiments/opponents.py --uci power,protein

This module defines the opponents of all experiments and benchmarks. An opponent is fitted to inputs (an
array, or a data frame with words and gaps), targets and a seed; it returns a function from inputs to the
means and standard deviations of Gaussians, to quantiles, or to the probabilities of the sorted labels.
Models without a predictive width get one width for all rows, the root mean square of errors on held-out rows.
"Early": a fifth of the training rows is held out and ends the training. Results go to
experiments/results/opponents.json, and with --uci to uci_opponents.json. Libraries that are not installed are
skipped: pip install catboost lightgbm ngboost quantile-forest
"""

import warnings
from collections.abc import Callable
from copy import deepcopy
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from datasets import UCI, load_uci
from scores import Figures, Gaussian, Quantiles, distribution, labels, levels_of
from sklearn.compose import TransformedTargetRegressor, make_column_selector, make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler
from store import RESULTS, Clock, complete, options, some
from threadpoolctl import threadpool_limits

from tables import LARGE, SPLITS, TABLES, Split

Predict = Callable[[Any], Any]
PENALTIES = np.logspace(-3, 4, 15)
N_QUANTILES = 20
WORDS, NUMBERS = make_column_selector(dtype_exclude="number"), make_column_selector(dtype_include="number")


class Opponent(NamedTuple):
    """Functions that fit a model for either task, and its limits."""

    regression: Callable[[Any, Any, int], Predict] | None
    classification: Callable[[Any, Any, int], Predict] | None
    package: str = ""  # what must be installed besides scikit-learn
    largest: float = float("inf")  # training rows


def rms(error: Any) -> float:
    """Return the root of the mean square."""
    return float(np.sqrt(np.mean(error**2)))


def with_width(model: Any, X: Any, y: Any, seed: int) -> Predict:
    """Fit a model; its width is the error of a first fit on a fifth of the rows."""
    A, B, a, b = train_test_split(X, y, test_size=0.2, random_state=seed)
    width = rms(b - deepcopy(model).fit(A, a).predict(B))  # `clone` rejects CatBoost with words
    fitted = model.fit(X, y)
    return lambda rows: (fitted.predict(rows), np.full(len(rows), width))


def _regression(make: Callable[[Any, int], Any]) -> Callable[[Any, Any, int], Predict]:
    return lambda X, y, seed: with_width(make(X, seed), X, y, seed)


def _classification(make: Callable[[Any, int], Any]) -> Callable[[Any, Any, int], Predict]:
    return lambda X, y, seed: make(X, seed).fit(X, y).predict_proba


def _mean(X: Any, y: Any, seed: int) -> Predict:
    return lambda rows: (np.full(len(rows), y.mean()), np.full(len(rows), y.std(ddof=1)))


def _frequencies(X: Any, y: Any, seed: int) -> Predict:
    share = np.unique(y, return_counts=True)[1] / len(y)
    return lambda rows: np.tile(share, (len(rows), 1))


def _scaled(X: Any) -> Any:
    """Return a preprocessor for linear models and networks: indicators, medians for gaps, one scale."""
    if not isinstance(X, pd.DataFrame):
        return StandardScaler()
    numbers = make_pipeline(SimpleImputer(strategy="median", add_indicator=True), StandardScaler())
    return make_column_transformer(
        (numbers, NUMBERS), (OneHotEncoder(min_frequency=3, handle_unknown="infrequent_if_exist"), WORDS)
    )


def _coded(X: Any, most: int | None = None) -> Any:
    """Return a preprocessor for trees: words as integers, which come first, then the numbers."""
    if not isinstance(X, pd.DataFrame):
        return "passthrough"
    code = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=np.nan, max_categories=most)
    return make_column_transformer((code, WORDS), ("passthrough", NUMBERS))


def _places(X: Any) -> list[int]:
    """Return the columns that `_coded` makes of words."""
    return list(range(len(WORDS(X)))) if isinstance(X, pd.DataFrame) else []


def _ridge(X: Any, y: Any, seed: int) -> Predict:
    """Fit ridge regression; leave-one-out errors determine the width and the penalty."""
    model = make_pipeline(_scaled(X), RidgeCV(PENALTIES)).fit(X, y)
    width = float(np.sqrt(-model[-1].best_score_))
    return lambda rows: (model.predict(rows), np.full(len(rows), width))


def _logistic(X: Any, seed: int) -> Any:
    return make_pipeline(_scaled(X), LogisticRegression(max_iter=1000))


def trees(kind: Any, X: Any, seed: int) -> Any:
    return make_pipeline(_coded(X, 254), kind(categorical_features=_places(X), random_state=seed))


def network(X: Any, seed: int) -> Any:
    inner = make_pipeline(_scaled(X), MLPRegressor(random_state=seed))
    return TransformedTargetRegressor(inner, transformer=StandardScaler())


def _network_classes(X: Any, seed: int) -> Any:
    return make_pipeline(_scaled(X), MLPClassifier(random_state=seed))


def _gaussian_process(X: Any, y: Any, seed: int) -> Predict:
    """Fit one length scale per column and the noise.

    Length scales start at the typical distance of rows, √d. With many columns, no two rows are close on a
    length scale of 1, and all variation is fitted as noise.
    """
    d = X.shape[1]
    kernel = ConstantKernel() * RBF(np.full(d, np.sqrt(d))) + WhiteKernel()
    process = GaussianProcessRegressor(kernel, normalize_y=True, random_state=seed)
    model = make_pipeline(StandardScaler(), process).fit(X, y)
    return lambda rows: model.predict(rows, return_std=True)


def _lightgbm(name: str, X: Any, seed: int) -> Any:
    import lightgbm

    kind = getattr(lightgbm, name)
    model = kind(categorical_feature=_places(X), random_state=seed, n_jobs=1, verbose=-1)
    return make_pipeline(_coded(X), model)


def _filled(X: Any) -> Any:
    """Replace gaps among words, which CatBoost does not accept."""
    X = pd.DataFrame(X)
    return X.assign(**{name: X[name].astype(object).fillna("(missing)").astype(str) for name in WORDS(X)})


def _catboost(name: str, X: Any, seed: int, **settings: Any) -> Any:
    import catboost

    quiet = {"verbose": False, "allow_writing_files": False, "thread_count": 1, **settings}
    words = WORDS(pd.DataFrame(X))
    return getattr(catboost, name)(cat_features=words, random_seed=seed, **quiet)


def catboost_uncertain(X: Any, y: Any, seed: int, **settings: Any) -> Predict:
    """Fit CatBoost with its own variance for each row."""
    loss = {"loss_function": "RMSEWithUncertainty", **settings}
    model = _catboost("CatBoostRegressor", X, seed, **loss).fit(_filled(X), y)

    def predict(rows: Any) -> tuple[Any, Any]:
        mean, variance = model.predict(_filled(rows)).T
        return mean, np.sqrt(variance)

    return predict


def catboost_plain(X: Any, y: Any, seed: int) -> Predict:
    """Fit CatBoost by its default loss, with one width for all rows."""
    X = _filled(X)
    predict = with_width(_catboost("CatBoostRegressor", X, seed), X, y, seed)
    return lambda rows: predict(_filled(rows))


def catboost_classes(X: Any, y: Any, seed: int, **settings: Any) -> Predict:
    """Fit CatBoost's classifier."""
    model = _catboost("CatBoostClassifier", X, seed, **settings).fit(_filled(X), y)
    return lambda rows: model.predict_proba(_filled(rows))


def _stopped_early(X: Any, y: Any, seed: int, **settings: Any) -> Any:
    """Fit CatBoost until rows of a fifth, which are held out, are not predicted better for 50 trees."""
    A, B, a, b = train_test_split(_filled(X), y, test_size=0.2, random_state=seed)
    model = _catboost("CatBoostRegressor", X, seed, **settings)
    return model.fit(A, a, eval_set=(B, b), early_stopping_rounds=50)


def catboost_early(X: Any, y: Any, seed: int) -> Predict:
    """Fit CatBoost with its own variance for each row, stopped early."""
    model = _stopped_early(X, y, seed, loss_function="RMSEWithUncertainty")

    def predict(rows: Any) -> tuple[Any, Any]:
        mean, variance = model.predict(_filled(rows)).T
        return mean, np.sqrt(variance)

    return predict


def catboost_early_classes(X: Any, y: Any, seed: int) -> Predict:
    """Fit CatBoost's classifier, stopped early."""
    A, B, a, b = train_test_split(_filled(X), y, test_size=0.2, random_state=seed, stratify=y)
    model = _catboost("CatBoostClassifier", X, seed).fit(A, a, eval_set=(B, b), early_stopping_rounds=50)
    return lambda rows: model.predict_proba(_filled(rows))


def _catboost_quantiles(X: Any, y: Any, seed: int) -> Predict:
    levels = ",".join(f"{q:g}" for q in levels_of(N_QUANTILES))
    model = _stopped_early(X, y, seed, loss_function=f"MultiQuantile:alpha={levels}")
    return lambda rows: Quantiles(model.predict(_filled(rows)))


def _lightgbm_quantiles(X: Any, y: Any, seed: int) -> Predict:
    """Fit one model for each level, with LightGBM's defaults."""
    models = []
    for level in levels_of(N_QUANTILES):
        model = _lightgbm("LGBMRegressor", X, seed)
        model[-1].set_params(objective="quantile", alpha=float(level))
        models.append(model.fit(X, y))
    return lambda rows: Quantiles(np.stack([model.predict(rows) for model in models], axis=1))


def _quantile_forest(X: Any, y: Any, seed: int) -> Predict:
    from quantile_forest import RandomForestQuantileRegressor

    model = RandomForestQuantileRegressor(random_state=seed, n_jobs=1).fit(X, y)
    levels = levels_of(N_QUANTILES).tolist()
    return lambda rows: Quantiles(model.predict(rows, quantiles=levels))


def _ngboost(X: Any, y: Any, seed: int) -> Predict:
    from ngboost import NGBRegressor

    model = NGBRegressor(verbose=False, random_state=seed).fit(X, y)

    def predict(rows: Any) -> tuple[Any, Any]:
        found = model.pred_dist(rows).params
        return found["loc"], found["scale"]

    return predict


def _ngboost_classes(X: Any, y: Any, seed: int) -> Predict:
    from ngboost import NGBClassifier
    from ngboost.distns import k_categorical

    known, number = np.unique(y, return_inverse=True)
    model = NGBClassifier(Dist=k_categorical(len(known)), verbose=False, random_state=seed)
    return model.fit(X, number).predict_proba


OPPONENTS = {
    "mean": Opponent(_mean, _frequencies),
    "ridge": Opponent(_ridge, _classification(_logistic)),
    "catboost": Opponent(catboost_plain, catboost_classes, "catboost"),
    "catboost-ll": Opponent(catboost_uncertain, None, "catboost"),
    "catboost-early": Opponent(catboost_early, catboost_early_classes, "catboost"),
    "catboost-quantiles": Opponent(_catboost_quantiles, None, "catboost"),
    "lightgbm-quantiles": Opponent(_lightgbm_quantiles, None, "lightgbm"),
    "quantile-forest": Opponent(_quantile_forest, None, "quantile_forest"),
    "hgb": Opponent(
        _regression(lambda X, seed: trees(HistGradientBoostingRegressor, X, seed)),
        _classification(lambda X, seed: trees(HistGradientBoostingClassifier, X, seed)),
    ),
    "lightgbm": Opponent(
        _regression(lambda X, seed: _lightgbm("LGBMRegressor", X, seed)),
        _classification(lambda X, seed: _lightgbm("LGBMClassifier", X, seed)),
        "lightgbm",
    ),
    "gp": Opponent(_gaussian_process, None, largest=2000),
    "mlp": Opponent(_regression(network), _classification(_network_classes)),
    "ngboost": Opponent(_ngboost, _ngboost_classes, "ngboost"),
}
FRAMES = (
    "catboost",
    "catboost-ll",
    "catboost-early",
    "hgb",
    "lightgbm",
    "ridge",
)  # models that accept words and gaps
SLOW = ("mlp", "ngboost")


def fit_and_score(model: str, split: Split, task: str, seed: int) -> Figures:
    """Fit one opponent on one core and score it on the test rows."""
    fit = getattr(OPPONENTS[model], task)
    with warnings.catch_warnings(), threadpool_limits(1):
        warnings.simplefilter("ignore")
        clock = Clock()
        predict = fit(split.X_train, split.y_train, seed)
        seconds = clock.read()
        found = predict(split.X_test)
    if task == "classification":
        return labels(split.y_test, np.unique(split.y_train), np.asarray(found)) | seconds
    law = found if isinstance(found, Quantiles) else Gaussian(*found)
    return distribution(law, split.y_test) | seconds


def installed(models: list[str]) -> list[str]:
    """Return the models whose packages are installed, and report the others."""
    absent = [m for m in models if OPPONENTS[m].package and find_spec(OPPONENTS[m].package) is None]
    for model in absent:
        print(f"{model} is skipped; to include it: pip install {OPPONENTS[model].package}")
    return [model for model in models if model not in absent]


def work(table: str, model: str, split: int) -> dict[str, Any]:
    """Fit and score one model on one split, whose number is also the seed; return the error if that fails."""
    known = TABLES[table]
    try:
        rows = known.raw(split) if model.startswith("catboost") else known.split(split)
        return fit_and_score(model, rows, known.task, split)
    except Exception as error:  # the failure of an opponent is a result
        return {"failed": f"{type(error).__name__}: {error}"[:200]}


def work_uci(dataset: str, model: str, split: int) -> dict[str, Any]:
    """Fit and score one model on one UCI split."""
    data = load_uci(dataset)
    train, test = data.splits[split]
    rows = Split(data.X[train], data.y[train], data.X[test], data.y[test])
    return fit_and_score(model, rows, "regression", split)


def plan(tables: list[str], models: list[str], splits: int) -> list[tuple[str, str, int]]:
    """Return all possible runs; slow models on large tables are last."""
    pairs = [(table, model) for table in tables for model in models if _applies(table, model)]
    order = sorted(pairs, key=lambda pair: pair[0] in LARGE and 1 + (pair[1] in SLOW))
    return [(table, model, k) for table, model in order for k in range(splits)]


def _applies(table: str, model: str) -> bool:
    opponent, known = OPPONENTS[model], TABLES[table]
    if getattr(opponent, known.task) is None:
        return False
    return opponent.largest == float("inf") or len(known.split(0).y_train) <= opponent.largest


def main() -> None:
    p = options(__doc__)
    p.add_argument("--tables", type=some(tuple(TABLES)), default=list(TABLES), metavar="NAME,...")
    p.add_argument("--models", type=some(tuple(OPPONENTS)), default=list(OPPONENTS), metavar="NAME,...")
    p.add_argument("--uci", type=some(tuple(UCI)), metavar="NAME,...", help="use these UCI sets instead")
    p.add_argument("--splits", type=int, default=SPLITS)
    args = p.parse_args()
    if args.uci:
        count = {name: min(len(load_uci(name).splits), args.splits) for name in args.uci}
        models = [m for m in installed(args.models) if OPPONENTS[m].largest == float("inf")]
        runs = [(d, m, k) for k in range(args.splits) for m in models for d in args.uci if k < count[d]]
        out = args.out or RESULTS / "uci_opponents.json"
        complete(out, ("dataset", "model", "split"), work_uci, runs, jobs=args.jobs, force=args.force)
        return
    tasks = plan(args.tables, installed(args.models), args.splits)
    out = args.out or RESULTS / "opponents.json"
    complete(out, ("table", "model", "split"), work, tasks, jobs=args.jobs, force=args.force)


if __name__ == "__main__":
    main()
