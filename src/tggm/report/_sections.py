"""The sections of the page: numbers, sentences and figures for the template `report.html.j2`."""

from typing import Any

import numpy as np
from scipy import sparse, stats

from tggm.arrays import Bools, Floats
from tggm.graph import Graph
from tggm.plotting import models, predictions
from tggm.plotting.canvas import GREY, MODEL, axes_or_new, shade
from tggm.report._case import Case, ClassCase, RegressionCase, Scored, dense, score_all
from tggm.report._effects import Effect, Feature, effects, importances, plot_effect
from tggm.report._page import Cell, number, percent, picture
from tggm.report.scores import BINS, REMEDY, Score, calibration_error, coverage, drift_warnings

CARDS = {
    "regression": {"rmse": "", "log_density": "", "crps": "", "cover90": "should be near 90 %"},
    "classification": {"accuracy": "", "log_loss": "", "ece": "0 if probabilities equal frequencies"},
}
LOSS = {
    "regression": "loss of R² (fraction of the variance)",
    "classification": "increase of the negative log-probability, nats per row",
}
FRACTIONS = ("accuracy", "balanced", "cover50", "cover90")
DRAWN_ROWS = 400  # in a scatter plot
DRAWN_CLASSES = 20  # a larger confusion matrix is not readable
DRAWN_EFFECTS = 6
LISTED_EFFECTS = 20
IMPORTANT = 30  # features whose importance is computed, those with the largest effects
LEAST_ROWS = 10  # for importances
WORST = 10
MOST_SHOWN = 8  # columns of the user's table
POINTS = 250  # of a learning curve

Context = dict[str, Any]


def quality(case: Case) -> Context:
    """Compare scores of the model and of the baselines."""
    scored = score_all(case)
    cards = []
    for key, remark in CARDS[case.kind].items():
        values = {name: next(s for s in found.scores if s.key == key) for name, found in scored.items()}
        own = values.pop("this model")
        beside = ", ".join(f"{name} {_score_cell(s).text}" for name, s in values.items())
        cards.append((_score_cell(own).text, own.name, remark or beside))
    measures = zip(*(found.scores for found in scored.values()), strict=True)
    warnings = drift_warnings(case.model, case.X, case.names)
    return {
        "cards": cards,
        "verdicts": [verdict(scored, name) for name in scored if name != "this model"],
        "warnings": [f"{text[0].upper()}{text[1:]}: {REMEDY}." for text in warnings],
        "head": ["score", *scored, "better"],
        "rows": [[line[0].name, *(_score_cell(s) for s in line), line[0].better] for line in measures],
        "trained": case.train is not None or case.baselines is not None,
    }


def verdict(scored: dict[str, Scored], name: str) -> str:
    """Compare with a baseline: the mean difference of log-scores must exceed two standard errors."""
    gain = scored["this model"].log_score - scored[name].log_score
    mean = float(gain.mean())
    error = float(gain.std(ddof=1) / np.sqrt(len(gain))) if len(gain) > 1 else float("inf")
    about = f"{abs(mean):.3f} ± {error:.3f} nats per row" if np.isfinite(error) else "one row"
    if mean > 2 * error:
        return f"The model is better than the {name} prediction by {about} of log-score."
    if mean < -2 * error:
        return (
            f"The model is worse than the {name} prediction by {about} of log-score. Prefer the simpler one."
        )
    return f"No clear difference from the {name} prediction on these rows: {about} of log-score."


def _score_cell(score: Score) -> Cell:
    return percent(score.value, 1) if score.key in FRACTIONS else number(score.value)


def importance(case: Case, order: list[tuple[Feature, float]]) -> Context | None:
    """Draw permutation importances; None for few rows or sparse ones."""
    if len(case.y) < LEAST_ROWS or not order or sparse.issparse(case.X):
        return None
    found = importances(case, [feature for feature, _ in order[:IMPORTANT]])
    first = np.argsort(-found.mean, kind="stable")[:3]
    values = ", ".join(f"{found.names[k]} {number(found.mean[k], 3).text}" for k in first)
    loss = LOSS[case.kind]
    alt = f"{loss.capitalize()} when a feature is shuffled: {values}."

    def draw(ax: Any) -> None:
        models.plot_importances(found, ax=ax).set_xlabel(loss, loc="right")  # it extends below the names

    drawing = picture(draw, "importance", alt, 0.9 + 0.28 * min(len(found.names), 12))
    clear = [found.names[k] for k in first if found.mean[k] > 2 * np.nan_to_num(found.error[k])]
    return {"names": clear, "figure": drawing}


def model(case: Case) -> Context:
    """Describe the model by facts and its graph."""
    sizes = case.model.layers_
    units = "-".join(map(str, sizes))
    blocks = [f"h{k + 1}" if len(sizes) > 1 else "h" for k in range(len(sizes))]
    graph = Graph().input("x", len(case.names))
    for name, size in zip(blocks, sizes, strict=True):
        graph = graph.latent(name, size)
    last = ("y", "the output y") if case.kind == "regression" else ("z", "the scores z of the classes")
    graph = graph.free("z", len(case.classes)) if isinstance(case, ClassCase) else graph.observed("y")
    for parent, child in zip(["x", *blocks], [*blocks, last[0]], strict=True):
        graph = graph.connect(parent, child)
    own: tuple[str, Any]
    if isinstance(case, RegressionCase):
        noise = np.sqrt(np.median(np.asarray(case.model.noise_)[:, case.output]))  # of the members
        own = (f"output noise, in units of {case.target}", number(noise))
    else:
        own = ("classes", ", ".join(case.labels[:12]) + (" …" if len(case.labels) > 12 else ""))
    facts = {"class": type(case.model).__name__, "hidden variables": units, "networks": case.model.n_members,
             "features": len(case.names), "epochs": case.model.n_iter_}  # fmt: skip
    alt = (
        f"Graph of the model: {len(case.names)} inputs x lead to hidden variables h of sizes {units}, "
        f"which lead to {last[1]}."
    )
    drawing = picture(lambda ax: models.plot_graph(graph, ax=ax), "graph", alt, 1.7)
    shown = [(name, str(value)) for name, value in facts.items()]
    return {"units": units, "members": case.model.n_members, "facts": [*shown, own], "figure": drawing}


def learning(case: Case) -> Context | None:
    """Draw the learning curve; None if the model has none."""
    history = dict(vars(case.model).get("history_", {}))
    epoch, best = np.asarray(history.pop("epoch", ()), np.float64), vars(case.model).get("best_epoch_")
    tables = {k: np.atleast_2d(np.asarray(v, np.float64)) for k, v in history.items() if np.size(v)}
    curves = {name: curve for name, curve in tables.items() if np.isfinite(curve).any()}
    if not curves:
        return None
    kept = np.unique(np.linspace(0, len(epoch) - 1, POINTS).astype(int))
    values = np.concatenate([c[np.isfinite(c)] for c in curves.values()])
    low, high = np.quantile(values, 0.05), values.max()  # the first epochs are much lower
    pad = 0.05 * (high - low + 1e-12)
    last = [f"{k.replace('_', ' ')} {np.nanmedian(curve[:, -1]):.3g}" for k, curve in curves.items()]

    def draw(ax: Any) -> None:
        models.plot_learning_curve(
            {"epoch": epoch[kept]} | {k: c[:, kept] for k, c in curves.items()}, best=best, ax=ax
        )
        ax.set_ylim(low - pad, high + pad)

    alt = f"Learning curve over {int(epoch[-1])} epochs; at the end {', '.join(last)}."
    return {"figure": picture(draw, "learning", alt, 3.4)}


def effect_plots(case: Case, order: list[tuple[Feature, float]], level: float) -> Context:
    """Draw partial dependence of the features with the largest effects."""
    drawn = effects(case, [feature for feature, _ in order[:DRAWN_EFFECTS]], level)
    return {
        "figures": [(_effect_picture(case, k, e), _effect_caption(case, e)) for k, e in enumerate(drawn)],
        "rows": [[feature.name, number(size, 3)] for feature, size in order[:LISTED_EFFECTS]],
    }


def _effect_picture(case: Case, k: int, effect: Effect) -> Any:
    moved = int(np.ptp(effect.mean, axis=0).argmax())
    label, places = case.labels[moved], _places(effect)
    what = f"{case.target if label is None else f'the probability of {label}'} {_range(effect, moved)}"
    alt = f"Effect of {effect.feature.name} from {places[0]} to {places[-1]}: {what} on average."
    return picture(lambda ax: plot_effect(case, effect, ax), f"effect{k + 1}", alt, 3.2)


def _effect_caption(case: Case, effect: Effect) -> str:
    if isinstance(case, RegressionCase):
        return f"{effect.feature.name}: {case.target} {_range(effect, 0)}"
    what = case.labels[1] if len(case.labels) == 2 else "the classes"
    return f"{effect.feature.name}: probability of {what}"


def _range(effect: Effect, output: int) -> str:
    """Describe the lowest and the highest average prediction and their places."""
    mean, places = effect.mean[:, output], _places(effect)
    low, high = (f"{number(mean[k], 3).text} at {places[k]}" for k in (mean.argmin(), mean.argmax()))
    return f"between {low} and {high}"


def _places(effect: Effect) -> list[str]:
    """Format the values of a feature; years have no comma."""
    numbers = [
        f"{v:.4g}".replace("-", "−") if 1e-3 <= abs(v) < 1e4 else number(v, 3).text for v in effect.at.place
    ]
    return list(effect.at.labels) or numbers


def interval_calibration(case: RegressionCase) -> Context:
    """Draw coverage of intervals and the histogram of F(y)."""
    dist = case.prediction
    found, pit = coverage(dist, case.y), np.asarray(dist.cdf(case.y))
    spoken = ", ".join(f"{100 * p:.3g} % intervals contain {100 * inside:.0f} %" for p, inside, _ in found)
    alts = (
        f"Observed coverage against the probability of central intervals: {spoken} of the observations.",
        f"Histogram of the predicted probability of a smaller {case.target}: mean {pit.mean():.2f} "
        f"(0.50 if calibrated), standard deviation {pit.std():.2f} (0.29 if calibrated).",
    )
    curve = picture(lambda ax: predictions.plot_calibration(dist, case.y, ax=ax), "calibration", alts[0], 4.2)
    bars = picture(lambda ax: predictions.plot_pit(dist, case.y, ax=ax), "pit", alts[1], 4.2)
    rows = [(percent(p), percent(inside, 1), number(width)) for p, inside, width in found]
    text = coverage_verdict(*found[2][:2], len(case.y))
    return {"verdict": text, "coverage": curve, "pit": bars, "rows": rows}


def coverage_verdict(level: float, inside: float, count: int) -> str:
    """Compare the coverage with the level; two standard errors can be chance."""
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


def predicted(case: RegressionCase, level: float) -> Context:
    """Draw predicted against observed values with intervals."""
    rows, dist = case.sample(DRAWN_ROWS), case.prediction
    part = dist[rows] if len(rows) < len(case.y) else dist
    mean = np.asarray(dist.mean())
    relation = np.corrcoef(mean, case.y)[0, 1] if np.ptp(mean) > 0 and np.ptp(case.y) > 0 else float("nan")

    def draw(ax: Any) -> None:
        predictions.plot_predicted(part, case.y[rows].astype(float), level=level, ax=ax)
        ax.set(xlabel=f"observed {case.target}", ylabel=f"predicted {case.target}, mean and interval")

    alt = (
        f"Predicted mean and {100 * level:.3g} % interval against observed {case.target} for {len(rows)} "
        f"rows; correlation {relation:.2f}."
    )
    return {"figure": picture(draw, "predicted", alt, 4.2), "drawn": len(rows)}


def width(case: RegressionCase) -> Context:
    """Draw the standard deviations of the rows, divided into noise and disagreement."""
    noise, disagreement = case.deviations()
    total = np.hypot(noise, disagreement)
    order = np.argsort(total)
    share = float((disagreement**2).sum() / (total**2).sum()) if total.any() else 0.0
    place = (np.arange(len(order)) + 0.5) / len(order)

    def draw(ax: Any) -> None:
        whole, part = total[order], (noise**2 / np.where(total > 0, total, 1.0))[order]
        ax.fill_between(place, 0, part, color=shade(0.25), linewidth=0, label="noise")
        ax.fill_between(place, part, whole, color=MODEL, linewidth=0, label="disagreement")
        ax.set(xlabel="fraction of rows, ordered by width", ylabel=f"standard deviation of {case.target}")
        ax.set(xlim=(0, 1), ylim=(0, None))
        ax.legend(frameon=False, loc="upper left")

    alt = (
        f"Standard deviations of {len(order)} rows in increasing order, median {np.median(total):.3g}; "
        f"{100 * share:.0f} % of the variance is disagreement between the networks, the rest noise."
    )
    return {"figure": picture(draw, "width", alt, 3.4)}


def class_calibration(case: ClassCase) -> Context:
    """Draw the reliability diagram of the predicted class."""
    p = np.exp(case.prediction)
    confidence, right = p.max(1), p.argmax(1) == case.label
    ece = calibration_error(confidence, right)

    def draw(ax: Any) -> None:
        from sklearn.calibration import CalibrationDisplay

        axes_or_new(ax)
        shown = CalibrationDisplay.from_predictions(
            right, confidence, n_bins=BINS, pos_label=True, name=f"ECE {ece:.4f}", ax=ax, color=MODEL
        )
        edges = np.linspace(0, 1, BINS + 1)[1:-1]
        count = np.unique(np.searchsorted(edges, confidence), return_counts=True)[1]  # rows of each point
        bars = [q / count for q in stats.binom.interval(0.95, count, shown.prob_pred)]
        ax.vlines(shown.prob_pred, *bars, color=GREY, linewidth=5, alpha=0.35, label="95 % if calibrated")
        ax.set(xlabel="probability of the predicted class", ylabel="accuracy", xlim=(0, 1), ylim=(0, 1))
        ax.legend(frameon=False, loc="upper left")

    alt = (
        f"Accuracy against the probability of the predicted class; expected calibration error {ece:.3f}, "
        f"mean probability {confidence.mean():.2f}, accuracy {right.mean():.2f}."
    )
    drawing = picture(draw, "calibration", alt, 4.2)
    return {"verdict": confidence_verdict(confidence, right), "figure": drawing}


def confidence_verdict(confidence: Floats, right: Bools) -> str:
    """Compare the mean probability with the accuracy; two standard errors can be chance."""
    gap = right.mean() - confidence.mean()
    error = np.sqrt(np.mean(confidence * (1 - confidence)) / len(confidence))
    text = (
        f"the mean probability of the predicted class is {100 * confidence.mean():.1f} %, the accuracy "
        f"{100 * right.mean():.1f} %"
    )
    if abs(gap) <= 2 * error:
        return (
            f"On average the probabilities are calibrated: {text}; on {len(right)} rows this can be chance."
        )
    if gap < 0:
        return f"The model is overconfident: {text}. Recalibrate it with new rows (`recalibrate`)."
    return f"The model is underconfident: {text}."


def confusion(case: ClassCase) -> Context:
    """Draw the confusion matrix, and list recall and precision of each class."""
    from sklearn.metrics import ConfusionMatrixDisplay, confusion_matrix

    classes, count = case.classes, confusion_matrix(case.label, case.prediction.argmax(1),
                                                    labels=np.arange(len(case.classes)))  # fmt: skip
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
        drawing = picture(draw, "confusion", alt, 4.5)
    with np.errstate(invalid="ignore"):  # a class may not occur
        recall, precision = (np.diag(count) / count.sum(axis) for axis in (1, 0))
    totals = count.sum(1).tolist()
    lines = [
        [name, Cell(str(totals[c]), float(totals[c])), percent(recall[c], 1), percent(precision[c], 1)]
        for c, name in enumerate(case.labels)
    ]
    return {"figure": drawing, "worst": worst, "rows": lines}


def worst_rows(case: Case, features: list[Feature], level: float) -> Context:
    """List the rows with the lowest log-scores, with columns that identify them."""
    log_score = case.score(case.prediction).log_score
    worst = np.argsort(log_score, kind="stable")[:WORST]
    if isinstance(case, RegressionCase):
        dist = case.prediction
        head = ["observed", "predicted", f"{100 * level:.3g} % from", "to", "log-density"]
        columns = [case.y, np.asarray(dist.mean()), *dist.interval(level), log_score]
        cells = [[number(column[i]) for column in columns] for i in worst]
    else:
        log_p = case.prediction
        head = ["true class", "its probability", "predicted class", "its probability"]
        cells = [
            [case.labels[case.label[i]], percent(float(np.exp(log_score[i])), 1),
             case.labels[log_p[i].argmax()], percent(float(np.exp(log_p[i].max())), 1)]
            for i in worst
        ]  # fmt: skip
    extra_head, extra = _identifying_columns(case, worst, features)
    numbers = [Cell(str(case.number[i]), float(case.number[i])) for i in worst]
    rows = [[n, *own, *more] for n, own, more in zip(numbers, cells, extra, strict=True)]
    return {"head": ["row", *head, *extra_head], "rows": rows}


def _identifying_columns(case: Case, rows: Any, features: list[Feature]) -> tuple[list[str], list[list[Any]]]:
    """Return columns of the user's table, or of the features with the largest effects."""
    if not case.shown:
        picked = [feature.columns[0] for feature in features if not feature.levels][:5]
        table = dense(case.X[rows])
        return [case.names[j] for j in picked], [[number(line[j]) for j in picked] for line in table]

    def rank(name: str) -> int:  # names of features start with those of their columns
        found = (k for k, feature in enumerate(features) if feature.name.startswith(name))
        return min(found, default=len(features))

    names = sorted(case.shown, key=rank)[:MOST_SHOWN]
    return names, [[case.shown[name][int(case.row[i])] for name in names] for i in rows]
