"""Repeat Table 2 of the paper: digits, newsgroups and blogs, one and two hidden layers.

    TGGM_DATA=... python experiments/table2.py --validate [--learning-rates 3e-4,1e-3,3e-3]
    TGGM_DATA=... python experiments/table2.py [--data blogs] [--models tggm-bp] [--hidden 100] [--seeds 3]

The step size, and for text the scale of the rows, are chosen by accuracy on held-out training rows:
`--validate` tries them at the smaller size of each kind (10,000 images or a sixth of the documents are held
out) and writes experiments/results/table2_rates.json; two layers use the scale of one layer. Without
`--validate` it scores the test rows with the chosen values and writes experiments/results/table2.json.
"""

import itertools
import time
from argparse import Namespace
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from datasets import Documents, load_20newsgroups, load_mnist, load_poliblog
from scipy import sparse
from scores import calibration
from sklearn.linear_model import LogisticRegression
from store import RESULTS, complete, options, read, some

from tggm import TGGMClassifier

DATA = ("mnist", "news", "blogs")
MODELS = ("linear", "relu", "tggm-bp", "tggm-ml")
HIDDEN = ("100", "200", "100-100", "200-200")
RATES = RESULTS / "table2_rates.json"
SMALLER = {False: "100", True: "100-100"}  # size at which step size and scale are chosen; key: several layers
# The paper gives batch sizes, variances, cycles and initial weights. The numbers of epochs are ours; the best
# epoch on held-out rows is kept.
PAPER: dict[str, dict[str, Any]] = {
    "mnist": {"batch_size": 500, "max_epochs": 60},
    "news": {"batch_size": 200, "max_epochs": 60},
    "blogs": {"batch_size": 200, "max_epochs": 150},
}
# epochs of two layers, where E[z | x] also needs inference
UNDIRECTED = {"mnist": 20, "news": 20, "blogs": 40}
LONGER = {("mnist", "tggm-bp", "200-200"): 60}
NEWTON = {"solver": "newton"}  # solves mean field to its optimum, which the paper's cycles approach
RELU = {"sigma0": 1e-4, "batch_size": 100, "deep": "directed"}  # batch size of the paper's ReLU networks
# Pixels are standardised as a whole. Rows of text have unit length, or words have a mean square of 1.
SCALES: dict[str, list[Any]] = {"mnist": ["whole"], "news": [True, False], "blogs": [True, False]}
TEXT_STRENGTHS = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
STRENGTHS = {"mnist": (0.01, 0.03, 0.1, 0.3), "news": TEXT_STRENGTHS, "blogs": TEXT_STRENGTHS}


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


def _images() -> Problem:
    X, y, X_test, y_test = load_mnist()
    return Problem(X.astype(np.float32) / 255, y, X_test.astype(np.float32) / 255, y_test)


def _documents(name: str) -> Problem:
    data: Documents = {"news": load_20newsgroups, "blogs": load_poliblog}[name]()
    train, test = (unit_rows(counts, data.X_train) for counts in (data.X_train, data.X_test))
    return Problem(train, data.y_train, test, data.y_test)


@cache
def problem(data: str, validate: bool) -> Problem:
    """Return training and test rows; with `validate`, training rows and rows held out of them.

    Training rows are in a random order that is always the same; the last 10,000 images or the last sixth of
    the documents are held out.
    """
    part = _images() if data == "mnist" else _documents(data)
    order = np.random.default_rng(0).permutation(len(part.y))
    X, y = part.X[order], part.y[order]
    cut = len(y) - (10_000 if data == "mnist" else len(y) // 6)
    return Problem(X[:cut], y[:cut], X[cut:], y[cut:]) if validate else part._replace(X=X, y=y)


def layers(hidden: str) -> tuple[int, ...]:
    """Return the sizes in "200-200"."""
    return tuple(int(part) for part in hidden.split("-"))


def settings_of(data: str, model: str, hidden: str) -> dict[str, Any]:
    """Return the settings of a cell, apart from its size and seed."""
    epochs = LONGER.get((data, model, hidden), UNDIRECTED[data])
    deep = {"max_epochs": epochs} if "-" in hidden else {"deep": "directed"}
    if model == "tggm-ml":
        estimator = TGGMClassifier.paper_ml(**{**PAPER[data], **deep, **NEWTON})
    else:
        estimator = TGGMClassifier.paper_bp(**{**PAPER[data], **(RELU if model == "relu" else deep)})
    return {name: v for name, v in estimator.get_params().items() if name not in ("hidden", "random_state")}


def network(hidden: str, seed: int, settings: dict[str, Any]) -> Any:
    """Return the estimator of one cell; `settings` are complete, so both presets are equivalent."""
    return TGGMClassifier.paper_bp(hidden=layers(hidden), random_state=seed, **settings)


def fit_and_score(estimator: Any, part: Problem) -> dict[str, Any]:
    """Fit an estimator and score its probabilities."""
    clock = time.perf_counter()
    estimator.fit(part.X, part.y)
    fitted = time.perf_counter()
    probability = estimator.predict_proba(part.X_test)
    seconds = {"fit_s": fitted - clock, "predict_s": time.perf_counter() - fitted}
    return seconds | calibration(probability, part.y_test)


def chosen(data: str, model: str, deep: bool) -> dict[str, Any]:
    """Return the step size and scale that were most accurate on held-out rows."""
    tried = [
        run
        for run in read(RATES)["runs"]
        if (run["data"], run["model"], "-" in run["hidden"]) == (data, model, deep)
    ]
    if not tried:
        print(f"no step size was chosen for {model} on {data}; 0.001 is used (see --validate)", flush=True)
        return {"learning_rate": 1e-3, "standardize": SCALES[data][0]}
    best = max(tried, key=lambda run: run["accuracy"])
    return {name: best[name] for name in ("learning_rate", "standardize")}


def validate(data: str, model: str, hidden: str, rate: float, scale: Any) -> dict[str, Any]:
    """Score one step size and scale on held-out rows."""
    settings = settings_of(data, model, hidden) | {"learning_rate": rate, "standardize": scale}
    estimator = network(hidden, 0, settings)
    return fit_and_score(estimator, problem(data, True)) | _training(estimator)


def test(data: str, model: str, hidden: str, seed: int) -> dict[str, Any]:
    """Score one cell on the test rows."""
    if model == "linear":
        return linear(data)
    values = chosen(data, model, "-" in hidden)
    estimator = network(hidden, seed, settings_of(data, model, hidden) | values)
    return values | fit_and_score(estimator, problem(data, False)) | _training(estimator)


def linear(data: str) -> dict[str, Any]:
    """Score logistic regression; its strength is chosen by log-probability on held-out rows."""

    def made(strength: float) -> LogisticRegression:
        return LogisticRegression(C=strength, max_iter=1000)

    tried = {C: fit_and_score(made(C), problem(data, True))["nll"] for C in STRENGTHS[data]}
    best = min(tried, key=lambda C: tried[C])
    return fit_and_score(made(best), problem(data, False)) | {"strength": best}


def _training(estimator: Any) -> dict[str, Any]:
    return {"best_epoch": float(np.mean(estimator.best_epoch_)), "epochs": estimator.n_iter_}


def trials(args: Namespace) -> list[tuple[Any, ...]]:
    """Return the tasks of `--validate`."""
    found = []
    for data, model, deep in itertools.product(args.data, args.models, (False, True)):
        if model != "linear":
            scales = [chosen(data, model, False)["standardize"]] if deep else SCALES[data]
            found += [(data, model, SMALLER[deep], r, s) for r in args.learning_rates for s in scales]
    return found


def main() -> None:
    p = options(__doc__)
    p.add_argument("--data", type=some(DATA), default=list(DATA))
    p.add_argument("--models", type=some(MODELS), default=list(MODELS))
    p.add_argument("--hidden", type=some(HIDDEN), default=list(HIDDEN))
    p.add_argument("--seeds", type=int, default=1)
    p.add_argument("--validate", action="store_true", help="choose step sizes and scales, without test rows")
    p.add_argument(
        "--learning-rates", type=lambda text: [float(r) for r in text.split(",")], default=[3e-4, 1e-3, 3e-3]
    )
    args = p.parse_args()
    if args.validate:
        fields = ("data", "model", "hidden", "learning_rate", "standardize")
        complete(args.out or RATES, fields, validate, trials(args), jobs=args.jobs, force=args.force)
        return
    cells = itertools.product(range(args.seeds), args.data, args.models, args.hidden)
    tasks = [(data, model, hidden, seed) for seed, data, model, hidden in cells if model != "linear"]
    tasks += [(data, "linear", "none", 0) for data in args.data if "linear" in args.models]
    out = args.out or RESULTS / "table2.json"
    fields = ("data", "model", "hidden", "seed")
    complete(out, fields, test, tasks, jobs=args.jobs, force=args.force)


if __name__ == "__main__":
    main()
