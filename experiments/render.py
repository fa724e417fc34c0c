"""Fill the tables of the documentation from stored results.

    python experiments/render.py

A table is between the comments <!-- NAME --> and <!-- /NAME --> of its page. `BLOCKS` maps pages and
names to functions that return the text; `rows` reads the runs of a results file, `table` and `pivot` turn
runs into Markdown. The line below a table names the command, the commits and the machines of the results
files that were read.
"""

import json
import re
from collections.abc import Callable, Iterable, Sequence
from functools import cache, partial
from math import hypot, sqrt
from pathlib import Path
from typing import Any

import figure2
import numpy as np
from datasets import UCI
from learners import LEARNERS, OURS, VARIANTS
from scores import LEVELS
from store import BENCHMARKS, RESULTS, ROOT, Record, Run, mean_error, read

from tables import RAW_TABLES

Cell = Callable[[list[Run]], str]
QUOTED = json.loads((Path(__file__).parent / "quoted.json").read_text())  # published figures
ARENA = RESULTS / "arena"
DIFFERENT = 0.9  # least share of different targets with which log-densities are compared
RAW_LEARNERS = ("catboost", "catboost-early", "lightgbm", "linear")
_used: dict[str, list[Run]] = {}  # by command: the runs that the current block shows


@cache
def record(name: str) -> Record:
    """Return a record of experiments/results, or of benchmarks/results for the prefix "benchmarks/"."""
    stem = name.removeprefix("benchmarks/")
    return read((RESULTS if stem == name else BENCHMARKS) / f"{stem}.json")


def rows(name: str, **where: Any) -> list[Run]:
    """Return the runs of a results file whose fields have the given values; failed runs are left out."""
    stored = record(name)
    runs = [run for run in stored["runs"] if "failed" not in run]
    runs = [run for run in runs if all(run.get(field) == value for field, value in where.items())]
    if runs:
        _used.setdefault(stored["command"], []).extend(runs)
    return runs


def grouped(runs: Iterable[Run], *fields: str) -> dict[Any, list[Run]]:
    """Return lists of runs by the values of their fields, in the order of first appearance."""
    found: dict[Any, list[Run]] = {}
    for run in runs:
        key = tuple(run.get(field) for field in fields)
        found.setdefault(key[0] if len(fields) == 1 else key, []).append(run)
    return found


def markdown(head: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table."""
    return "\n".join("| " + " | ".join(line) + " |" for line in [head, ["---"] * len(head), *lines])


def table(runs: list[Run], by: dict[str, str], columns: dict[str, Cell]) -> str:
    """Return a table with one line per group of runs; `by` and `columns` map headings to fields and cells."""
    lines = []
    for key, group in grouped(runs, *by.values()).items():
        names = key if len(by) > 1 else (key,)
        lines.append([*(str(name) for name in names), *(cell(group) for cell in columns.values())])
    return markdown([*by, *columns], lines)


def pivot(runs: list[Run], line: str, column: str, cell: Cell, corner: str = "", missing: str = "") -> str:
    """Return a table with one line per value of one field and one column per value of another."""
    heads = list(grouped(runs, column))
    lines = []
    for name, group in grouped(runs, line).items():
        found = grouped(group, column)
        lines.append([str(name), *(cell(found[head]) if head in found else missing for head in heads)])
    return markdown([corner or line, *map(str, heads)], lines)


def mean(figure: str, form: str = ".3f", scale: float = 1.0) -> Cell:
    """Return a cell with the mean of a figure over runs."""

    def cell(runs: list[Run]) -> str:
        values = [run[figure] for run in runs if run.get(figure) is not None]
        return format(scale * float(np.mean(values)), form) if values else ""

    return cell


def spread(figure: str, form: str = ".4g", scale: float = 1.0) -> Cell:
    """Return a cell with the mean and standard error of a figure over runs."""

    def cell(runs: list[Run]) -> str:
        value, error = mean_error([scale * run[figure] for run in runs])
        return f"{value:{form}} ± {error:.2g}" if np.isfinite(error) else f"{value:{form}}"

    return cell


def joined(*cells: Cell, by: str = " / ") -> Cell:
    """Return a cell with several values, without empty ones."""
    return lambda runs: by.join(filter(None, (cell(runs) for cell in cells)))


def count(runs: list[Run]) -> str:
    """Return the number of runs."""
    return str(len(runs))


def error_rate(run: Run) -> float:
    """Return the RMSE, or the share of wrong labels."""
    return float(run["rmse"] if "rmse" in run else run["error"])


def duration(seconds: float) -> str:
    """Return a time in a suitable unit."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"


def seconds(figure: str) -> Cell:
    """Return a cell with the median of a time."""
    return lambda runs: duration(float(np.median([run[figure] for run in runs])))


def origin() -> str:
    """Return a sentence with the commands, commits and machines of the runs that were read."""
    parts = []
    for command, runs in _used.items():
        commits, machines = (
            {run[field] for run in runs if run.get(field)} for field in ("commit", "machine")
        )
        facts = [f"commit {', '.join(sorted(commits))}" if commits else "commit unknown"]
        facts += sorted(machines) or ["machine unknown"]
        parts.append(f"`{command}` ({'; '.join(facts)})")
    return f"Made by {', and by '.join(parts)}." if parts else ""


def pairs(ours: list[Run], theirs: list[Run], *fields: str) -> list[tuple[Run, Run]]:
    """Return the runs of both lists that have the same values of the fields."""
    other = {tuple(run[field] for field in fields): run for run in theirs}
    keys = [(run, tuple(run[field] for field in fields)) for run in ours]
    return [(run, other[key]) for run, key in keys if key in other]


# the arena


def arena(learner: str, task: str = "") -> list[Run]:
    """Return the runs of a learner, of one task if it is given."""
    figure = {"regression": "crps", "classification": "error"}.get(task, "skill")
    runs = [run for run in rows(f"arena/{learner}") if figure in run]
    return [{**run, "total_s": run["cpu_s"] + run.get("predict_s", 0.0)} for run in runs]


def known(task: str = "") -> list[str]:
    """Return the learners that have runs, without the ablations."""
    names = (name for name in LEARNERS if name in OURS or not name.startswith("tggm"))
    return [name for name in sorted(names, key=lambda name: name not in OURS) if arena(name, task)]


def opponents(task: str = "") -> list[str]:
    """Return the learners that have runs, without ours."""
    return [name for name in known(task) if name not in OURS]


def duel(learner: str, task: str = "", figure: str = "skill") -> dict[str, tuple[float, float]]:
    """Return by table the means of an opponent's figure and of ours over their common splits.

    Of seconds the median: the first fit of a size also compiles.
    """
    found: dict[str, list[tuple[float, float]]] = {}
    for theirs, ours in pairs(arena(learner, task), arena("tggm", task), "table", "split"):
        comparable = figure != "ll" or ours.get("unique", 1.0) >= DIFFERENT
        if figure in theirs and figure in ours and comparable:
            found.setdefault(theirs["table"], []).append((theirs[figure], ours[figure]))
    middle = np.median if figure.endswith("_s") else np.mean
    return {name: tuple(middle(values, axis=0).tolist()) for name, values in found.items()}


def position(learner: str) -> tuple[float, float, int]:
    """Return seconds, mean skill and the number of regression tables.

    A learner that did not run on all tables is placed by its mean difference from the default on those it
    ran, and its seconds by their ratio.
    """
    at, there = (
        {figure: np.array([*duel(name, "regression", figure).values()]) for figure in ("skill", "total_s")}
        for name in ("tggm", learner)
    )
    ratio = np.exp(np.mean(np.log(there["total_s"][:, 0] / there["total_s"][:, 1])))
    time = float(np.exp(np.log(at["total_s"][:, 0]).mean()) * ratio)
    skill = at["skill"][:, 0].mean() + (there["skill"][:, 0] - there["skill"][:, 1]).mean()
    return time, float(skill), len(there["skill"])


def standings(task: str) -> str:
    """Compare every opponent with the default; those that win on most tables are first."""
    lines = []
    for name in opponents(task):
        theirs, ours = np.array([*duel(name, task).values()]).T
        value, error = mean_error(ours - theirs)
        won, spare = sum(theirs > ours), f" ± {error:.2g}" if np.isfinite(error) else ""
        cells = [
            f"{won} of {len(ours)}",
            *(f"{x.mean():.3f}" for x in (theirs, ours)),
            f"{value:+.3f}{spare}",
        ]
        times = np.exp(np.log([*duel(name, task, "total_s").values()]).mean(0))
        line = [LEARNERS[name].name, *cells, *map(duration, times), settings_of(name, task)]
        lines.append((-won / len(ours), line))
    heads = ["opponent", "ahead of us on", "mean skill", "ours", "difference", "time", "ours", "settings"]
    return markdown(heads, [line for _, line in sorted(lines)])


def brief() -> str:
    """Compare five opponents with the default on the regression tables that they ran."""
    lines = []
    for name in ("tabm", "realmlp", "lightgbm", "catboost-early", "ngboost"):
        theirs, ours = np.array([*duel(name, "regression").values()]).T
        won = f"{sum(ours > theirs)} of {len(ours)}"
        lines.append([LEARNERS[name].name, f"{theirs.mean():.2f}", f"{ours.mean():.2f}", won])
    return markdown(["opponent", "its mean skill", "`tggm` on the same tables", "`tggm` is ahead on"], lines)


def settings_of(name: str, task: str) -> str:
    """Return the settings and the version of an opponent."""
    runs, settings = arena(name, task), LEARNERS[name].settings.split("; classes: ")
    text = settings[-1 if task == "classification" else 0]
    versions = sorted({run["version"] for run in runs if "version" in run and "scikit-learn" not in text})
    if versions:
        text += f" ({LEARNERS[name].package.replace('_', '-')} {', '.join(versions)})"
    devices = sorted({run["accelerator"] for run in runs if "accelerator" in run})
    return text + (f"; on {', '.join(devices).replace('none', 'a CPU')}" if devices else "")


def losses() -> dict[str, list[tuple[float, str, float, float]]]:
    """Return by table the opponents with more skill: the difference, the name, both skills; largest first."""
    found: dict[str, list[tuple[float, str, float, float]]] = {}
    for name in opponents():
        for table, (theirs, ours) in duel(name).items():
            if theirs > ours:
                found.setdefault(table, []).append((theirs - ours, LEARNERS[name].name, theirs, ours))
    return dict(sorted(((t, sorted(v)[::-1]) for t, v in found.items()), key=lambda item: -item[1][0][0]))


def behind() -> str:
    """List the tables on which an opponent has more skill, the largest difference first."""
    ours_by_table, lines = grouped(arena("tggm"), "table"), []
    for table, found in losses().items():
        gap, name, theirs, ours = found[0]
        task = "classes" if "error" in ours_by_table[table][0] else "regression"
        names = "; ".join(name for _, name, _, _ in found[1:])  # "CatBoost, quantiles" is one name
        size = f"{ours_by_table[table][0]['rows']:,} × {ours_by_table[table][0]['columns']}"
        lines.append([table, task, size, name, f"{theirs:.3f}", f"{ours:.3f}", f"{gap:.3f}", names])
    rest = f"No opponent has more skill on the other {len(ours_by_table) - len(lines)} tables."
    heads = [
        "table",
        "task",
        "rows × columns",
        "best opponent",
        "its skill",
        "ours",
        "difference",
        "also ahead",
    ]
    return f"{markdown(heads, lines)}\n\n{rest}"


def wide(
    figure: str,
    form: str = ".3f",
    task: str = "",
    tables: Sequence[str] = (),
    learners: Sequence[str] = tuple(LEARNERS),
    unique: float = 0.0,
) -> str:
    """Show one figure of all learners, table by table; `unique` is the least share of different targets."""
    names = [name for name in known(task) if name in learners]
    found = {(name, run["table"], run["split"]): run for name in names for run in arena(name, task)}
    splits: dict[str, set[int]] = {}  # those that all learners of a table ran
    for name in names:
        for place, runs in grouped(arena(name, task), "table").items():
            splits[place] = splits.get(place, set(range(99))) & {run["split"] for run in runs}
    shown = [
        {**run, "model": OURS.get(name, LEARNERS[name].name)}
        for (name, place, split), run in found.items()
        if split in splits[place] and figure in run and place in (tables or splits)
    ]
    runs = [run for run in shown if run.get("unique", 1.0) >= unique]
    order = [run["table"] for run in arena("tggm")]
    return pivot(
        sorted(runs, key=lambda run: order.index(run["table"])), "table", "model", mean(figure, form)
    )


def raw(figure: str) -> str:
    """Show a figure of the default on the raw tables, and the differences of four opponents from it.

    Differences are means over the splits that both ran. "error" is the RMSE or the share of wrong labels.
    """
    lines, near = [], dict.fromkeys(RAW_LEARNERS, 0)
    for place in RAW_TABLES:
        ours = [{**run, "error": error_rate(run)} for run in arena("tggm") if run["table"] == place]
        if any(figure not in run for run in ours):
            continue
        form = ",.0f" if ours[0][figure] > 1e3 else ".3f"
        cells = [format(np.mean([run[figure] for run in ours]), form)]
        for name in RAW_LEARNERS:
            theirs = [
                {**run, "error": error_rate(run)} for run in arena(name) if figure in run or figure == "error"
            ]
            gaps = [b[figure] - a[figure] for a, b in pairs(ours, theirs, "table", "split")]
            value, error = mean_error(gaps) if gaps else (np.nan, np.nan)
            spare = f" ± {error:{form}}" if np.isfinite(error) else ""
            cells.append(f"{value:+{form}}{spare}" if gaps else "")
            near[name] += bool(gaps) and value >= -np.nan_to_num(error)
        lines.append([place, *cells])
    text = markdown(["table", OURS["tggm"], *(LEARNERS[name].name for name in RAW_LEARNERS)], lines)
    if figure != "error":
        return text
    won = (f"{LEARNERS[name].name} on {near[name]}" for name in RAW_LEARNERS)
    count = f"of {len(lines)} tables: {'; '.join(won)}"
    return f"{text}\n\nWithin one standard error of the opponent or better, {count}."


def by_learner() -> str:
    """Show coverage, seconds and memory of each learner, means over the tables that it ran."""
    lines = []
    for name in known("regression"):
        runs = arena(name, "regression")
        cells = [str(len(grouped(runs, "table"))), *(mean(f"cover{p}", ".0f", 100)(runs) for p in (50, 90))]
        for figure in ("fit_s", "cpu_s"):
            part = [theirs for theirs, _ in duel(name, "regression", figure).values()]
            cells.append(duration(float(np.exp(np.log(part).mean()))) if part else "")
        sizes = [run["memory_MiB"] for run in runs if "memory_MiB" in run]
        lines.append([LEARNERS[name].name, *cells, f"{max(sizes):.0f} MiB" if sizes else ""])
    heads = ["learner", "tables", "in 50 %", "in 90 %", "fit", "CPU time", "largest memory"]
    return markdown(heads, lines)


def default_uci() -> str:
    """Show the default on the UCI splits, and quoted figures."""
    runs = sorted((run for run in arena("tggm") if run["table"] in UCI), key=lambda run: str(run["table"]))
    columns: dict[str, Cell] = {
        "splits": count,
        "RMSE": spread("rmse"),
        "log-likelihood": spread("ll"),
        "CRPS": spread("crps"),
    }
    for name, figures in QUOTED["others"].items():
        columns[name] = lambda group, known=figures: " / ".join(known.get(group[0]["table"], ()))
    return table(runs, {"set": "table"}, columns)


def new_inputs() -> str:
    """Show the default on test rows whose inputs no training row has."""
    runs = [run for name in OURS for run in arena(name, "regression") if "crps_new" in run]
    figures = {"RMSE": "rmse", "RMSE, new inputs": "rmse_new", "CRPS": "crps", "CRPS, new inputs": "crps_new"}
    runs = [{**run, "model": OURS[run["learner"]]} for run in runs]
    return table(
        runs,
        {"set": "table", "model": "model"},
        {"splits": count} | {k: spread(v) for k, v in figures.items()},
    )


def ablations() -> str:
    """Show the change of error, CRPS and log-likelihood without one part of the default."""
    lines: list[list[str]] = []
    for variant in VARIANTS:
        name = f"tggm-{variant}"
        if not arena(name):
            continue
        cells = []
        for figure in ("rmse", "error", "crps", "ll"):
            both = np.array([*duel(name, figure=figure).values()]).reshape(-1, 2)
            change = (
                both[:, 0] - both[:, 1] if figure in ("ll", "error") else 100 * (both[:, 0] / both[:, 1] - 1)
            )
            value, error = mean_error(change) if len(change) else (np.nan, np.nan)
            cells.append(f"{value:+.3g} ± {error:.2g}" if np.isfinite(error) else "")
        lines.append([f"`{LEARNERS[name].settings}`", str(len(duel(name))), *cells])
    if not lines:
        return "Not run yet with the present default."
    heads = ["setting", "tables", "RMSE, %", "share of wrong labels", "CRPS, %", "log-likelihood"]
    return markdown(heads, lines)


def coverage() -> str:
    """Show the coverage of the default's intervals in per cent."""
    columns: dict[str, Cell] = {"test rows": lambda group: str(sum(run["n_test"] for run in group))}
    columns |= {f"{p} %": mean(f"pit{p}", ".0f", 100) for p in LEVELS}
    return table(arena("tggm", "regression"), {"data": "table"}, columns)


def fits() -> str:
    """Show error, skill and CPU seconds of fits, and how many times CatBoost's seconds the default takes."""
    runs = rows("benchmarks/fit")
    for run in runs:
        run |= {"data": f"{run['table'].capitalize()}, {run['rows']:,} rows", "error_rate": error_rate(run)}
        run["model"] = OURS.get(run["learner"], LEARNERS[run["learner"]].name)
    times = joined(mean("cpu_s", ".1f"), lambda group: f"({mean('first_cpu_s', '.1f')(group)})", by=" ")
    cell = joined(mean("error_rate", ".3g"), mean("skill", ".3f"), times)
    ours, theirs = (grouped(rows("benchmarks/fit", learner=name), "table") for name in ("tggm", "catboost"))
    ratios = [
        f"{t.capitalize()} {ours[t][0]['cpu_s'] / theirs[t][0]['cpu_s']:.1f}" for t in ours if t in theirs
    ]
    text = pivot(runs, "model", "data", cell, "error / skill / seconds (first fit)", "not run")
    return f"{text}\n\nSeconds of the second fit, in those of CatBoost: {', '.join(ratios)}."


def gaps() -> str:
    """Show coverage of 90 % intervals on gap and tail splits: means over columns, and the worst column."""
    runs, lines = [dict(run) for run in rows("gaps") if run["split"] != "random"], []
    names = {run["set"] for run in runs} - UCI.keys()
    for run in runs:
        run["shown"] = f"{len(names)} development tables" if run["set"] in names else run["set"]
    labels = {
        "default": "default",
        "catboost-early": "CatBoost",
        "ngboost": "NGBoost",
        "gp": "Gaussian process",
    }
    parts = {"": "default", "narrow_": "not widened", "mixture_": "plain mixture"}
    for (name, kind), group in grouped(runs, "shown", "split").items():
        found: dict[str, str] = {}
        count = len({(run["set"], run["column"]) for run in group})
        for model, some in grouped(group, "model").items():
            if len(some) < count:  # did not run on all columns
                continue
            for part, label in parts.items() if model == "default" else [("", labels[model])]:
                cover = [100 * run[part + "cover90"] for run in some]
                ll, crps = (np.mean([run[part + figure] for run in some]) for figure in ("ll", "crps"))
                found[label] = f"{np.mean(cover):.0f} ({min(cover):.0f}), {ll:.2f}, {crps:.3f}"
        lines.append({"set": name, "split": kind, "columns": str(count), **found})
    shown = {head for line in lines for head in line}
    heads = ["set", "split", "columns", *parts.values(), *list(labels.values())[1:]]
    heads = [head for head in heads if head in shown]
    return markdown(heads, [[line.get(head, "") for head in heads] for line in lines])


def matched() -> str:
    """Show the coverage of new groups and later rows, by the kind of hold-out."""
    lines = []
    for name, group in grouped(rows("groups"), "table").items():
        kinds = grouped(group, "holdout")
        cells = [spread("cover90", ".0f", 100)(kinds[kind]) for kind in ("rows", "matched")]
        cells += [mean("crps", ".3g")(kinds[kind]) for kind in ("rows", "matched")]
        lines.append([name, str(len(kinds["matched"])), *cells])
    heads = ["table", "splits", "90 %, single rows", "90 %, matched", "CRPS, single rows", "CRPS, matched"]
    return markdown(heads, lines)


# the paper

MODELS = {"relu": "ReLU", "bp": "TGGM-BP", "ml": "TGGM-ML", "linear": "logistic regression"}
COLUMNS = {"relu": "ReLU-BP", "bp": "TGGM-BP", "ml": "TGGM-ML"}
SETS = {"mnist": "MNIST", "news": "20 Newsgroups", "blogs": "Blog"}


def compare_with_error(difference: float, error: float) -> str:
    """Compare a difference, positive if ours is better, with two standard errors."""
    return "within" if abs(difference) <= 2 * error else "better" if difference > 0 else "worse"


def table1() -> str:
    """Show the paper's RMSE and ours, and on how many sets ours is as good."""
    found = grouped(rows("paper_score_regression", variant="base"), "data", "model")
    heads, lines = ["set", *(f"{c}, {who}" for c in COLUMNS.values() for who in ("paper", "ours"))], []
    reached: dict[str, list[bool]] = {model: [] for model in COLUMNS}
    for dataset, quoted in QUOTED["table1"].items():
        lines.append([dataset])
        for model, column in COLUMNS.items():
            paper, paper_error = quoted[column]
            lines[-1].append(f"{paper} ± {paper_error}")
            if (dataset, model) not in found:
                lines[-1].append("")
                continue
            value, error = mean_error([run["rmse"] for run in found[dataset, model]])
            verdict = compare_with_error(paper - value, hypot(error, paper_error))
            reached[model].append(value <= paper + paper_error / 2)
            lines[-1].append(f"{value:.4g} ± {error:.2g} ({verdict})")
    text = "; ".join(f"{COLUMNS[m]} on {sum(r)} of {len(r)}" for m, r in reached.items() if r)
    shown = markdown(heads, lines)
    return f"Our mean is at most the paper's plus half of its standard error: {text} sets.\n\n{shown}"


def table1_measures() -> str:
    """Show all scores of the runs of Table 1."""
    runs = rows("paper_score_regression", variant="base")
    runs.sort(key=lambda run: (str(run["data"]), list(MODELS).index(run["model"])))
    return table(
        [{**run, "model": MODELS[run["model"]]} for run in runs],
        {"set": "data", "model": "model"},
        {
            "splits": count,
            "RMSE": spread("rmse"),
            "log-likelihood": spread("ll"),
            "CRPS": spread("crps"),
            "inside 50 %": mean("cover50", ".0f", 100),
            "inside 90 %": mean("cover90", ".0f", 100),
            "epochs": mean("epochs", ".0f"),
            "fit": seconds("fit_s"),
        },
    )


def differences(first: str, second: str) -> str:
    """Show paired differences of two models of Table 1, and the paper's."""
    found = grouped(rows("paper_score_regression", variant="base"), "data", "model")
    lines, lower = [], []
    for dataset, quoted in QUOTED["table1"].items():
        both = pairs(found.get((dataset, first), []), found.get((dataset, second), []), "split")
        if not both:
            continue
        cells = [mean_error([a[figure] - b[figure] for a, b in both]) for figure in ("rmse", "ll")]
        paper = quoted[COLUMNS[first]][0] - quoted[COLUMNS[second]][0]
        lower.append(cells[0])
        shown = [f"{value:+.3g} ± {error:.2g}" for value, error in cells]
        lines.append([dataset, str(len(both)), shown[0], f"{paper:+.3g}", shown[1]])
    verdicts = [compare_with_error(-value, error) for value, error in lower]
    names = MODELS[first], MODELS[second]
    text = (
        f"{names[0]} has a smaller RMSE than {names[1]} on {sum(value < 0 for value, _ in lower)} of "
        f"{len(lower)} sets; by more than two standard errors on {verdicts.count('better')}, and a larger "
        f"one on {verdicts.count('worse')}."
    )
    heads = ["set", "splits", "difference in RMSE", "the paper's", "difference in log-likelihood"]
    return f"{text}\n\n{markdown(heads, lines)}"


def table2() -> str:
    """Show the paper's accuracy and ours, and in how many cells ours is as good."""
    found = grouped(rows("paper_score_classes", variant="base"), "model", "hidden", "data")
    heads = ["model", "hidden", *(f"{name}, {who}" for name in SETS.values() for who in ("paper", "ours"))]
    lines, reached = [], {data: [0, 0] for data in SETS}
    for cell, quoted in QUOTED["table2"].items():
        model, hidden = cell.split()
        lines.append([MODELS[model], hidden])
        for data, paper in zip(SETS, quoted, strict=True):
            lines[-1].append(f"{paper:.2f}")
            if (model, hidden, data) not in found:
                lines[-1].append("")
                continue
            each = [a for run in found[model, hidden, data] for a in run["accuracies"]]
            ours, error = mean_error(each)
            shown = f"{ours:.2f} ± {error:.2f}" if len(each) > 1 else f"{ours:.2f}"
            binomial = [
                100 * sqrt(p / 100 * (1 - p / 100) / n)
                for p, n in zip((paper, ours), QUOTED["test_rows"][data], strict=True)
            ]
            lines[-1].append(f"{shown} ({compare_with_error(ours - paper, hypot(*binomial))})")
            if model != "relu":
                reached[data][0] += round(ours, 2) >= paper
                reached[data][1] += 1
    linear = [
        part for d in SETS for part in ("", mean("accuracy", ".2f")(found.get(("linear", "none", d), [])))
    ]
    text = "; ".join(f"{SETS[d]} in {n} of {total}" for d, (n, total) in reached.items() if total)
    shown = markdown(heads, [*lines, ["logistic regression", "none", *linear]])
    return f"Our mean is at least the paper's: {text} cells of TGGM.\n\n{shown}"


def chosen_settings() -> str:
    """Show the step size, the epochs and the scale of targets of each cell."""

    def cell(runs: list[Run]) -> str:
        run = runs[0]
        scale = f", targets {run['targets']:g}" if run.get("targets", 1) != 1 else ""
        scale += f", inputs {run['inputs']}" if run["inputs"] != 1 else ""
        return f"{run['rate']:g}, {run['epochs']}{scale}"

    runs = [{**run, "cell": run["data"]} for run in rows("paper_score_regression", variant="base")]
    for run in rows("paper_score_classes", data="mnist", variant="base"):
        runs += [{**run, "cell": f"mnist {run['hidden']}"}] if run["model"] != "linear" else []
    return pivot([{**run, "model": MODELS[run["model"]]} for run in runs], "cell", "model", cell)


def likelihood_gaps() -> str:
    """Show the errors of mean field and EP on the networks that TGGM-ML trained."""
    runs = [run for run in rows("paper_score_regression", model="ml", variant="base") if "ep_gap" in run]
    form = {"mean field": mean("meanfield_gap", "+.3f"), "EP": mean("ep_gap", "+.5f")}
    return table(runs, {"set": "data"}, form)


def protein() -> str:
    """Show all settings that were tried on Protein."""
    lines = []
    for run in rows("paper_choose_regression", data="protein", split=0):
        if run["epochs"] not in (20, 200):
            continue
        method = {"ep": "TGGM-ML by EP"}.get(run.get("method"), MODELS[run["model"]])
        sigma = run.get("sigma0", 0.1 if run["model"] == "bp" else 0.5**0.5) ** 2
        numbers = [sigma, run["rate"], run["epochs"], run["inputs"], run["targets"]]
        words = {"init": "initial weights scaled", "noise": "σ1² learned", "schedule=constant": "constant"}
        extra = "; ".join(text for key, text in words.items() if key in run or key in run["variant"])
        lines.append((run["epochs"], run["rmse"], [method, *(f"{x:.3g}" for x in numbers), extra]))
    heads = ["model", "σ0²", "step size", "epochs", "inputs", "targets", "other", "held-out RMSE"]
    return markdown(heads, [[*cells, f"{rmse:.3f}"] for _, rmse, cells in sorted(lines)])


OPEN_CHOICES = {
    "base": "common settings",
    "rate=0.001": "step size 0.001",
    "rate=0.003": "step size 0.003",
    "rate=0.01": "step size 0.01",
    "rate=0.1": "step size 0.1",
    "longer=0.1": "a tenth of the epochs",
    "longer=0.3": "0.3 times the epochs",
    "longer=0.5": "half the epochs",
    "longer=2": "twice the epochs",
    "longer=3": "three times the epochs",
    "schedule=constant": "constant step size",
    "schedule=constant,keep=best": "constant step size, best epoch on a held-out tenth",
    "targets=1": "targets with deviation 1",
    "targets=4": "targets with deviation 4",
    "inputs=0.5": "inputs with deviation 0.5",
    "inputs=2": "inputs with deviation 2",
    "inputs=whole": "pixels standardised as a whole",
    "init=scaled": "initial weights scaled by σ0 and the numbers of units",
    "solver=newton": "E-step solved by Newton's method",
    "reading=precision": "σ0² and σ1² read as precisions",
    "method=ep": "expectation propagation instead of mean field",
    "noise=null": "σ1² learned",
    "sigma0=0.7071": "σ0² = 0.5",
    "sigma0=0.1,noise=0.01": "σ0² = σ1² = 0.01",
}


def choices(kind: str, model: str) -> str:
    """Show what a change of one chosen setting changes, on hold-outs of the training rows."""
    figure = "rmse" if kind == "regression" else "accuracy"
    by = ("data", "split") if kind == "regression" else ("data", "hidden", "seeds")
    runs = [run for run in rows(f"paper_choose_{kind}", model=model) if run["data"] not in ("news", "blogs")]
    base = [run for run in runs if run["variant"] == "base"]
    column = "data" if kind == "regression" else "hidden"
    heads, lines = list(grouped(base, column)), []
    for variant, label in OPEN_CHOICES.items():
        some = pairs([run for run in runs if run["variant"] == variant], base, *by)
        cells = []
        for head in heads if some else []:
            both = [(a[figure], b[figure]) for a, b in some if a[column] == head]
            if not both:
                cells.append("")
            elif variant == "base":
                cells.append(f"{np.mean([a for a, _ in both]):.4g}")
            elif kind == "regression":
                cells.append(f"{100 * np.expm1(np.mean([np.log(a / b) for a, b in both])):+.1f} %")
            else:
                cells.append(f"{np.mean([a - b for a, b in both]):+.2f}")
        lines += [[label, *cells]] if some else []
    return markdown(["choice", *heads], lines)


def same_variances() -> str:
    """Show held-out RMSE of both methods with both values of σ0² that the paper uses, on the same splits."""
    kinds = {
        "TGGM-BP, σ0² = 0.01": {"model": "bp", "variant": "base"},
        "TGGM-ML, σ0² = σ1² = 0.01": {"model": "ml", "variant": "sigma0=0.1,noise=0.01"},
        "TGGM-BP, σ0² = 0.5": {"model": "bp", "variant": "sigma0=0.7071"},
        "TGGM-ML, σ0² = σ1² = 0.5": {"model": "ml", "variant": "base"},
    }
    shown = []
    for dataset in QUOTED["table1"]:
        found = {kind: rows("paper_choose_regression", data=dataset, **is_) for kind, is_ in kinds.items()}
        splits = set.intersection(*({run["split"] for run in runs} for runs in found.values()))
        shown += [{**run, "kind": k} for k, runs in found.items() for run in runs if run["split"] in splits]
    return pivot(shown, "data", "kind", spread("rmse", ".3f"), "set")


CLASS_COLUMNS: dict[str, Cell] = {
    "accuracy %": mean("accuracy", ".2f"),
    "balanced %": mean("balanced", ".2f"),
    "NLL": mean("nll", ".4f"),
    "ECE": mean("ece", ".4f"),
    "fit": seconds("fit_s"),
}


def class_table(runs: list[Run]) -> str:
    """Show all scores of classifiers."""
    return table(runs, {"data": "data", "model": "model", "hidden": "hidden"}, CLASS_COLUMNS)


def deep_digits() -> str:
    """Show classifiers of MNIST with two hidden layers."""
    runs = rows("paper_score_classes", data="mnist", variant="base")
    runs = rows("class_methods", data="mnist") + [{**run, "model": MODELS[run["model"]]} for run in runs]
    return class_table([run for run in runs if "-" in run["hidden"]])


def activation() -> str:
    """Report the largest distance between the activation and ReLU."""
    runs = rows("figure1")
    gap = max(run["gap"] / run["sigma"] for run in runs)
    return (
        f"The largest distance of g(μ, σ0) from max(0, μ) is {gap:.4f} σ0, at μ = 0, for σ0 from "
        f"{runs[0]['sigma']:g} to {runs[-1]['sigma']:g}."
    )


def best_sigma() -> str:
    """Show the best σ0² of both methods on Concrete and their distance from a ReLU network."""
    runs = rows("figure2")
    relu, lines = next(iter(figure2.curve(runs, "relu").values())), []
    for method, name in (("bp", "TGGM-BP"), ("ml", "TGGM-ML")):
        curve, inner, best = (
            figure2.curve(runs, method),
            figure2.curve(runs, method, "inner"),
            figure2.optimum(runs, method),
        )
        for s0 in (min(curve), best, max(curve)):
            (held, held_error), (test, error) = mean_error(inner[s0]), mean_error(curve[s0])
            gap, gap_error = mean_error([a - b for a, b in zip(curve[s0], relu, strict=False)])
            chosen = " (chosen)" if s0 == best else ""
            figures = (
                f"{held:.3f} ± {held_error:.2g}",
                f"{test:.3f} ± {error:.2g}",
                f"{gap:+.3f} ± {gap_error:.2g}",
            )
            lines.append([name, f"{s0:g}{chosen}", *figures])
    return markdown(["model", "σ0²", "held-out RMSE", "test RMSE", "test RMSE, minus ReLU"], lines)


def gradients() -> str:
    """Show cosines between each method's gradient and that of the exact likelihood."""
    lines = []
    methods = list(rows("gradients")[0]["cosines"])
    for trained, runs in grouped(rows("gradients"), "trained").items():
        for part in ("W0", "W1"):
            found = {m: [run["cosines"][m][part] for run in runs] for m in methods}
            lines.append([trained, part, *(f"{np.median(v):.3f} ({min(v):.3f})" for v in found.values())])
    return markdown(["network trained by", "weights", *methods], lines)


# benchmarks


def boxes() -> str:
    """Show errors and times of box probabilities."""
    runs = [
        {**run, "log Pr": f"{run['log_p']:.4g}"}
        for run in rows("benchmarks/truncated_normal", kind="probability")
    ]
    runs = [{**run, "box": f"{run['d']} variables, log Pr {run['log Pr']}"} for run in runs]
    return pivot(
        runs, "box", "method", joined(mean("error", ".0e"), seconds("seconds"), by=", "), missing="not run"
    )


def box_moments() -> str:
    """Show errors of EP's moments in random boxes."""
    return table(
        rows("benchmarks/truncated_normal", kind="moments"),
        {"d": "d", "boxes": "problems"},
        {
            "mean: median of the worst": mean("median", ".0e"),
            "largest": mean("largest", ".0e"),
            "sd: largest": mean("std", ".0e"),
            "error of the reference": mean("referee", ".0e"),
            "a call": seconds("seconds"),
        },
    )


def stated_errors() -> str:
    """Show the cases and violations of the attack on stated errors."""
    figures = ("cases", "stated", "unknown", "violations", "worst")
    totals = [
        {"engine": name, "d": f"{min(r['d'] for r in group)} to {max(r['d'] for r in group)}"}
        | {figure: (max if figure == "worst" else sum)(r[figure] for r in group) for figure in figures}
        for name, group in grouped(rows("benchmarks/stated_errors"), "engine").items()
    ]
    columns = {figure: mean(figure, ",.0f") for figure in figures[:-1]}
    return table(
        totals, {"engine": "engine", "d": "d"}, {**columns, "largest error / stated": mean("worst", ".2g")}
    )


def gibbs_mixing() -> str:
    """Show errors and effective sample sizes of Gibbs sampling at strong correlations."""
    names = {"mean error": "bias", "its standard error": "of_bias", "root mean square": "rms"}
    columns = {heading: mean(name, ".3f") for heading, name in names.items()}
    by = {"correlation": "correlation", "burn-in": "burn_in"}
    sizes = {"expected from ess": mean("expected", ".3f"), "ess": mean("ess", ".0f")}
    figures = {**columns, **sizes, "within the 99.9 % bound": mean("within", ".2f")}
    return table(rows("benchmarks/gibbs_mixing"), by, figures)


def training_step() -> str:
    """Show the time of the parts of a training step."""
    runs, settings = rows("benchmarks/training_step"), record("benchmarks/training_step")["settings"]
    columns = {"elapsed, µs": mean("elapsed_us", ".2f"), "CPU, µs": mean("cpu_us", ".2f")}
    shown = table(runs, {"part": "part"}, {**columns, "operations": mean("operations", ",.0f")})
    note = (
        f"A product of large matrices runs at {settings['flops_per_second'] / 1e9:.0f} GFlop/s on this "
        f"machine. At that speed the step would take {settings['floor_us']:.2f} µs; it takes "
        f"{settings['ratio']:.1f} times as long."
    )
    return f"{shown}\n\n{note}"


def newton() -> str:
    """Compare Newton's method with the paper's ten cycles."""
    by = {"outputs": "n", "scale of weights": "scale"}
    columns = {
        "Newton": seconds("seconds"),
        "steps": mean("steps_max", ".0f"),
        "residual": mean("residual", ".0e"),
        "10 cycles": seconds("seconds_10_cycles"),
        "their error, sd": mean("error_10_cycles", ".2g"),
    }
    return table(rows("benchmarks/inference", section="newton", m=100), by, columns)


def log_z() -> str:
    """Show errors and times of log Z by EP and mean field."""
    columns = {
        "error, nats": mean("median", ".0e"),
        "time": seconds("seconds"),
        "exact": seconds("exact_seconds"),
    }
    by = {"engine": "engine", "scale of weights": "scale", "noise": "noise"}
    return table(rows("benchmarks/inference", section="log_z"), by, columns)


def predictions() -> str:
    """Show times of predictions; for one row also those of the first call in a process."""
    found = rows("benchmarks/predictions")
    runs = [{**run, "rows": f"{run['rows']:,}"} for run in found if run["rows"] > 1]
    cell = joined(mean("elapsed_s", ".2g"), mean("cpu_s", ".2g"))
    one = {"first": seconds("first_s"), "later": seconds("elapsed_s")}
    single = table([run for run in found if run["rows"] == 1], {"one row": "task"}, one)
    return f"{pivot(runs, 'task', 'rows', cell, 'elapsed / CPU seconds')}\n\n{single}"


LARGE = {"tggm": "`tggm`", "stream": "`tggm`, stream", "catboost": "CatBoost", "hgb": "HistGradientBoosting"}


def large() -> str:
    """Show fits to many rows."""
    runs = [{**r, "size": f"{r['rows']:,}", "name": LARGE[r["model"]]} for r in rows("benchmarks/large")]
    columns = {"RMSE": mean("rmse"), "epochs": mean("epochs", ".0f"), "second fit": seconds("second_s")}
    columns |= {"its CPU time": seconds("second_cpu_s"), "resident memory, MiB": mean("resident_MiB", ".0f")}
    return table(runs, {"rows": "size", "model": "name"}, columns)


def workers() -> str:
    """Show fits with members in parallel workers; equal digests are equal bits."""
    columns = {
        "first fit": seconds("first_s"),
        "second fit": seconds("second_s"),
        "log-likelihood": mean("ll"),
    }
    columns["predictions (hash)"] = lambda group: str(group[0]["digest"])
    by = {"table": "dataset", "backend": "backend", "workers": "workers"}
    return table(rows("benchmarks/workers"), by, columns)


def targets() -> str:
    """Compare the default with a smooth distribution and the best other method, by the mean CRPS."""
    lines, log = [], mean("log_probability")
    for name, group in grouped(rows("targets"), "name").items():
        methods = grouped(group, "method")
        ours, smooth = methods.pop("tggm"), methods.pop("smooth")
        methods.pop("tggm two parts", None)  # not another method; its figures are in the text
        best = min(methods, key=lambda m: np.mean([run["crps"] for run in methods[m]]))
        inside = joined(*(mean(f"inside{level:.0%}") for level in (0.5, 0.8, 0.9)))
        others = [found for m in methods.values() if (found := log(m))]
        lines.append([
            name, *(spread("crps")(runs) for runs in (ours, smooth, methods[best])), best,
            log(ours), max(others, key=float, default=""), inside(ours),
            mean("pit")(ours), mean("pit")(smooth),
        ])  # fmt: skip
    heads = ["target", "CRPS", "smooth", "best other", "method", "log-probability", "best other"]
    return markdown([*heads, "in 50 / 80 / 90 % intervals", "PIT", "PIT, smooth"], lines)


def matrix() -> str:
    """Show the results of tests by version of Python and dependencies."""
    packages = ("jax", "numpy", "scipy", "scikit-learn", "pandas", "pyarrow")
    parts = []
    for tests, runs in grouped(rows("benchmarks/test_matrix"), "tests").items():
        lines = [[run["python"], *(run.get(name, "") for name in packages), run["result"]] for run in runs]
        parts.append(f"Tests: `{tests}`.\n\n{markdown(['Python', *packages, 'result'], lines)}")
    return "\n\n".join(parts)


def mutations() -> str:
    """Show each changed text of the package, and whether a test found it."""
    lines = []
    for run in rows("benchmarks/mutations"):
        code = [f"`{' '.join(run[key].split())}`".replace("|", r"\|") for key in ("text", "replaced")]
        lines.append([run["file"], *code, run["tests"], "yes" if run["killed"] else "**no**"])
    return markdown(["file of `src/tggm`", "text", "replaced by", "tests", "found"], lines)


BLOCKS: dict[str, dict[str, Callable[[], str]]] = {
    "README.md": {"comparison": brief},
    "CONTRIBUTING.md": {"mutations": mutations, "matrix": matrix},
    "SECURITY.md": {
        "interrupts": lambda: table(
            rows("benchmarks/interrupts"),
            {"end": "verdict"},
            {"fits": lambda runs: str(sum(run["fits"] for run in runs))},
        )
    },
    "docs/results.md": {
        "arena-regression": lambda: standings("regression"),
        "arena-classes": lambda: standings("classification"),
        "arena-behind": behind,
        "arena-learners": by_learner,
        "arena-skill": lambda: wide("skill", task="regression"),
        "arena-class-skill": lambda: wide("skill", task="classification"),
        "arena-rmse": lambda: wide("rmse", ".3g", "regression"),
        "arena-errors": lambda: wide("error", ".3f", "classification"),
        "arena-ll": lambda: wide("ll", ".2f", "regression", unique=DIFFERENT),
        "default-uci": default_uci,
        "default-new": new_inputs,
        "default-classes": lambda: class_table(rows("class_methods", model="default")),
    },
    "docs/paper.md": {
        "table1": table1,
        "table1-measures": table1_measures,
        "table2": table2,
        "table2-measures": lambda: class_table(rows("paper_score_classes", variant="base")),
        "settings": chosen_settings,
        "gaps": likelihood_gaps,
        "protein": protein,
        "choices-ml": lambda: choices("regression", "ml"),
        "choices-bp": lambda: choices("regression", "bp"),
        "choices-digits-ml": lambda: choices("classes", "ml"),
        "choices-digits-bp": lambda: choices("classes", "bp"),
        "ml-bp": lambda: differences("ml", "bp"),
        "same-variances": same_variances,
        "bp-relu": lambda: differences("bp", "relu"),
        "activation": activation,
        "best-sigma": best_sigma,
        "gradients": gradients,
    },
    "docs/choosing-a-method.md": {
        "default-ablations": ablations,
        "repeated-numbers": lambda: pivot(rows("repeated_numbers"), "table", "variant", spread("ll", ".3f")),
    },
    "docs/uncertainty.md": {
        "coverage": coverage,
        "gaps": gaps,
        "groups": matched,
        "guarantee": lambda: table(
            rows("guarantee"),
            {"rows": "n", "noise": "noise", "samples": "fits"},
            {
                "inside": mean("inside"),
                "standard errors above the level": mean("errors_above", "+.1f"),
                "inside MAPIE's sets": mean("inside_mapie"),
                "classes per set, MAPIE's": joined(
                    mean("classes", ".2f"), mean("classes_mapie", ".2f"), by=", "
                ),
            },
        ),
    },
    "docs/deep.md": {"deep-digits": deep_digits},
    "docs/targets.md": {
        "targets": targets,
        "grades": lambda: table(
            [run for run in rows("targets") if run["name"] == "wine" and "log_probability" in run],
            {"method": "method"},
            {
                "CRPS": spread("crps", ".3f"),
                "log-probability": spread("log_probability", ".3f"),
                "CRPS, new inputs": spread("crps_new", ".3f"),
                "log-probability, new inputs": spread("log_probability_new", ".3f"),
            },
        ),
        "survival": lambda: table(
            sorted(rows("survival"), key=lambda run: (run["name"], run["method"] != "tggm")),
            {"data": "name", "method": "method"},
            {
                "concordance": spread("harrell", ".3f"),
                "integrated Brier score": spread("brier", ".4f"),
                "largest error of mean S(t)": mean("calibration"),
                "in standard errors": mean("errors", ".1f"),
                "CPU seconds": mean("cpu_s", ".1f"),
            },
        ),
    },
    "docs/designing-a-graph.md": {
        "censored": lambda: table(
            rows("censored"),
            {"fit": "fit"},
            {
                "RMSE of uncensored test targets": mean("rmse"),
                "RMSE of the conditional mean": mean("rmse_mean"),
                "bias of the mean": mean("bias"),
            },
        ),
        "missing": lambda: table(
            [{**run, "all": "log-density"} for run in rows("missing")],
            {"": "all"},
            {"joint fit": mean("joint"), "two separate fits": mean("separate"), "true model": mean("truth")},
        ),
        "digits": lambda: table(
            rows("digits"),
            {"model": "model"},
            {
                "held-out log-likelihood per image": mean("ll", ".1f"),
                "error of the engine": mean("error", ".3f"),
            },
        ),
    },
    "docs/tables.md": {f"raw-{figure}": partial(raw, figure) for figure in ("error", "ll", "crps")},
    "docs/benchmarks.md": {
        "fits": fits,
        "first-fit": lambda: table(
            rows("benchmarks/first_fit"),
            {"process": "what"},
            {"elapsed, s": mean("elapsed_s", ".2f"), "CPU, s": mean("cpu_s", ".2f")},
        ),
        "time-budget": lambda: pivot(
            [
                {**run, "table": f"{run['table']}, {run['rows']:,} rows", "budget": f"{run['budget']:g} s"}
                for run in rows("benchmarks/time_budget")
            ],
            "table",
            "budget",
            joined(mean("seconds", ".1f"), mean("epochs", ".0f")),
        ),
        "predictions": predictions,
        "memory": lambda: table(
            rows("benchmarks/memory"),
            {"process": "case", "programs": "programs"},
            {"largest resident memory, MiB": mean("resident_MiB", ".0f"), "CPU, s": mean("cpu_s", ".1f")},
        ),
        "training-step": training_step,
        "special": lambda: table(
            rows("benchmarks/special"),
            {"function": "name"},
            {"ns per element": mean("ns", ".2f"), "worst relative error": mean("worst", ".0e")},
        ),
        "newton": newton,
        "log-z": log_z,
    },
    "docs/scaling.md": {"large": large, "workers": workers},
    "docs/choosing-an-engine.md": {
        "engines": lambda: table(
            rows("benchmarks/engines"),
            {"problem": "problem", "engine": "engine"},
            {
                "error of log Z, nats": mean("log_z", ".2g"),
                "error of E[h], sd": mean("mean", ".2g"),
                "ms per row": mean("ms", ".2g"),
            },
        )
    },
    "docs/truncated-normal.md": {
        "boxes": boxes,
        "box-moments": box_moments,
        "box-derivatives": lambda: pivot(
            rows("benchmarks/box_derivatives"),
            "d",
            "method",
            joined(mean("error", ".0e"), seconds("seconds"), by=", "),
        ),
        "stated-errors": stated_errors,
        "gibbs-mixing": gibbs_mixing,
    },
}


def fill(page: str, name: str) -> str:
    """Return the text of a page with its tables filled in."""
    for mark, make in BLOCKS[name].items():
        _used.clear()
        made = make()
        text = f"<!-- {mark} -->\n{made}\n\n{origin()}".rstrip() + f"\n<!-- /{mark} -->"
        page, found = re.subn(
            f"<!-- {mark} -->.*?<!-- /{mark} -->", lambda _, text=text: text, page, flags=re.S
        )
        assert found == 1, f"{name} must have the markers of {mark!r} once"
    return page


def main() -> None:
    for name in BLOCKS:
        path = ROOT / name
        path.write_text(fill(path.read_text(), name))


if __name__ == "__main__":
    main()
