"""The figures of the demo: how near the predictions are, and whether they know how near."""

from pathlib import Path
from typing import Any

from tggm.files import load_table_model
from tggm.plotting import plot_calibration, plot_confusion, plot_predicted, plot_reliability
from tggm.tables import read_table


def draw_regression(folder: Path, stem: str) -> list[Path]:
    """Predicted against observed with intervals, and the coverage of intervals."""
    model, X, y = _asked(stem)
    dist = model.predict_dist(X)
    return [
        _drawn(folder / "predicted.png", lambda ax: plot_predicted(dist, y, ax=ax)),
        _drawn(folder / "calibration.png", lambda ax: plot_calibration(dist, y, ax=ax)),
    ]


def draw_classes(folder: Path, stem: str) -> list[Path]:
    """How often the class was right against how sure the model was, and what it confuses."""
    model, X, y = _asked(stem)
    p, classes = model.predict_proba(X), model.classes_
    best = classes[p.argmax(1)]
    return [
        _drawn(folder / "reliability.png", lambda ax: plot_reliability(p, y, classes=classes, ax=ax)),
        _drawn(folder / "confusion.png", lambda ax: plot_confusion(best, y, classes=classes, ax=ax)),
    ]


def _asked(stem: str) -> tuple[Any, Any, Any]:
    model, preparation = load_table_model(f"{stem}.tggm")
    assert preparation is not None
    table = read_table(f"{stem}_test.csv")
    return model, preparation.features(table), preparation.targets(table)


def _drawn(path: Path, plot: Any) -> Path:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 5.2), layout="constrained")
    plot(figure.add_subplot())
    figure.savefig(path, dpi=130)
    return path
