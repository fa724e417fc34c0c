"""Blocks of docs/deep.md: what was measured with several hidden layers."""

from collections.abc import Callable
from typing import Any

import numpy as np
from deep import MODELS as FITTED
from page import stored, table

from tggm import TGGMClassifier

MODELS = {
    "relu": "ReLU, directed",
    "tggm-bp": "undirected, `bp`, the paper's settings",
    "tggm-ml": "undirected, `meanfield`, the paper's settings",
    "default": "directed, `moments`",
}
CHOICES = ("learning_rate", "weight_decay", "init", "sigma0", "dropout", "n_members", "max_epochs")


def validation() -> str:
    """Settings of directed/moments 200-200, on 10,000 training images held out."""
    usual = TGGMClassifier.one_layer().get_params() | {"weight_decay": "the rule's"}
    rows = []
    for entry in stored("deep_validation.json")[0]:
        settings, runs = usual | entry["settings"], entry["runs"]
        figures = [np.mean([run[key] for run in runs]) for key in ("accuracy", "nll", "ece")]
        rows.append(
            [*(str(settings[key]) for key in CHOICES), str(len(runs)), f"{figures[0]:.2f}"]
            + [f"{f:.4f}" for f in figures[1:]]
        )
    head = ["step size", "weight decay", "start", "σ0", "left out", "networks", "epochs", "seeds"]
    return table([*head, "accuracy %", "NLL", "ECE"], sorted(rows))


def digits() -> str:
    """Test figures of two layers on handwritten digits, of table 2 and of experiments/deep.py."""
    rows = []
    for model, words in MODELS.items():
        for record in [*stored(f"table2/mnist_{model}.json"), *stored(f"table2_other/mnist_{model}.json")]:
            for hidden, entry in record.items():
                left = entry["settings"].get("dropout")
                more = f", `dropout={left}`" if left else ""
                rows += [_row(words + more, hidden, run) for run in entry["runs"] if "-" in hidden]
    for record in stored("deep_mnist.json"):
        for entry in [entry for entry in record if entry["model"] in FITTED.split(",")]:
            form, method = entry["model"].split("/")
            origin = {
                "device": entry["device"], "again_s": None, "epochs": entry["settings"]["max_epochs"]
            }  # fmt: skip
            rows += [_row(f"{form}, `{method}`", entry["hidden"], run | origin) for run in entry["runs"]]
    head = ["form, method", "hidden", "epochs", "accuracy %", "NLL", "ECE", "seconds", "on"]
    return table(head, sorted(rows)) if rows else "Not run."


def _row(words: str, hidden: str, run: dict[str, Any]) -> list[str]:
    seconds = f"{run['again_s']:.1f}" if run["again_s"] else f"{run['fit_s']:.0f}*"
    figures = [f"{run['accuracy']:.2f}", f"{run['nll']:.4f}", f"{run['ece']:.4f}"]
    return [words, hidden, str(run["epochs"]), *figures, seconds, run["device"].split(",")[0]]


def tables() -> str:
    """One and two hidden layers on the UCI tables: RMSE and log-likelihood, same splits."""
    records = stored("deep_uci.json")
    if not records:
        return "Not run."
    rows = []
    for entry in records[0]:
        cells = []
        for key in ("rmse", "ll"):
            values = np.array([run[key] for run in entry["runs"]])
            cells.append(f"{values.mean():.3f} ± {values.std() / np.sqrt(max(len(values) - 1, 1)):.3f}")
        rows.append([entry["data"].capitalize(), entry["hidden"], str(len(entry["runs"])), *cells])
    return table(["set", "hidden", "splits", "RMSE", "log-likelihood"], sorted(rows))


def trained() -> str:
    """Errors of propagation in trained models, median and largest."""
    rows = []
    for record in stored("deep_trained.json"):
        for found in record["rows"]:
            cells = dict.fromkeys(("mean", "std", "probability"), "")
            for key in cells.keys() & found.keys():
                middle, most = found[key]
                relative = f"{100 * middle:.1f} % ({100 * most:.1f} %)"
                cells[key] = relative if key == "std" else f"{middle:.4f} ({most:.4f})"
            rows.append([found["data"].capitalize(), found["hidden"], *cells.values()])
    return table(["set", "hidden", "mean", "deviation", "probability"], sorted(rows)) if rows else "Not run."


def collapse() -> str:
    """Parts of the objective of undirected mean field at the end of training."""
    rows = []
    for words, name in (("8×8 digits, 50-50", "collapse.json"), ("MNIST, 200-200", "collapse_mnist.json")):
        for record in stored(name):
            rows += [[words, *_course(key, run)] for key, run in sorted(record["runs"].items())]
    head = ["on", "way", "passes", "best accuracy %", "last", "objective", "log-likelihood", "prior's gap"]
    return table([*head, "posterior's gap"], rows) if rows else "Not run."


def _course(key: str, run: dict[str, Any]) -> list[str]:
    """One way to train: accuracy on the way, and what the objective consists of at the end."""
    way, seed = key.split()[:2]
    last = run["course"][-1]
    parts = [f"{last[k]:.3g}" for k in ("objective", "log_likelihood", "prior_gap", "posterior_gap")]
    return [f"{way}, seed {seed}", str(last["epoch"]), f"{run['best']:.1f}", f"{run['last']:.1f}", *parts]


BLOCKS: dict[str, Callable[[], str]] = {
    "deep-validation": validation,
    "deep-digits": digits,
    "deep-tables": tables,
    "deep-trained": trained,
    "deep-collapse": collapse,
}
