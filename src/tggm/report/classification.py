"""The sections about a classifier: calibration, confusions, the worst rows."""

import numpy as np

from tggm.plotting import plot_confusion, plot_reliability
from tggm.report import html
from tggm.report.case import Case
from tggm.report.features import Feature
from tggm.report.regression import shown_columns
from tggm.report.scores import calibration_error
from tggm.report.svg import picture

DRAWN_CLASSES = 20  # a larger confusion matrix cannot be read


def calibration_section(case: Case) -> tuple[str, str, str]:
    """Reliability of the probability of the predicted class."""
    p, label = np.exp(case.log_probability), case.labels(case.y)
    ece = calibration_error(p.max(1), p.argmax(1) == label)
    drawing = picture(
        lambda ax: plot_reliability(p, case.y, classes=case.model.classes_, ax=ax),
        name="calibration",
        alt=f"Accuracy against the probability of the predicted class; expected calibration error {ece:.3f}, "
        f"mean probability {p.max(1).mean():.2f}, accuracy {(p.argmax(1) == label).mean():.2f}.",
        size=(4.7, 4.2),
    )
    caption = (
        "Of the rows to which the model gave its class a probability near p, a part near p should be right. "
        "Below the diagonal it is too sure, above it too modest; within the grey bars it can be chance."
    )
    element = html.section("calibration", "Can its probabilities be trusted?", html.figure(drawing, caption))
    return "calibration", "Calibration", element


def confusion_section(case: Case) -> tuple[str, str, str]:
    """What is taken for what, and each class by itself."""
    classes = case.model.classes_
    label, best = case.labels(case.y), case.log_probability.argmax(1)
    parts = []
    if len(classes) <= DRAWN_CLASSES:
        off = [
            (np.sum((label == i) & (best == j)), i, j)
            for i in range(len(classes))
            for j in range(len(classes))
            if i != j
        ]
        count, i, j = max(off, key=lambda item: item[0])
        worst = (
            f"most often {classes[i]} is taken for {classes[j]} ({count} {'row' if count == 1 else 'rows'})"
            if count
            else "nothing is confused"
        )
        drawing = picture(
            lambda ax: plot_confusion(classes[best], classes[label], classes=classes, ax=ax),
            name="confusion",
            alt=f"Confusion matrix of {len(classes)} classes: {worst}.",
            size=(4.7, 4.5),
        )
        caption = f"Rows are true classes, columns predicted ones, in per cent of the true class; {worst}."
        parts.append(html.figure(drawing, caption))
    rows = []
    for c, name in enumerate(classes):
        of_class, chosen = label == c, best == c
        hit = float(np.sum(of_class & chosen))
        recall = hit / of_class.sum() if of_class.any() else float("nan")
        precision = hit / chosen.sum() if chosen.any() else float("nan")
        found = html.Cell(str(int(of_class.sum())), float(of_class.sum()))
        rows.append([str(name), found, html.percent(recall, 1), html.percent(precision, 1)])
    head = ["class", "rows", "of them recognised", "right when chosen"]
    table = html.table("Each class by itself", head, rows)
    title = "What it confuses"
    return "confusion", title, html.section("confusion", title, html.side_by_side(*parts, table))


def worst_section(case: Case, features: list[Feature], count: int) -> tuple[str, str, str]:
    """The rows whose true class the model held least likely."""
    classes, log_p, label = case.model.classes_, case.log_probability, case.labels(case.y)
    own = log_p[np.arange(len(label)), label]
    worst = np.argsort(own, kind="stable")[:count]
    extra_head, extra = shown_columns(case, worst, features)
    head = ["row", "true class", "its probability", "predicted class", "its probability", *extra_head]
    rows = [
        [
            html.Cell(str(case.number[i]), float(case.number[i])),
            str(classes[label[i]]),
            html.percent(float(np.exp(own[i])), 1),
            str(classes[log_p[i].argmax()]),
            html.percent(float(np.exp(log_p[i].max())), 1),
            *extra[k],
        ]
        for k, i in enumerate(worst)
    ]
    text = (
        "The rows whose true class the model held least likely. Look here for wrong labels, and for kinds of "
        "rows that training has not seen."
    )
    title = "The worst rows"
    table = html.table(f"The {len(worst)} rows of least probable class", head, rows)
    return "worst", title, html.section("worst", title, html.paragraph(text), table)
