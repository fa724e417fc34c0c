"""Score the default on the development tables and the UCI splits, and variants of it without one part.

    TGGM_DATA=... python experiments/defaults.py [--tables autos,ames] [--variants default,adam] [--jobs 2]
    TGGM_DATA=... python experiments/defaults.py --uci boston,yacht

For every table (`experiments/tables.py`), variant and split: RMSE or the share of wrong labels,
log-likelihood in the units of the target, CRPS, coverage, and seconds of the fit. The seed is the number of
the split. `--uci` runs the default on the test parts of the UCI splits, which were not used to choose
anything. Results go to experiments/results/defaults.json and uci_default.json.
"""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

from datasets import UCI, load_uci
from scores import distribution, labels
from store import RESULTS, Clock, complete, options, some

from tables import SPLITS, TABLES, Split
from tggm import TGGMClassifier, TGGMRegressor
from tggm.tables import columns

VARIANTS: dict[str, dict[str, Any]] = {
    "default": {},
    "no-features": {"features": None},
    "no-linear": {"linear": False},
    "no-transform": {"target_transform": None},
    "not-calibrated": {"calibrate": False},
    "one-member": {"n_members": 1},
    "adam": {"optimizer": "adam"},
    "one-layer": {"hidden": (50,)},
    "bounded": {"features": "bounded"},
    "no-neighbors": {"neighbors": False},
    "no-process": {"gaussian_process": False},
    "no-support": {"support": None},
    "200-200": {"hidden": (200, 200)},
}


@contextmanager
def _without_repeated_numbers() -> Iterator[None]:
    """Encode repeated numbers like other numbers, without target encoding."""
    of = columns.TargetEncoding.of
    columns.TargetEncoding.of = lambda *_: None
    try:
        yield
    finally:
        columns.TargetEncoding.of = of


# of data frames: the default, and the same without target encodings of repeated numbers
REPEATED = {"raw": nullcontext, "no-repeats": _without_repeated_numbers}
VARIANTS |= {name: {} for name in REPEATED}
CLASSIFIER = (
    *REPEATED,
    "default",
    "no-features",
    "no-linear",
    "one-member",
    "adam",
    "one-layer",
    "200-200",
    "no-neighbors",
)  # variants that exist for it


def fit_and_score(split: Split, task: str, **settings: Any) -> dict[str, Any]:
    """Fit one estimator and score it on the test rows."""
    warnings.simplefilter("ignore")
    clock = Clock()
    model = (TGGMClassifier if task == "classification" else TGGMRegressor)(**settings)
    model.fit(split.X_train, split.y_train)
    seconds = clock.read()
    if task == "classification":
        figures = labels(split.y_test, model.classes_, model.predict_proba(split.X_test))
    else:
        figures = distribution(model.predict_dist(split.X_test), split.y_test)
    return {**figures, **seconds, "epochs": model.n_iter_, "n_test": len(split.y_test)}


def work(table: str, variant: str, split: int) -> dict[str, Any]:
    """Run one variant on one split of a development table."""
    known = TABLES[table]
    if variant in REPEATED:
        with REPEATED[variant]():
            return fit_and_score(known.raw(split), known.task, random_state=split)
    return fit_and_score(known.split(split), known.task, random_state=split, **VARIANTS[variant])


def work_uci(dataset: str, variant: str, split: int) -> dict[str, Any]:
    """Run one variant on one UCI split."""
    data = load_uci(dataset)
    train, test = data.splits[split]
    rows = Split(data.X[train], data.y[train], data.X[test], data.y[test])
    return fit_and_score(rows, "regression", random_state=split, **VARIANTS[variant])


def plan(tables: list[str], variants: list[str], splits: int) -> list[tuple[str, str, int]]:
    """Return all runs in the order of splits, so that an interrupted command has results of all tables."""
    pairs = [
        (table, variant)
        for variant in variants
        for table in tables
        if TABLES[table].task == "regression" or variant in CLASSIFIER
    ]
    return [(table, variant, k) for k in range(splits) for table, variant in pairs]


def main() -> None:
    p = options(__doc__)
    p.add_argument("--tables", type=some(tuple(TABLES)), default=list(TABLES), metavar="NAME,...")
    p.add_argument("--variants", type=some(tuple(VARIANTS)), default=["default"], metavar="NAME,...")
    p.add_argument("--uci", type=some(tuple(UCI)), metavar="NAME,...", help="use these UCI sets instead")
    p.add_argument("--splits", type=int, help="run only the first splits")
    args = p.parse_args()
    if args.uci:
        counts = {name: min(len(load_uci(name).splits), args.splits or 20) for name in args.uci}
        tasks = [(d, v, k) for k in range(20) for d in args.uci for v in args.variants if k < counts[d]]
        out, fields, run = args.out or RESULTS / "uci_default.json", "dataset", work_uci
    else:
        tasks = plan(args.tables, args.variants, args.splits or SPLITS)
        out, fields, run = args.out or RESULTS / "defaults.json", "table", work
    complete(out, (fields, "variant", "split"), run, tasks, jobs=args.jobs, force=args.force)


if __name__ == "__main__":
    main()
