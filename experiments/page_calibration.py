"""Blocks on what calibration changes: coverage, log-likelihood and CRPS of the default with and without it.

One fit gives both: the pool that held-out rows chose, and the mixture of the same members as it is. Runs are
those of `experiments.defaults` and, for classes, of `class_calibration.py`.
"""

from typing import Any

import class_calibration
import numpy as np
from datasets import UCI
from page import stored, table
from page_defaults import LEVELS, runs_of
from recipes import RECIPES
from runs import mean_error

from tables import TABLES

REGRESSION = tuple(name for name, known in TABLES.items() if known.task == "regression")


def both(data: str) -> list[dict[str, Any]]:
    """Stored runs of one data set that were judged twice."""
    made = runs_of("uci_default.json" if data in UCI else "defaults.json").get((data, "default"), {})
    return [run for run in made.values() if "raw_ll" in run]


def _covers(made: list[dict[str, Any]], prefix: str) -> np.ndarray:
    """Shares of test rows inside the intervals."""
    n = [one["n_test"] for one in made]
    return np.array([np.average([one[f"{prefix}cover{p}"] for one in made], weights=n) for p in LEVELS])


def gain() -> str:
    """Before and after, data set by data set."""
    rows = []
    for data in (*UCI, *REGRESSION):
        if made := both(data):
            scores = []
            for name in ("ll", "crps"):
                before, after = (np.mean([one[p + name] for one in made]) for p in ("raw_", ""))
                change = mean_error([one[name] - one["raw_" + name] for one in made])[1]
                scores += [f"{before:.4g}", f"{after:.4g} ± {change:.2g}"]
            covers = [" ".join(f"{100 * c:.0f}" for c in _covers(made, p)) for p in ("raw_", "")]
            rows.append([data, str(len(made)), str(sum(one["n_test"] for one in made)), *scores, *covers])
    head = ["data", "splits", "test rows", "log-likelihood without", "with", "CRPS without", "with"]
    return table([*head, "held without", "held with"], rows) if rows else "Not run."


def verdict() -> str:
    """On how many data sets scores are at least as good, and how far coverage is off."""
    parts = []
    real = [name for name in REGRESSION if name not in RECIPES]
    generated = [name for name in REGRESSION if name in RECIPES]
    kinds = (("UCI sets", list(UCI)), ("development tables", real), ("generated tables", generated))
    for title, names in kinds:
        made = {name: both(name) for name in names if both(name)}
        if not made:
            continue
        better = [sum(_better(runs, score) for runs in made.values()) for score in ("ll", "crps")]
        off, within = zip(*(_off(runs) for runs in made.values()), strict=True)
        worst = max(zip(off, made, strict=True), key=lambda pair: abs(pair[0]))
        parts.append(
            f"{title}: log-likelihood at least as good, up to a standard error, on {better[0]} of "
            f"{len(made)}, CRPS on {better[1]}; coverage within two standard errors in "
            f"{np.mean(within):.0%} of the cells, "
            f"{100 * worst[0]:+.0f} points at most ({worst[1]})."
        )
    return "\n".join(parts) or "Not run."


def _better(made: list[dict[str, Any]], score: str) -> bool:
    """At least as good, up to the standard error of the difference over splits."""
    sign = 1 if score == "ll" else -1
    mean, error = mean_error([sign * (one[score] - one["raw_" + score]) for one in made])
    return bool(mean >= -np.nan_to_num(error))


def _off(made: list[dict[str, Any]]) -> tuple[float, float]:
    """What coverage is off by at most, and the share of levels where chance explains it.

    A row that is tested in several splits says little new the second time.
    """
    level, held = np.array(LEVELS) / 100, _covers(made, "")
    different = min(sum(one["n_test"] for one in made), max(one["rows"] for one in made))
    off = held - level
    inside = np.abs(off) <= 2 * np.sqrt(level * (1 - level) / different)
    return float(off[np.argmax(np.abs(off))]), float(inside.mean())


def classes() -> str:
    """Scores of class probabilities before and after."""
    found: dict[str, list[dict[str, Any]]] = {}
    for record in stored("class_calibration.json"):
        for name, run in record["runs"].items():
            found.setdefault(name.split()[0], []).append(run)
    rows = []
    for data, made in found.items():
        means = {name: np.mean([run[name] for run in made]) for name in made[0] if name in SCORES}
        scores = [f"{means['raw_' + key]:.4f} → {means[key]:.4f}" for key in class_calibration.KEYS]
        rows.append([data, str(len(made)), *scores])
    head = ["data", "splits", "negative log-likelihood", "calibration error", "accuracy"]
    return table(head, rows) if rows else "Not run."


SCORES = {prefix + key for key in class_calibration.KEYS for prefix in ("", "raw_")}
BLOCKS = {"gain": gain, "gain-verdict": verdict, "gain-classes": classes}
