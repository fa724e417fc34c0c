"""How good the model is beside what anybody could do: the first figures of a report and its first table."""

from typing import Any, NamedTuple

import numpy as np

from tggm.report import html
from tggm.report.case import Case, dense
from tggm.report.scores import Floats, Score, class_scores, regression_scores
from tggm.tables.baselines import Baselines, fit_classes, fit_regression

SEEN = (
    "No training rows were given, so there is no linear model to compare with, and the naive prediction is "
    "made from the very rows it is judged on, which flatters it."
)
UNSEEN = "The naive prediction ignores the inputs; like the linear model it was fitted on the training rows."
SHARES = ("accuracy", "balanced", "cover50", "cover90")
MODEL = "this model"
BASELINES = ("linear", "naive")
MOST_ENTRIES = 20_000_000  # of a training table for which a linear model is fitted


class Judged(NamedTuple):
    """Scores of one way to predict, and the log-density or log-probability of each observation."""

    scores: list[Score]
    log_score: Floats  # (rows,)


def compared(case: Case, dist: Any) -> dict[str, Judged]:
    """The model, and the baselines that can be had, by name."""
    baselines = baselines_of(case)
    X = np.empty((len(case.y), 0)) if baselines.coef is None else dense(case.X)
    if case.classifies:
        label, log_p = case.labels(case.y), baselines.classes(X)
        found = {MODEL: _classes(case.log_probability, label)}
        return found | {name: _classes(log_p[name], label) for name in BASELINES if name in log_p}
    dists = baselines.regression(X)
    found = {MODEL: _numbers(dist, case)}
    return found | {name: _numbers(dists[name], case) for name in BASELINES if name in dists}


def baselines_of(case: Case) -> Baselines:
    """Those given; or fitted on the training rows; or, without any, the naive one of the rows judged on."""
    if case.baselines is not None:
        return case.baselines
    if case.train is None:
        return _naive(case, case.y)
    X, y = case.train
    if np.prod(X.shape) > MOST_ENTRIES:
        return _naive(case, y)
    if not case.classifies:
        return fit_regression(dense(X), y.astype(float))
    k = len(case.model.classes_)
    every_class = len(np.unique(case.labels(y))) == k
    return fit_classes(dense(X), case.labels(y), k) if every_class else _naive(case, y)


def _naive(case: Case, y: Any) -> Baselines:
    if case.classifies:
        count = np.bincount(case.labels(y), minlength=len(case.model.classes_)) + 1.0
        return Baselines(np.log(count / count.sum()), None, None, None)
    values = y.astype(float)
    variance = max(values.var(ddof=min(1, len(values) - 1)), np.finfo(np.float64).tiny)
    return Baselines(np.array([values.mean(), variance]), None, None, None)


def _numbers(dist: Any, case: Case) -> Judged:
    return Judged(regression_scores(dist, case.y), np.asarray(dist.logpdf(case.y.astype(float))))


def _classes(log_p: Floats, label: Any) -> Judged:
    return Judged(class_scores(log_p, label), log_p[np.arange(len(label)), label])


def quality_section(case: Case, judged: dict[str, Judged]) -> tuple[str, str, str]:
    """The first figures, a verdict, and the table of all scores."""
    head = ["score", *judged, "better"]
    measures = zip(*(found.scores for found in judged.values()), strict=True)
    rows = [[line[0].name, *(shown(s) for s in line), line[0].better] for line in measures]
    element = html.section(
        "quality",
        "How good it is",
        html.cards(_cards(case, judged)),
        *(html.paragraph(verdict(judged, name)) for name in judged if name != MODEL),
        html.table("Scores on these rows; click a heading to sort", head, rows),
        html.paragraph(SEEN if case.train is None and case.baselines is None else UNSEEN),
        html.paragraph(_words(case)),
    )
    return "quality", "How good it is", element


def verdict(judged: dict[str, Judged], name: str) -> str:
    """Whether the difference to a baseline is more than chance, by the rows' differences of log-scores."""
    gain = judged[MODEL].log_score - judged[name].log_score
    mean = float(gain.mean())
    error = float(gain.std(ddof=1) / np.sqrt(len(gain))) if len(gain) > 1 else float("inf")
    about = f"{abs(mean):.3f} ± {error:.3f} nats a row" if np.isfinite(error) else "one row"
    if mean > 2 * error:
        return f"It is better than the {name} prediction: by {about} of log-score."
    if mean < -2 * error:
        return f"It is worse than the {name} prediction: by {about} of log-score. Prefer the simpler one."
    return f"No clear difference to the {name} prediction on so few rows: {about} of log-score."


def shown(score: Score) -> html.Cell:
    """A score as it is read: parts of one as per cent."""
    return html.percent(score.value, 1) if score.key in SHARES else html.number(score.value)


def _cards(case: Case, judged: dict[str, Judged]) -> list[tuple[str, str, str]]:
    numbers = ("rmse", "log_density", "crps", "cover90")
    cards = []
    for key in ("accuracy", "log_loss", "ece") if case.classifies else numbers:
        values = {name: next(s for s in found.scores if s.key == key) for name, found in judged.items()}
        own = values.pop(MODEL)
        if key == "ece":
            remark = "0 if probabilities are frequencies"
        elif key == "cover90":
            remark = "should be near 90 %"
        else:
            remark = ", ".join(f"{name} {shown(s).text}" for name, s in values.items())
        cards.append((shown(own).text, own.name, remark))
    return cards


def _words(case: Case) -> str:
    if case.classifies:
        return (
            "Accuracy is the part of the rows whose most probable class is the true one; balanced accuracy "
            "gives every class the same weight. The negative log-probability and the Brier score judge the "
            "probabilities themselves."
        )
    return (
        f"RMSE and the mean absolute error are in units of {case.target} and judge the predicted means. The "
        "log-density (in nats a row) and the CRPS (in the units of the target) judge the whole predicted "
        "distributions; coverage says how many observations fell into the intervals."
    )
