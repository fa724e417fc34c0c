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
from math import hypot, sqrt
from pathlib import Path
from typing import Any

import figure2
import numpy as np
from scores import LEVELS
from store import BENCHMARKS, RESULTS, ROOT, Record, Run, mean_error, read

Cell = Callable[[list[Run]], str]
QUOTED = json.loads((Path(__file__).parent / "quoted.json").read_text())  # published figures
_used: dict[str, list[Run]] = {}  # by command: the runs that the current block shows


def record(name: str) -> Record:
    """Return a record of experiments/results, or of benchmarks/results for the prefix "benchmarks/"."""
    folder, _, stem = name.rpartition("/")
    return read((BENCHMARKS if folder else RESULTS) / f"{stem}.json")


def rows(name: str, **where: Any) -> list[Run]:
    """Return the runs of a results file whose fields have the given values; failed runs are left out."""
    stored = record(name)
    runs = [run for run in stored["runs"] if "failed" not in run]
    runs = [run for run in runs if all(run.get(field) == value for field, value in where.items())]
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
    return f"Made by {', and by '.join(parts)}."


def pairs(ours: list[Run], theirs: list[Run], *fields: str) -> list[tuple[Run, Run]]:
    """Return the runs of both lists that have the same values of the fields."""
    other = {tuple(run[field] for field in fields): run for run in theirs}
    keys = [(run, tuple(run[field] for field in fields)) for run in ours]
    return [(run, other[key]) for run, key in keys if key in other]


# the default


def wins(ours: list[Run], theirs: list[Run]) -> str:
    """Compare the default with each opponent by the means over the splits of each table."""
    lines = []
    for model, runs in grouped(theirs, "model").items():
        both = pairs(ours, runs, "table", "split")
        if not both:
            continue
        tables: dict[str, list[tuple[float, float]]] = {}
        for a, b in both:
            tables.setdefault(a["table"], []).append((error_rate(b) - error_rate(a), a["ll"] - b["ll"]))
        gains = {name: np.mean(values, axis=0) for name, values in tables.items()}
        better = [sum(gain[i] > 0 for gain in gains.values()) for i in range(2)]
        behind = ", ".join(name for name, gain in gains.items() if gain[1] < 0)
        median = np.median([gain[1] for gain in gains.values()])
        lines.append([model, *(f"{n} of {len(gains)}" for n in better), f"{median:+.2f}", behind])
    heads = ["opponent", "smaller error", "larger log-likelihood", "median difference, nats", "behind on"]
    return markdown(heads, lines)


def compare_tables(ours: list[Run], theirs: list[Run], *more: str) -> str:
    """Show error, log-likelihood and more figures of the default and of opponents, table by table."""
    runs = [{**run, "model": "`tggm`"} for run in ours] + sorted(theirs, key=lambda run: str(run["model"]))
    known = {run["table"] for run in ours}
    for run in runs:
        run["error_rate"] = error_rate(run)
    cell = joined(*(mean(figure, ".3g") for figure in ("error_rate", "ll", *more)))
    return pivot([run for run in runs if run["table"] in known], "table", "model", cell)


def default_uci() -> str:
    """Show the default on the UCI splits, and quoted figures."""
    runs = sorted(rows("uci_default", variant="default"), key=lambda run: str(run["dataset"]))
    columns: dict[str, Cell] = {
        "splits": count,
        "RMSE": spread("rmse"),
        "log-likelihood": spread("ll"),
        "CRPS": spread("crps"),
    }
    for name, figures in QUOTED["others"].items():
        columns[name] = lambda group, known=figures: " / ".join(known.get(group[0]["dataset"], ()))
    return table(runs, {"set": "dataset"}, columns)


VARIANTS = {
    "no-neighbors": "no neighbours",
    "no-process": "no Gaussian process",
    "no-support": "no limits and steps of targets",
    "no-features": "no periodic features",
    "no-linear": "no linear part",
    "no-transform": "target not transformed",
    "not-calibrated": "plain mixture of networks",
    "one-member": "one network",
    "adam": "Adam instead of Muon",
    "one-layer": "one hidden layer",
    "no-fallback": "no blend with ridge regression",
    "no-shaped": "Student-t errors only",
    "no-scales": "Gaussian instead of the pool `scales` (removed)",
    "no-yeo-johnson": "no Yeo–Johnson transform (removed)",
    "no-temperature": "no class temperature (removed)",
}


def ablations() -> str:
    """Show the effect of leaving out one part, on the splits that were run with and without it."""
    return changes(rows("parts"))


def changes(runs: list[Run]) -> str:
    """Show the change of error and log-likelihood of each variant against the default."""
    full, lines = [run for run in runs if run["variant"] == "default"], []
    for variant, some in grouped(runs, "variant").items():
        found: dict[str, list[tuple[float, float]]] = {}
        for less, whole in pairs(some, full, "table", "split") if variant != "default" else []:
            ratio = np.log((error_rate(less) + 1e-9) / (error_rate(whole) + 1e-9))
            found.setdefault(less["table"], []).append((ratio, less["ll"] - whole["ll"]))
        if found:
            error, ll = np.array([(np.median(c, axis=0)[0], np.mean(c, axis=0)[1]) for c in found.values()]).T
            change = f"{100 * np.expm1(np.median(error)):+.1f} %"
            name = VARIANTS.get(variant, variant)
            lines.append([name, str(len(found)), change, f"{np.median(ll):+.3f}", f"{np.mean(ll):+.3f}"])
    heads = ["variant", "tables", "error, median change", "log-likelihood, median change", "mean change"]
    return markdown(heads, lines)


def weighing(record: str, other: str, heads: tuple[str, str]) -> str:
    """Compare the default with another variant, table by table."""
    lines = []
    for name, group in grouped(rows(record), "table").items():
        both = pairs(*([run for run in group if run["variant"] == v] for v in ("default", other)), "split")
        if not both:
            continue
        crps = [{"change": 100 * (a["crps"] / b["crps"] - 1)} for a, b in both]
        gain = [{"gain": a["ll"] - b["ll"]} for a, b in both]
        rmse = [f"{np.mean([run['rmse'] for run in runs]):.4g}" for runs in zip(*both, strict=True)]
        time = np.median([a["cpu_s"] / b["cpu_s"] for a, b in both])
        cells = [spread("change", "+.1f")(crps), spread("gain", "+.3f")(gain), f"{time:.2f}"]
        lines.append([name, str(len(both)), rmse[1], rmse[0], *cells])
    return markdown(["table", "splits", *heads, "CRPS, %", "log-likelihood", "CPU time, ratio"], lines)


PARTS = {
    "no-fallback": "blend with a ridge regression after training",
    "no-shaped": "pool `shaped`",
    "no-scales": "pool `scales` (under Yeo–Johnson)",
    "no-yeo-johnson": "Yeo–Johnson transform",
    "student-pool": "exact densities of one layer, against the Student-t pool",
    "no-temperature": "temperature of classes",
}


def removed_parts() -> str:
    """Show the gain of a part: the default minus the variant without it, mean over tables and splits."""
    lines = []
    for variant, part in PARTS.items():
        stored = rows("ablation", design="one-layer" if variant == "student-pool" else "default")
        without = [run for run in stored if run["variant"] == variant]
        same = [run for run in stored if ("crps" in run) == ("crps" in without[0])]  # the same task
        others = [run for run in same if run["variant"] == "default"]
        made = {(run["table"], run["split"]): run for run in without}
        gains: dict[str, list[tuple[float, float]]] = {}
        for run in others:
            if variant == "student-pool" and (run["table"], run["split"]) not in made:
                continue
            other = made.get((run["table"], run["split"]), run)  # the part was not used
            loss = 100 * (other["crps"] / run["crps"] - 1) if "crps" in run else np.nan
            gains.setdefault(run["table"], []).append((run["ll"] - other["ll"], loss))
        each = {name: np.mean(values, axis=0) for name, values in gains.items()}
        ll, crps = np.mean(list(each.values()), axis=0)
        largest = sorted(each, key=lambda name: -abs(each[name][0]))[:2]
        shown = ", ".join(f"{name} {each[name][0]:+.3f}" for name in largest if abs(each[name][0]) >= 5e-4)
        percent = "" if np.isnan(crps) else f"{crps:+.1f} %"
        lines.append([part, str(len(each)), f"{ll:+.4f}", percent, shown])
    return markdown(["part", "tables", "log-likelihood, mean gain", "CRPS", "largest"], lines)


def coverage() -> str:
    """Show the coverage of the default's intervals in per cent."""
    runs = [{**run, "data": run["dataset"]} for run in rows("uci_default", variant="default")]
    runs += [{**run, "data": run["table"]} for run in rows("defaults", variant="default") if "cover50" in run]
    columns: dict[str, Cell] = {"test rows": lambda group: str(sum(run["n_test"] for run in group))}
    columns |= {f"{p} %": mean(f"pit{p}", ".0f", 100) for p in LEVELS}
    return table(runs, {"data": "data"}, columns)


def gaps() -> str:
    """Show coverage of 90 % intervals on gap and tail splits: means over columns, and the worst column."""
    runs, lines = [run for run in rows("gaps") if run["split"] != "random"], []
    parts = {"": "default", "narrow_": "not widened", "mixture_": "plain mixture"}
    for (name, kind), group in grouped(runs, "set", "split").items():
        found: dict[str, str] = {}
        for model, some in grouped(group, "model").items():
            for part, label in parts.items() if model == "default" else [("", model)]:
                cover = [100 * run[part + "cover90"] for run in some]
                ll = np.mean([run[part + "ll"] for run in some])
                found[label] = f"{np.mean(cover):.0f} ({min(cover):.0f}), {ll:.2f}"
        columns = str(len({run["column"] for run in group}))
        lines.append({"set": name, "split": kind, "columns": columns, **found})
    heads = list(dict.fromkeys(head for line in lines for head in line))
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

MODELS = {
    "relu": "ReLU",
    "paper-bp": "TGGM-BP",
    "paper-ml": "TGGM-ML",
    "tggm-bp": "TGGM-BP",
    "tggm-ml": "TGGM-ML",
}
COLUMNS = {"relu": "ReLU-BP", "paper-bp": "TGGM-BP", "paper-ml": "TGGM-ML"}
SETS = {"mnist": "MNIST", "news": "20 Newsgroups", "blogs": "Blog"}


def compare_with_error(difference: float, error: float) -> str:
    """Compare a difference, positive if ours is better, with two standard errors."""
    return "within" if abs(difference) <= 2 * error else "better" if difference > 0 else "worse"


def table1() -> str:
    """Show the paper's RMSE and ours."""
    found = grouped(rows("table1"), "dataset", "model")
    heads, lines = ["set", *(f"{c}, {who}" for c in COLUMNS.values() for who in ("paper", "ours"))], []
    for dataset, quoted in QUOTED["table1"].items():
        lines.append([dataset])
        for model, column in COLUMNS.items():
            paper, paper_error = quoted[column]
            value, error = mean_error([run["rmse"] for run in found[dataset, model]])
            verdict = compare_with_error(paper - value, hypot(error, paper_error))
            lines[-1] += [f"{paper} ± {paper_error}", f"{value:.4g} ± {error:.2g} ({verdict})"]
    return markdown(heads, lines)


def table1_measures() -> str:
    """Show all scores of the runs of Table 1."""
    runs = sorted(rows("table1"), key=lambda run: (str(run["dataset"]), list(MODELS).index(run["model"])))
    return table(
        [{**run, "model": MODELS[run["model"]]} for run in runs],
        {"set": "dataset", "model": "model"},
        {
            "splits": count,
            "RMSE": spread("rmse"),
            "log-likelihood": spread("ll"),
            "CRPS": spread("crps"),
            "inside 50 %": mean("cover50", ".0f", 100),
            "inside 90 %": mean("cover90", ".0f", 100),
            "fit": seconds("fit_s"),
        },
    )


def differences(first: str, second: str) -> str:
    """Show paired differences of two models of Table 1, and the paper's."""
    found = grouped(rows("table1"), "dataset", "model")
    lines, lower = [], []
    for dataset, quoted in QUOTED["table1"].items():
        both = pairs(found[dataset, first], found[dataset, second], "split")
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
    """Show the paper's accuracy and ours."""
    found = grouped(rows("table2"), "model", "hidden", "data")
    heads, lines = (
        ["model", "hidden", *(f"{name}, {who}" for name in SETS.values() for who in ("paper", "ours"))],
        [],
    )
    for cell, quoted in QUOTED["table2"].items():
        model, hidden = cell.split()
        lines.append([MODELS[model], hidden])
        for data, paper in zip(SETS, quoted, strict=True):
            ours = float(np.mean([run["accuracy"] for run in found[model, hidden, data]]))
            errors = [
                100 * sqrt(p / 100 * (1 - p / 100) / n)
                for p, n in zip((paper, ours), QUOTED["test_rows"][data], strict=True)
            ]
            lines[-1] += [f"{paper:.2f}", f"{ours:.2f} ({compare_with_error(ours - paper, hypot(*errors))})"]
    linear = [part for data in SETS for part in ("", mean("accuracy", ".2f")(found["linear", "none", data]))]
    return markdown(heads, [*lines, ["logistic regression", "none", *linear]])


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
    runs = rows("class_methods", data="mnist") + rows("table2", data="mnist")
    return class_table(
        [{**run, "model": MODELS.get(run["model"], run["model"])} for run in runs if "-" in run["hidden"]]
    )


def exceptions() -> str:
    """Show the held-out RMSE of other step sizes and numbers of epochs."""
    by = {"model": "model", "set": "dataset", "step size": "rate", "epochs": "epochs"}
    return table(
        rows("exceptions"),
        by,
        {"held-out RMSE": mean("rmse", ".3g"), "best epoch": mean("best_epoch", ".0f")},
    )


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

FITS = {"tggm": "`tggm`", "catboost-ll": "CatBoost with uncertainty", "ngboost": "NGBoost"}
FITS |= {"hgb": "scikit-learn's boosted trees", "mlp": "scikit-learn's network"}


def fits(datasets: Sequence[str] = ()) -> str:
    """Show error, log-likelihood and seconds of a fit."""
    runs = [run for run in rows("benchmarks/fit") if run["model"] in FITS]
    runs = [run for run in runs if not datasets or run["dataset"] in datasets]
    order = list(FITS)
    shown = []
    for run in sorted(runs, key=lambda run: order.index(run["model"])):
        head = f"{run['dataset'].capitalize()}, {run['rows']:,} rows"
        shown.append({**run, "model": FITS[run["model"]], "data": head, "error_rate": error_rate(run)})
    cell = joined(mean("error_rate", ".3g"), mean("ll", ".2f"), mean("seconds", ".1f"))
    heads = list(dict.fromkeys(f"{run['dataset'].capitalize()}, {run['rows']:,} rows" for run in runs))
    shown.sort(key=lambda run: (list(FITS.values()).index(run["model"]), heads.index(run["data"])))
    return pivot(shown, "model", "data", cell, "error / log-likelihood / seconds", "not run")


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
    by = {"outputs": "n", "units": "m", "scale of weights": "scale"}
    columns = {
        "Newton": seconds("seconds"),
        "steps": mean("steps_max", ".0f"),
        "residual": mean("residual", ".0e"),
        "10 cycles": seconds("seconds_10_cycles"),
        "their error, sd": mean("error_10_cycles", ".2g"),
    }
    return table(rows("benchmarks/inference", section="newton"), by, columns)


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
    """Show seconds of predictions for many rows."""
    runs = [{**run, "rows": f"{run['rows']:,}"} for run in rows("benchmarks/predictions")]
    return pivot(
        runs, "task", "rows", joined(mean("elapsed_s", ".2g"), mean("cpu_s", ".2g")), "elapsed / CPU seconds"
    )


def streaming() -> str:
    """Show memory and the best throughput of fits from memory and from a stream."""
    columns: dict[str, Cell] = {
        "largest resident memory": lambda group: f"{max(run['resident_MiB'] for run in group)} MiB",
        "rows per second, best": lambda group: f"{max(run['rows_per_second'] for run in group):,}",
    }
    return table(rows("benchmarks/streaming"), {"fit": "fit", "rows": "rows"}, columns)


BLOCKS: dict[str, dict[str, Callable[[], str]]] = {
    "README.md": {"comparison": lambda: fits(("concrete", "power", "protein", "adult"))},
    "docs/results.md": {
        "default-wins": lambda: wins(rows("defaults", variant="default"), rows("opponents")),
        "default-tables": lambda: compare_tables(rows("defaults", variant="default"), rows("opponents")),
        "default-uci": default_uci,
        "default-classes": lambda: class_table(rows("class_methods", model="default")),
        "table1": table1,
        "table1-measures": table1_measures,
        "table1-exceptions": exceptions,
        "table2": table2,
        "table2-measures": lambda: class_table(rows("table2")),
        "activation": activation,
        "best-sigma": best_sigma,
        "ml-bp": lambda: differences("paper-ml", "paper-bp"),
        "bp-relu": lambda: differences("paper-bp", "relu"),
        "gradients": gradients,
    },
    "docs/choosing-a-method.md": {
        "default-ablations": ablations,
        "weighing": lambda: weighing("learner", "periodic", ("RMSE, periodic", "RMSE, with factors")),
        "process": lambda: weighing("process", "no-process", ("RMSE without", "RMSE with the process")),
        "removed-parts": removed_parts,
        "features": lambda: changes(rows("features")),
        "repeated-numbers": lambda: pivot(rows("repeated_numbers"), "table", "variant", spread("ll", ".3f")),
        "accuracy": lambda: pivot(
            rows("uci_methods"), "method", "dataset", joined(spread("rmse", ".3f"), spread("ll", ".3f"))
        ),
        "calibration": lambda: pivot(
            rows("uci_methods"),
            "method",
            "dataset",
            joined(mean("crps"), mean("cover50", ".0f", 100), mean("cover90", ".0f", 100), by=", "),
        ),
    },
    "docs/uncertainty.md": {
        "coverage": coverage,
        "gaps": gaps,
        "groups": matched,
        "guarantee": lambda: table(
            rows("guarantee"),
            {"rows": "n", "noise": "noise", "samples": "fits"},
            {"inside": mean("inside"), "standard errors above the level": mean("errors_above", "+.1f")},
        ),
    },
    "docs/classification.md": {
        "methods": lambda: class_table([run for run in rows("class_methods") if "-" not in run["hidden"]])
    },
    "docs/deep.md": {"deep-digits": deep_digits},
    "docs/targets.md": {
        "targets": lambda: table(
            sorted(rows("targets", split=0), key=lambda run: run["name"]),
            {"target": "name", "method": "method"},
            {
                "CRPS": mean("crps"),
                **{f"in {level:.0%} interval": mean(f"inside{level:.0%}") for level in (0.5, 0.8, 0.9)},
                "largest distance of the PIT": mean("pit"),
            },
        ),
        "survival": lambda: table(
            rows("survival"),
            {"data": "name", "method": "method"},
            {
                "concordance": mean("harrell"),
                "integrated Brier score": mean("brier"),
                "largest error of mean S(t)": mean("calibration"),
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
    "docs/tables.md": {
        "raw-figures": lambda: compare_tables(
            rows("raw_tables", model="tggm"), _opponents("raw_tables"), "crps"
        ),
        "raw-wins": lambda: wins(rows("raw_tables", model="tggm"), _opponents("raw_tables")),
    },
    "docs/benchmarks.md": {
        "fits": fits,
        "first-fit": lambda: table(
            rows("benchmarks/first_fit"),
            {"process": "what"},
            {"elapsed, s": mean("elapsed_s", ".2f"), "CPU, s": mean("cpu_s", ".2f")},
        ),
        "predictions": predictions,
        "memory": lambda: table(
            rows("benchmarks/memory"),
            {"process": "case"},
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
    "docs/scaling.md": {"streaming": streaming},
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
    "docs/truncated-normal.md": {"boxes": boxes, "box-moments": box_moments},
}


def _opponents(name: str) -> list[Run]:
    return [run for run in rows(name) if run["model"] != "tggm"]


def fill(page: str, name: str) -> str:
    """Return the text of a page with its tables filled in."""
    for mark, make in BLOCKS[name].items():
        _used.clear()
        text = f"<!-- {mark} -->\n{make()}\n\n{origin()}\n<!-- /{mark} -->"
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
