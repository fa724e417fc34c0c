"""The block on units with two limits."""

import numpy as np
from page import table
from page_defaults import runs_of
from runs import mean_error

UNITS = ("relu", "tanh", "sigmoid", "learned")


def units() -> str:
    """Log-likelihood of ReLUs, what others gain on the same splits, and which widths were learned."""
    runs, rows = runs_of("units.json"), []
    for data in dict.fromkeys(name for name, _ in runs):
        usual = runs[data, "relu"]
        cells = [_gain(usual, runs[data, kind]) for kind in UNITS[1:]]
        learned = [run["widths"] for run in runs[data, "learned"].values()]
        shown = ", ".join(f"{w:.1f}" for w in np.mean(learned, 0)) if learned else "not run"
        level = f"{np.mean([run['ll'] for run in usual.values()]):.3f}" if usual else "not run"
        rows.append([data, str(len(usual)), level, *cells, shown])
    head = ["table", "splits", "relu", *(f"{kind}: gain" for kind in UNITS[1:]), "learned widths / σ0"]
    return table(head, rows) if rows else "Not run."


def _gain(usual: dict[int, dict[str, float]], other: dict[int, dict[str, float]]) -> str:
    both = sorted(usual.keys() & other.keys())
    if not both:
        return "not run"
    mean, error = mean_error([other[k]["ll"] - usual[k]["ll"] for k in both])
    return f"{mean:+.3f} ± {error:.3f}" if len(both) > 1 else f"{mean:+.3f}"
