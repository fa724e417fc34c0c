"""How good the model is beside what anybody could do: the first figures of a report and its first table."""

import numpy as np

from tggm.report import html
from tggm.report.case import Case, Judged, dense
from tggm.report.drift import REMEDY, drift_warnings
from tggm.report.scores import Score
from tggm.tables.baselines import Baselines

SEEN = (
    "No training rows were given, so there is no linear model to compare with, and the naive prediction is "
    "made from the very rows it is judged on, which flatters it."
)
UNSEEN = "The naive prediction ignores the inputs; like the linear model it was fitted on the training rows."
SHARES = ("accuracy", "balanced", "cover50", "cover90")
MODEL = "this model"
MOST_ENTRIES = 20_000_000  # of a training table for which a linear model is fitted


def compared(case: Case) -> dict[str, Judged]:
    """The model, and the baselines that can be had, by name."""
    baselines = baselines_of(case)
    X = np.empty((len(case.y), 0)) if baselines.coef is None else dense(case.X)
    predictions = {MODEL: case.prediction, **case.predictions_of(baselines, X)}
    return {name: case.judge(predictions[name]) for name in (MODEL, "linear", "naive") if name in predictions}


def baselines_of(case: Case) -> Baselines:
    """Those given; or fitted on the training rows; or, without any, the naive one of the rows judged on."""
    if case.baselines is not None:
        return case.baselines
    if case.train is None:
        return case.naive(case.y)
    X, y = case.train
    return case.naive(y) if np.prod(X.shape) > MOST_ENTRIES else case.fitted(dense(X), y)


def quality_section(case: Case, judged: dict[str, Judged]) -> html.Section:
    """The first figures, a verdict, and the table of all scores."""
    head = ["score", *judged, "better"]
    measures = zip(*(found.scores for found in judged.values()), strict=True)
    rows = [[line[0].name, *(shown(s) for s in line), line[0].better] for line in measures]
    return html.section(
        "quality",
        "How good it is",
        html.cards(_cards(case, judged)),
        *(html.paragraph(verdict(judged, name)) for name in judged if name != MODEL),
        *(html.paragraph(f"Warning: {words}. {REMEDY.capitalize()}.") for words in unlike(case)),
        html.table("Scores on these rows; click a heading to sort", head, rows),
        html.paragraph(SEEN if case.train is None and case.baselines is None else UNSEEN),
        html.paragraph(case.wording.scores),
    )


def unlike(case: Case) -> list[str]:
    """What is unlike training in the rows."""
    return drift_warnings(case.model, case.X, case.names)


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
    cards = []
    for key, remark in case.wording.first_scores.items():
        values = {name: next(s for s in found.scores if s.key == key) for name, found in judged.items()}
        own = values.pop(MODEL)
        beside = ", ".join(f"{name} {shown(s).text}" for name, s in values.items())
        cards.append((shown(own).text, own.name, remark or beside))
    return cards
