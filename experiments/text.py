"""Bags of words, sparse: 20 Newsgroups (by date, 2,000 words) and political blogs (two blogs held out).

    TGGM_DATA=... python experiments/text.py --data news,blogs --methods moments,bp --members 10 --opponents
    TGGM_DATA=... python experiments/text.py --grid --data news --weight-decay 30,100 --learning-rate 3e-3

Counts become log(1 + count) times the word's log-rarity, and rows get unit length. The first form uses the
public interface, prints test figures (balanced accuracy is the one that matters for the blogs) and writes
experiments/results/text.json. The second never looks at a test document: it trains the product of the
alternatives at once on five sixths of the training documents and compares them on the rest. Opponents:
logistic regression, whose strength of regularisation is chosen in the same way, and a ReLU network of the
same size. Holding out whole blogs of the training part instead left every model at chance, so nothing about
how well a setting carries over to other blogs can be learned from these training documents.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
from classify import HEADER, LINE, add_grid_options, judge, many, merits, run_grid, write
from datasets import Documents, load_20newsgroups, load_poliblog
from scipy import sparse
from sklearn.linear_model import LogisticRegression

from tggm import TGGMClassifier
from tggm.estimators.sources import prepared, standardisation

LOADERS = {"news": load_20newsgroups, "blogs": load_poliblog}
STRENGTHS = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)


def unit_rows(counts: sparse.csr_array, training: sparse.csr_array) -> sparse.csr_array:
    """log(1 + count) times the word's log-rarity among the training documents, rows of length one.

    On the validation part of 20 Newsgroups rarity helped logistic regression and a ReLU network. A document
    without words stays empty.
    """
    X = counts.astype(np.float64)
    X.data = np.log1p(X.data)
    documents = np.asarray((training > 0).sum(axis=0)).reshape(-1)
    X = X @ sparse.diags_array(np.log((1 + training.shape[0]) / (1 + documents)) + 1)
    length = np.sqrt(np.asarray(X.multiply(X).sum(axis=1)).reshape(-1))
    return sparse.csr_array(sparse.diags_array(1 / np.maximum(length, 1e-12)) @ X).astype(np.float32)


def shuffled(data: Documents) -> tuple[Any, np.ndarray]:
    """Training documents in an order that is the same in every run: the last sixth validates."""
    order = np.random.default_rng(0).permutation(len(data.y_train))
    return unit_rows(data.X_train, data.X_train)[order], data.y_train[order]


def logistic(X: Any, y: np.ndarray) -> LogisticRegression:
    """Logistic regression with the strength that the last sixth of the training documents prefers."""
    cut = len(y) - len(y) // 6
    scores = []
    for C in STRENGTHS:
        model = LogisticRegression(C=C, max_iter=1000).fit(X[:cut], y[:cut])
        scores.append(merits(model.predict_proba(X[cut:]), y[cut:])["nll"])
    return LogisticRegression(C=STRENGTHS[int(np.argmin(scores))], max_iter=1000)


def compare(name: str, args: argparse.Namespace, settings: dict[str, Any]) -> list[dict[str, Any]]:
    """Test figures of every method and size, and of the opponents."""
    data = LOADERS[name]()
    X, y = shuffled(data)
    test = unit_rows(data.X_test, data.X_train), data.y_test
    runs: list[dict[str, Any]] = []

    def report(model_name: str, hidden: int, model: Any) -> None:
        runs.append({"data": name, **judge(f"{name} {model_name}", hidden, model, (X, y), test)})
        print(LINE.format(**runs[-1]), flush=True)

    if args.opponents:
        report("logistic regression", 0, logistic(X, y))
    for hidden in args.hidden:
        for method in args.methods:
            model = TGGMClassifier.one_layer(
                hidden=(hidden,), method=method, n_members=args.members, random_state=args.seed, **settings
            )
            report(f"{method} x{args.members}", hidden, model)
        if args.opponents:
            from sklearn.neural_network import MLPClassifier

            relu = MLPClassifier((hidden,), batch_size=200, early_stopping=True, random_state=args.seed)
            report("scikit-learn MLP", hidden, relu)
    return runs


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--data", type=many(str), default=["news", "blogs"])
    p.add_argument("--methods", type=many(str), default=["moments", "bp"])
    p.add_argument("--hidden", type=many(int), default=[100])
    p.add_argument("--members", type=int, default=1)
    p.add_argument("--seed", type=int, default=0)
    p.add_argument(
        "--set", action="append", default=[], metavar="NAME=JSON", help="a setting of the estimator"
    )
    p.add_argument("--opponents", action="store_true", help="logistic regression and a ReLU network too")
    p.add_argument("--out", type=Path, default=Path("experiments/results/text.json"))
    add_grid_options(p, epochs=30, batch=200, weight_decay=[50.0])
    args = p.parse_args()
    if args.grid:
        for name in args.data:
            X, y = shuffled(LOADERS[name]())
            args.columns = X.shape[1]
            scale = standardisation(X, np.ones(len(y)), True)
            rows = prepared(X, scale, np.float32)
            run_grid(rows, y, len(y) // 6, args, args.out.with_name(f"text_{name}_grid.json"))
        return
    settings = {name: json.loads(value) for name, value in (item.split("=", 1) for item in args.set)}
    settings = {"batch_size": args.batch, "max_epochs": args.epochs, **settings}
    print(HEADER)
    runs = [run for name in args.data for run in compare(name, args, settings)]
    write(args.out, {"settings": settings, "seed": args.seed, "runs": runs})


if __name__ == "__main__":
    main()
