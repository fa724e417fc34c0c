"""Seconds of first fits of many outputs, classes or columns: how many of them go into compiling.

    python benchmarks/wide.py --output benchmarks/results/wide.json
    python benchmarks/wide.py "200 outputs" "a sparse classification"

Each fit runs 20 epochs in a process of its own that finds no compiled programs. Next to the seconds of fit
and of a first prediction stand those of the same fit again, compiled already.
"""

import argparse
import json
import multiprocessing
import os
import time
from pathlib import Path

import numpy as np
from record import commit, machine

EPOCHS = 20


def regression(rows, columns, outputs):
    """Linear rows with noise."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(rows, columns))
    y = X[:, :5] @ rng.normal(size=(5, outputs)) + rng.normal(size=(rows, outputs))
    return X, y[:, 0] if outputs == 1 else y


def classification(rows, classes):
    """Random rows of every class."""
    return np.random.default_rng(0).normal(size=(rows, 5)), np.arange(rows) % classes


def sparse_rows(rows, columns):
    """One cell of a hundred is filled."""
    from scipy import sparse

    X = sparse.random(rows, columns, 0.01, "csr", random_state=0)
    return X, np.asarray(X[:, : columns // 2].sum(1)).ravel() > np.asarray(
        X[:, columns // 2 :].sum(1)
    ).ravel()


FITS = {
    "1 output": ("TGGMRegressor", lambda: regression(300, 5, 1)),
    "20 outputs": ("TGGMRegressor", lambda: regression(300, 5, 20)),
    "200 outputs": ("TGGMRegressor", lambda: regression(300, 5, 200)),
    "10 classes": ("TGGMClassifier", lambda: classification(1000, 10)),
    "100 classes": ("TGGMClassifier", lambda: classification(1000, 100)),
    "1,000 classes": ("TGGMClassifier", lambda: classification(1000, 1000)),
    "5,000 columns, 20 rows": ("TGGMRegressor", lambda: regression(20, 5000, 1)),
    "a sparse classification": ("TGGMClassifier", lambda: sparse_rows(500, 2000)),
}


def measured(name):
    """Seconds of one fit, in a process that has compiled nothing."""
    os.environ["TGGM_COMPILATION_CACHE"] = "off"
    import jax

    import tggm

    compiling = []
    jax.monitoring.register_event_duration_secs_listener(
        lambda event, seconds, **_: compiling.append(seconds if "backend_compile" in event else 0.0)
    )
    kind, rows = FITS[name]
    X, y = rows()
    first, again = (getattr(tggm, kind)(max_epochs=EPOCHS, random_state=0) for _ in range(2))
    found = {"fit": seconds(lambda: first.fit(X, y))}
    found["of_it_compiling"] = round(sum(compiling), 1)
    found["first_prediction"] = seconds(lambda: first.predict(X[:5]))
    found["fit_again"] = seconds(lambda: again.fit(X, y))
    return found


def seconds(work):
    """How long some work takes."""
    begin = time.perf_counter()
    work()
    return round(time.perf_counter() - begin, 1)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("fits", nargs="*", default=list(FITS), help="names of fits; all by default")
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    found = {}
    for name in options.fits:
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            found[name] = pool.apply(measured, (name,))
        print(name, found[name], flush=True)
        if options.output is not None:
            facts = {"commit": commit(), "machine": machine(), "fits": found}
            options.output.write_text(json.dumps(facts, indent=1) + "\n")


if __name__ == "__main__":
    main()
