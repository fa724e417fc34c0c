"""Survival times: TGGMRegressor and three models of scikit-survival, on data sets that it contains.

    python experiments/survival.py [gbsg2,veterans] [--splits 3]

Each split takes a fifth of the rows for the test, at most 400, and at most 1,600 for training. The grid of
times is 20 quantiles, from 10 % to 80 %, of the training times. "harrell" is the concordance index of the
mean predicted survival, and "brier" the integrated Brier score, with the censoring of the test rows.
"calibration" is the largest distance, over the times, of the mean predicted survival of the test rows from
their Kaplan-Meier estimate, and "errors" the largest one in standard errors of this estimate. For the other
models tables are encoded: one column for each category, missing values replaced by medians, standardised.
The column "chapter" of flchain, the cause of death, is left out. Results go to
experiments/results/survival.json.
"""

from typing import Any

import numpy as np
import store

from tggm import TGGMRegressor

PATH = store.RESULTS / "survival.json"
NAMES = {
    "gbsg2": "gbsg2", "whas500": "whas500", "veterans": "veterans_lung_cancer", "aids": "aids",
    "flchain": "flchain", "breast_cancer": "breast_cancer",
}  # fmt: skip
METHODS = ("tggm", "cox", "forest", "boosting")
MOST_TEST, MOST_TRAIN = 400, 1600


def load(name: str, split: int) -> tuple[Any, ...]:
    """Return training and test rows: tables and structured arrays of event and time."""
    import sksurv.datasets

    X, y = getattr(sksurv.datasets, f"load_{NAMES[name]}")()
    X = X.drop(columns="chapter", errors="ignore")
    order = np.random.default_rng([split, 38]).permutation(len(y))
    n = min(len(y) // 5, MOST_TEST)
    test, train = order[:n], order[n : n + MOST_TRAIN]
    return X.iloc[train], y[train], X.iloc[test], y[test]


def other(method: str, X: Any, y: Any) -> Any:
    """Fit a model of scikit-survival."""
    from sklearn.compose import make_column_selector, make_column_transformer
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler
    from sksurv.ensemble import GradientBoostingSurvivalAnalysis, RandomSurvivalForest
    from sksurv.linear_model import CoxPHSurvivalAnalysis

    numbers = make_column_selector(dtype_include="number")
    words = make_column_selector(dtype_exclude="number")
    encode = make_column_transformer(
        (make_pipeline(SimpleImputer(strategy="median"), StandardScaler()), numbers),
        (OneHotEncoder(drop="first", handle_unknown="ignore", sparse_output=False), words),
    )
    models = {
        "cox": CoxPHSurvivalAnalysis(alpha=0.1),
        "forest": RandomSurvivalForest(n_estimators=100, min_samples_leaf=10, random_state=0),
        "boosting": GradientBoostingSurvivalAnalysis(random_state=0),
    }
    return make_pipeline(encode, models[method]).fit(X, y)


def measure(name: str, split: int, method: str) -> store.Run:
    """Fit, and return scores on the test rows."""
    from sksurv import metrics
    from sksurv.nonparametric import kaplan_meier_estimator

    X, y, X_new, y_new = load(name, split)
    event, time = y.dtype.names
    most = min(y[time].max(), y_new[time].max())
    times = np.unique(np.quantile(y[time][y[time] < most], np.linspace(0.1, 0.8, 20)))
    times = times[(times > y_new[time].min()) & (times < most)]
    clock = store.Clock()
    if method == "tggm":
        model: Any = TGGMRegressor(random_state=0).fit(X, y)
        survival, seconds = model.predict_survival(X_new, times), clock.read()
    else:
        model = other(method, X, y)
        survival = np.stack([f(times) for f in model.predict_survival_function(X_new)])
        seconds = clock.read()
    t, S, ends = kaplan_meier_estimator(y_new[event], y_new[time], conf_type="log-log")
    place = np.searchsorted(t, times, side="right") - 1
    distance, error = np.abs(survival.mean(0) - S[place]), np.diff(ends[:, place], axis=0)[0] / (2 * 1.96)
    return {
        "harrell": float(metrics.concordance_index_censored(y_new[event], y_new[time], -survival.mean(1))[0]),
        "brier": float(metrics.integrated_brier_score(y_new, y_new, survival, times)),
        "calibration": float(distance.max()),
        "errors": float((distance / error).max()),
    } | seconds


def main() -> None:
    """Run the command."""
    parser = store.options(__doc__)
    parser.add_argument("names", nargs="?", type=store.some([*NAMES]), default=[*NAMES], help="a,b,...")
    parser.add_argument("--splits", type=int, default=3)
    given = parser.parse_args()
    tasks = [(n, k, m) for k in range(given.splits) for n in given.names for m in METHODS]
    fields, path = ("name", "split", "method"), given.out or PATH
    store.complete(path, fields, measure, tasks, jobs=given.jobs, force=given.force)


if __name__ == "__main__":
    main()
