"""The block on intervals with a guarantee: how often new rows were inside."""

from typing import Any

from page import stored

MODELS = {"ridge": "five ridge regressions", "tggm": "`TGGMRegressor` with few epochs"}


def block() -> str:
    """For each kind of model the range over sizes, noises and levels, in standard errors of the promise."""
    records = stored("guarantee.json")
    return "\n".join(_told(model, records[0]["runs"]) for model in MODELS) if records else "Not run."


def _told(model: str, runs: dict[str, dict[str, Any]]) -> str:
    found = [run for name, run in runs.items() if name.split()[-1] == model]
    times = f"{found[0]['repetitions']:,}"
    off = [run["errors_above"] for run in found]
    return (
        f"- {MODELS[model]}, {len(found)} cases of {times} samples: from {min(off):+.1f} to {max(off):+.1f} "
        "standard errors above the level."
    )
