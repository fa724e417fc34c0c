"""The sections of the page: numbers, sentences and figures for the template `report.html.j2`."""

from itertools import islice
from typing import Any

import numpy as np

from tggm import plotting
from tggm.arrays import Bools, Floats
from tggm.plotting import MODEL, axes_or_new
from tggm.report._case import Case, Feature, sample
from tggm.report._effects import Effect, effect, plot_effect
from tggm.report._page import Cell, number, percent, picture
from tggm.report.scores import MEASURES, by_group, coverage, drift_warnings, shown, title
from tggm.tables import Table
from tggm.tables.baselines import BINS, calibration_error, scores

BASELINES = {"model": "this model", "linear": "linear", "naive": "naive"}
DRAWN_ROWS = 400  # in a scatter plot
DRAWN_CLASSES = 20  # a larger confusion matrix is not readable
DRAWN_EFFECTS = 6
IMPORTANCE_ROWS = 300
EXPLAINED_ROWS = 40
REPEATS = 3
LEAST_ROWS = 10  # for importances
WORST = 10
MOST_SHOWN = 8  # columns of the user's table
MOST_DIGITS = 12  # of a number in the table of the worst rows

Context = dict[str, Any]


def quality(case: Case) -> Context:
    """Compare scores of the model and of the baselines."""
    predicted, named = case.predictions.items(), case.positive_name
    found = {BASELINES[name]: scores(p, case.outcome, None, case.positive) for name, p in predicted}
    warnings = drift_warnings(case.model, case.X, case.names)
    return {
        "verdicts": [
            verdict(case.log_score() - case.log_score(name), BASELINES[name])
            for name in case.predictions if name != "model"
        ],
        "warnings": [f"{text}." for text in warnings],
        "head": ["score", *found, "better"],
        "rows": [
            [title(key, named), *(_score(key, of[key]) for of in found.values()), MEASURES[key][2]]
            for key in found["this model"]
        ],
        "compared": len(found) > 1,
    }  # fmt: skip


def verdict(gain: Floats, name: str) -> str:
    """Compare with a baseline: a clear difference of mean log-scores exceeds two standard errors."""
    mean = float(gain.mean())
    error = float(gain.std(ddof=1) / np.sqrt(len(gain))) if len(gain) > 1 else float("inf")
    about = f"{abs(mean):.3f} ± {error:.3f} nats per row" if np.isfinite(error) else "one row"
    if abs(mean) <= 2 * error:
        return f"No clear difference from the {name} prediction: its log-likelihood differs by {about}."
    how, way = ("better", "higher") if mean > 0 else ("worse", "lower")
    text = f"The model is {how} than the {name} prediction: its log-likelihood is {way} by {about}."
    return text if mean > 0 else f"{text} Use the simpler one."


def _score(key: str, value: float) -> Cell:
    """Return a score in the format of its measure, and as percentage with a space."""
    if MEASURES[key][1].endswith("%"):
        return percent(value, 1)
    return Cell(shown(key, value).replace("-", "−"), value)


def importance(case: Case) -> tuple[list[Feature], Context | None]:
    """Return the features, the most important first, and the content of the section; None for few rows."""
    if len(case.y) < LEAST_ROWS:
        return list(case.features), None
    rows = sample(len(case.y), IMPORTANCE_ROWS)
    part, few = (case.rows.take(r) if isinstance(case.rows, Table) else case.rows[r]
                 for r in (rows, sample(len(case.y), EXPLAINED_ROWS)))  # fmt: skip
    found = case.given.permutation_importances(part, case.y[rows], n_repeats=REPEATS)
    places = [found.names.index(feature.name) for feature in case.features]  # others are left out
    names = tuple(found.names[k] for k in places)
    found = found._replace(mean=found.mean[places], error=found.error[places], names=names)
    order = np.argsort(-found.mean, kind="stable")
    first = order[:3]
    values = ", ".join(f"{found.names[k]} {number(found.mean[k], 3).text}" for k in first)
    loss = "increase of the negative log-probability, nats per row"
    loss = loss if case.is_class else "loss of R² (fraction of the variance)"
    alt = f"{loss.capitalize()} when a feature is shuffled: {values}."

    def draw(ax: Any) -> None:
        plotting.plot_importances(found, ax=ax).set_xlabel(loss, loc="right")  # it extends below the names

    drawing = picture(draw, alt, 0.9 + 0.28 * min(len(found.names), 12))
    clear = [found.names[k] for k in first if found.mean[k] > 2 * np.nan_to_num(found.error[k])]
    kinds = () if case.is_class else ("mean", "std")
    sizes = [np.abs(case.given.explain(few, of=of).parts).mean(0)[places] for of in kinds]
    parts = [[names[k], *(number(size[k], 3) for size in sizes)] for k in order]
    return [case.features[k] for k in order], {"names": clear, "figure": drawing, "parts": parts}


def effect_plots(case: Case, features: list[Feature], level: float) -> list[tuple[Any, str]]:
    """Draw partial dependence on the most important features."""
    varying = (f for f in features if len(f.columns) and np.ptp(case.X[:, list(f.columns)], axis=0).any())
    return [_effect_picture(case, effect(case, feature, level)) for feature in islice(varying, DRAWN_EFFECTS)]


def _effect_picture(case: Case, found: Effect) -> tuple[Any, str]:
    """Return a figure and its caption: the lowest and the highest average prediction and their places."""
    moved = int(np.ptp(found.mean, axis=0).argmax()) if case.positive is None else case.positive
    mean = found.mean[:, moved]
    places = list(found.labels) or [
        f"{v:.4g}".replace("-", "−") if 1e-3 <= abs(v) < 1e4 else number(v, 3).text for v in found.place
    ]
    low, high = (f"{number(mean[k], 3).text} at {places[k]}" for k in (mean.argmin(), mean.argmax()))
    what = f"probability of {case.labels[moved]}" if case.is_class else case.target
    caption = f"{found.label}: {what} between {low} and {high}"
    alt = f"Effect from {places[0]} to {places[-1]}; {caption} on average."
    return picture(lambda ax: plot_effect(case, found, ax), alt, 3.2), caption


def interval_calibration(case: Case) -> Context:
    """Draw and list the coverage of intervals."""
    dist = case.prediction
    found = coverage(dist, case.y)
    spoken = ", ".join(f"{100 * p:.3g} % intervals contain {100 * inside:.0f} %" for p, inside, _ in found)
    alt = f"Observed coverage against the probability of central intervals: {spoken} of the observations."
    curve = picture(lambda ax: plotting.plot_calibration(dist, case.y, ax=ax), alt, 4.2)
    rows = [(percent(p), percent(inside, 1), number(width)) for p, inside, width in found]
    text = coverage_verdict(*found[2][:2], len(case.y))
    return {"verdict": text, "coverage": curve, "rows": rows}


def group_tables(case: Case, name: str) -> list[Context]:
    """Return tables of coverage, or of accuracy, by predicted width and by group."""
    found = by_group(case.prediction, case.outcome, case.groups)
    what = "Accuracy" if case.is_class else "Coverage of 90 % intervals"
    last = ["accuracy", "mean probability"] if case.is_class else ["inside", "mean width"]
    made = []
    for key, lines in found.items():
        by = "predicted width" if key == "width" else name
        rows = [(label, Cell(f"{n}", n), percent(part, 1), number(size)) for label, n, part, size in lines]
        made.append({"name": f"{what} by {by}", "head": [by, "rows", *last], "rows": rows})
    return made


def coverage_verdict(level: float, inside: float, count: int) -> str:
    """Compare the coverage with the level; a difference of two standard errors can be chance."""
    error = np.sqrt(level * (1 - level) / count)
    text = f"{100 * inside:.0f} % of the observations are inside the {100 * level:.3g} % intervals"
    if abs(inside - level) <= 2 * error:
        return f"The intervals are calibrated: {text}; on {count} rows the difference can be chance."
    if inside < level:
        return (
            f"The intervals are too narrow: only {text}. Recalibrate them with new rows (`recalibrate`), or "
            "use guaranteed intervals (`tggm fit --guarantee`)."
        )
    return f"The intervals are wider than necessary: {text}."


def predicted(case: Case, level: float) -> Context:
    """Draw predicted against observed values with intervals."""
    rows, dist = sample(len(case.y), DRAWN_ROWS), case.prediction
    part = dist[rows] if len(rows) < len(case.y) else dist
    mean = np.asarray(dist.mean())
    relation = np.corrcoef(mean, case.y)[0, 1] if np.ptp(mean) > 0 and np.ptp(case.y) > 0 else float("nan")

    def draw(ax: Any) -> None:
        plotting.plot_predicted(part, case.y[rows].astype(float), level=level, ax=ax)
        ax.set(xlabel=f"observed {case.target}", ylabel=f"predicted {case.target}, mean and interval")

    alt = (
        f"Predicted mean and {100 * level:.3g} % interval against observed {case.target} for {len(rows)} "
        f"rows; correlation {relation:.2f}."
    )
    return {"figure": picture(draw, alt, 4.2), "drawn": len(rows)}


def class_calibration(case: Case) -> Context:
    """Draw the reliability diagram of the predicted class."""
    p = np.exp(case.prediction)
    confidence, right = p.max(1), p.argmax(1) == case.outcome
    ece = calibration_error(confidence, right)

    def draw(ax: Any) -> None:
        from sklearn.calibration import CalibrationDisplay

        axes_or_new(ax)
        how = {"n_bins": BINS, "pos_label": True, "name": f"ECE {ece:.4f}", "color": MODEL}
        CalibrationDisplay.from_predictions(right, confidence, **how, ax=ax)
        ax.set(xlabel="probability of the predicted class", ylabel="accuracy", xlim=(0, 1), ylim=(0, 1))
        ax.legend(frameon=False, loc="upper left")

    alt = (
        f"Accuracy against the probability of the predicted class; expected calibration error {ece:.3f}, "
        f"mean probability {confidence.mean():.2f}, accuracy {right.mean():.2f}."
    )
    drawing = picture(draw, alt, 4.2)
    return {"verdict": confidence_verdict(confidence, right), "figure": drawing}


def confidence_verdict(confidence: Floats, right: Bools) -> str:
    """Compare the mean probability with the accuracy; a difference of two standard errors can be chance."""
    gap = right.mean() - confidence.mean()
    error = np.sqrt(np.mean(confidence * (1 - confidence)) / len(confidence))
    text = (
        f"the mean probability of the predicted class is {100 * confidence.mean():.1f} %, the accuracy "
        f"{100 * right.mean():.1f} %"
    )
    if abs(gap) <= 2 * error:
        return f"On average probabilities are calibrated: {text}; on {len(right)} rows this can be chance."
    if gap < 0:
        return f"The model is overconfident: {text}. Use more members (`n_members`)."
    return f"The model is underconfident: {text}."


def confusion(case: Case) -> Context:
    """Draw the confusion matrix, and list recall and precision of each class."""
    from sklearn.metrics import ConfusionMatrixDisplay, confusion_matrix

    classes, count = case.labels, confusion_matrix(case.outcome, case.prediction.argmax(1),
                                                    labels=np.arange(len(case.labels)))  # fmt: skip
    off = count - np.diag(np.diag(count))
    i, j = np.unravel_index(off.argmax(), off.shape)
    rows = f"{off[i, j]} {'row' if off[i, j] == 1 else 'rows'}"
    worst = f"most often {classes[i]} is predicted as {classes[j]} ({rows})" if off[i, j] else "no errors"
    drawing = None
    if len(classes) <= DRAWN_CLASSES:
        shares = 100 * count / np.maximum(count.sum(1, keepdims=True), 1)

        def draw(ax: Any) -> None:
            shown = ConfusionMatrixDisplay(shares, display_labels=case.labels)
            rotation = "vertical" if max(map(len, case.labels)) > 3 else "horizontal"
            shown.plot(ax=ax, cmap="Blues", values_format=".1f", colorbar=False, xticks_rotation=rotation,
                       text_kw={"fontsize": 9 if len(classes) <= 10 else 6})  # fmt: skip

        alt = f"Confusion matrix of {len(classes)} classes: {worst}."
        drawing = picture(draw, alt, 4.5)
    with np.errstate(invalid="ignore"):  # a class may not occur
        recall, precision = (np.diag(count) / count.sum(axis) for axis in (1, 0))
    totals = count.sum(1).tolist()
    lines = [
        [name, Cell(str(totals[c]), float(totals[c])), percent(recall[c], 1), percent(precision[c], 1)]
        for c, name in enumerate(case.labels)
    ]
    return {"figure": drawing, "worst": worst, "rows": lines}


def worst_rows(case: Case, features: list[Feature], level: float) -> Context:
    """List the rows with the lowest log-scores, with the most important columns."""
    log_score = case.log_score()
    worst = np.argsort(log_score, kind="stable")[:WORST]
    if case.is_class:
        p = np.exp(case.prediction)
        head = ["true class", "its probability", "predicted class", "its probability"]
        cells = [
            [case.labels[case.outcome[i]], percent(float(np.exp(log_score[i])), 1),
             case.labels[p[i].argmax()], percent(float(p[i].max()), 1)]
            for i in worst
        ]  # fmt: skip
    else:
        dist = case.prediction
        head = ["observed", "predicted", f"{100 * level:.3g} % from", "to", "log-likelihood"]
        columns = [case.y, np.asarray(dist.mean()), *dist.interval(level), log_score]
        cells = [[number(column[i]) for column in columns] for i in worst]
    names = [feature.name for feature in features]
    if isinstance(case.rows, Table):  # it may have columns that the model does not use
        names += [name for name in case.rows.names if name not in (*names, case.target)]
        shown = [_cells(case.rows.take(worst), name) for name in names[:MOST_SHOWN]]
    else:
        shown = [[number(x) for x in case.X[worst, feature.columns[0]]] for feature in features[:MOST_SHOWN]]
    numbers = [Cell(str(n), float(n)) for n in case.numbers[worst]]
    rows = [[n, *own, *more] for n, own, *more in zip(numbers, cells, *shown, strict=True)]
    return {"head": ["row", *head, *names[:MOST_SHOWN]], "rows": rows}


def _cells(rows: Table, name: str) -> list[Cell]:
    """Return a column of the user's table; numbers are written as there, and sorted by value."""
    words = ["" if word is None else str(word) for word in rows.words(name)]
    numbers = rows.numbers_or_none(name)
    if numbers is None:
        return [Cell(word) for word in words]
    return [
        Cell(word if len(word) <= MOST_DIGITS else f"{x:.6g}", None if np.isnan(x) else x)
        for word, x in zip(words, numbers.tolist(), strict=True)
    ]
