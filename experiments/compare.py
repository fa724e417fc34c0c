"""Print paired differences, table by table, between two stored runs of a learner on the same splits.

    python experiments/compare.py BEFORE AFTER [--relative]

BEFORE and AFTER are results files of this folder's commands; "file.json:name" takes only the runs of one
variant or model. Each cell is the mean difference "after minus before" over the splits that both files have,
± its standard error; * marks more than two standard errors. CRPS and error are better if they fall, the
log-likelihood if it rises. Errors are RMSEs or shares of wrong labels; coverage is a share of rows. The last
lines count tables (better / equal / worse; equal: within two standard errors, or one split).
"""

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from store import mean_error, read

FIGURES = {
    "crps": -1,
    "ll": 1,
    "error": -1,
    "cover50": 0,
    "cover90": 0,
    "cpu_s": -1,
}  # sign of an improvement
Runs = dict[str, dict[int, dict[str, Any]]]


def runs_of(named: str) -> Runs:
    """Return runs by table and split; `named` is "file.json" or "file.json:variant"."""
    path, _, wanted = named.partition(":")
    found: Runs = {}
    for run in read(Path(path))["runs"]:
        name = run.get("variant", run.get("model"))
        if "failed" in run or name != (wanted or name):
            continue
        table = found.setdefault(run.get("table", run.get("dataset")), {})
        if run["split"] in table:
            raise SystemExit(f"{path} has several variants, {name} among them; add one: {path}:{name}")
        table[run["split"]] = {"error": run.get("rmse"), **run}
    return found


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("before")
    p.add_argument("after")
    p.add_argument("--relative", action="store_true", help="CRPS, error and seconds in per cent of BEFORE")
    args = p.parse_args()
    before, after = runs_of(args.before), runs_of(args.after)
    verdicts: dict[str, list[int]] = {figure: [] for figure in FIGURES}
    print(f"{'table':14}{'splits':>6}", *(f"{figure:>24}" for figure in FIGURES))
    for table in (name for name in before if name in after):
        both = [(before[table][k], after[table][k]) for k in sorted(before[table]) if k in after[table]]
        cells = []
        for figure, sign in FIGURES.items():
            pairs = [(a[figure], b[figure]) for a, b in both if a.get(figure) is not None and figure in b]
            relative = args.relative and figure in ("crps", "error", "cpu_s")
            change = [100 * (b / a - 1) if relative else b - a for a, b in pairs if a or not relative]
            value, error = mean_error(change) if change else (np.nan, np.nan)
            verdicts[figure] += (
                [int(sign * np.sign(value)) if abs(value) > 2 * error else 0] if change else []
            )
            star = "*" if abs(value) > 2 * error else " "
            cells.append(f"{value:+.4g} ± {error:.2g}{star}" if change else "")
        print(f"{table:14}{len(both):6}", *(f"{cell:>24}" for cell in cells))
    for figure in ("crps", "ll", "error"):
        print(f"{figure}:", " / ".join(str(verdicts[figure].count(v)) for v in (1, 0, -1)))


if __name__ == "__main__":
    main()
