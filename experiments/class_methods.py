"""Score the default classifier on digits and text, and a network of two directed layers on digits.

    TGGM_DATA=... python experiments/class_methods.py [--data mnist] [--models default] [--hidden 100]

`default` is `TGGMClassifier()`; only its layers are set for MNIST. `directed/bp` is a model of `tggm.paper`.
The data are prepared as in experiments/paper.py. `fit_s` includes compilation; `again_s` is a second fit.
Results go to experiments/results/class_methods.json.
"""

import time
from typing import Any

from store import RESULTS, complete, options, some

from paper import CLASSES, fit_and_score, layers, problem
from tggm import TGGMClassifier
from tggm.paper import PaperClassifier

MODELS = ("default", "directed/bp")
# chosen on held-out training rows
DIRECTED = {
    "deep": "directed", "method": "bp", "optimizer": "adam", "schedule": "cosine", "batch_size": 500,
    "max_epochs": 60, "standardize": "whole",
}  # fmt: skip


def work(data: str, model: str, hidden: str, seed: int) -> dict[str, Any]:
    """Fit and score one model, and fit it again without compilation."""
    sizes = {} if hidden == "default" else {"hidden": layers(hidden)}
    kind, settings = (TGGMClassifier, {}) if model == "default" else (PaperClassifier, DIRECTED)
    fitted, part = kind(random_state=seed, **sizes, **settings), problem(data, False)
    figures = fit_and_score(fitted, part)
    clock = time.perf_counter()
    fitted.fit(part.X, part.y)
    return figures | {"again_s": time.perf_counter() - clock, "members": getattr(fitted, "n_members", 1)}


def main() -> None:
    p = options(__doc__)
    p.add_argument("--data", type=some(CLASSES), default=list(CLASSES))
    p.add_argument("--models", type=some(MODELS), default=list(MODELS))
    p.add_argument("--hidden", default="100,200-200", help="sizes for MNIST")
    args = p.parse_args()
    tasks = [
        (data, model, hidden, 0)
        for data in args.data
        for model in args.models
        for hidden in (args.hidden.split(",") if data == "mnist" else ["default"])
        if (data, "-" in hidden) == ("mnist", True) or model == "default"
    ]
    out = args.out or RESULTS / "class_methods.json"
    complete(out, ("data", "model", "hidden", "seed"), work, tasks, jobs=args.jobs, force=args.force)


if __name__ == "__main__":
    main()
