"""Compare training methods of one-layer models on four UCI sets.

    TGGM_DATA=... python experiments/uci_methods.py [--datasets yacht] [--methods moments,ep] [--jobs 2]

Each method trains an ensemble of ten with 50 units and learned noise by Adam, equal for all sets. Results go
to experiments/results/uci_methods.json.
"""

from typing import Any

from datasets import load_uci
from scores import distribution
from store import RESULTS, Clock, complete, options, some

from tggm.paper import PaperRegressor

DATASETS = ("boston", "concrete", "energy", "yacht")
METHODS = ("moments", "ep", "meanfield", "exact", "bp")
SETTINGS: dict[str, Any] = {
    "hidden": (50,), "n_members": 10, "sigma0": 0.1, "noise": None, "init": "sharp", "optimizer": "adam",
    "learning_rate": 0.03, "schedule": "cosine", "weight_decay": 0.1, "average": 0.98, "batch_size": 50,
    "max_epochs": 1000,
}  # fmt: skip


def work(dataset: str, method: str, split: int) -> dict[str, Any]:
    """Fit and score one method on one split, whose number is also the seed."""
    X, y, splits = load_uci(dataset)
    train, test = splits[split]
    model = PaperRegressor(method=method, random_state=split, **SETTINGS)
    clock = Clock()
    model.fit(X[train], y[train])
    return clock.read() | distribution(model.predict_dist(X[test]), y[test])


def main() -> None:
    p = options(__doc__)
    p.add_argument("--datasets", type=some(DATASETS), default=list(DATASETS), metavar="NAME,...")
    p.add_argument("--methods", type=some(METHODS), default=list(METHODS), metavar="NAME,...")
    p.add_argument("--splits", type=int, default=20, help="run only the first splits")
    args = p.parse_args()
    tasks = [(d, m, k) for k in range(args.splits) for d in args.datasets for m in args.methods]
    out = args.out or RESULTS / "uci_methods.json"
    complete(out, ("dataset", "method", "split"), work, tasks, jobs=args.jobs, force=args.force)


if __name__ == "__main__":
    main()
