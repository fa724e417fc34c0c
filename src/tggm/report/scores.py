"""Text about scores, coverage of intervals, and warnings about unusual rows."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from tggm.arrays import Floats
from tggm.predictive.novelty import BEYOND
from tggm.tables.baselines import TITLES, Figures

MEASURES = {  # by key: name, format (four digits if empty), and the better direction
    "rmse": ("RMSE", "", "low"), "r2": ("R²", ".3f", "high"),
    "log_density": ("log-likelihood", ".3f", "high"), "crps": ("CRPS", "", "low"),
    "cover50": ("in 50 % interval", ".1%", "50 %"), "cover90": ("in 90 % interval", ".1%", "90 %"),
    "accuracy": ("accuracy", ".2%", "high"), "balanced": ("balanced accuracy", ".2%", "high"),
    "auc": ("AUC", ".4f", "high"), "average_precision": ("average precision", ".4f", "high"),
    "log_loss": ("log-loss", ".4f", "low"), "ece": ("calibration error", ".4f", "low"),
    "precision": ("precision", ".3f", "high"), "recall": ("recall", ".3f", "high"),
    "f1": ("F1", ".3f", "high"), "concordance": ("concordance", ".4f", "high"),
    "brier": ("Brier score", "", "low"),
}  # fmt: skip
OF_A_CLASS = ("average_precision", "precision", "recall", "f1")  # of the positive one of two classes
WIDEST = 100  # characters of a table with one line per model
MOST_GROUPS = 12  # with rows of their own in a table
LEVELS = (0.5, 0.8, 0.9, 0.95)
SHIFT = 0.5  # shift of a column's mean, in standard deviations, that is reported
ERRORS = 5.0  # standard errors that it must exceed
FAR = 10.0  # standard deviations beyond which training clips a value
MOST_BEYOND = 0.1  # share of rows unlike the training rows that is reported
SHARE = 0.01  # fraction of rows with such a value that is reported
MENTIONED = 3  # columns
REMEDY = "fit again with rows like these, or recalibrate a regression whose means are still right"


def title(key: str, positive: str = "") -> str:
    """Return the name of a measure, with the class that it belongs to."""
    return MEASURES[key][0] + f" of class {positive}" * (key in OF_A_CLASS and bool(positive))


def coverage(dist: Any, y: ArrayLike, levels: tuple[float, ...] = LEVELS) -> list[tuple[float, float, float]]:
    """Return for each level: the level, the fraction of observations inside, and the mean width."""
    inside = np.abs(2 * np.asarray(dist.pit(np.asarray(y, np.float64))) - 1)
    ends = (dist.interval(level) for level in levels)
    widths = [float(np.mean(high - low)) for low, high in ends]
    return [(p, float(np.mean(inside <= p)), w) for p, w in zip(levels, widths, strict=True)]


def shown(key: str, value: float) -> str:
    """Return a score in the format of its measure; numbers have no exponent if possible."""
    if style := MEASURES[key][1]:
        return format(value, f"z{style}")  # z: "0.000", not "-0.000"
    return four_digits(value)


def four_digits(value: float) -> str:
    """Return a number with four digits, or a whole number, without an exponent if possible."""
    return f"{value:,.0f}" if 1e4 <= abs(value) < 1e12 else f"{value:.4g}"


def figures_table(figures: Figures, positive: str = "") -> str:
    """Return one line per model, one column per measure that all of them have, and a line on directions.

    A table of more than `WIDEST` characters is transposed.
    """
    keys = [key for key in MEASURES if all(key in own for own in figures.values())]
    table = [["", *(title(key, positive).rjust(8) for key in keys)]]
    table += [[f"{TITLES[name]:<12}", *(shown(k, own[k]) for k in keys)] for name, own in figures.items()]
    if len(aligned(table).partition("\n")[0]) > WIDEST:
        size = max(map(len, table[0]))
        cells = [[cell.strip() for cell in line] for line in zip(*table, strict=True)]
        table = [[line[0].ljust(size), *line[1:]] for line in cells]
    better = (
        f"{way}er is better: {', '.join(MEASURES[key][0] for key in keys if MEASURES[key][2] == way)}"
        for way in ("low", "high")
    )
    return f"{aligned(table)}\n({'; '.join(better)})"


def aligned(table: Sequence[Sequence[str]]) -> str:
    """Return lines of text with columns of equal width."""
    sizes = [max(map(len, column)) for column in zip(*table, strict=True)]
    return "\n".join("  ".join(map(str.rjust, line, sizes)) for line in table)


def group_rows(labels: Any, inside: Any, size: Any) -> list[tuple[str, int, float, float]]:
    """Return for each group: its label, its number of rows, and the means of `inside` and `size`.

    Numbers of more than `MOST_GROUPS` values are cut into four parts with equal numbers of rows. Of other
    labels the most frequent are groups, and the rest is one.
    """
    labels = np.asarray(labels)
    if labels.dtype.kind in "fiu" and len(np.unique(labels)) > MOST_GROUPS:
        ends = np.unique(np.nanquantile(labels, (0.25, 0.5, 0.75)))
        cut = np.array(
            [*(f"up to {four_digits(end)}" for end in ends), f"above {four_digits(ends[-1])}", "missing"]
        )
        code = np.where(np.isnan(labels), len(ends) + 1, np.searchsorted(ends, labels))
        names, order = cut[code], [name for k, name in enumerate(cut) if (code == k).any()]
    else:
        names = np.array(["missing" if word != word or word is None else str(word) for word in labels])
        found, count = np.unique(names, return_counts=True)
        order = found[np.argsort(-count, kind="stable")].tolist()
        if len(order) > MOST_GROUPS:
            order = [*order[: MOST_GROUPS - 1], "others"]
            names = np.where(np.isin(names, order), names, "others")
    parts = ((str(name), names == name) for name in order)
    return [(name, int(at.sum()), float(inside[at].mean()), float(size[at].mean())) for name, at in parts]


def by_group(prediction: Any, outcome: Any, groups: Any = None) -> dict[str, list[Any]]:
    """Return coverage and mean width of 90 % intervals by predicted width, and by group if there are groups.

    `prediction` is a distribution or an array of log-probabilities. For classes there are only groups, with
    accuracy and mean probability of the predicted class.
    """
    if isinstance(prediction, np.ndarray):
        by: dict[str, Any] = {}
        inside, size = prediction.argmax(1) == outcome, np.exp(prediction.max(1))
    else:
        low, high = prediction.interval(0.9)
        inside, size = np.abs(2 * np.asarray(prediction.pit(outcome)) - 1) <= 0.9, high - low
        by = {"width": size}
    by |= {} if groups is None else {"group": groups}
    return {name: group_rows(labels, inside, size) for name, labels in by.items()}


def hint(figures: Figures) -> str:
    """Return advice if a linear model is as good or better, else an empty string.

    It is as good if its log-likelihood is at least as high and its error at most 2 % larger; it is better if
    its error is 10 % smaller, or its log-loss 0.05 nats lower.
    """
    if not {"model", "linear"} <= set(figures) or not {"rmse", "log_loss"} & set(figures["model"]):
        return ""
    ours, linear = figures["model"], figures["linear"]
    key = "rmse" if "rmse" in ours else "log_loss"
    if linear[key] < (0.9 * ours[key] if key == "rmse" else ours[key] - 0.05):
        values = f"{title(key)} {shown(key, linear[key])} against {shown(key, ours[key])}"
        return f"a linear model is better on these rows ({values}); prefer it, or look at the worst rows"
    if log_score(linear) >= log_score(ours) and linear[key] <= 1.02 * ours[key]:
        return "a linear model is as good on these rows; prefer it, or gather more rows"
    return ""


def log_score(figures: dict[str, float]) -> float:
    """Return the mean log-density of numbers, or the mean log-probability of classes."""
    return figures["log_density"] if "log_density" in figures else -figures["log_loss"]


def drift_warnings(model: Any, X: Floats, names: Sequence[str]) -> list[str]:
    """Return sentences on inputs of a model of arrays that differ from the training rows.

    In N rows like the training rows the mean of a standardised column is normal with deviation 1/√N. A shift
    is reported if it exceeds `ERRORS` times that and `SHIFT`; extreme values are reported if frequent.
    """
    scale, found = model.fitted_.scales.x, []
    if not scale.shift.any():  # the model was fitted to sparse rows and has no means
        return []
    Z = scale.apply(X)
    counted = [name.endswith(": rows") for name in names]  # rows of a word: training rows count themselves
    mean = np.where(counted, 0.0, np.clip(Z, -FAR, FAR).mean(0))
    moved = np.flatnonzero(np.abs(mean) > max(SHIFT, ERRORS / np.sqrt(len(Z))))
    weighted = model.get_params(deep=False).get("class_weight") is not None  # means are of weighted rows
    if len(moved) and not weighted:
        first = moved[np.argsort(-np.abs(mean[moved]))][:MENTIONED]
        texts = [_moved(names[j], float(mean[j])) for j in first]
        found.append(", ".join(texts) + ", ..." * (len(moved) > len(first)))
    plain = [not (" = " in name or name.endswith(" is missing")) for name in names]  # no indicators
    far = (np.abs(Z[:, plain]) > FAR).any(1)
    if far.mean() > SHARE:
        far_from = "ten standard deviations from the mean of the training rows"
        found.append(f"{int(far.sum())} of {len(Z)} rows have a value more than {far_from}")
    around = model.fitted_.neighbourhood
    most = MOST_BEYOND + ERRORS * np.sqrt(MOST_BEYOND * (1 - MOST_BEYOND) / len(Z))
    if around is not None and (beyond := around.novelty(Z) > BEYOND).mean() > most:
        text = f"{int(beyond.sum())} of {len(Z)} rows are unlike the training rows (novelty above {BEYOND:g})"
        found.append(f"{text}, so that their predictions are extrapolations")
    return [f"{text}; {REMEDY}" for text in found]


def _moved(feature: str, by: float) -> str:
    """Describe an input whose mean differs from that in training, by so many standard deviations."""
    more = "more" if by > 0 else "fewer"
    if feature.endswith(" is missing"):
        return f"{feature.removesuffix(' is missing')}: {more} values are missing than in training"
    name, mark, word = feature.rpartition(" = ")
    if mark:
        return f"{name}: {more} rows have {word!r} than in training"
    name, _, part = feature.rpartition(": ")
    words = {"years": ("later", "earlier")}.get(part, ("different", "different"))
    words = words if name else ("higher", "lower")
    size = f"by {abs(by):.1f} standard deviations"
    return f"{name or feature}: values are {words[by < 0]} than in training ({size})"
