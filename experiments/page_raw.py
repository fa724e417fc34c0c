"""Blocks on tables as they come: the default beside libraries that take words and gaps."""

from collections.abc import Callable
from typing import Any

import numpy as np
from page import table
from page_defaults import Runs, error_of, runs_of
from raw_inputs import CSV, GENERATED
from runs import mean_error

from tables import SPLITS

FILE = "raw_tables.json"
TITLES = {
    "tggm": "`tggm`",
    "catboost": "CatBoost",
    "catboost-ll": "CatBoost with uncertainty",
    "hgb": "HistGradientBoosting",
    "lightgbm": "LightGBM",
    "linear": "ridge or logistic",
}
OPPONENTS = [model for model in TITLES if model != "tggm"]
Gain = Callable[[dict[str, Any], dict[str, Any]], float]
GAINS: tuple[Gain, Gain] = (
    lambda ours, other: error_of(other) - error_of(ours),
    lambda ours, other: float(ours["ll"] - other["ll"]),
)


def figures() -> str:
    """RMSE or share of errors / log-likelihood, means over splits."""
    runs, rows = runs_of(FILE), []
    for data in (*CSV, *GENERATED):
        cells = []
        for model in TITLES:
            made = list(runs.get((data, model), {}).values())
            error, ll = (np.mean([of(r) for r in made]) if made else None for of in (error_of, _ll))
            few = f" ({len(made)} splits)" if len(made) < SPLITS else ""
            cells.append("" if error is None else f"{number(error)} / {ll:.3g}{few}")
        rows.append([data, *cells])
    return table(["table", *TITLES.values()], rows) if runs else "Not run."


def number(value: float, digits: int = 3) -> str:
    """Large ones without an exponent."""
    return f"{value:,.0f}" if abs(value) >= 10**digits else f"{value:.{digits}g}"


def _ll(run: dict[str, Any]) -> float:
    return float(run["ll"])


def gains(runs: Runs, data: str, model: str, gain: Gain) -> tuple[float, float] | None:
    """What ours gains on another, in the mean over the splits that both have, and its standard error."""
    ours, other = runs.get((data, "tggm"), {}), runs.get((data, model), {})
    both = sorted(set(ours) & set(other))
    return mean_error([gain(ours[k], other[k]) for k in both]) if len(both) > 1 else None


def verdicts() -> str:
    """On how many tables ours is better, or behind by no more than a standard error."""
    runs, rows = runs_of(FILE), []
    for model in OPPONENTS:
        cells = []
        for gain in GAINS:
            for group in (CSV, GENERATED):
                found = [g for data in group if (g := gains(runs, data, model, gain))]
                cells.append(f"{sum(mean >= -error for mean, error in found)} of {len(found)}")
        rows.append([TITLES[model], *cells])
    head = ["", "error, files", "error, generated", "log-likelihood, files", "log-likelihood, generated"]
    return table(head, rows) if runs else "Not run."


def behind() -> str:
    """Where ours is behind by more than a standard error, a line for each opponent."""
    runs, lines = runs_of(FILE), []
    for model in OPPONENTS:
        parts = []
        for gain, name in zip(GAINS, ("error", "log-likelihood"), strict=True):
            for data in (*CSV, *GENERATED):
                found = gains(runs, data, model, gain)
                if found and found[0] < -found[1]:
                    parts.append(f"{data} ({name} by {number(-found[0], 2)} ± {number(found[1], 2)})")
        lines.append(f"- {TITLES[model]}: {', '.join(parts) or 'nowhere'}.")
    return "\n".join(lines) if runs else "Not run."


def seconds() -> str:
    """CPU seconds of a fit, medians over splits."""
    runs, rows = runs_of(FILE), []
    for data in (*CSV, *GENERATED):
        cells = []
        for model in TITLES:
            made = [r["cpu_s"] for r in runs.get((data, model), {}).values() if "cpu_s" in r]
            cells.append(number(float(np.median(made)), 2) if made else "")
        rows.append([data, *cells])
    return table(["table", *TITLES.values()], rows) if runs else "Not run."


BLOCKS = {
    "raw-figures": figures,
    "raw-verdicts": verdicts,
    "raw-behind": behind,
    "raw-seconds": seconds,
}
