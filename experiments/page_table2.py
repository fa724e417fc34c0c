"""The classification part of the results page: Table 2 of the paper beside ours, from results/table2."""

from math import hypot, sqrt
from typing import Any, NamedTuple

import numpy as np
from page import stored, table
from quoted_table2 import PAPER, SETS, TEST_ROWS, best

MODELS = {"relu": "ReLU", "tggm-bp": "TGGM-BP", "tggm-ml": "TGGM-ML", "default": "`default`"}
HIDDEN = ("100", "200", "100-100", "200-200")
MEASURES = ("accuracy", "balanced", "nll", "ece")
OUR_ROWS = {"mnist": 10_000, "news": 7_532, "blogs": 2_081}  # test rows


class Cell(NamedTuple):
    """Runs of one model of one size on one data set: one for each seed, and what they were made with."""

    runs: list[dict[str, Any]]
    settings: dict[str, Any]

    def mean(self, measure: str) -> float:
        """Mean over seeds."""
        return float(np.mean([run[measure] for run in self.runs]))

    def seconds(self) -> str:
        """Of a fit, without compilation where that was timed."""
        first = self.runs[0]
        later = first.get("again_s")
        compiled = "strength" in first  # logistic regression compiles nothing
        return _seconds(later) if later else _seconds(first["fit_s"]) + "*" * (not compiled)


Book = dict[tuple[str, str, str], Cell]  # data set, model, hidden units


def read() -> Book:
    """All that is stored of full runs."""
    book: Book = {}
    for data in SETS:
        for model in ("linear", *MODELS):
            for record in stored(f"table2/{data}_{model}.json"):
                for hidden, entry in record.items():
                    if entry["limit"] is None and not entry["epochs"]:
                        book[data, model, hidden] = Cell(entry["runs"], entry["settings"])
    return book


def _seconds(value: float) -> str:
    return f"{value:.0f}" if value >= 10 else f"{value:.2g}"


def verdict(data: str, ours: float, paper: float) -> str:
    """Whether ours differs from the paper's by more than two binomial standard errors, and which way."""
    pairs = ((ours, OUR_ROWS[data]), (paper, TEST_ROWS[data]))
    errors = [100 * sqrt(p / 100 * (1 - p / 100) / rows) for p, rows in pairs]
    if abs(ours - paper) <= 2 * hypot(*errors):
        return "within"
    return "better" if ours > paper else "worse"


def papers() -> str:
    """Accuracy in per cent: the paper's twelve rows and ours, our default, and a linear model."""
    book, rows = read(), []
    for model, label in MODELS.items():
        for hidden in HIDDEN:
            rows.append([label, hidden])
            for data in SETS:
                cell, paper = book.get((data, model, hidden)), PAPER.get((data, model, hidden))
                accuracy = f"{cell.mean('accuracy'):.2f}" if cell else "not run"
                judged = f" ({verdict(data, cell.mean('accuracy'), paper)})" if cell and paper else ""
                rows[-1] += [f"{paper:.2f}" if paper else "", accuracy + judged]
    rows.append(["logistic regression", "none"])
    for data in SETS:
        cell = book.get((data, "linear", "none"))
        rows[-1] += ["", f"{cell.mean('accuracy'):.2f}" if cell else "not run"]
    head = ["model", "hidden", *(f"{name}, {who}" for name in SETS.values() for who in ("paper", "ours"))]
    return f"{table(head, rows)}\n\n{agreement(book)}"


def tally(held: dict[tuple[str, str], bool]) -> str:
    """In how many cells something holds, and in which it does not."""
    lost = [f"{SETS[data]} {hidden}" for (data, hidden), it in held.items() if not it]
    return f"{sum(held.values())} of {len(held)} cells" + (f" (not {', '.join(lost)})" if lost else "")


def agreement(book: Book) -> str:
    """How many cells reach the paper's figure, and what our default passes."""
    lines = []
    for model in ("relu", "tggm-bp", "tggm-ml"):
        reached = {
            (d, h): verdict(d, cell.mean("accuracy"), PAPER[d, m, h]) != "worse"
            for (d, m, h), cell in book.items()
            if m == model
        }
        lines.append(
            f"- {MODELS[model]}: within two standard errors of the paper, or better, in {tally(reached)}."
        )
    ours = {(d, h): cell for (d, m, h), cell in book.items() if m == "default"}
    equal = {key: round(cell.mean("accuracy"), 2) >= best(*key) for key, cell in ours.items()}
    lines.append(f"- `default` at least equals the paper's best figure of that size in {tally(equal)}.")
    for measure, name, sets in (("accuracy", "accuracy", SETS), ("balanced", "balanced accuracy", ["blogs"])):
        passed = {
            (d, h): cell.mean(measure) > book[d, "linear", "none"].mean(measure)
            for (d, h), cell in ours.items()
            if d in sets and (d, "linear", "none") in book
        }
        lines.append(f"- `default` passes logistic regression in {name} in {tally(passed)}.")
    return "\n".join(lines)


def measures() -> str:
    """Every model and size on every set: all measures, and what was chosen on training rows."""
    book = read()
    head = ["set", "model", "hidden", "accuracy %", "balanced %", "NLL", "ECE", "fit s", "step size"]
    rows = []
    for (data, model, hidden), cell in book.items():
        figures = [f"{cell.mean(m):.2f}" if m in MEASURES[:2] else f"{cell.mean(m):.4f}" for m in MEASURES]
        rate = cell.settings.get("learning_rate")
        step = f"{rate:g}" if rate else ""
        if model not in ("default", "linear") and data != "mnist":
            step += ", scaled" if cell.settings.get("standardize", True) else ", unit rows"
        label = MODELS.get(model, "logistic regression")
        rows.append([SETS[data], label, hidden, *figures, cell.seconds(), step])
    return table(head, rows) if rows else "Not run."


def origin() -> str:
    """Where the figures were made, and of how many seeds they are means."""
    parts = []
    for model in ("linear", *MODELS):
        cells = [cell for (_, m, _), cell in read().items() if m == model]
        seen = sorted({f"{run['device']} at {run['commit']}" for cell in cells for run in cell.runs})
        if seen:
            seeds = sorted({str(len(cell.runs)) for cell in cells})
            label = MODELS.get(model, "logistic regression")
            parts.append(f"{label} ({' or '.join(seeds)} seed{'s' * (seeds != ['1'])}): {'; '.join(seen)}")
    spent = sum(run["fit_s"] + run["predict_s"] for cell in read().values() for run in cell.runs)
    trials = [
        run["fit_s"] for rates in stored("table2/rates.json") for e in rates.values() for run in e["runs"]
    ]
    total = (
        f"All fits and predictions, compiled anew each time, took {spent / 60:.0f} minutes there, "
        f"what was tried on training rows {sum(trials) / 60:.0f}."
    )
    return ". ".join(["Made by `tggm reproduce table2`", *parts, total]) if parts else "Nothing was run yet."


BLOCKS = {"table2": papers, "table2-measures": measures, "table2-origin": origin}
