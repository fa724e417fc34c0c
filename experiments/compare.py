"""Print paired differences, table by table, between two stored runs of a learner on the same splits.

    python experiments/compare.py BEFORE AFTER [--relative]

BEFORE and AFTER are results files; "file.json:name" takes only the runs of one variant or model. A cell is
the mean of "after minus before" over the splits that both files have, ± its standard error; * marks more than
two standard errors. The last lines count tables: better / equal (within two errors, or one split) / worse.
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


def runs_of(named: str) -> dict[str, dict[int, dict[str, Any]]]:
    """Return runs by table and split; `named` is "file.json" or "file.json:variant"."""
    path, _, wanted = named.partition(":")
    found: dict[str, dict[int, dict[str, Any]]] = {}
    for run in read(Path(path))["runs"]:
        name = run.get("learner", run.get("variant", run.get("model")))
        table = found.setdefault(run.get("table", run.get("dataset")), {})
        if "failed" not in run and name == (wanted or name):
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
    for table in (name for name in before if before[name].keys() & after.get(name, {}).keys()):
        both = [(run, after[table][k]) for k, run in before[table].items() if k in after[table]]
        cells = []
        for figure, sign in FIGURES.items():
            known = [(a[figure], b[figure]) for a, b in both if None not in (a.get(figure), b.get(figure))]
            relative = args.relative and figure in ("crps", "error", "cpu_s") and all(a for a, _ in known)
            change = [100 * (b / a - 1) if relative else b - a for a, b in known]
            value, error = mean_error(change) if change else (np.nan, np.nan)
            verdicts[figure] += [int(sign * np.sign(value)) if abs(value) > 2 * error else 0] * bool(change)
            cells.append(f"{value:+.4g} ± {error:.2g}{' *'[abs(value) > 2 * error]}" if change else "")
        print(f"{table:14}{len(both):6}", *(f"{cell:>24}" for cell in cells))
    for figure in ("crps", "ll", "error"):
        print(f"{figure}:", " / ".join(str(verdicts[figure].count(v)) for v in (1, 0, -1)))


if __name__ == "__main__":
    main()
