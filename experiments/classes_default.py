"""The classifier with its default settings on handwritten digits and on bags of words.

    TGGM_DATA=... python -m experiments.classes_default [--data mnist-100,news] [--seeds 2]
    python -m experiments.classes_default --show

MNIST has 60,000 images to train on and 10,000 to test on, pixels / 255; 20 Newsgroups and the political blogs
are prepared as in `text.py`. Nothing is set but the units of MNIST's layers. Accuracy, balanced accuracy (in
per cent), negative log-likelihood and calibration error of the test part, and seconds: of the first fit and
the first probabilities of a process, which compile, and of the second. Figures go to
experiments/results/classes_default.json as they come; what is stored is not made again.
"""

import argparse
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from classify import merits, some
from datasets import load_mnist
from runs import RESULTS, begin, complete, mean_error, origin, read
from text import LOADERS, shuffled, unit_rows

from tggm import TGGMClassifier

Parts = tuple[Any, np.ndarray, Any, np.ndarray]


def images() -> Parts:
    X, y, X_test, y_test = load_mnist()
    return X.astype(np.float32) / 255, y, X_test.astype(np.float32) / 255, y_test


def documents(name: str) -> Parts:
    data = LOADERS[name]()
    return *shuffled(data), unit_rows(data.X_test, data.X_train), data.y_test


DATA: dict[str, tuple[Any, dict[str, Any]]] = {
    "mnist-100": (images, {"hidden": (100,)}),
    "mnist-200-200": (images, {"hidden": (200, 200)}),
    "news": (partial(documents, "news"), {}),
    "blogs": (partial(documents, "blogs"), {}),
}


def work(data: str, seed: int) -> dict[str, Any]:
    """Fit twice, the second time without compiling, and judge."""
    parts, settings = DATA[data]
    X, y, X_test, y_test = parts()
    seconds = {}
    for name in ("first", "second"):
        clock = time.perf_counter()
        model = TGGMClassifier(random_state=seed, **settings).fit(X, y)
        seconds[f"fit_s_{name}"] = time.perf_counter() - clock
        clock = time.perf_counter()
        probability = model.predict_proba(X_test)
        seconds[f"predict_s_{name}"] = time.perf_counter() - clock
    return merits(probability, y_test) | seconds | {"epochs": model.n_iter_, "n_test": len(y_test)}


def show(record: dict[str, Any]) -> None:
    runs = record.get("runs", {})
    for data in DATA:
        made = [run for name, run in runs.items() if name.split()[0] == data]
        if made:
            figures = {name: mean_error([run[name] for run in made])[0] for name in made[0] if name in SHOWN}
            print(data, len(made), *(f"{name} {value:.4g}" for name, value in figures.items()))


SHOWN = ("accuracy", "balanced", "nll", "ece", "fit_s_first", "fit_s_second", "predict_s_first")


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--data", type=some(tuple(DATA)), default=list(DATA), metavar="NAME,...")
    p.add_argument("--seeds", type=int, default=1)
    p.add_argument("--out", type=Path, default=RESULTS / "classes_default.json")
    p.add_argument("--show", action="store_true", help="only print what is stored")
    args = p.parse_args()
    if not args.show:
        begin()
        tasks = [(data, seed) for seed in range(args.seeds) for data in args.data]
        complete(args.out, origin(settings={"seed": "as named"}), work, tasks, jobs=1)
    show(read(args.out))


if __name__ == "__main__":
    main()
