"""Blocks on the default: what it makes of the development tables and of the UCI splits, beside others."""

from collections import defaultdict
from typing import Any

import numpy as np
from page import stored, table
from quoted import OTHERS
from runs import mean_error

Runs = dict[tuple[str, str], dict[int, dict[str, Any]]]
LEVELS = (20, 50, 80, 90, 95)


def runs_of(name: str) -> Runs:
    """Stored runs by data and model, each by the number of its split."""
    found: Runs = defaultdict(dict)
    for record in stored(name):
        for key, run in record["runs"].items():
            data, model, split = key.split()
            if "failed" not in run:
                found[data, model][int(split)] = run
    return found


def error_of(run: dict[str, Any]) -> float:
    """RMSE, or the share of wrong labels."""
    return float(run["rmse"] if "rmse" in run else run["error"])


def summary() -> str:
    """How often the default is ahead, by how much, and where it is behind."""
    ours, theirs, lines = runs_of("defaults.json"), runs_of("opponents.json"), []
    for model in OPPONENTS:
        gains, behind = [], []
        for data in [data for data, variant in ours if variant == "default" and (data, model) in theirs]:
            mine, other = ours[data, "default"], theirs[data, model]
            if both := sorted(set(mine) & set(other)):
                gains.append(float(np.mean([mine[k]["ll"] - other[k]["ll"] for k in both])))
                behind += [data] if gains[-1] < 0 else []
        if gains:
            lost = f"; behind on {', '.join(behind)}" if behind else ""
            ahead = f"{sum(gain > 0 for gain in gains)} of {len(gains)}"
            lines.append(
                f"- {OPPONENTS[model]}: a larger log-likelihood on {ahead} tables, by "
                f"{np.median(gains):.2f} nats a row in the median{lost}."
            )
    return "\n".join(lines) if lines else "Not run."


OPPONENTS = {
    "catboost": "CatBoost with uncertainty",
    "hgb": "HistGradientBoosting",
    "ngboost": "NGBoost",
    "mlp": "scikit-learn's MLP",
    "gp": "a Gaussian process (up to 2,000 rows)",
    "ridge": "ridge or logistic regression",
}


def uci() -> str:
    """The default on the test parts of the UCI splits."""
    ours, rows = runs_of("uci_default.json"), []
    for data in sorted({data for data, _ in ours}):
        made = list(ours[data, "default"].values())
        cells = [mean_error([run[name] for run in made]) for name in ("rmse", "ll", "crps")]
        cover = (f"{100 * np.mean([run[f'cover{p}'] for run in made]):.0f}" for p in LEVELS)
        others = [" / ".join(figures[data]) if data in figures else "" for figures in OTHERS.values()]
        figures = [f"{mean:.4g} ± {spread:.2g}" for mean, spread in cells]
        rows.append([data.capitalize(), str(len(made)), *figures, " ".join(cover), *others])
    head = ["", "splits", "RMSE", "log-likelihood", "CRPS", "held by the 20, 50, 80, 90, 95 % intervals"]
    return table([*head, *OTHERS], rows) if rows else "Not run."


def tables() -> str:
    """The default and opponents on the splits that both have, RMSE or share of errors / log-likelihood."""
    ours, theirs, rows = runs_of("defaults.json"), runs_of("opponents.json"), []
    models = sorted({model for _, model in theirs})
    for data in [data for data, model in ours if model == "default"]:
        mine = ours[data, "default"]
        cells = [_cell(mine, set(mine))]
        for model in models:
            other = theirs.get((data, model), {})
            cells.append(_cell(other, set(mine) & set(other)))
        seconds = np.median([run["fit_s"] for run in mine.values()])
        rows.append([data, str(len(mine)), *cells, f"{seconds:.0f}"])
    head = ["table", "splits", "`tggm`", *models, "seconds"]
    return table(head, rows) if rows else "Not run."


def _cell(runs: dict[int, dict[str, Any]], splits: set[int]) -> str:
    if not splits:
        return ""
    figures = (np.mean([of(runs[k]) for k in sorted(splits)]) for of in (error_of, lambda run: run["ll"]))
    return " / ".join(f"{figure:.3g}" for figure in figures)


def verdicts() -> str:
    """On how many tables the default is ahead of each opponent."""
    ours, theirs, rows = runs_of("defaults.json"), runs_of("opponents.json"), []
    for model in sorted({model for _, model in theirs}):
        ahead = np.zeros(2, int)
        count = 0
        for data in [data for data, variant in ours if variant == "default" and (data, model) in theirs]:
            mine, other = ours[data, "default"], theirs[data, model]
            both = sorted(set(mine) & set(other))
            if both:
                error = np.mean([error_of(mine[k]) - error_of(other[k]) for k in both])
                ll = np.mean([mine[k]["ll"] - other[k]["ll"] for k in both])
                ahead += [error < 0, ll > 0]
                count += 1
        rows.append([model, *(f"{n} of {count}" for n in ahead)])
    return table(["opponent", "smaller error", "larger log-likelihood"], rows) if rows else "Not run."


def beside_linear() -> str:
    """Where the default is behind a linear model, in units of the standard error over splits."""
    ours, theirs, rows = runs_of("defaults.json"), runs_of("opponents.json"), []
    linear = {data: model for data, model in theirs if model in ("ridge", "logistic")}
    worst = 0.0
    for data in [data for data, model in ours if model == "default" and data in linear]:
        mine, other = ours[data, "default"], theirs[data, linear[data]]
        both = sorted(set(mine) & set(other))
        if len(both) < 2:
            continue
        behind = [
            mean_error([error_of(mine[k]) - error_of(other[k]) for k in both]),
            mean_error([other[k]["ll"] - mine[k]["ll"] for k in both]),
        ]
        worst = max(worst, *(mean / max(error, 1e-12) for mean, error in behind))
        if any(mean > 0 for mean, _ in behind):
            rows.append([data, *(f"{mean:+.3g} ± {error:.2g}" for mean, error in behind)])
    head = ["table", "error, ours less theirs", "log-likelihood, theirs less ours"]
    return table(head, rows) + f"\n\nThe largest is {worst:.1f} standard errors." if rows else "Nowhere."


def classes() -> str:
    """The classifier's default on digits and documents."""
    rows = []
    for record in stored("classes_default.json"):
        for name in dict.fromkeys(key.split()[0] for key in record["runs"]):
            made = [run for key, run in record["runs"].items() if key.split()[0] == name]
            of = {figure: np.mean([run[figure] for run in made]) for figure in CLASS_FIGURES}
            rows.append([name, str(len(made)), *(form.format(of[f]) for f, form in CLASS_FIGURES.items())])
    head = ["data", "seeds", "accuracy, %", "balanced, %", "negative log-likelihood", "calibration error"]
    return table([*head, "second fit, s"], rows) if rows else "Not run."


CLASS_FIGURES = {
    "accuracy": "{:.2f}",
    "balanced": "{:.2f}",
    "nll": "{:.4f}",
    "ece": "{:.4f}",
    "fit_s_second": "{:.1f}",
}


WORDS = {
    "no-features": "no periodic features",
    "no-linear": "no linear part",
    "no-fallback": "no falling back to ridge regression",
    "one-layer": "one hidden layer",
    "one-member": "one network",
    "no-transform": "the target as it is",
    "not-calibrated": "a plain mixture of networks",
    "plain-scale": "outliers in the scale of columns",
    "adam": "Adam instead of Muon",
    "whole-cycles": "every cycle to its end",
    "no-patience": "all cycles",
    "former": "`one_layer()`",
}


def ablations() -> str:
    """What leaving out a part does, on the splits that were run with and without it."""
    ours, rows = runs_of("defaults.json"), []
    variants = list(dict.fromkeys(variant for _, variant in ours if variant != "default"))
    for variant in variants:
        errors, lls = [], []
        for data in [data for data, model in ours if model == variant]:
            less, full = ours[data, variant], ours[data, "default"]
            both = sorted(set(less) & set(full))
            if both:
                ratios = [np.log((error_of(less[k]) + 1e-9) / (error_of(full[k]) + 1e-9)) for k in both]
                errors.append(np.median(ratios))
                lls.append(np.mean([less[k]["ll"] - full[k]["ll"] for k in both]))
        change = f"{100 * np.expm1(np.median(errors)):+.1f} %"
        figures = [change, f"{np.median(lls):+.3f}", f"{np.mean(lls):+.3f}"]
        rows.append([WORDS[variant], str(len(errors)), *figures])
    head = ["variant", "tables", "error, median change", "log-likelihood, median", "mean"]
    return table(head, rows) if rows else "Not run."


def coverage() -> str:
    """Coverage of the default's intervals, in per cent."""
    rows = []
    for name in ("uci_default.json", "defaults.json"):
        ours = runs_of(name)
        for data in [d for d, model in ours if model == "default"]:
            made = [run for run in ours[data, "default"].values() if "cover50" in run]
            if made:
                n = [run["n_test"] for run in made]
                held = (np.average([run[f"cover{p}"] for run in made], weights=n) for p in LEVELS)
                rows.append([data, str(sum(n)), *(f"{100 * share:.0f}" for share in held)])
    head = ["data", "test rows", *(f"{p} %" for p in LEVELS)]
    return table(head, rows) if rows else "Not run."


METHOD = {"default-ablations": ablations}
RESULTS = {
    "default-summary": summary,
    "default-uci": uci,
    "default-tables": tables,
    "default-verdicts": verdicts,
    "default-linear": beside_linear,
    "default-classes": classes,
}
UNCERTAINTY = {"coverage": coverage}
