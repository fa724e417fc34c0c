"""Fill the tables of README.md and of pages from benchmarks/results: no figure there is typed.

    python benchmarks/render.py

A table stands between <!-- name --> and <!-- /name -->: README.md has `comparison`, docs/benchmarks.md has
`ratios`, `training-step`, `growth` and `machines`, docs/scaling.md has
`streaming`, `kills`, `fuzz`, `devices` and `costs`, docs/truncated-normal.md has
`boxes`, docs/choosing-an-engine.md has `engines`, docs/deep.md has `accuracy`, SECURITY.md has `promises`. A
sentence below a table says which command, commit and machine made it, unless the table says so itself.
"""

import re
from pathlib import Path
from typing import Any

import costs
import deep_accuracy
import engines
from origin import with_origin
from ratios import SOURCES, duration, ratios, stored

ROOT = Path(__file__).parents[1]
NAMES = {
    "tggm, default": "`tggm`",
    "CatBoost": "CatBoost with uncertainty",
    "NGBoost": "NGBoost",
    "HistGradientBoosting": "scikit-learn's boosted trees",
    "MLP": "scikit-learn's network",
}
SHOWN = ("concrete", "power", "protein", "adult")  # in README.md
Figures = dict[str, dict[str, Any]]


def table(names: list[str], rows: list[list[str]]) -> str:
    lines = ["| " + " | ".join(names) + " |", "| --- " * len(names) + "|"]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


def comparison(figures: Figures) -> str:
    """Error, mean log-likelihood and seconds of each model on some data sets."""
    return fits(figures, SHOWN)


def fits(figures: Figures, sets: tuple[str, ...] = ()) -> str:
    """The same on all, or on those named."""
    record = figures["fit"]["fits"]
    sets = sets or tuple(dict.fromkeys(row["dataset"] for row in record))
    found = {(row["model"], row["dataset"]): row for row in record}
    lines = []
    for model, shown in NAMES.items():
        cells = [found.get((model, name)) for name in sets]
        lines.append([shown, *(_fit(cell) if cell else "not run" for cell in cells)])
    rows = {row["dataset"]: row["rows"] for row in record}
    commits = " and ".join(sorted({row["commit"] for row in record if row["dataset"] in sets}))
    note = (
        f"One split and one run, each library with its defaults, {record[0]['machine']}, commit {commits}:\n"
        "`python benchmarks/fit.py`. The first fit of a process also compiles, which takes a few seconds."
    )
    heads = [f"{name.capitalize()}, {rows[name]:,} rows" for name in sets]
    return table(["error / log-likelihood / seconds", *heads], lines) + "\n\n" + note


def _fit(cell: dict[str, Any]) -> str:
    error = f"{cell['error']:.1%}" if "error" in cell else f"{cell['rmse']:.3g}"
    return f"{error} / {cell['ll']:.2f} / {cell['seconds']:.1f}"


def ratio_table(figures: Figures) -> str:
    """All comparisons."""
    rows = [
        [
            row.job,
            row.opponent,
            f"{row.factor:,.0f}" if row.factor >= 100 else f"{row.factor:.2g}",
            duration(row.seconds),
            duration(row.opponent_seconds),
            row.accuracy,
        ]
        for row in ratios(figures)
    ]
    return table(["job", "opponent", "ratio", "tggm", "opponent takes", "accuracy: tggm, opponent"], rows)


def training_step(figures: Figures) -> str:
    """Where the time of a gradient goes."""
    record = figures["training_step"]
    rows = [
        [x["part"], f"{x['elapsed_us']:.2f}", f"{x['cpu_us']:.2f}", f"{x['operations']:,.0f}"]
        for x in record["parts"]
    ]
    heads = ["part, forward and back", "elapsed, µs", "of processors, µs", "operations"]
    note = (
        f"A product of large matrices runs at {record['flops_per_second'] / 1e9:.0f} GFlop/s there: the "
        f"floor is {record['floor_us']:.2f} µs, and\nthe step takes {record['ratio']:.1f} times as long."
    )
    return f"{table(heads, rows)}\n\n{note}"


def growth(figures: Figures) -> str:
    """Exponents, and the first and the last point that they come from."""
    rows = []
    for where, name in (("CPU", "growth"), ("GPU", "growth-gpu")):
        for of, found in figures.get(name, {}).get("growth", {}).items():
            ends = [
                f"{found['sizes'][k]:,}: {duration(found['seconds'][k])}, {found['bytes'][k] / 2**20:.3g} MiB"
                for k in (0, -1)
            ]
            exponents = [f"{found[key]:.2f}" for key in ("time_exponent", "memory_exponent")]
            rows.append([where, of, *exponents, *ends])
    return table(["", "size", "exponent of time", "of memory", "smallest", "largest"], rows)


def machines(figures: Figures) -> str:
    """Where and when each file of figures was made."""
    rows = []
    for name in (*SOURCES, "growth", "growth-gpu"):
        found = figures.get(name, {})
        several = found.get("fits") or [v for v in found.values() if isinstance(v, dict)]
        parts = [found] if "machine" in found else several
        facts = sorted({(str(p.get("machine", "")), str(p.get("commit", "not kept"))[:9]) for p in parts})
        rows += [[f"`{name}.json`", *fact] for fact in facts if any(fact)]
    return table(["figures", "machine", "commit"], rows)


def devices(figures: Figures) -> str:
    """Throughput of each way, by size of mini-batches."""
    fits = figures["devices"]["fits"]
    ways = list(dict.fromkeys(fit["way"] for fit in fits))
    rows = []
    for batch in dict.fromkeys(fit["batch"] for fit in fits):
        found = {fit["way"]: fit for fit in fits if fit["batch"] == batch}
        cells = [
            f"{found[w]['rows_per_second']:,} ({found[w]['ratio']:.2f}), {found[w]['log_density']:.3f}"
            for w in ways
        ]
        rows.append([f"{batch:,}", *cells])
    return table(["rows of a mini-batch", *ways], rows)


def streaming(figures: Figures) -> str:
    """Memory and the best throughput of each fit."""
    fits = figures["streaming"]["fits"]
    rows = []
    for kind, words in (("memory", "in memory"), ("stream", "stream")):
        found = [fit for fit in fits if fit["fit"] == kind]
        memory = max(fit["resident_MiB"] for fit in found)
        speed = max(fit["rows_per_second"] for fit in found)
        rows.append([words, f"{found[0]['rows']:,}", f"{memory} MiB", f"{speed:,}"])
    head = ["fit", "rows", "largest resident memory", f"rows a second, best of {len(fits) // 2}"]
    return table(head, rows)


def kills(figures: Figures) -> str:
    """How many fits were killed where, and what became of them."""
    record = figures["kill_and_resume"]
    places = {
        "a moment": "at a random moment", "open": "before a file is opened",
        "write": "with half of a file written", "sync": "before it is synchronised",
        "rename to previous": "before the old one is renamed",
        "rename": "before the new one gets its name", "sync folder": "before the folder is synchronised",
    }  # fmt: skip
    rows = [[words, str(record["strikes_by_step"].get(step, 0))] for step, words in places.items()]
    told = (
        f"{record['kills']:,} kills in {record['fits']} fits, {record['of_them_power_losses']} of them power "
        f"losses, and {record['full_disks']} full disks: {record['losses']} losses. {record['resumed']:,} "
        "starts found a checkpoint."
    )
    return table(["struck", "times"], rows) + f"\n\n{told}"


def fuzz(figures: Figures) -> str:
    """What became of malformed model files."""
    found = figures["fuzz"]["model_files"]
    rows = [
        [words, f"{found[words]:,}"] for words in ("bytes refused", "structure refused", "structure loaded")
    ]
    return table([f"of {found['files']:,} files", f"{found['violations']} violations"], rows)


def promises(figures: Figures) -> str:
    """How often each promise was tried, and how often it was broken."""
    files, kills = figures["fuzz"]["model_files"], figures["kill_and_resume"]
    strikes = kills["kills"] + kills["full_disks"]
    rows = [
        ["model files that were changed", files["files"], files["violations"], files["seconds"]],
        ["kills, power losses and full disks", strikes, kills["losses"], kills["seconds"]],
    ]
    if load := figures.get("load"):
        asked = load["predictions"] + load["answers_of_the_server"]
        rows.append(["predictions while a model learns", asked, int(not load["sound"]), load["seconds"]])
    cells = [[name, *(f"{round(number):,}" for number in numbers)] for name, *numbers in rows]
    return table(["tried", "cases", "failures", "seconds"], cells)


def explanations(figures: Figures) -> str:
    """What explanations cost on a large table."""
    found = figures["explanations"]
    return (
        f"On adult ({found['training_rows']:,} training rows, {found['columns']} columns) importances took "
        f"{found['importances_s']:.0f} seconds and the parts of {found['explained_rows']:,} predictions "
        f"{found['explain_s']:.0f}."
    )


def wide(figures: Figures) -> str:
    """First fits of many outputs, classes or columns."""
    record = figures["wide"]
    names = ["fit", "of_it_compiling", "first_prediction", "fit_again"]
    rows = [[name, *(f"{found[n]:.1f}" for n in names)] for name, found in record["fits"].items()]
    heads = ["20 epochs of", "first fit, s", "of it compiling", "first prediction", "second fit"]
    return table(heads, rows)


def cost_tables(figures: Figures) -> str:
    """The cost model on two shapes."""
    shapes = (costs.Shape(), costs.Shape(units=1000, members=10))
    return "\n\n".join(f"{costs.facts(shape)}\n\n{costs.table(shape)}" for shape in shapes)


def boxes(figures: Figures) -> str:
    """Probabilities, error beside seconds, and moments by EP."""
    record = figures["truncated_normal"]

    def cell(found: dict[str, float] | None) -> str:
        return f"{found['error']:.0e}, {duration(found['seconds'])}" if found else "not run"

    rows = [
        [
            f"{case['d']}",
            f"{case['tggm']['log_p']:.4g}",
            cell(case["tggm"]) + f", first {duration(case['tggm']['first'])}",
            cell(case["ep"]),
            cell(case.get("scipy")),
            cell(case.get("botorch")),
        ]
        for case in [*record["cases"], record["far"]]
    ]
    heads = ["d", "log Pr", "separation, tol 1e-3", "EP", "SciPy", "BoTorch MVNXPB"]
    moments = [
        [
            str(m["d"]),
            str(m["problems"]),
            *(f"{m[key]:.0e}" for key in ("median", "largest", "std", "referee")),
            duration(m["seconds"]),
        ]
        for m in record["moments"]
    ]
    names = ["d", "boxes", "mean: median of the worst", "largest", "sd: largest", "referee's own", "a call"]
    told = (
        "SciPy's number of points was doubled until its error was 1e-3, or its time twenty times ours\n"
        "(three times at 500).\n"
        "Errors of EP's means, in standard deviations, and of its standard deviations, relative, in random\n"
        "boxes with random covariances:"
    )
    return f"{table(heads, rows)}\n\n{told}\n\n{table(names, moments)}"


PAGES = {
    "docs/truncated-normal.md": {"boxes": boxes},
    "docs/tables.md": {"explanations": explanations},
    "docs/choosing-an-engine.md": {"engines": lambda figures: engines.table(figures["engines"]["engines"])},
    "docs/deep.md": {"accuracy": lambda figures: deep_accuracy.table(figures["deep_accuracy"]["rows"])},
    "SECURITY.md": {"promises": promises},
    "README.md": {"comparison": comparison},
    "docs/benchmarks.md": {
        "ratios": ratio_table,
        "fits": fits,
        "training-step": training_step,
        "growth": growth,
        "machines": machines,
    },
    "docs/scaling.md": {
        "wide": wide,
        "streaming": streaming,
        "kills": kills,
        "fuzz": fuzz,
        "devices": devices,
        "costs": cost_tables,
    },
}


def rendered(page: str, name: str, figures: Figures) -> str:
    """A page with its tables filled."""
    for mark, make in PAGES[name].items():
        ends = f"<!-- {mark} -->", f"<!-- /{mark} -->"
        block = f"{ends[0]}\n{with_origin(make, figures)}\n{ends[1]}"
        page, count = re.subn(f"{ends[0]}.*?{ends[1]}", lambda _, text=block: text, page, flags=re.S)
        assert count == 1, f"{name} must hold the markers of {mark} once"
    return page


def main() -> None:
    figures = stored(ROOT / "benchmarks" / "results")
    for name in PAGES:
        path = ROOT / name
        path.write_text(rendered(path.read_text(), name, figures))


if __name__ == "__main__":
    main()
