"""Classification: three noisy spirals, and the calibration of the probabilities.

    python examples/classification.py [FOLDER]

Draws the decision regions, the reliability diagram of the predicted class and the confusion matrix of new
rows with scikit-learn's displays.
"""

import sys
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from sklearn.calibration import CalibrationDisplay
from sklearn.inspection import DecisionBoundaryDisplay
from sklearn.metrics import ConfusionMatrixDisplay

from tggm import TGGMClassifier

NAMES = np.array(["first", "second", "third"])
COLOURS = ["tab:blue", "tab:orange", "tab:green"]


def draw_data(rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw points along three spiral arms, with noise that makes neighbouring arms overlap."""
    rng = np.random.default_rng(seed)
    label = rng.integers(0, 3, rows)
    along = rng.uniform(0.2, 1, rows)
    angle = 2 * np.pi * (label / 3 + 0.6 * along)
    points = along[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    return points + 0.1 * rng.standard_normal((rows, 2)), NAMES[label]


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    X, y = draw_data(600, seed=0)
    model = TGGMClassifier(random_state=0).fit(X, y)
    X_new, y_new = draw_data(4000, seed=1)
    p, predicted = model.predict_proba(X_new), model.predict(X_new)
    print(f"accuracy on new rows {model.score(X_new, y_new):.3f}")
    print(f"mean log-probability of the true class {model.label_log_proba(X_new, y_new).mean():.3f}")
    figure = Figure(figsize=(15, 4.6), layout="constrained")
    left, middle, right = figure.subplots(1, 3)
    DecisionBoundaryDisplay.from_estimator(
        model, X, eps=0.2, response_method="predict_proba", multiclass_colors=COLOURS, ax=left
    )
    for name, colour in zip(NAMES, COLOURS, strict=True):
        left.scatter(*X[y == name].T, s=10, color=colour, edgecolor="white", linewidth=0.3, label=name)
    left.legend()
    CalibrationDisplay.from_predictions(
        predicted == y_new, p.max(1), n_bins=15, name="predicted class", ax=middle
    )
    ConfusionMatrixDisplay.from_predictions(y_new, predicted, normalize="true", cmap="Blues", ax=right)
    figure.savefig(folder / "classification.png", dpi=150)
    print(folder / "classification.png")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path("demo"))
