"""Repeat Tables 1 and 2 of the paper, and measure each choice that the paper leaves open.

    TGGM_DATA=... python experiments/paper.py choose [--data yacht,mnist] [--models ml] [--variants rate=0.03]
    TGGM_DATA=... python experiments/paper.py score [--data boston,kin8nm] [--splits 20] [--jobs 16]
    TGGM_DATA=... python experiments/paper.py score --data mnist [--hidden 200-200] [--seeds 5]

`choose` scores hold-outs of the training rows: a tenth of each split's, 10,000 images, a sixth of the
documents, with the settings `START`. `score` trains on all training rows and scores the test rows, with the
settings that were best there, `CHOSEN`. A variant is a list of changes such as "rate=0.03,longer=0.5"; "base"
has none, and "open" stands for all single changes, `OPEN`. Regressions have one run per split, whose number
is the seed; classifiers are fitted as one ensemble whose members, one per seed, are scored one by one.
Regressions need no accelerator (use --jobs); digits and documents are faster with one.

`relu` is a ReLU network trained by the same loop: TGGM-BP with σ0 = 1e-4, whose activation is within 0.8 σ0
of max(μ, 0). Results go to experiments/results/paper_MODE_KIND.json.
"""

import json
from functools import cache
from typing import Any, NamedTuple

import jax
import numpy as np
from datasets import Documents, load_20newsgroups, load_mnist, load_poliblog, load_uci
from scipy import sparse
from scores import Gaussian, calibration, distribution, rms
from sklearn.linear_model import LogisticRegression
from store import RESULTS, Clock, complete, options, some

from tggm.paper import PaperClassifier, PaperRegressor
from tggm.paper._estimators import predictions, prepare
from tggm.paper._model import Objective
from tggm.predictive.member_moments import class_mixture
from tggm.training import Rows

UCI = ("boston", "concrete", "energy", "kin8nm", "naval", "power", "protein", "wine", "yacht")
CLASSES = ("mnist", "news", "blogs")
MODELS = ("relu", "bp", "ml", "linear")
HIDDEN = ("100", "200", "100-100", "200-200")
RELU_SIGMA0 = 1e-4
MEASURED = 1000  # test rows of the first split on which likelihoods are compared
TEXT_STRENGTHS = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
STRENGTHS = {"mnist": (0.01, 0.03, 0.1, 0.3), "news": TEXT_STRENGTHS, "blogs": TEXT_STRENGTHS}
Settings = dict[str, Any]

# The paper's settings of each data set.
PAPER: dict[str, Settings] = {name: {"hidden": (50,), "batch_size": 50} for name in UCI}
PAPER["protein"] = {"hidden": (100,), "batch_size": 100}
PAPER |= {"mnist": {"batch_size": 500}, "news": {"batch_size": 200}, "blogs": {"batch_size": 200}}
# What the paper leaves open. `inputs` and `targets` are the standard deviations to which the columns of X and
# y are scaled; "keep" is "last", or "best": the best epoch on a held-out tenth. `choose` changes START.
START: dict[tuple[str, ...], Settings] = {
    ("all",): {"schedule": "cosine", "inputs": 1.0, "targets": 1.0, "keep": "last"},
    ("uci", "bp"): {"rate": 3e-3, "epochs": 1000},
    ("protein", "bp"): {"epochs": 200},
    ("uci", "ml"): {"rate": 3e-2, "epochs": 1000, "targets": 2.0},
    ("kin8nm", "ml"): {"epochs": 400},
    ("naval", "ml"): {"epochs": 300},
    ("power", "ml"): {"epochs": 400},
    ("protein", "ml"): {"epochs": 200},
    ("mnist", "bp"): {"rate": 5e-3, "epochs": 20},
    ("mnist", "ml"): {"rate": 5e-3, "epochs": 60, "solver": "newton"},
    ("news", "bp"): {"rate": 3e-3, "epochs": 60, "keep": "best"},
    ("news", "bp", "deep"): {"epochs": 20},
    ("news", "ml"): {"rate": 3e-3, "epochs": 60, "keep": "best", "inputs": "columns", "solver": "newton"},
    ("news", "ml", "deep"): {"epochs": 20},
    ("blogs", "bp"): {"rate": 1e-3, "epochs": 150, "keep": "best"},
    ("blogs", "bp", "deep"): {"epochs": 40},
    ("blogs", "ml"): {"rate": 3e-3, "epochs": 150, "keep": "best", "inputs": "columns", "solver": "newton"},
    ("blogs", "ml", "deep"): {"rate": 1e-3, "epochs": 40},
}
# What `score` changes, chosen on training rows.
CHOSEN: dict[tuple[str, ...], Settings] = {
    ("boston", "bp"): {"rate": 1e-2, "epochs": 300},
    ("concrete", "bp"): {"epochs": 300},
    ("kin8nm", "bp"): {"epochs": 300},
    ("naval", "bp"): {"epochs": 500},
    ("power", "bp"): {"epochs": 300},
    ("wine", "bp"): {"epochs": 100},
    ("yacht", "bp"): {"rate": 1e-2},
    ("boston", "ml"): {"rate": 1e-2, "targets": 1.0},
    ("concrete", "ml"): {"inputs": 2.0},
    ("energy", "ml"): {"rate": 1e-2, "epochs": 500, "targets": 7.0, "inputs": 7.0},
    ("kin8nm", "ml"): {"rate": 1e-2, "targets": 4.0},
    ("naval", "ml"): {"epochs": 200, "targets": 4.0},
    ("power", "ml"): {"rate": 1e-2, "epochs": 100, "targets": 7.0, "inputs": 7.0},
    ("protein", "ml"): {"rate": 5e-4, "targets": 1.0, "inputs": 56.0},
    ("wine", "ml"): {"rate": 1e-2, "epochs": 300},
    ("yacht", "ml"): {"targets": 4.0},
    ("mnist", "ml"): {"inputs": "whole"},
    ("mnist", "ml", "shallow"): {"epochs": 240},
    ("news", "relu", "shallow"): {"rate": 1e-3},
    ("news", "relu", "deep"): {"epochs": 60},
    ("blogs", "relu", "deep"): {"epochs": 150},
}
# Variants that change one choice, by kind of data and model.
OPEN: dict[tuple[str, str], tuple[str, ...]] = {
    ("uci", "ml"): (
        "base", "rate=0.01", "rate=0.1", "schedule=constant", "schedule=constant,keep=best", "targets=1",
        "targets=4", "inputs=0.5", "inputs=2", "solver=newton", "reading=precision", "init=scaled",
        "method=ep", "noise=null", "sigma0=0.1,noise=0.01",
    ),
    ("uci", "bp"): (
        "base", "rate=0.001", "rate=0.01", "schedule=constant", "schedule=constant,keep=best", "inputs=0.5",
        "inputs=2", "reading=precision", "init=scaled", "sigma0=0.7071",
    ),
    ("mnist", "ml"): ("base", "rate=0.003", "longer=0.5", "inputs=whole", "schedule=constant,keep=best"),
    ("mnist", "bp"): ("base", "rate=0.003", "longer=2", "inputs=whole", "schedule=constant,keep=best"),
}  # fmt: skip


def chosen(mode: str, data: str, model: str, hidden: str, variant: str) -> Settings:
    """Return the settings of a cell with the changes of a variant."""
    method, depth = "bp" if model == "relu" else model, "deep" if "-" in hidden else "shallow"
    settings: Settings = {}
    for source in (START,) if mode == "choose" else (START, CHOSEN):
        settings |= source.get(("all",), {})
        for name in ("uci", data) if data in UCI else (data,):
            for key in ((method,), (method, depth), (model, depth)):
                settings |= source.get((name, *key), {})
    for change in variant.split(",") if variant != "base" else []:
        name, _, value = change.partition("=")
        try:
            settings[name] = json.loads(value)
        except json.JSONDecodeError:
            settings[name] = value
    settings["epochs"] = round(settings["epochs"] * settings.pop("longer", 1))
    return settings


def estimator(data: str, model: str, settings: Settings, seed: int, **more: Any) -> Any:
    """Return the estimator; settings without a meaning of their own are arguments of it."""
    own = dict(settings)
    arguments: Settings = {
        "learning_rate": own.pop("rate"), "max_epochs": own.pop("epochs"), "patience": None,
        "early_stopping": own.pop("keep") == "best", "standardize": False, "random_state": seed,
    }  # fmt: skip
    inputs = own.pop("inputs")
    own.pop("targets")
    if own.pop("reading", "variance") == "precision":  # σ² = 0.5 and 0.01 are read as precisions
        own |= {"sigma0": 2**0.5, "noise": 2.0} if model == "ml" else {"sigma0": 10.0, "noise": 100.0}
    if data in CLASSES:
        arguments["standardize"] = inputs == "columns" or (inputs == "whole" and "whole")
    if model == "relu":
        arguments |= {"sigma0": RELU_SIGMA0, "deep": "directed"} | (
            {"batch_size": 100} if data in CLASSES else {}
        )
    kind = PaperRegressor if data in UCI else PaperClassifier
    return (kind if model == "ml" else kind.bp)(**{**PAPER[data], **more, **arguments, **own})


def held_out(rows: Any, count: int, seed: int) -> tuple[Any, Any]:
    """Return the rows in a random order without the last `count`, and those."""
    order = np.random.default_rng(seed).permutation(rows)
    return order[:-count], order[-count:]


# regression


def regression(mode: str, data: str, model: str, variant: str, split: int) -> Settings:
    """Fit and score one model on one split, whose number is also the seed."""
    X, y, splits = load_uci(data)
    train, rows = splits[split]
    if mode == "choose":
        train, rows = held_out(train, len(train) // 10, split)
    settings = chosen(mode, data, model, "", variant)
    shift, scale = X[train].mean(0), X[train].std(0) / settings["inputs"]
    scale[scale < 1e-10] = 1.0  # constant columns
    centre, unit = float(y[train].mean()), float(y[train].std()) / settings["targets"]
    fitted, clock = estimator(data, model, settings, split), Clock()
    fitted.fit((X[train] - shift) / scale, (y[train] - centre) / unit)
    times, Z = clock.read(), (X[rows] - shift) / scale
    mean, std = fitted.predict(Z, return_std=True)
    mean, std = mean * unit + centre, std * unit
    if mode == "choose":
        return settings | times | {"rmse": rms(mean - y[rows])} | _training(fitted)
    found = distribution(Gaussian(mean, std), y[rows])
    if model == "ml" and split == 0:
        found |= gaps(fitted, Z[:MEASURED], (y[rows][:MEASURED] - centre) / unit)
    return settings | times | found | _training(fitted)


def gaps(fitted: Any, Z: np.ndarray, y: np.ndarray) -> Settings:
    """Return how far mean field and EP are from the exact log-likelihood of one network, nats per row."""
    with jax.enable_x64(True):
        network = jax.tree.map(lambda a: np.asarray(a[0], np.float64), fitted.model_)
        rows = Rows(Z, y[:, None])
        measure = jax.jit(
            lambda net, rows, method: Objective(method)(net, rows, 0.0).mean(), static_argnums=2
        )
        value = {method: float(measure(network, rows, method)) for method in ("meanfield", "ep", "exact")}
    return {f"{method}_gap": value[method] - value["exact"] for method in ("meanfield", "ep")}


# classification


class Problem(NamedTuple):
    """Training rows and rows to score."""

    X: Any
    y: Any
    X_test: Any
    y_test: Any


def unit_rows(counts: sparse.csr_array, training: sparse.csr_array) -> sparse.csr_array:
    """Return log(1 + count) times the word's log inverse document frequency, rows scaled to length one."""
    X = counts.astype(np.float64)
    X.data = np.log1p(X.data)
    documents = np.asarray((training > 0).sum(axis=0)).reshape(-1)
    X = X @ sparse.diags_array(np.log((1 + training.shape[0]) / (1 + documents)) + 1)
    length = np.sqrt(np.asarray(X.multiply(X).sum(axis=1)).reshape(-1))
    return sparse.csr_array(sparse.diags_array(1 / np.maximum(length, 1e-12)) @ X).astype(np.float32)


def _documents(name: str) -> Problem:
    data: Documents = {"news": load_20newsgroups, "blogs": load_poliblog}[name]()
    train, test = (unit_rows(counts, data.X_train) for counts in (data.X_train, data.X_test))
    return Problem(train, data.y_train, test, data.y_test)


@cache
def problem(data: str, validate: bool) -> Problem:
    """Return training and test rows; with `validate`, training rows and rows held out of them.

    Pixels are between 0 and 1. Training rows are in a random order that is always the same.
    """
    if data == "mnist":
        X, y, X_test, y_test = load_mnist()
        part = Problem(X.astype(np.float32) / 255, y, X_test.astype(np.float32) / 255, y_test)
    else:
        part = _documents(data)
    rows = np.arange(len(part.y))
    train, held = held_out(rows, 10_000 if data == "mnist" else len(rows) // 6, 0)
    if validate:
        return Problem(part.X[train], part.y[train], part.X[held], part.y[held])
    order = np.concatenate([train, held])
    return part._replace(X=part.X[order], y=part.y[order])


def layers(hidden: str) -> tuple[int, ...]:
    """Return the sizes in "200-200"."""
    return tuple(int(part) for part in hidden.split("-"))


def classification(mode: str, data: str, model: str, hidden: str, variant: str, seeds: int) -> Settings:
    """Fit all seeds as one ensemble; return the means of their scores, and each seed's accuracy.

    "accuracy" is that of the paper's rule, the class with the largest E[z | x]; "by_probability" that of the
    most probable class.
    """
    part = problem(data, mode == "choose")
    if model == "linear":
        return linear(data)
    settings = chosen(mode, data, model, hidden, variant)
    scale = 1.0 if isinstance(settings["inputs"], str) else settings["inputs"]
    fitted = estimator(data, model, settings, 0, hidden=layers(hidden), n_members=seeds)
    clock = Clock()
    fitted.fit(part.X * np.float32(scale), part.y)
    times, found = clock.read(), []
    Z = prepare(part.X_test * np.float32(scale), fitted._x, np.dtype(fitted.dtype))
    mean, std = predictions("contended_scores", fitted.model_, Z, fitted._engine, np.dtype(fitted.dtype))
    for k in range(seeds):
        log_p = class_mixture(*(np.asarray(a[k : k + 1], np.float32) for a in (mean, std)))
        probability = np.exp(log_p.astype(np.float64))  # 0 in single precision below exp(-103)
        scores = calibration(probability / probability.sum(1, keepdims=True), part.y_test)
        rule = 100 * float((mean[k].argmax(1) == part.y_test).mean())
        found.append({**scores, "by_probability": scores["accuracy"], "accuracy": rule})
    means = {name: float(np.mean([each[name] for each in found])) for name in found[0]}
    means |= {"accuracies": [each["accuracy"] for each in found]}
    return settings | times | means | _training(fitted)


def fit_and_score(estimator: Any, part: Problem) -> Settings:
    """Fit an estimator and score its probabilities."""
    clock = Clock()
    estimator.fit(part.X, part.y)
    return clock.read() | calibration(estimator.predict_proba(part.X_test), part.y_test)


def linear(data: str) -> Settings:
    """Score logistic regression; its strength is chosen by log-probability on held-out rows."""

    def made(strength: float) -> LogisticRegression:
        return LogisticRegression(C=strength, max_iter=1000)

    tried = {C: fit_and_score(made(C), problem(data, True))["nll"] for C in STRENGTHS[data]}
    best = min(tried, key=lambda C: tried[C])
    return fit_and_score(made(best), problem(data, False)) | {"strength": best}


def _training(fitted: Any) -> Settings:
    """Return the last objective of training, the epochs, and the number of undone steps."""
    return {
        "objective": float(np.mean(fitted.history_["train"][:, -1])), "undone": int(np.sum(fitted.undone_)),
        "best_epoch": float(np.mean(fitted.best_epoch_)),
    }  # fmt: skip


def main() -> None:
    p = options(__doc__)
    p.add_argument("mode", choices=("choose", "score"))
    p.add_argument("--data", type=some(UCI + CLASSES), default=list(UCI), metavar="NAME,...")
    p.add_argument("--models", type=some(MODELS), default=["bp", "ml"], metavar="NAME,...")
    p.add_argument("--hidden", type=some(HIDDEN), default=list(HIDDEN), metavar="SIZES,...")
    p.add_argument("--splits", type=int, default=20, help="run only the first splits")
    p.add_argument("--seeds", type=int, default=5, help="networks of a classifier")
    p.add_argument("--variants", nargs="+", default=["base"])
    args = p.parse_args()
    numbers, words = ([d for d in args.data if d in kind] for kind in (UCI, CLASSES))

    def variants(kind: str, model: str) -> list[str]:
        """Return the variants without repetition."""
        named = [OPEN.get((kind, model), ("base",)) if v == "open" else (v,) for v in args.variants]
        return list(dict.fromkeys(v for some in named for v in some))

    models = [m for m in args.models if m != "linear"]
    cells = [(d, m, v) for m in models for v in variants("uci", m) for d in numbers]
    counts = {d: min(len(load_uci(d).splits), args.splits) for d in numbers}
    tasks: list[Any] = [(args.mode, *c, k) for k in range(args.splits) for c in cells if k < counts[c[0]]]
    jobs = {"jobs": args.jobs, "force": args.force}
    if tasks:
        out = args.out or RESULTS / f"paper_{args.mode}_regression.json"
        complete(out, ("mode", "data", "model", "variant", "split"), regression, tasks, **jobs)
    tasks = [
        (args.mode, d, m, h, v, args.seeds)
        for d in words for m in models for v in variants(d, m) for h in args.hidden
    ]  # fmt: skip
    tasks += [("score", d, "linear", "none", "base", 1) for d in words if "linear" in args.models]
    if tasks:
        out = args.out or RESULTS / f"paper_{args.mode}_classes.json"
        complete(out, ("mode", "data", "model", "hidden", "variant", "seeds"), classification, tasks, **jobs)


if __name__ == "__main__":
    main()
