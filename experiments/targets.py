"""Targets with limits and steps: scores of TGGMRegressor and of other methods.

Generated targets have 2,000 training and 4,000 test rows; of Wine and Boston, the training part of each split
is divided at random into 80 % and 20 %, and the test part is not used. "tggm" is support="auto", and "smooth"
is support=None. The distribution of "lightgbm tweedie" has the power 1.5, and the dispersion of the training
rows' Pearson residuals; "lightgbm quantiles" is 20 models. Methods that are not installed are left out.
Results go to experiments/results/targets.json.

    python experiments/targets.py [wine,counts] [--splits 3] [--methods tggm,smooth]
"""

from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from typing import Any

import numpy as np
import store
from datasets import load_uci
from scipy import stats
from scores import new_rows

from tggm import TGGMClassifier, TGGMRegressor

PATH = store.RESULTS / "targets.json"
LEVELS = (0.5, 0.8, 0.9)
ROWS, TEST, COLUMNS = 2000, 4000, 6
Pair = tuple[np.ndarray, np.ndarray]


def signal(X: np.ndarray) -> np.ndarray:
    """Return a smooth function of three columns, with mean 0 and deviation 1."""
    return (np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.5 * X[:, 1]) / 1.35


def claims(X: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draw 92 % zeros; the other values are lognormal (a compound Poisson process)."""
    count = rng.poisson(np.exp(0.8 * signal(X) - 2.8))
    sizes = np.exp(6 + 0.5 * X[:, 3] + rng.standard_normal(len(X)))
    return np.where(count > 0, count * sizes, 0.0)


def spending(X: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draw a latent normal, 0 where it is negative."""
    return np.maximum(signal(X) + 0.7 * rng.standard_normal(len(X)), 0.0)


def rain(X: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draw gamma values and, independently of their size, 60 % zeros."""
    wet = rng.random(len(X)) < 1 / (1 + np.exp(0.5 - 1.5 * X[:, 4]))
    return np.where(wet, rng.gamma(1.5, np.exp(0.6 * signal(X))), 0.0)


def counts(X: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draw Poisson counts of a mean around 2."""
    return rng.poisson(np.exp(0.7 + 0.6 * signal(X))).astype(float)


def overdispersed(X: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draw negative binomial counts."""
    return rng.poisson(rng.gamma(1.5, np.exp(1.5 + 0.8 * signal(X)) / 1.5)).astype(float)


def inflated(X: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draw Poisson counts with additional zeros of another cause."""
    zero = rng.random(len(X)) < 1 / (1 + np.exp(1 - X[:, 4]))
    return np.where(zero, 0, rng.poisson(np.exp(1.2 + 0.6 * signal(X)))).astype(float)


def rates(X: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draw shares with zeros and ones."""
    return np.clip(0.5 + 0.4 * signal(X) + 0.25 * rng.standard_normal(len(X)), 0.0, 1.0)


def capped(X: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draw lognormal prices, capped at 50."""
    return np.minimum(np.exp(3 + 0.5 * signal(X) + 0.25 * rng.standard_normal(len(X))), 50.0)


def grades(X: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draw whole numbers around a mean of 6, with a deviation of 0.6."""
    return np.round(6 + 0.6 * signal(X) + 0.6 * rng.standard_normal(len(X)))


def cents(X: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draw lognormal prices around 5, in cents."""
    return np.round(np.exp(1.6 + 0.5 * signal(X) + 0.3 * rng.standard_normal(len(X))), 2)


COUNTS, SCALES, ZEROS = (counts, overdispersed, inflated), (rates, capped, cents), (claims, spending, rain)
GENERATED = {f.__name__: f for f in (*ZEROS, *COUNTS, *SCALES, grades)}
NAMES = [*GENERATED, "wine", "boston"]
GRADED = ["grades", "wine"]
QUANTILES = [n for n in NAMES if n not in GRADED]


def rows_of(name: str, split: int) -> tuple[Pair, Pair]:
    """Return training and test rows."""
    rng = np.random.default_rng([split, 38])
    if name in ("wine", "boston"):
        data = load_uci(name)
        part = data.splits[split][0]
        X, y = data.X[part], data.y[part]
        order = rng.permutation(len(y))
        train, test = np.split(order, [round(0.8 * len(y))])
        return (X[train], y[train]), (X[test], y[test])
    X = rng.standard_normal((ROWS + TEST, COLUMNS))
    y = GENERATED[name](X, rng)
    return (X[:ROWS], y[:ROWS]), (X[ROWS:], y[ROWS:])


# ---- other methods: quantiles (rows, levels) at even levels, and log-probabilities of the test targets ----


def levels(count: int) -> np.ndarray:
    return (np.arange(count) + 0.5) / count


def of_law(law: Any, y: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
    """Return quantiles of a distribution of SciPy, and log-probabilities if it is discrete."""
    quantiles = np.stack([law.ppf(q) for q in levels(200)], axis=1)
    return quantiles, law.logpmf(y) if hasattr(law.dist, "pmf") else None


def lightgbm(objective: str, X: np.ndarray, y: np.ndarray, **more: Any) -> Any:
    from lightgbm import LGBMRegressor

    return LGBMRegressor(objective=objective, random_state=0, verbose=-1, n_jobs=1, **more).fit(X, y)


def lightgbm_quantiles(X: Any, y: Any, X_new: Any, y_new: Any) -> Any:
    each = [lightgbm("quantile", X, y, alpha=q).predict(X_new) for q in levels(20)]
    return np.sort(np.stack(each, axis=1), axis=1), None


def lightgbm_poisson(X: Any, y: Any, X_new: Any, y_new: Any) -> Any:
    return of_law(stats.poisson(np.maximum(lightgbm("poisson", X, y).predict(X_new), 1e-6)), y_new)


def lightgbm_tweedie(X: Any, y: Any, X_new: Any, y_new: Any) -> Any:
    """Use a compound Poisson process of gamma variables, by 200 draws."""
    model, power, rng = lightgbm("tweedie", X, y, tweedie_variance_power=1.5), 1.5, np.random.default_rng(0)
    old, mean = model.predict(X), model.predict(X_new)[:, None]
    phi = np.mean((y - old) ** 2 / old**power)
    n = rng.poisson(np.broadcast_to(mean ** (2 - power) / (phi * (2 - power)), (len(mean), 200)))
    shape = (2 - power) / (power - 1)
    draws = np.where(n > 0, rng.gamma(np.maximum(n, 1) * shape), 0.0)
    return np.sort(draws * phi * (power - 1) * mean ** (power - 1), axis=1), None


def ngboost(kind: str, X: Any, y: Any, X_new: Any, y_new: Any) -> Any:
    from ngboost import NGBRegressor, distns

    model = NGBRegressor(Dist=getattr(distns, kind), verbose=False, random_state=0).fit(X, y)
    return of_law(model.pred_dist(X_new).dist, y_new)


def statsmodels_counts(kind: str, X: Any, y: Any, X_new: Any, y_new: Any) -> Any:
    """Fit a linear model of the logarithm of the mean."""
    import statsmodels.api as sm

    A, B = sm.add_constant(X), sm.add_constant(X_new)
    if kind == "zip":
        found = sm.ZeroInflatedPoisson(y, A, exog_infl=A).fit(method="bfgs", maxiter=500, disp=0)
        return of_law(found.get_distribution(B, exog_infl=B), y_new)
    found = sm.NegativeBinomial(y, A).fit(disp=0, maxiter=200)
    mean, size = found.predict(B), 1 / found.params[-1]
    return of_law(stats.nbinom(size, size / (size + mean)), y_new)


def of_classes(p: np.ndarray, values: np.ndarray, y: np.ndarray) -> Any:
    places = np.clip(np.searchsorted(values, y), 0, len(values) - 1)
    own = np.where(values[places] == y, p[np.arange(len(y)), places], 0.0)
    cdf = np.cumsum(p, axis=1)
    index = (cdf[:, None, :] < levels(200)[None, :, None]).sum(2)
    return values[np.minimum(index, len(values) - 1)], np.log(np.maximum(own, 1e-6))


def ordinal(X: Any, y: Any, X_new: Any, y_new: Any) -> Any:
    """Fit a proportional-odds model."""
    from statsmodels.miscmodels.ordinal_model import OrderedModel

    shift, scale, values = X.mean(0), X.std(0), np.unique(y)
    model = OrderedModel(np.searchsorted(values, y), (X - shift) / scale, distr="logit")
    found = model.fit(method="bfgs", disp=0, maxiter=200)
    return of_classes(np.asarray(model.predict(found.params, (X_new - shift) / scale)), values, y_new)


def classifier(X: Any, y: Any, X_new: Any, y_new: Any) -> Any:
    model = TGGMClassifier(random_state=0).fit(X, y)
    return of_classes(model.predict_proba(X_new), model.classes_, y_new)


def two_parts(X: Any, y: Any, X_new: Any, y_new: Any) -> Any:
    """Predict zeros by a classifier, and the other values by a regressor of the rows that have them."""
    some, lattice = y > 0, bool(np.all(y == np.round(y)))
    p = TGGMClassifier(random_state=0).fit(X, some).predict_proba(X_new)[:, 1:]
    model = TGGMRegressor(support=(1, None, 1) if lattice else "auto", random_state=0)
    rest, q = model.fit(X[some], y[some]).predict_dist(X_new), levels(200)[None]
    quantiles = np.where(q <= 1 - p, 0.0, rest.ppf(np.clip((q - 1 + p) / p, 1e-9, 1 - 1e-9)))
    if not lattice:
        return quantiles, None
    log = np.log(p[:, 0]) + rest.logpmf(np.maximum(y_new, 1))
    return quantiles, np.where(y_new > 0, log, np.log1p(-p[:, 0]))


def xgboostlss(kind: str, X: Any, y: Any, X_new: Any, y_new: Any) -> Any:
    """Choose the number of trees by five folds."""
    import xgboost
    from xgboostlss import distributions
    from xgboostlss.model import XGBoostLSS

    option = "response_fn" if kind == "ZIPoisson" else "response_fn_total_count"
    model = XGBoostLSS(getattr(getattr(distributions, kind), kind)(**{option: "exp"}))
    train, new = xgboost.DMatrix(X, label=y, nthread=1), xgboost.DMatrix(X_new, nthread=1)
    given = {"eta": 0.1, "max_depth": 3, "nthread": 1, "seed": 0}
    folds = model.cv(given, train, num_boost_round=300, nfold=5, early_stopping_rounds=10, seed=0)
    model.train(given, train, num_boost_round=len(folds))
    first, second = (a[:, None] for a in model.predict(new, pred_type="parameters").to_numpy().T)
    q, at = levels(200)[None], y_new[:, None]
    if kind == "ZIPoisson":  # rate and probability of additional zeros
        inside = np.clip((q - second) / (1 - second), 0.0, 1.0)
        log = np.log(np.maximum(second * (at == 0) + (1 - second) * stats.poisson.pmf(at, first), 1e-20))
        return np.maximum(stats.poisson.ppf(inside, first), 0.0), log[:, 0]
    law = stats.nbinom(first, 1 - second)
    return law.ppf(q), law.logpmf(at)[:, 0]


OTHERS: dict[str, tuple[str, Callable[..., Any], list[str]]] = {
    "lightgbm quantiles": ("lightgbm", lightgbm_quantiles, QUANTILES),
    "lightgbm poisson": ("lightgbm", lightgbm_poisson, [f.__name__ for f in COUNTS]),
    "lightgbm tweedie": ("lightgbm", lightgbm_tweedie, [f.__name__ for f in ZEROS]),
    "ngboost poisson": ("ngboost", partial(ngboost, "Poisson"), [f.__name__ for f in COUNTS]),
    "ngboost lognormal": ("ngboost", partial(ngboost, "LogNormal"), ["capped", "cents", "boston"]),
    "ngboost normal": ("ngboost", partial(ngboost, "Normal"), ["rates", "capped", *GRADED, "boston"]),
    "statsmodels zip": ("statsmodels", partial(statsmodels_counts, "zip"), [f.__name__ for f in COUNTS]),
    "statsmodels nb": ("statsmodels", partial(statsmodels_counts, "nb"), [f.__name__ for f in COUNTS]),
    "ordinal logit": ("statsmodels", ordinal, GRADED),
    "tggm classifier": ("tggm", classifier, GRADED),
    "tggm two parts": ("tggm", two_parts, ["claims", "spending", "overdispersed", "inflated"]),
    "xgboostlss zip": ("xgboostlss", partial(xgboostlss, "ZIPoisson"), [f.__name__ for f in COUNTS]),
    "xgboostlss nb": ("xgboostlss", partial(xgboostlss, "NegativeBinomial"), [f.__name__ for f in COUNTS]),
}
METHODS = ["tggm", "smooth", *OTHERS]


def scores(X: np.ndarray, X_new: np.ndarray, crps: np.ndarray, log: np.ndarray | None) -> store.Run:
    """Return mean scores of the test rows, and of those whose inputs are not in a training row ("new")."""
    new = new_rows(X, X_new)
    found: store.Run = {"crps": float(crps.mean()), "crps_se": float(crps.std() / np.sqrt(len(crps)))}
    if log is not None:
        found["log_probability"] = float(log.mean())
    if not new.all():
        found["crps_new"] = float(crps[new].mean())
        found |= {} if log is None else {"log_probability_new": float(log[new].mean())}
    return found


def measure(name: str, split: int, method: str, *, epochs: int | str) -> store.Run:
    """Fit, and return scores on the test rows."""
    (X, y), (X_new, y_new) = rows_of(name, split)
    clock = store.Clock()
    if method in OTHERS:
        quantiles, log = OTHERS[method][1](X, y, X_new, y_new)
        seconds, q = clock.read(), levels(quantiles.shape[1])
        away = y_new[:, None] - quantiles
        found = scores(X, X_new, 2 * np.mean(away * (q - (away < 0)), axis=1), log)
        for level in LEVELS:
            low, high = (np.quantile(quantiles, p, axis=1) for p in (0.5 - level / 2, 0.5 + level / 2))
            found[f"inside{level:.0%}"] = float(np.mean((low <= y_new) & (y_new <= high)))
        return found | seconds
    model = TGGMRegressor(support="auto" if method == "tggm" else None, random_state=0, max_epochs=epochs)
    model.fit(X, y)
    seconds, law = clock.read(), model.predict_dist(X_new)
    lattice = model.support_ is not None and model.support_[2] is not None
    log = law.logpmf(y_new) if lattice else None
    found = {"chosen": str(model.support_)} | scores(X, X_new, law.crps(y_new), log)
    for level in LEVELS:
        low, high = law.interval(level)
        found[f"inside{level:.0%}"] = float(np.mean((low <= y_new) & (y_new <= high)))
    found["rmse"] = float(np.sqrt(np.mean((law.mean() - y_new) ** 2)))
    pit = np.sort(law.pit(y_new))
    found["pit"] = float(np.abs(pit - (np.arange(len(pit)) + 0.5) / len(pit)).max())  # Kolmogorov's distance
    found["tenths"] = (np.histogram(pit, 10, (0, 1))[0] / len(pit)).tolist()
    return found | seconds


def main() -> None:
    """Run the command."""
    parser = store.options(__doc__)
    parser.add_argument("names", nargs="?", type=store.some(NAMES), default=NAMES, help="targets: a,b,...")
    parser.add_argument("--splits", type=int, default=1)
    parser.add_argument("--methods", type=store.some(METHODS), default=METHODS, help="methods: a,b,...")
    parser.add_argument("--epochs", type=int, help="instead of the default program")
    given = parser.parse_args()
    tasks = [
        (name, split, method)
        for split in range(given.splits) for name in given.names for method in given.methods
        if method not in OTHERS or (name in OTHERS[method][2] and find_spec(OTHERS[method][0]))
    ]  # fmt: skip
    work, path = partial(measure, epochs=given.epochs or "auto"), given.out or PATH
    store.complete(
        path, ("name", "split", "method"), work, tasks,
        jobs=given.jobs, force=given.force, epochs=given.epochs,
    )  # fmt: skip


if __name__ == "__main__":
    main()
