"""What the folds of a comparison say: figures with standard errors, and who is ahead of whom."""

import csv as csv_module
import io
from dataclasses import asdict, dataclass
from textwrap import fill
from typing import Any

import numpy as np

from tggm.arrays import Floats
from tggm.cli.contest import CLEAR, OURS, Result

TITLES = {"rmse": "RMSE", "error": "error", "log_score": "log-score", "crps": "CRPS"}
SMALL = {"rmse", "error", "crps"}  # measures of which less is better
MARKS = {"better": "+", "worse": "-", "even": "="}
_KEY = """+ better, - worse than this model by over two standard errors of the paired
difference, = neither"""
_WIDTH = 80  # of a terminal


@dataclass(frozen=True)
class Figure:
    """A measure of one model, its standard error, and what it is beside ours."""

    value: float
    error: float
    beside_ours: str | None  # "better", "worse" or "even"; None for ours


@dataclass(frozen=True)
class Standings:
    """Figures of all models by measure, mean seconds of a fold, and who failed and why."""

    folds: int
    figures: dict[str, dict[str, Figure]]
    seconds: dict[str, float]
    failed: dict[str, str]


def standings(results: dict[str, Result]) -> Standings:
    """Of the folds that all models have finished; KeyboardInterrupt if there is none."""
    failed = {name: result.failure for name, result in results.items() if result.failure is not None}
    able = {name: result for name, result in results.items() if name not in failed}
    folds = min(len(result.scores) for result in able.values())
    if not folds:
        raise KeyboardInterrupt
    measures = able[OURS].scores[0]
    rows = {name: {m: r.all_rows(m, folds) for m in measures} for name, r in able.items()}
    figures = {
        name: {m: _figure(m, own[m], None if name == OURS else rows[OURS][m]) for m in measures}
        for name, own in rows.items()
    }
    seconds = {name: float(np.mean(result.seconds[:folds])) for name, result in able.items()}
    return Standings(folds, figures, seconds, failed)


def _figure(measure: str, rows: Floats, ours: Floats | None) -> Figure:
    value, error = _mean(rows)
    beside = None
    if ours is not None:
        ahead, doubt = _mean(rows - ours)
        gain = -ahead if measure in SMALL else ahead
        beside = "even" if abs(gain) <= CLEAR * doubt else "better" if gain > 0 else "worse"
    if measure == "rmse":  # rows have squared errors: the error of the root is that of the square over 2 RMSE
        value = float(np.sqrt(value))
        error = error / (2 * value) if value > 0 else 0.0
    return Figure(value, error, beside)


def _mean(rows: Floats) -> tuple[float, float]:
    """A mean and its standard error."""
    spread = rows.std(ddof=1) if len(rows) > 1 else 0.0
    return float(rows.mean()), float(spread / np.sqrt(len(rows)))


def facts(found: Standings) -> dict[str, Any]:
    """What JSON holds."""
    return asdict(found)


def table_of(found: Standings, *, csv: bool = False) -> str:
    """A line for each model, with the sentence that says what the marks mean; or a CSV file."""
    return _csv(found) if csv else _text(found)


def _text(found: Standings) -> str:
    measures = list(found.figures[OURS])
    table = [["", *(f"{TITLES[m]}  " for m in measures), "s/fold"]]
    for name, figures in found.figures.items():
        table.append([name, *(_cell(figures[m]) for m in measures), f"{found.seconds[name]:.3g}"])
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    lines = [
        f"{name:<{widths[0]}}"
        + "".join(f"  {cell:>{size}}" for cell, size in zip(cells, widths[1:], strict=True))
        for name, *cells in table
    ]
    lines += ["", _KEY]
    lines += [f"{name} {why}" for name, why in found.failed.items()]
    told = [fill(line, _WIDTH, subsequent_indent="  ") for line in _verdict(found)]
    return "\n".join([*lines, *told]) + "\n"


def _cell(figure: Figure) -> str:
    mark = " " if figure.beside_ours is None else MARKS[figure.beside_ours]
    return f"{figure.value:.4g} ± {figure.error:.2g} {mark}"


def _verdict(found: Standings) -> list[str]:
    """One sentence for each direction, where anyone is there."""
    lines = []
    for beside, words in (("better", "behind"), ("worse", "ahead of"), ("even", "not to be told from")):
        names = [
            f"{name} ({', '.join(listed)})"
            for name, figures in found.figures.items()
            if (listed := [TITLES[m] for m, figure in figures.items() if figure.beside_ours == beside])
        ]
        if names:
            lines.append(f"{OURS} is {words} {'; '.join(names)}")
    return lines


def _csv(found: Standings) -> str:
    text = io.StringIO()
    writer = csv_module.writer(text, lineterminator="\n")
    writer.writerow(["model", "measure", "value", "standard_error", "beside_this_model", "seconds_a_fold"])
    for name, figures in found.figures.items():
        for measure, figure in figures.items():
            numbers = (f"{x:.10g}" for x in (figure.value, figure.error))
            last = f"{found.seconds[name]:.4g}"
            writer.writerow([name, measure, *numbers, figure.beside_ours or "", last])
    return text.getvalue()
