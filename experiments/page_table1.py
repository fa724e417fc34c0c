"""The regression part of the results page: Table 1 of the paper beside ours, from results/table1/ROW.json."""

from math import floor, hypot, log10
from typing import Any, NamedTuple

from page import stored, table
from quoted import OTHERS, PAPER, PAPER_YEAR, Error
from uci import summary

ROWS = {
    "relu": "ReLU network",
    "paper-bp": "TGGM-BP",
    "paper-ml": "TGGM-ML",
    "single": "one layer, one network",
    "default": "one layer",
}
COLUMNS = {"ReLU-BP": "relu", "TGGM-BP": "paper-bp", "TGGM-ML": "paper-ml"}  # of the paper, and our rows
SPLITS = {name: 5 if name == "protein" else 20 for name in PAPER}
LEAST = {"year": 463_715}  # training rows; with fewer it was a trial


class Row(NamedTuple):
    """Results of one model on one data set."""

    results: list[dict[str, Any]]
    whole: bool  # all splits are there
    mean: dict[str, tuple[float, float]]  # measure -> mean and standard error
    seed: int


Book = dict[str, dict[str, Row]]  # row -> data set -> results


def read() -> Book:
    """All that is stored."""
    book: Book = {name: {} for name in ROWS}
    for name in ROWS:
        for record in stored(f"table1/{name}.json"):
            for dataset, known in record.items():
                found = known["splits"]
                figures = summary(found) if "rmse" in found[0] else {}
                whole = len(found) == SPLITS.get(dataset, 1) and known["train_rows"] >= LEAST.get(dataset, 0)
                book[name][dataset] = Row(found, whole, figures, known["seed"])
    return book


def plus_minus(mean: float, error: float) -> str:
    """A mean and its standard error, of which two digits are shown."""
    digits = min(max(1 - floor(log10(error)), 2), 7) if error > 0 else 3
    return f"{mean:.{digits}f} ± {error:.{digits}f}"


def cell(row: Row | None, measure: str) -> str:
    if row is None or measure not in row.mean:
        return "not run"
    text = plus_minus(*row.mean[measure])
    return text if row.whole else f"{text} (of {len(row.results)})"


def verdict(ours: tuple[float, float], paper: Error) -> str:
    """Whether the difference from the paper is larger than two standard errors of it, and which way."""
    difference, error = ours[0] - paper.mean, hypot(ours[1], paper.error)
    if abs(difference) <= 2 * error:
        return "within"
    return "better" if difference < 0 else "worse"


def papers() -> str:
    """Each column of the paper's table that we ran, beside our run of it."""
    book = read()
    head = ["set", "PBP, paper", *(f"{c}, {who}" for c in COLUMNS for who in ("paper", "ours")), "one layer"]
    rows = []
    for dataset, columns in PAPER.items():
        cells = [dataset.capitalize(), f"{columns['PBP'].mean} ± {columns['PBP'].error}"]
        for column, name in COLUMNS.items():
            row = book[name].get(dataset)
            judged = f" ({verdict(row.mean['rmse'], columns[column])})" if row and row.whole else ""
            cells += [f"{columns[column].mean} ± {columns[column].error}", cell(row, "rmse") + judged]
        rows.append([*cells, cell(book["default"].get(dataset), "rmse")])
    return f"{table(head, rows)}\n\n{agreement(book)}"


def finished(rows: dict[str, Row]) -> dict[str, Row]:
    """Those of the paper's sets of which all splits are there."""
    return {dataset: row for dataset, row in rows.items() if dataset in PAPER and row.whole}


def tally(won: dict[str, bool]) -> str:
    """On how many sets something holds, and on which it does not."""
    lost = [name.capitalize() for name, it in won.items() if not it]
    return f"{sum(won.values())} of {len(won)} sets" + (f" (not {', '.join(lost)})" if lost else "")


def agreement(book: Book) -> str:
    """Where our runs of the paper's models reach its figures, and where our one layer passes its best."""
    lines = []
    for column, name in COLUMNS.items():
        rows = finished(book[name])
        reached = {d: verdict(row.mean["rmse"], PAPER[d][column]) != "worse" for d, row in rows.items()}
        lines.append(
            f"- {column}: within two standard errors of the paper's figure, or better, on {tally(reached)}."
        )
    best = {d: min(PAPER[d]["TGGM-BP"].mean, PAPER[d]["TGGM-ML"].mean) for d in PAPER}
    lower = {d: row.mean["rmse"][0] < best[d] for d, row in finished(book["default"]).items()}
    lines.append(
        f"- One layer has a lower mean than the better of the paper's two TGGM columns on {tally(lower)}."
    )
    return "\n".join(lines)


def others() -> str:
    """What others published, beside our one layer."""
    book, rows = read(), []
    for dataset in PAPER:
        cells = [" / ".join(figures[dataset]) if dataset in figures else "" for figures in OTHERS.values()]
        row = book["default"].get(dataset)
        ours = f"{cell(row, 'rmse')} / {cell(row, 'll')}" if row else "not run"
        rows.append([dataset.capitalize(), *cells, ours])
    head = ["set", *(f"{name}, quoted" for name in OTHERS), "one layer"]
    return f"{table(head, rows)}\n\n{beaten(finished(book['default']))}"


def beaten(ours: dict[str, Row]) -> str:
    """On how many sets the means of our one layer are better than what others published."""
    lines = []
    for other, figures in OTHERS.items():
        rmse, ll = {}, {}
        for dataset in [dataset for dataset in ours if dataset in figures]:
            (their_rmse, their_ll), row = map(float, figures[dataset]), ours[dataset]
            ll[dataset] = row.mean["ll"][0] > their_ll
            if their_rmse > 0:  # an error printed as 0.00 cannot be compared with
                rmse[dataset] = row.mean["rmse"][0] < their_rmse
        lines.append(f"- One layer beats {other} in RMSE on {tally(rmse)}, in log-likelihood on {tally(ll)}.")
    return "\n".join(lines)


def seconds(value: float) -> str:
    return f"{value:.0f}" if value >= 10 else f"{value:.2g}"


def measures() -> str:
    """Every row, every set, every measure."""
    book = read()
    head = ["set", "model", "RMSE", "log-likelihood", "CRPS", "50 %", "90 %", "fit s", "predict s"]
    rows = []
    for dataset in PAPER:
        for name, label in ROWS.items():
            row = book[name].get(dataset)
            cells = [cell(row, measure) for measure in ("rmse", "ll", "crps")]
            if row is not None:
                cells += [f"{100 * row.mean[m][0]:.0f}" for m in ("cover50", "cover90")]
                cells += [seconds(row.mean[m][0]) for m in ("fit_s", "predict_s")]
            rows.append([dataset.capitalize(), label, *cells, *[""] * (7 - len(cells))])
    return table(head, rows)


def year() -> str:
    """Year Prediction MSD: figures of the real table, seconds alone of a generated one."""
    rows = []
    for name in ("single", "default"):
        row = read()[name].get("year")
        for found in row.results if row and row.whole else []:
            figures = [f"{found[m]:.3f}" if m in found else "generated data" for m in ("rmse", "ll")]
            rows.append([ROWS[name], *figures, *(seconds(found[m]) for m in ("fit_s", "predict_s"))])
    quoted = ", ".join(f"{name} {value}" for name, value in PAPER_YEAR.items())
    head = ["model", "RMSE", "log-likelihood", "fit s", "predict s"]
    return f"The paper's RMSE: {quoted}.\n\n{table(head, rows) if rows else 'Not run.'}"


def origin() -> str:
    """Where the figures were made."""
    parts = []
    for name, rows in read().items():
        seen = {f"{r['device']} at {r['commit']}" for row in rows.values() for r in row.results}
        if seen:
            parts.append(f"{ROWS[name]}: {'; '.join(sorted(seen))}")
    seeds = sorted({str(row.seed) for rows in read().values() for row in rows.values()})
    if not parts:
        return "Nothing was run yet."
    return f"Made by `tggm reproduce table1`, seed {', '.join(seeds)}. {'. '.join(parts)}. {_cost()}"


def _cost() -> str:
    """Minutes of all jobs, compilation included."""
    spent = {"cpu": 0.0, "gpu": 0.0}
    for rows in read().values():
        for result in (result for row in rows.values() for result in row.results):
            spent["cpu" if result["device"].startswith("cpu") else "gpu"] += result["job_s"]
    return (
        f"With compilation all jobs took {spent['gpu'] / 60:.0f} minutes of the GPU, and "
        f"{spent['cpu'] / 60:.0f} of one core, so {spent['cpu'] / 60 / 16:.0f} of 16 busy cores."
    )


EXCEPTIONS = {
    "paper-bp": "TGGM-BP",
    "paper-ml": "TGGM-ML",
    "newton": "TGGM-ML, the E-step by Newton's method,",
}


def exceptions() -> str:
    """Held-out RMSE of the paper's settings with other rates and numbers of epochs."""
    records = stored("exceptions.json")
    if not records:
        return "Not run."
    found: dict[tuple[str, str], dict[tuple[str, str], dict[str, float]]] = {}
    for name, run in records[0]["runs"].items():
        row, dataset, rate, epochs = name.split()
        found.setdefault((row, dataset), {})[rate, epochs] = run
    parts = []
    for (row, dataset), runs in found.items():
        lines = [
            [rate, epochs, f"{run['rmse']:.3g}", f"{run['best_epoch']:.0f}"]
            for (rate, epochs), run in runs.items()
        ]
        title = f"{EXCEPTIONS[row]} on {dataset.capitalize()}:"
        parts += [title, table(["step size", "epochs", "held-out RMSE", "best epoch"], lines)]
    return "\n\n".join(parts)


BLOCKS = {
    "table1": papers,
    "table1-exceptions": exceptions,
    "table1-others": others,
    "table1-measures": measures,
    "table1-year": year,
    "table1-origin": origin,
}
