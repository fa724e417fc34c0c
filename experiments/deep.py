"""Models with several hidden layers: every form and method, on digits, text and the UCI tables.

    TGGM_DATA=... python experiments/deep.py --data mnist --hidden 100-100,200-200
    TGGM_DATA=... python experiments/deep.py --data news,blogs --models directed/moments,undirected/meanfield
    TGGM_DATA=... python experiments/deep.py --data concrete,energy --hidden 50,50-50 --splits 5
    TGGM_DATA=... python experiments/deep.py --data mnist --validate --set weight_decay=10 --set sigma0=0.7

A model is FORM/METHOD, or undirected/paper for the paper's own settings; `--hidden 100` is a shallow model,
for comparison. Digits and text print accuracy, balanced accuracy, negative log-probability and calibration
error; tables print RMSE, log-likelihood, CRPS and coverage, mean and standard error over splits. `--validate`
never looks at a test row: it holds out 10,000 of the training images, a sixth of the training documents, or a
tenth of each training split, and prints figures on those. All figures are added to the `--out` file, in place
of those of the same data, model and settings.
"""

import argparse
import json
import os
import subprocess
import time
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from classify import many, merits
from datasets import load_mnist, load_uci
from text import LOADERS, shuffled, unit_rows
from uci import judge as judge_table

from tggm import TGGMClassifier, TGGMRegressor

MODELS = "directed/moments,directed/bp,undirected/meanfield,undirected/ep,undirected/bp"
# the paper's TGGM-ML: mean field by cycles, the prior's begun from the posterior's, σ0² = 0.5, RMSProp
PAPER = {
    "method": "meanfield", "solver": "cyclic", "prior": "posterior", "sigma0": 0.5**0.5, "init": "paper",
    "optimizer": "rmsprop", "learning_rate": 1e-3, "weight_decay": 0.0, "average": 0.0,
}  # fmt: skip
TABLES = ("boston", "concrete", "energy", "kin8nm", "naval", "power", "protein", "wine", "yacht")
# what the estimator's defaults do not say; chosen on training rows, text by experiments/text.py --grid
SETTINGS: dict[str, dict[str, Any]] = {
    "mnist": {"batch_size": 500, "max_epochs": 60, "standardize": "whole"},
    "news": {
        "batch_size": 200, "max_epochs": 12, "learning_rate": 1e-3, "weight_decay": 10.0, "init": "small",
        "average": 0.99,
    },
    "blogs": {
        "batch_size": 200, "max_epochs": 40, "learning_rate": 3e-3, "weight_decay": 60.0, "init": "small",
        "average": 0.99,
    },
}  # fmt: skip


class Problem(NamedTuple):
    """Rows to learn from and rows to judge by."""

    X: Any
    y: Any
    X_test: Any
    y_test: Any


def digits(args: argparse.Namespace) -> Problem:
    """Pixels / 255; the validation part is the last 10,000 images of an order that is always the same."""
    X, y, X_test, y_test = load_mnist()
    order = np.random.default_rng(0).permutation(len(X))
    X, y = X[order].astype(np.float32) / 255, y[order]
    if args.validate:
        X, y, X_test, y_test = X[:-10_000], y[:-10_000], X[-10_000:], y[-10_000:]
    else:
        X_test = X_test.astype(np.float32) / 255
    return Problem(X, y, X_test, y_test)


def documents(name: str, args: argparse.Namespace) -> Problem:
    """Rows of unit length, see experiments/text.py."""
    data = LOADERS[name]()
    X, y = shuffled(data)
    if not args.validate:
        return Problem(X, y, unit_rows(data.X_test, data.X_train), data.y_test)
    cut = len(y) - len(y) // 6
    return Problem(X[:cut], y[:cut], X[cut:], y[cut:])


def layers(text: str) -> tuple[int, ...]:
    """Sizes from "200-200"."""
    return tuple(int(part) for part in text.split("-"))


def options(name: str, model: str, args: argparse.Namespace) -> dict[str, Any]:
    """Settings of the estimator: of the data set, then those of the command line."""
    form, method = model.split("/")
    given = {key: json.loads(value) for key, value in (item.split("=", 1) for item in args.set)}
    found = {**SETTINGS.get(name, {}), "method": method, **(PAPER if method == "paper" else {}), **given}
    if method == "paper" and name not in TABLES:
        found = {"factorised": True, **found}
    found |= {"deep": form, "n_members": args.members}
    if args.epochs:
        found["max_epochs"] = args.epochs
    return found if args.members else {k: v for k, v in found.items() if k != "n_members"}


def classify(name: str, model: str, hidden: str, args: argparse.Namespace) -> list[dict[str, Any]]:
    """Figures of one classifier for each seed."""
    part = digits(args) if name == "mnist" else documents(name, args)
    X, y = part.X[: args.limit], part.y[: args.limit]
    found = []
    for seed in range(args.seed, args.seed + args.seeds):
        estimator = TGGMClassifier.one_layer(
            hidden=layers(hidden), random_state=seed, **options(name, model, args)
        )
        seconds = []
        for _ in range(2 if args.again else 1):
            clock = time.perf_counter()
            estimator.fit(X, y)
            seconds.append(time.perf_counter() - clock)
        row = {"seed": seed, "fit_s": seconds[0], "again_s": seconds[-1]}
        row |= merits(estimator.predict_proba(part.X_test), part.y_test)
        row |= {"best_epoch": float(estimator.best_epoch_.mean()), "undone": int(estimator.undone_.sum())}
        found.append(row)
        if args.verbose:
            print(np.round(estimator.history_["held_out"].mean(0)[:: args.verbose], 4))
    return found


def regress(name: str, model: str, hidden: str, args: argparse.Namespace) -> list[dict[str, Any]]:
    """Figures of one regressor for each split."""
    X, y, splits = load_uci(name)
    found = []
    for i, (train, test) in enumerate(splits[: args.splits]):
        if args.validate:
            train = np.random.default_rng(i).permutation(train)
            train, test = train[len(train) // 10 :], train[: len(train) // 10]
        train = train[: args.limit]
        estimator = TGGMRegressor.one_layer(
            hidden=layers(hidden), random_state=args.seed + i, **options(name, model, args)
        )
        clock = time.perf_counter()
        estimator.fit(X[train], y[train])
        found.append(
            {"seed": args.seed + i, **judge_table(estimator, X, y, test, time.perf_counter() - clock)}
        )
    return found


def line(name: str, model: str, hidden: str, rows: list[dict[str, Any]]) -> str:
    """Means over seeds or splits, with standard errors where there are several."""
    parts = []
    for key in rows[0]:
        if key == "seed":
            continue
        values = np.array([row[key] for row in rows], float)
        error = f"±{values.std() / np.sqrt(len(values) - 1):.4f}" if len(values) > 1 else ""
        parts.append(f"{key} {values.mean():.4f}{error}")
    return f"{name:9s} {model:22s} {hidden:>11s}  " + "  ".join(parts)


def keep(path: Path, entry: dict[str, Any]) -> None:
    """Add one result to the file, in place of one with the same description."""
    same = ("data", "model", "hidden", "validate", "limit", "settings")
    record = json.loads(path.read_text()) if path.exists() else []
    record = [old for old in record if any(old[key] != entry[key] for key in same)]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps([*record, entry], indent=1) + "\n")


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--data", type=many(str), default=["mnist"])
    p.add_argument("--models", type=many(str), default=MODELS.split(","), help="FORM/METHOD, …")
    p.add_argument("--hidden", type=many(str), default=["200-200"], help="as 100-100,200-200")
    p.add_argument("--members", type=int, default=0, help="networks in the ensemble; 0 for the default")
    p.add_argument("--epochs", type=int, default=0, help="0 for the setting of the data set")
    p.add_argument("--limit", type=int, default=None, help="use only the first so many training rows")
    p.add_argument("--splits", type=int, default=20, help="of a table, the first so many")
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--seeds", type=int, default=1, help="repetitions with other seeds (digits, text)")
    p.add_argument("--again", action="store_true", help="fit twice, to time it without compilation")
    p.add_argument("--validate", action="store_true", help="figures on held-out training rows")
    p.add_argument("--verbose", type=int, default=0, help="print the held-out score of every so many epochs")
    p.add_argument("--set", action="append", default=[], metavar="NAME=JSON", help="a setting, repeatable")
    p.add_argument("--out", type=Path, default=Path("experiments/results/deep.json"))
    args = p.parse_args()
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True)
    origin = {
        "commit": os.environ.get("TGGM_COMMIT", commit.stdout.strip()),
        "device": str(jax.devices()[0].device_kind),
    }
    for name in args.data:
        run = regress if name in TABLES else classify
        for hidden in args.hidden:
            for model in args.models:
                rows = run(name, model, hidden, args)
                print(line(name, model, hidden, rows), flush=True)
                entry = {
                    "data": name, "model": model, "hidden": hidden, "validate": args.validate,
                    "limit": args.limit, "settings": options(name, model, args), **origin, "runs": rows,
                }  # fmt: skip
                keep(args.out, entry)


if __name__ == "__main__":
    main()
