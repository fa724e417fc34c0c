"""A case of classes: its predictions, and the sections that only a classifier has."""

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tggm.arrays import Floats
from tggm.graph import Graph
from tggm.plotting import plot_confusion, plot_reliability
from tggm.report import html
from tggm.report.case import Case, Feature, Judged, Wording
from tggm.report.scores import calibration_error, class_scores
from tggm.report.svg import picture
from tggm.report.worst import worst_section
from tggm.tables.baselines import Baselines, fit_classes, naive_classes

DRAWN_CLASSES = 20  # a larger confusion matrix cannot be read


class ClassCase(Case):
    """A classifier."""

    def __post_init__(self) -> None:
        self.number_labels(self.y)

    @property
    def classes(self) -> NDArray[Any]:
        """Labels of the classes."""
        return np.asarray(self.model.classes_)

    @cached_property
    def wording(self) -> Wording:
        """Predictions are probabilities."""
        names = tuple(str(name) for name in self.classes)
        two = len(names) == 2
        return Wording(
            "classes",
            "the scores z of the classes",
            [("classes", ", ".join(names[:12]) + (" …" if len(names) > 12 else ""))],
            unit="probability",
            effect=f"probability of {names[1] if two else 'the classes'}",
            band=", the band the middle half of them" if two else "",
            labels=names,
            columns=tuple(f"the probability of {name}" for name in names),
            first_scores={"accuracy": "", "log_loss": "", "ece": "0 if probabilities are frequencies"},
            scores="Accuracy is the part of the rows whose most probable class is the true one; balanced "
            "accuracy gives every class the same weight. The negative log-probability and the Brier score "
            "judge the probabilities themselves; the second is the sum of squared errors over all classes, "
            "twice that of one class where there are two. A nat is the unit of log-probabilities: 0.1 nats a "
            "row less mean that true classes were held 1.1 times as likely.",
            loss="rise of the negative log-probability, nats a row",
        )

    def number_labels(self, y: ArrayLike) -> NDArray[np.intp]:
        """Labels as numbers of the model's classes."""
        values = np.asarray(y)
        found = np.minimum(np.searchsorted(self.classes, values), len(self.classes) - 1)
        unknown = self.classes[found] != values
        if unknown.any():
            raise ValueError(
                f"`y` has the label {values[unknown][0]!r}, which the model does not know; it knows "
                f"{', '.join(map(str, self.classes[:20]))}. Leave such rows out."
            )
        return found

    @cached_property
    def label(self) -> NDArray[np.intp]:
        """The class of each row, as a number."""
        return self.number_labels(self.y)

    @cached_property
    def prediction(self) -> Any:
        """Log-probability of each class, (rows, classes)."""
        return self.model.predict_log_proba(self.ask(self.X))

    def predictions_of(self, baselines: Baselines, X: Floats) -> Mapping[str, Any]:
        """Log-probabilities of the baselines."""
        return baselines.classes(X)

    def judge(self, prediction: Any) -> Judged:
        """Scores of log-probabilities."""
        own = prediction[np.arange(len(self.label)), self.label]
        return Judged(class_scores(prediction, self.label), own)

    def naive(self, y: NDArray[Any]) -> Baselines:
        """Frequencies."""
        return naive_classes(self.number_labels(y), len(self.classes))

    def fitted(self, X: Floats, y: NDArray[Any]) -> Baselines:
        """Logistic regression beside them, if there are rows of every class."""
        label, count = self.number_labels(y), len(self.classes)
        return fit_classes(X, label, count) if len(np.unique(label)) == count else self.naive(y)

    def with_end(self, graph: Graph, W1: Floats | None) -> tuple[Graph, Floats | None]:
        """Free scores of the classes."""
        return graph.free("z", len(self.classes)), W1

    def response(self, X: Floats) -> Floats:
        """Probabilities of the classes."""
        return np.asarray(self.model.predict_proba(self.ask(X)))

    def losses(self, X: Floats, rows: NDArray[Any]) -> Floats:
        """Negative log-probabilities."""
        p = self.response(X)[np.arange(len(rows)), self.label[rows]]
        costs: Floats = -np.log(p)
        return costs

    def bands(
        self, X: Floats, cut: Callable[[Floats], list[Floats]], level: float
    ) -> list[tuple[Floats, Floats, Floats]]:
        """Average over the rows, and the middle half of them."""
        return [(p.mean(1), *np.quantile(p, (0.25, 0.75), axis=1)) for p in cut(self.response(X))]

    def sections(self, features: list[Feature], level: float) -> list[html.Section]:
        """Calibration, confusions, the worst rows."""
        log_p, own = self.prediction, self.judge(self.prediction).log_score
        worst = worst_section(
            self,
            own,
            features,
            ["true class", "its probability", "predicted class", "its probability"],
            lambda i: [
                str(self.classes[self.label[i]]),
                html.percent(float(np.exp(own[i])), 1),
                str(self.classes[log_p[i].argmax()]),
                html.percent(float(np.exp(log_p[i].max())), 1),
            ],
            text="The rows whose true class the model held least likely. Look here for wrong labels, and for "
            "kinds of rows that training has not seen.",
            caption="least probable class",
        )
        return [calibration_section(self), confusion_section(self), worst]


def calibration_section(case: ClassCase) -> html.Section:
    """Reliability of the probability of the predicted class."""
    p = np.exp(case.prediction)
    right = p.argmax(1) == case.label
    ece = calibration_error(p.max(1), right)
    drawing = picture(
        lambda ax: plot_reliability(p, case.y, classes=case.classes, ax=ax),
        name="calibration",
        alt=f"Accuracy against the probability of the predicted class; expected calibration error {ece:.3f}, "
        f"mean probability {p.max(1).mean():.2f}, accuracy {right.mean():.2f}.",
        size=(4.7, 4.2),
    )
    caption = (
        "Of the rows to which the model gave its class a probability near p, a part near p should be right. "
        "Below the diagonal it is too sure, above it too modest; within the grey bars it can be chance."
    )
    title, told = "Can its probabilities be trusted?", html.paragraph(sureness_verdict(p.max(1), right))
    return html.section("calibration", title, told, html.figure(drawing, caption), head="Calibration")


def sureness_verdict(sure: Floats, right: NDArray[Any]) -> str:
    """Whether it is right as often as it is sure to be, in words; two standard errors can be chance."""
    gap, error = right.mean() - sure.mean(), np.sqrt(np.mean(sure * (1 - sure)) / len(sure))
    told = (
        f"it gave its classes {100 * sure.mean():.1f} % on average, and {100 * right.mean():.1f} % were right"
    )
    if abs(gap) <= 2 * error:
        return f"On the whole they can: {told}; on {len(sure)} rows the difference can be chance."
    if gap < 0:
        return f"It is too sure: {told}. Learn its sharpness anew from fresh rows (`recalibrate`)."
    return f"It is too modest: {told}."


def confusion_section(case: ClassCase) -> html.Section:
    """What is taken for what, and each class by itself."""
    classes, best = case.classes, case.prediction.argmax(1)
    count = np.zeros((len(classes), len(classes)), int)  # of true and predicted class
    np.add.at(count, (case.label, best), 1)
    parts = []
    if len(classes) <= DRAWN_CLASSES:
        off = count - np.diag(np.diag(count))
        i, j = np.unravel_index(off.argmax(), off.shape)
        rows = f"{off[i, j]} {'row' if off[i, j] == 1 else 'rows'}"
        worst = f"most often {classes[i]} is taken for {classes[j]} ({rows})"
        worst = worst if off[i, j] else "nothing is confused"
        drawing = picture(
            lambda ax: plot_confusion(classes[best], classes[case.label], classes=classes, ax=ax),
            name="confusion",
            alt=f"Confusion matrix of {len(classes)} classes: {worst}.",
            size=(4.7, 4.5),
        )
        caption = f"Rows are true classes, columns predicted ones, in per cent of the true class; {worst}."
        parts.append(html.figure(drawing, caption))
    with np.errstate(invalid="ignore"):  # of a class that does not occur nothing can be said
        recall, precision = (np.diag(count) / count.sum(axis) for axis in (1, 0))
    lines = [
        [
            str(name),
            html.Cell(str(total), float(total)),
            html.percent(recall[c], 1),
            html.percent(precision[c], 1),
        ]
        for c, (name, total) in enumerate(zip(classes, count.sum(1).tolist(), strict=True))
    ]
    head = ["class", "rows", "of them recognised", "right when chosen"]
    table = html.table("Each class by itself", head, lines)
    return html.section("confusion", "What it confuses", html.side_by_side(*parts, table))
