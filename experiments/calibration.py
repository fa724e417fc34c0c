"""Are predicted probabilities frequencies? Calibration curves of the default on the UCI sets.

    TGGM_DATA=... python experiments/calibration.py [--datasets boston,yacht] [--splits 2]

The picture is drawn from the runs of Table 1 (`tggm reproduce table1`), which count in which twentieth of its
predictive distribution each test target falls; data sets that are not among them are run here, on a few
splits. Writes experiments/results/calibration.json and docs/images/calibration.png.
"""

from typing import Any

import numpy as np
from datasets import UCI, load_uci
from matplotlib.figure import Figure
from page import table
from runs import IMAGES, RESULTS, begin, complete, made, options, origin, read
from scipy import stats
from uci import judge

from tggm import TGGMRegressor

TABLE1, RESULT = RESULTS / "table1" / "default.json", RESULTS / "calibration.json"
IMAGE = IMAGES / "calibration.png"


def run(dataset: str, split: int, seed: int) -> dict[str, Any]:
    """Counts of test targets in each twentieth of the default's predictive distribution."""
    X, y, splits = load_uci(dataset)
    train, test = splits[split]
    hidden = (100,) if dataset == "protein" else (50,)
    model = TGGMRegressor.one_layer(hidden=hidden, random_state=seed + split).fit(X[train], y[train])
    found = judge(model, X, y, test, 0.0)
    return {"pit": found["pit"], "rows": len(y), "ll": found["ll"]}


def histograms() -> dict[str, dict[str, Any]]:
    """For each data set: counts summed over splits, how many splits, and how many different rows."""
    found: dict[str, dict[str, Any]] = {}
    for name, figures in read(RESULT).get("runs", {}).items():
        known = found.setdefault(
            name.split()[0], {"counts": np.zeros(20), "splits": 0, "table": figures["rows"]}
        )
        known["counts"] += figures["pit"]
        known["splits"] += 1
    for name, kept in read(TABLE1).items():
        pits = [s["pit"] for s in kept["splits"] if "pit" in s]
        if pits:
            whole = kept["train_rows"] + sum(pits[0])
            found[name] = {"counts": np.sum(pits, axis=0), "splits": len(pits), "table": whole}
    for known in found.values():
        # a row that is tested in several splits says little new the second time
        known["rows"] = int(min(known["counts"].sum(), known["table"]))
    return {name: found[name] for name in UCI if name in found}


def source() -> str:
    """How the counts were made."""
    parts = []
    if kept := read(TABLE1):
        splits = [split for known in kept.values() for split in known["splits"] if "pit" in split]
        seeds, commits, devices = (
            ", ".join(sorted({str(v) for v in values}))
            for values in (
                (known["seed"] for known in kept.values()),
                (split["commit"] for split in splits),
                (split["device"] for split in splits),
            )
        )
        parts.append(f"Made by `tggm reproduce table1` (seed {seeds}; commit {commits}; {devices}).")
    own = read(RESULT)
    if own and {name.split()[0] for name in own["runs"]} - set(kept):
        parts.append(made(own))
    return " ".join(parts)


def coverage(counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities 0.1, 0.2, … of central intervals and the fraction of targets inside."""
    folded = counts[:10][::-1] + counts[10:]
    return np.linspace(0.1, 1.0, 10), np.cumsum(folded) / counts.sum()


def furthest(counts: np.ndarray) -> float:
    """The largest distance of coverage from its nominal value, signed: negative if too sure."""
    level, inside = coverage(counts)
    off = inside - level
    return float(off[np.argmax(np.abs(off))])


def picture(found: dict[str, dict[str, Any]]) -> None:
    columns = min(len(found), 5)
    height = -(-len(found) // columns)
    figure = Figure(figsize=(1.95 * columns, 2.2 * height), layout="constrained")
    axes = figure.subplots(height, columns, squeeze=False, sharex=True, sharey=True)
    for ax in axes.ravel()[len(found) :]:
        ax.set_axis_off()
    for ax, (name, known) in zip(axes.ravel(), found.items(), strict=False):
        level, inside = coverage(known["counts"])
        n = known["rows"]
        low, high = (q / n for q in stats.binom.interval(0.95, n, level))
        ax.fill_between([0, *level], [0, *low], [0, *high], color="#8C8C8C", alpha=0.3, linewidth=0)
        ax.plot([0, 1], [0, 1], color="#8C8C8C", linewidth=1)
        ax.plot([0, *level], [0, *inside], color="#0072B2", marker=".", linewidth=1.5)
        ax.set(xlim=(0, 1), ylim=(0, 1), title=f"{name.capitalize()}")
        ax.text(0.97, 0.05, f"{n} rows\n{known['splits']} splits", ha="right", fontsize=7, color="0.35")
        ax.set_aspect("equal")
    figure.supxlabel("probability of the central interval", fontsize=9)
    figure.supylabel("fraction of test targets inside", fontsize=9)
    figure.savefig(IMAGE, dpi=90)


def summary_table() -> str:
    """Coverage of central intervals in per cent."""
    rows = []
    for name, known in histograms().items():
        _, inside = coverage(known["counts"])
        cells = [f"{100 * inside[i]:.1f}" for i in (1, 4, 7, 8)]
        rows.append(
            [name.capitalize(), str(known["splits"]), *cells, f"{100 * furthest(known['counts']):+.1f}"]
        )
    return table(["data set", "splits", "20 %", "50 %", "80 %", "90 %", "furthest off"], rows)


def main() -> None:
    p = options(__doc__)
    p.add_argument("--datasets", default="boston,yacht", help="to run here if Table 1 has not run them")
    p.add_argument("--splits", type=int, default=2)
    args = p.parse_args()
    begin()
    if not args.render:
        missing = [name for name in args.datasets.split(",") if name not in read(TABLE1)]
        tasks = [(name, i, args.seed) for name in missing for i in range(args.splits)]
        complete(RESULT, origin(settings={"seed": args.seed}), run, tasks, args.jobs, force=args.force)
    print(summary_table())
    picture(histograms())


if __name__ == "__main__":
    main()
