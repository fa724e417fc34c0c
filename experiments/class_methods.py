"""Compare training methods and the default classifier on digits and text.

    TGGM_DATA=... python experiments/class_methods.py [--data mnist] [--models default,moments] [--hidden 100]

`default` is `TGGMClassifier()`; only its layers are set for MNIST. The other models are one-layer models
trained by `moments`, `bp` and `meanfield`, two-layer models (`directed/bp`), logistic regression and
scikit-learn's network. The data are prepared as in experiments/paper.py. `fit_s` includes
compilation; `again_s` is a second fit. Results go to experiments/results/class_methods.json.
"""

import time
from typing import Any

from sklearn.neural_network import MLPClassifier
from store import RESULTS, complete, options, some

from paper import CLASSES, fit_and_score, layers, linear, problem
from tggm import TGGMClassifier
from tggm.paper import PaperClassifier

MODELS = ("default", "moments", "bp", "meanfield", "directed/bp", "logistic", "mlp")
# chosen on held-out training rows
SETTINGS: dict[str, dict[str, Any]] = {
    "mnist": {"batch_size": 500, "max_epochs": 60, "standardize": "whole"},
    "news": {
        "batch_size": 200, "max_epochs": 12, "learning_rate": 1e-3, "weight_decay": 10.0, "init": "small",
        "average": 0.99, "n_members": 10,
    },
    "blogs": {
        "batch_size": 200, "max_epochs": 40, "learning_rate": 3e-3, "weight_decay": 60.0, "init": "small",
        "average": 0.99, "n_members": 10,
    },
}  # fmt: skip
MEAN_FIELD_DIGITS = {"init": "small", "sigma0": 0.5, "learning_rate": 3e-3, "weight_decay": 0.1}


def estimator(data: str, model: str, hidden: str, seed: int) -> Any:
    """Return one model."""
    if model == "default":
        return TGGMClassifier(
            random_state=seed, **({} if hidden == "default" else {"hidden": layers(hidden)})
        )
    if model == "mlp":
        early = data != "mnist"
        return MLPClassifier(layers(hidden), batch_size=200, early_stopping=early, random_state=seed)
    form, _, method = model.rpartition("/")
    settings = {"optimizer": "adam", "schedule": "cosine", **SETTINGS[data]}
    if data == "mnist" and model == "meanfield":
        settings |= MEAN_FIELD_DIGITS
    return PaperClassifier(
        hidden=layers(hidden), method=method, deep=form or "directed", random_state=seed, **settings
    )


def work(data: str, model: str, hidden: str, seed: int) -> dict[str, Any]:
    """Fit and score one model, and fit it again without compilation."""
    if model == "logistic":
        return linear(data)
    fitted, part = estimator(data, model, hidden, seed), problem(data, False)
    figures = fit_and_score(fitted, part)
    clock = time.perf_counter()
    fitted.fit(part.X, part.y)
    return figures | {"again_s": time.perf_counter() - clock, "members": getattr(fitted, "n_members", 1)}


def main() -> None:
    p = options(__doc__)
    p.add_argument("--data", type=some(CLASSES), default=list(CLASSES))
    p.add_argument("--models", type=some(MODELS), default=list(MODELS))
    p.add_argument(
        "--hidden", default="100,200", help="sizes such as 100,200-200; ignored by the default on text"
    )
    p.add_argument("--seeds", type=int, default=1)
    args = p.parse_args()
    tasks = []
    for data in args.data:
        for model in args.models:
            sizes = args.hidden.split(",")
            if model == "logistic":
                sizes = ["none"]
            elif model == "default" and data != "mnist":
                sizes = ["default"]
            tasks += [(data, model, hidden, seed) for hidden in sizes for seed in range(args.seeds)]
    out = args.out or RESULTS / "class_methods.json"
    complete(out, ("data", "model", "hidden", "seed"), work, tasks, jobs=args.jobs, force=args.force)


if __name__ == "__main__":
    main()
