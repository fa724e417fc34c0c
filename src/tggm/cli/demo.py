"""`tggm demo`: the main job, from a table to a report, on two data sets.

Circuits is a regression: the impedance of 600 generated circuits, √(R² + (ωL − 1/ωC)²) of Friedman's second
problem, measured with an error of 5 %. Digits, which come with scikit-learn, are a classification (1,797
handwritten ones of 8 × 8 pixels). Every step is a command that could be typed.
"""

import shlex
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tggm.cli.errors import CommandError

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np

CIRCUITS = ["resistance", "frequency", "inductance", "capacitance"]


def demo(
    output: Annotated[Path, typer.Option(help="Folder for all files; created if missing.")] = Path("demo"),
) -> None:
    """Do all of this on two data sets, in a minute or two.

    Fit, predict, evaluate, figures and report, on generated circuits and handwritten digits.
    """
    begin = time.perf_counter()
    if output.exists() and not output.is_dir():
        raise CommandError(f"{output} is a file; name a folder with --output.")
    output.mkdir(parents=True, exist_ok=True)
    circuits, digits = str(output / "circuits"), str(output / "digits")
    write_tables(output)
    print("1. Regression: impedance of circuits, measured with an error of 5 %", flush=True)
    command("fit", f"{circuits}_train.csv", "--target", "impedance", "--test-size", "0",
            "-o", f"{circuits}.tggm", "--force")  # fmt: skip
    command("predict", f"{circuits}.tggm", f"{circuits}_test.csv", "--interval", "0.9",
            "-o", f"{circuits}_predictions.csv", "--force")  # fmt: skip
    show(f"{circuits}_predictions.csv")
    command("evaluate", f"{circuits}.tggm", f"{circuits}_test.csv")
    print("\n2. Classification: handwritten digits, from 64 pixels", flush=True)
    command("fit", f"{digits}_train.csv", "--target", "digit", "--test-size", "0", "--epochs", "30",
            "-o", f"{digits}.tggm", "--force")  # fmt: skip
    command("predict", f"{digits}.tggm", f"{digits}_test.csv", "-o", f"{digits}_predictions.csv", "--force")
    command("evaluate", f"{digits}.tggm", f"{digits}_test.csv")
    print("\n3. Figures and reports", flush=True)
    pictures = draw_figures(output)
    for name in (circuits, digits):
        command("report", f"{name}.tggm", f"{name}_test.csv", "-o", f"{name}_report.html", "--force")
    print(f"\nDone in {time.perf_counter() - begin:.0f} s. Where to look:")
    print(f"  reports      {circuits}_report.html and {digits}_report.html (open them in a browser)")
    print(f"  figures      {', '.join(str(path) for path in pictures)}")
    print(
        f"  predictions  {circuits}_predictions.csv and {digits}_predictions.csv, beside the models (.tggm)"
    )


def command(*words: str) -> None:
    """Show a command and run it, as if it had been typed."""
    from tggm.cli.app import run

    print(f"\n$ tggm {shlex.join(words)}", flush=True)
    if run(words) != 0:
        raise CommandError(f"the demo stopped at: tggm {shlex.join(words)}")


def show(path: str, lines: int = 4) -> None:
    """The beginning of a file."""
    for line in Path(path).read_text().splitlines()[:lines]:
        print(f"  {line}")


def draw_figures(folder: Path) -> list[Path]:
    """How near the predictions are, and whether they know how near."""
    from tggm.plotting import plot_calibration, plot_confusion, plot_predicted, plot_reliability

    model, X, y = _asked(folder / "circuits")
    dist = model.predict_dist(X)
    classifier, Z, z = _asked(folder / "digits")
    p, classes = classifier.predict_proba(Z), classifier.classes_
    best = classes[p.argmax(1)]
    return [
        _drawn(folder / "predicted.png", lambda ax: plot_predicted(dist, y, ax=ax)),
        _drawn(folder / "calibration.png", lambda ax: plot_calibration(dist, y, ax=ax)),
        _drawn(folder / "reliability.png", lambda ax: plot_reliability(p, z, classes=classes, ax=ax)),
        _drawn(folder / "confusion.png", lambda ax: plot_confusion(best, z, classes=classes, ax=ax)),
    ]


def _asked(stem: Path) -> "tuple[Any, np.ndarray, np.ndarray]":
    """A model, and the inputs and targets of its test rows."""
    from tggm.cli.inputs import read_inputs

    given = read_inputs(f"{stem}.tggm", f"{stem}_test.csv", None, ".", strict=False, quiet=True, targets=True)
    return given.model, given.X, given.y


def _drawn(path: Path, plot: "Callable[[Any], Any]") -> Path:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 5.2), layout="constrained")
    plot(figure.add_subplot())
    figure.savefig(path, dpi=130)
    return path


def write_tables(folder: Path) -> None:
    """The two data sets as CSV files, each cut into a part to train on and a part to test on."""
    from sklearn.datasets import load_digits, make_friedman2
    from sklearn.utils import check_random_state

    X, y = make_friedman2(600, random_state=0)
    error = 0.05 * check_random_state(1).standard_normal(600)
    _write(folder / "circuits", CIRCUITS, X, "impedance", y * (1 + error))
    X, y = load_digits(return_X_y=True)
    _write(folder / "digits", [f"pixel{k // 8}{k % 8}" for k in range(64)], X, "digit", y)


def _write(stem: Path, names: list[str], X: "np.ndarray", target: str, y: "np.ndarray") -> None:
    import numpy as np

    from tggm.cli.files import write_result
    from tggm.cli.formats import csv_text

    order = np.random.default_rng(0).permutation(len(y))
    cut = len(y) * 3 // 4
    for part, rows in (("train", order[:cut]), ("test", order[cut:])):
        columns = {name: X[rows, j] for j, name in enumerate(names)} | {target: y[rows]}
        write_result(f"{stem}_{part}.csv", csv_text(columns))
