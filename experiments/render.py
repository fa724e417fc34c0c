"""Fill the tables of the documentation from experiments/results: no measured figure in those pages is typed.

    python experiments/render.py

Each table stands between a pair of comments, <!-- NAME --> and <!-- /NAME -->, on the page that names it. The
block NAME of the results page is what `block()` of the module page_NAME returns, or what the functions in its
BLOCKS return, where there are several. A sentence below a table says which command, commit and machine made
it, unless its captions do.
"""

import importlib
import re
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import deep_density
import numpy as np
import page_calibration
import page_deep
import page_defaults
import page_fallback
import page_guarantee
import page_raw
import page_units
import undirected_engine
from origins import ages, line
from page import ROOT, sources, stored, table
from quoted import OTHERS, PAPER
from uci import summary

from tggm import TGGMClassifier

DATASETS = ("boston", "concrete", "energy", "yacht")
DIGITS = [
    f"mnist{rest}" for rest in ("", "_ep", "_meanfield", "_cpu", "_cpu_ep", "_cpu_ep200", "_cpu_meanfield")
]
NUMBERS = ("sigma0", "learning_rate", "weight_decay", "average", "batch_size", "max_epochs")
METHODS = ("moments", "ep", "meanfield", "exact", "bp", "paper-bp", "paper-ml")


def _uci(show: Callable[[dict[str, Any]], str]) -> str:
    rows = []
    for method in METHODS:
        for record in stored(f"uci_{method}.json"):
            cells = [show(record[d]) if d in record else "not run" for d in DATASETS]
            rows.append([f"`{method}`", *cells])
    return table(["method", *(d.capitalize() for d in DATASETS)], rows)


def _accuracy(record: dict[str, Any]) -> str:
    """RMSE and log-likelihood with their standard errors; the number of splits where not all were run."""
    s = summary(record["splits"])
    text = f"{s['rmse'][0]:.3f} ± {s['rmse'][1]:.3f} / {s['ll'][0]:.3f} ± {s['ll'][1]:.3f}"
    n = len(record["splits"])
    return text if n == 20 else f"{text} ({n} splits)"


def _calibration(record: dict[str, Any]) -> str:
    """CRPS and coverage in per cent."""
    s = summary(record["splits"])
    return f"{s['crps'][0]:.3f}, {100 * s['cover50'][0]:.0f}, {100 * s['cover90'][0]:.0f}"


def _quoted() -> str:
    rows = [[f"paper, {c}", *(f"{PAPER[d][c].mean:.3f}" for d in DATASETS)] for c in ("TGGM-BP", "TGGM-ML")]
    for name, figures in OTHERS.items():
        rows.append([name, *(" / ".join(figures[d]) for d in DATASETS)])
    return table(["quoted", *(d.capitalize() for d in DATASETS)], rows)


def _origin() -> str:
    parts = []
    for method in METHODS:
        for record in stored(f"uci_{method}.json"):
            seen = sorted({f"{r['device']} at {r['commit']}" for r in record.values()})
            parts.append(f"`{method}`: {'; '.join(seen)}")
    return "Made by `python experiments/uci.py`, seed 0. " + ". ".join(parts) + "."


def _censored() -> str:
    record = stored("censored.json")[0]
    rows = [
        [name] + [f"{np.mean([run[k] for run in runs]):.3f}" for k in ("rmse", "rmse_mean", "bias")]
        for name, runs in record["runs"].items()
    ]
    head = ["fit", "RMSE of uncensored test targets", "RMSE of the conditional mean", "bias of the mean"]
    return table(head, rows)


def _missing() -> str:
    runs = stored("missing.json")[0]["runs"]
    mean = {k: np.mean([run[k] for run in runs]) for k in runs[0]}
    return table(
        ["joint fit", "two separate fits", "true model"],
        [[f"{mean['joint']:.3f}", f"{mean['separate']:.3f}", f"{mean['truth']:.3f}"]],
    )


def _digits() -> str:
    found = stored("digits.json")[0]["results"]
    rows = [
        [name, f"{r['ll']:.1f}" + (f" ± {r['error']:.3f}" if "error" in r else "")]
        for name, r in found.items()
    ]
    return table(["model", "held-out log-likelihood an image"], rows)


def _lateral() -> str:
    records = stored("lateral.json")
    if not records:
        return "Not run."
    found: dict[tuple[str, int], dict[int, float]] = {}
    for run in records[0]["runs"]:
        found.setdefault((run["dataset"], run["split"]), {})[run["rank"]] = run["ll"]
    ranks = sorted({run["rank"] for run in records[0]["runs"]})
    rows = []
    for name in sorted({dataset for dataset, _ in found}):
        whole = [v for (dataset, _), v in found.items() if dataset == name and len(v) == len(ranks)]
        values = np.array([[split[rank] for rank in ranks] for split in whole])
        gain = values - values[:, :1]
        error = gain.std(0) / np.sqrt(max(len(gain) - 1, 1))
        cells = [f"{m:+.3f} ± {e:.3f}" for m, e in zip(gain.mean(0)[1:], error[1:], strict=True)]
        rows.append([f"{name.capitalize()}, {len(gain)} splits", f"{values[:, 0].mean():.3f}", *cells])
    return table(["data set", "none", *(f"rank {rank}" for rank in ranks if rank)], rows)


def _classes(names: list[str], skip: str = "") -> str:
    rows = []
    for record in [found for name in names for found in stored(f"{name}.json")]:
        for run in record["runs"]:
            seconds = run["fit_s"] if np.isnan(run["again_s"]) else run["again_s"]
            name = run["model"].removeprefix(skip)
            hidden = str(run["hidden"] or "none")
            figures = [f"{run['accuracy']:.2f}", f"{run['balanced']:.2f}", f"{run['nll']:.4f}"]
            rows.append([name, hidden, *figures, f"{run['ece']:.4f}", f"{seconds:.1f}", record["device"]])
    head = ["model", "hidden", "accuracy %", "balanced %", "NLL", "ECE", "seconds", "on"]
    return table(head, rows)


def _probabilities() -> str:
    """Errors of predicted probabilities: the largest of all networks, means over networks of the others."""
    found: dict[tuple[str, str], list[dict[str, float]]] = {}
    for name, run in stored("probabilities.json")[0]["runs"].items():
        data, hidden, _ = name.split()
        found.setdefault((data, hidden), []).append(run)
    rows = []
    for (data, hidden), runs in found.items():
        ways = {"worst": np.max, "mean": np.mean, "worst_simple": np.max, "draws": np.mean}
        rows.append([data, hidden, *(f"{way([run[k] for run in runs]):.3f}" for k, way in ways.items())])
    head = [
        "data",
        "hidden",
        "largest error",
        "mean over rows",
        "with simpler variances",
        "error of the draws",
    ]
    return table(head, rows)


def _choices() -> str:
    """Settings of mean field and their figures on training images held out."""
    usual = TGGMClassifier.one_layer().get_params()
    rows = []
    for record in stored("mnist_validation.json")[0]:
        settings = {**usual, **record["settings"]}
        words = ["one by one" if settings["factorised"] else "together", settings["init"]]
        words += [settings["optimizer"], *(f"{settings[k]:g}" for k in NUMBERS)]
        for run in record["runs"]:
            rows.append([run["model"], *words, f"{run['accuracy']:.2f}", f"{run['nll']:.4f}"])
    head = [
        "trained by",
        "scores",
        "start",
        "optimiser",
        "σ0",
        "step size",
        "decay",
        "averaging",
        "batch",
        "epochs",
    ]
    return table([*head, "accuracy %", "NLL"], sorted(rows, key=lambda row: row[-2]))


def _bound() -> str:
    rows = [
        [r["model"], *(f"{r[k]:.3f}" for k in ("moments", "meanfield", "ep")), f"{r['accuracy']:.1f}"]
        for r in stored("bound.json")[0]["runs"]
    ]
    return table(["trained by", "log-probability", "bound", "EP", "held-out accuracy %"], rows)


def _wide() -> str:
    """Errors on tables with many columns."""
    rows = [
        [name, *(f"{error:.2f}" for error in errors.values())]
        for record in stored("wide.json")
        for name, errors in record["errors"].items()
    ]
    head = next((list(errors) for r in stored("wide.json") for errors in r["errors"].values()), [])
    return table(["rows × columns", *head], rows) if rows else "Not run."


def _results() -> dict[str, Callable[[], str]]:
    """The blocks of the results page, as far as their modules are there."""
    found: dict[str, Callable[[], str]] = {}
    for name in ("table1", "table2", "figures", "claims"):
        if find_spec(f"page_{name}"):
            module = importlib.import_module(f"page_{name}")
            found |= getattr(module, "BLOCKS", None) or {name: module.block}
    return found


PAGES: dict[str, dict[str, Callable[[], str]]] = {
    "units.md": {"units": page_units.units},
    "choosing-a-method.md": {
        "accuracy": lambda: _uci(_accuracy),
        "calibration": lambda: _uci(_calibration),
        "quoted": _quoted,
        "origin": _origin,
        "wide": _wide,
        **page_defaults.METHOD,
        "class-fallback": page_fallback.block,
    },
    "uncertainty.md": {
        **page_defaults.UNCERTAINTY,
        **page_calibration.BLOCKS,
        "deep-density": deep_density.block,
        "guarantee": page_guarantee.block,
    },
    "designing-a-graph.md": {
        "censored": _censored,
        "missing": _missing,
        "digits": _digits,
        "lateral": _lateral,
    },
    "classification.md": {
        "probabilities": _probabilities,
        "mnist": lambda: _classes(DIGITS),
        "choices": _choices,
        "bound": _bound,
        "news": lambda: _classes(["text_news", "text_news_likelihood"], "news "),
        "blogs": lambda: _classes(["text_blogs", "text_blogs_likelihood"], "blogs "),
    },
    "deep.md": {**page_deep.BLOCKS, "deep-engine": undirected_engine.block},
    "tables.md": page_raw.BLOCKS,
    "results.md": page_defaults.RESULTS | _results() | {"ages": ages},
}


def with_origin(make: Callable[[], str]) -> str:
    """A block, and below it what made its figures."""
    with sources() as files:
        text = make()
    return text if "Made by " in text or not files else f"{text}\n\n{line(files)}"


def rendered(page: str, name: str) -> str:
    """A page with its blocks filled."""
    for block, make in PAGES[name].items():
        text = f"<!-- {block} -->\n{with_origin(make)}\n<!-- /{block} -->"
        page, count = re.subn(
            f"<!-- {block} -->.*?<!-- /{block} -->", lambda _, text=text: text, page, flags=re.S
        )
        assert count == 1, f"{name} must hold the markers of {block!r} once"
    return page


def main() -> None:
    for name in PAGES:
        path = ROOT / "docs" / name
        path.write_text(rendered(path.read_text(), name))


if __name__ == "__main__":
    main()
