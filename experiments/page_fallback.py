"""The block on classifiers with and without the share of logistic regression."""

from typing import Any

import numpy as np
from page import stored, table


def block() -> str:
    """Log-loss and share of wrong labels, table by table, and the mean change."""
    found: dict[str, list[dict[str, Any]]] = {}
    for record in stored("class_fallback.json"):
        for name, run in record["runs"].items():
            found.setdefault(name.split()[0], []).append(run)
    if not found:
        return "Not run."
    rows = []
    for data, runs in found.items():
        loss, error = (
            " → ".join(f"{np.mean([run[prefix + key] for run in runs]):.3f}" for prefix in ("plain_", ""))
            for key in ("log_loss", "error")
        )
        rows.append([data, f"{runs[0]['rows']}", str(len(runs)), loss, error])
    every = [run for runs in found.values() for run in runs]
    loss = np.mean([run["log_loss"] / run["plain_log_loss"] - 1 for run in every])
    error = np.mean([run["error"] - run["plain_error"] for run in every])
    head = ["table", "rows", "splits", "log-loss without → with", "errors without → with"]
    mean = f"On average log-loss changes by {100 * loss:+.1f} %, errors by {100 * error:+.2f} points."
    return f"{table(head, rows)}\n\n{mean}"
