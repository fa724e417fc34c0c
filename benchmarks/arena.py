"""Run every learner on every table with the same splits, and draw skill against seconds.

    TGGM_DATA=... python benchmarks/arena.py [--learners tggm,catboost-early] [--tables uci,ames] [--jobs 2]
    python benchmarks/arena.py --draw

Tables: nine UCI sets (the first five stored splits; --splits 20 for all), the development tables, four
generated data frames and three classification sets of scikit-learn (three splits; the number of the split is
the seed). Slow learners get the first split of large tables only. Measures of test rows: RMSE or the share of
wrong labels, log-likelihood, CRPS, coverage, and the skill, 1 − CRPS / CRPS of the empirical distribution of
the training targets, or 1 − log-loss / log-loss of the class frequencies. Each fit and prediction has one
core (networks of other libraries: one core and a GPU). Results go to experiments/results/arena, one file per
learner; an interrupted command continues. Writes docs/images/arena.png.
"""

import sys
import time
import warnings
from importlib.metadata import version
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

sys.path.insert(0, str(Path(__file__).parents[1] / "experiments"))
from datasets import UCI, load_uci
from learners import LEARNERS, OURS, VARIANTS, installed
from render import ARENA, known, position
from scores import climatology, distribution, frequencies, labels, new_rows, rms
from store import IMAGES, Clock, Run, complete, options, some
from threadpoolctl import threadpool_limits

from tables import CLASSES, LARGE, RAW_TABLES, SPLITS, TABLES, Split
from tggm.plotting import DATA, GREY, MODEL, REFERENCE, axes_or_new

GROUPS = {
    "uci": tuple(UCI),
    "development": tuple(TABLES),
    "frames": ("towns", "sales", "medical", "rare"),
    "classes": tuple(CLASSES),
}
KNOWN = TABLES | RAW_TABLES | CLASSES
ALL = tuple(name for group in GROUPS.values() for name in group)
BIG = (*LARGE, "protein", "naval", "power", "kin8nm")


def rows(table: str, split: int, frames: bool) -> tuple[Split, str]:
    """Return one split, as a data frame if the table has words and the learner takes them, and the task."""
    if table in UCI:
        data = load_uci(table)
        train, test = data.splits[split]
        return Split(data.X[train], data.y[train], data.X[test], data.y[test]), "regression"
    known = KNOWN[table]
    return known.raw(split) if frames and known.words else known.split(split), known.task


def resident(field: str, reset: bool = False) -> float:
    """Return a figure of the kernel about the memory of this process, MiB; NaN if there is none."""
    try:
        if reset:  # the largest resident memory from now on
            Path("/proc/self/clear_refs").write_text("5")
        status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
        return int(status[field].split()[0]) / 1024
    except (OSError, KeyError, ValueError):
        return float("nan")


def work(learner: str, table: str, split: int) -> Run:
    """Fit and score one learner on one split; return the error if that fails."""
    try:
        with warnings.catch_warnings(), threadpool_limits(1):
            warnings.simplefilter("ignore")
            found = measure(learner, table, split)
    except Exception as error:  # the failure of a learner is a result
        return {"failed": f"{type(error).__name__}: {error}"[:200]}
    return {k: float(f"{v:.5g}") if isinstance(v, float) else v for k, v in found.items() if v == v}


def measure(learner: str, table: str, split: int) -> Run:
    """Fit and score one learner on one split."""
    known = LEARNERS[learner]
    (X, y, X_test, y_test), task = rows(table, split, known.frames)
    if len(y) > known.largest:
        raise ValueError(f"not run on more than {known.largest} rows")
    fit = getattr(known, task)
    before, clock = resident("VmRSS", reset=True), Clock()
    predict = fit(X, y, split)
    figures: Run = {"rows": len(y), "columns": X.shape[1], "n_test": len(y_test), **clock.read()}
    start = time.perf_counter()
    found = predict(X_test)
    if task == "regression":
        found.mean()  # some laws are computed when they are used
    figures |= {"predict_s": time.perf_counter() - start, "memory_MiB": resident("VmHWM") - before}
    if known.package:
        figures["version"] = version(known.package)
    if known.gpu:
        import torch

        figures["accelerator"] = torch.cuda.get_device_name() if torch.cuda.is_available() else "none"
    if task == "classification":
        figures |= labels(y_test, np.unique(y), np.asarray(found))
        return {**figures, "skill": 1 - figures["ll"] / frequencies(y, y_test)}
    figures |= distribution(found, y_test)
    if table in UCI and not (new := new_rows(X, X_test)).all():
        figures |= {"rmse_new": rms((y_test - found.mean())[new]), "crps_new": found.crps(y_test)[new].mean()}
    unique = len(np.unique(y)) / len(y)
    return {**figures, "skill": 1 - figures["crps"] / climatology(y, y_test), "unique": unique}


def plan(learners: list[str], tables: list[str], splits: int) -> list[tuple[str, str, int]]:
    """Return all runs: variants last, then by splits, the cheapest first and those on a GPU last."""
    tasks: list[tuple[str, str, int]] = []
    for table in tables:
        task = "regression" if table in UCI else KNOWN[table].task
        count = len(load_uci(table).splits) if table in UCI else SPLITS
        for learner in learners:
            known = LEARNERS[learner]
            most = splits if table in UCI else min(splits, 3)
            variant = learner.startswith("tggm-") and learner not in OURS
            if variant or known.pace > (4 if table in BIG else 8):
                most = 1
            skipped = (variant and table in UCI) or (known.largest < 1e4 and table in BIG)
            if getattr(known, task) and not skipped:
                tasks += [(learner, table, k) for k in range(min(most, count))]
    order = {}
    for task in tasks:
        known = LEARNERS[task[0]]
        cost = known.pace * (15 if task[1] in BIG else 1)
        order[task] = (task[0].startswith("tggm-") and task[0] not in OURS, task[2], known.gpu, cost)
    return sorted(tasks, key=order.__getitem__)


def picture() -> None:
    """Draw the mean skill of the regression tables against seconds, one point per learner."""
    figure = Figure(figsize=(8.4, 5.0), layout="constrained")
    ax = axes_or_new(figure.subplots())
    places = {name: position(name) for name in known("regression")}
    times, skills, counts = zip(*places.values(), strict=True)
    gap, height = (max(skills) - min(skills)) / 24, -np.inf
    for name in sorted(places, key=lambda name: places[name][1]):
        x, y, count = places[name]
        colour = MODEL if name in OURS else REFERENCE if LEARNERS[name].gpu else DATA
        full = "full" if count == max(counts) else "none"
        ax.plot(x, y, "o", color=colour, markersize=8, fillstyle=full)
        height = max(height + gap, y)
        text = LEARNERS[name].name + ("" if count == max(counts) else f" ({count} tables)")
        line = {"arrowstyle": "-", "color": "0.8", "linewidth": 0.7, "shrinkA": 0, "shrinkB": 5}
        ax.annotate(text, (x, y), (3 * max(times), height), va="center", color=colour, arrowprops=line)
    for colour, text in ((MODEL, "this package"), (DATA, "one core"), (REFERENCE, "one core and a GPU")):
        ax.plot([], [], "o", color=colour, label=text)
    ax.plot([], [], "o", color=GREY, fillstyle="none", label="on a part of the tables")
    ax.legend(loc="lower right", fontsize=8.5)
    ax.set(xscale="log", xlabel="CPU seconds of a fit and its predictions (geometric mean over tables)")
    ax.set(ylabel=f"CRPS skill, mean of {max(counts)} tables")
    figure.savefig(IMAGES / "arena.png", dpi=110)


def tables_of(text: str) -> list[str]:
    """Return the tables of names and groups, separated by commas."""
    return [table for name in some((*GROUPS, *ALL))(text) for table in GROUPS.get(name, (name,))]


def main() -> None:
    p = options(__doc__)
    default = [name for name in LEARNERS if name.removeprefix("tggm-") not in VARIANTS or name in OURS]
    p.add_argument("--learners", type=some(tuple(LEARNERS)), default=default, metavar="NAME,...")
    p.add_argument("--tables", type=tables_of, default=list(ALL), metavar="NAME,...", help="or groups")
    p.add_argument("--splits", type=int, default=5, help="of UCI sets; at most three of other tables")
    p.add_argument("--draw", action="store_true", help="only draw the stored runs")
    args = p.parse_args()
    if not args.draw:
        tasks = plan(installed(args.learners), args.tables, args.splits)
        fields = ("learner", "table", "split")
        sys.argv[1:] = []  # records name the command that makes all of them
        complete(args.out or ARENA, fields, work, tasks, jobs=args.jobs, force=args.force)
    if args.out is None:
        picture()


if __name__ == "__main__":
    main()
