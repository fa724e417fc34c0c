"""A case of numbers: its predictions, and the sections that only a regression has."""

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tggm.arrays import Floats
from tggm.graph import Graph
from tggm.plotting import plot_calibration, plot_pit, plot_predicted
from tggm.plotting.canvas import MODEL, shade
from tggm.report import html
from tggm.report.case import Case, Feature, Judged, Wording
from tggm.report.scores import coverage, regression_scores
from tggm.report.svg import picture
from tggm.report.worst import worst_section
from tggm.tables.baselines import Baselines, fit_regression, naive_regression

DRAWN = 400  # rows in a scatter plot


class NumberCase(Case):
    """One output of a regression."""

    @cached_property
    def wording(self) -> Wording:
        """Predictions are in the units of the target."""
        noise = np.sqrt(np.median(np.asarray(self.model.noise_)[:, self.output]))
        return Wording(
            "a number with its distribution",
            "the output y",
            [(f"output noise, in units of {self.target}", html.number(noise))],
            unit=self.target,
            effect=self.target,
            band=f", the band the average {{level:.3g}} % interval of {self.target}",
            labels=(None,),
            columns=(self.target,),
            first_scores={"rmse": "", "log_density": "", "crps": "", "cover90": "should be near 90 %"},
            scores=f"RMSE and the mean absolute error are in units of {self.target} and judge the predicted "
            "means. The log-density (in nats a row) and the CRPS (in the units of the target) judge the "
            "whole predicted distributions; coverage says how many observations fell into the intervals. A "
            "nat is the unit of log-densities: 0.1 nats a row more mean that observations were held 1.1 "
            "times as likely.",
            loss="part of the variance no longer explained (loss of R²)",
        )

    def dist(self, X: Any) -> Any:
        """The predictive distributions of the output that the report is about."""
        dist = self.model.predict_dist(self.ask(X))
        return dist.marginal(self.output) if hasattr(dist, "marginal") else dist

    @cached_property
    def prediction(self) -> Any:
        """Distributions of the rows."""
        return self.dist(self.X)

    def predictions_of(self, baselines: Baselines, X: Floats) -> Mapping[str, Any]:
        """Distributions of the baselines."""
        return baselines.regression(X)

    def judge(self, prediction: Any) -> Judged:
        """Scores of distributions."""
        y = self.y.astype(float)
        return Judged(regression_scores(prediction, y), np.asarray(prediction.logpdf(y)))

    def naive(self, y: NDArray[Any]) -> Baselines:
        """Mean and variance."""
        return naive_regression(y.astype(float))

    def fitted(self, X: Floats, y: NDArray[Any]) -> Baselines:
        """Ridge regression beside it."""
        return fit_regression(X, y.astype(float))

    def with_end(self, graph: Graph, W1: Floats | None) -> tuple[Graph, Floats | None]:
        """One observed output."""
        spread = float(np.std(self.y.astype(float)))
        weights = W1[[self.output]] / spread if W1 is not None and spread > 0 else None
        return graph.observed("y", 1), weights

    def response(self, X: Floats) -> Floats:
        """Means of the output."""
        mean = np.asarray(self.model.predict(self.ask(X)))
        return mean[:, None] if mean.ndim == 1 else mean[:, [self.output]]

    def losses(self, X: Floats, rows: NDArray[Any]) -> Floats:
        """Squared errors, as parts of the variance."""
        y = self.y.astype(float)
        squares: Floats = (self.response(X)[:, 0] - y[rows]) ** 2 / (np.var(y) or 1.0)
        return squares

    def bands(
        self, X: Floats, cut: Callable[[Floats], list[Floats]], level: float
    ) -> list[tuple[Floats, Floats, Floats]]:
        """Mean and interval, averaged over rows."""
        dist = self.dist(X)
        three = [part.mean(1) for part in cut(np.stack([dist.mean(), *dist.interval(level)], axis=1))]
        return [(t[:, [0]], t[:, [1]], t[:, [2]]) for t in three]

    def sections(self, features: list[Feature], level: float) -> list[html.Section]:
        """Calibration, predicted against observed, where the width comes from, the worst rows."""
        dist, y = self.prediction, self.y
        surprise = np.asarray(dist.logpdf(y))
        mean, (lower, upper) = np.asarray(dist.mean()), dist.interval(level)
        worst = worst_section(
            self,
            surprise,
            features,
            ["observed", "predicted", f"{100 * level:.3g} % from", "to", "log-density"],
            lambda i: [html.number(v) for v in (y[i], mean[i], lower[i], upper[i], surprise[i])],
            text="The rows whose observation the model held least likely. Look here for typing errors, for "
            "cases that the features do not tell apart, and for kinds of rows that training has not seen.",
            caption="lowest log-density",
        )
        width = width_section(self.target, *self.parts())
        return [calibration_section(self), predicted_section(self, level), width, worst]

    def parts(self) -> tuple[Floats, Floats]:
        """Noise and disagreement of the rows' deviations."""
        _, *both = self.model.predict(self.ask(self.X), return_std="parts")
        noise, apart = (np.asarray(a) if np.ndim(a) == 1 else np.asarray(a)[:, self.output] for a in both)
        return noise, apart


def calibration_section(case: NumberCase) -> html.Section:
    """Coverage of intervals and the histogram of F(y)."""
    dist = case.prediction
    found = coverage(dist, case.y)
    spoken = ", ".join(f"{100 * p:.3g} % intervals hold {100 * inside:.0f} %" for p, inside, _ in found)
    curve = picture(
        lambda ax: plot_calibration(dist, case.y, ax=ax),
        name="calibration",
        alt=f"Observed against nominal coverage of central intervals: {spoken} of the observations.",
        size=(4.7, 4.2),
    )
    pit = np.asarray(dist.cdf(case.y))
    bars = picture(
        lambda ax: plot_pit(dist, case.y, ax=ax),
        name="pit",
        alt=f"Histogram of the predicted probability of a smaller {case.target}: mean {pit.mean():.2f} "
        f"(0.50 if calibrated), standard deviation {pit.std():.2f} (0.29 if calibrated).",
        size=(4.7, 4.2),
    )
    captions = (
        "How many observations fell into intervals of each probability. Below the diagonal the model "
        "is too sure, above it too modest; in the grey band the difference can be chance.",
        "Where observations fell within their predicted distributions. Flat is right; a hill says "
        "that intervals are too wide, a valley too narrow, a slope that predictions are biased.",
    )
    head = ["probability", "observations inside", f"mean width, units of {case.target}"]
    rows = [(html.percent(p), html.percent(inside, 1), html.number(width)) for p, inside, width in found]
    return html.section(
        "calibration",
        "Can its probabilities be trusted?",
        html.paragraph(coverage_verdict(*found[2][:2], len(case.y))),
        html.side_by_side(html.figure(curve, captions[0]), html.figure(bars, captions[1])),
        html.table("Central intervals", head, rows),
        head="Calibration",
    )


def coverage_verdict(level: float, inside: float, count: int) -> str:
    """Whether intervals hold as much as they say, in words; two standard errors can be chance."""
    error = np.sqrt(level * (1 - level) / count)
    told = f"{100 * inside:.0f} % of the observations fell into the {100 * level:.3g} % intervals"
    if abs(inside - level) <= 2 * error:
        return f"The intervals hold what they say: {told}; on {count} rows the difference can be chance."
    if inside < level:
        return (
            f"The intervals are too narrow: only {told}. Do not rely on them for rows such as these; learn "
            "them anew from fresh rows (`recalibrate`), or ask for guaranteed ones (`tggm fit --guarantee`)."
        )
    return f"The intervals are wider than they need be: {told}. They are safe, but say less than they could."


def predicted_section(case: NumberCase, level: float) -> html.Section:
    """Predicted against observed with intervals."""
    rows, dist = case.some_rows(DRAWN), case.prediction
    part = dist[rows] if len(rows) < len(case.y) else dist
    mean = np.asarray(dist.mean())
    relation = np.corrcoef(mean, case.y)[0, 1] if np.ptp(mean) > 0 and np.ptp(case.y) > 0 else float("nan")

    def draw(ax: Any) -> None:
        plot_predicted(part, case.y[rows].astype(float), level=level, ax=ax)
        ax.set(xlabel=f"observed {case.target}", ylabel=f"predicted {case.target}, mean and interval")

    drawing = picture(
        draw,
        name="predicted",
        alt=f"Predicted mean and {100 * level:.3g} % interval against observed {case.target} for {len(rows)} "
        f"rows; correlation {relation:.2f}.",
        size=(4.7, 4.2),
    )
    some = "" if len(rows) == len(case.y) else f" {len(rows)} of {len(case.y)} rows, drawn at random."
    caption = f"On the grey line the prediction is what was observed; vertical lines are intervals.{some}"
    return html.section("predicted", "Predicted against observed", html.figure(drawing, caption))


def width_section(target: str, noise: Floats, disagreement: Floats) -> html.Section:
    """Deviations of the rows, from narrow to wide, and how much of their squares is noise."""
    total = np.hypot(noise, disagreement)
    order = np.argsort(total)
    share = float((disagreement**2).sum() / (total**2).sum()) if total.any() else 0.0
    place = (np.arange(len(order)) + 0.5) / len(order)

    def draw(ax: Any) -> None:
        whole, part = total[order], (noise**2 / np.where(total > 0, total, 1.0))[order]
        ax.fill_between(place, 0, part, color=shade(0.25), linewidth=0, label="noise")
        ax.fill_between(place, part, whole, color=MODEL, linewidth=0, label="disagreement")
        ax.set(xlabel="part of the rows, from narrow to wide", ylabel=f"deviation of {target}")
        ax.set(xlim=(0, 1), ylim=(0, None))
        ax.legend(frameon=False, loc="upper left")

    drawing = picture(
        draw,
        name="width",
        alt=f"Standard deviations of {len(order)} rows from narrow to wide, median {np.median(total):.3g}; "
        f"{100 * share:.0f} % of the variance is disagreement between the networks, the rest noise.",
        size=(4.7, 3.4),
    )
    caption = (
        "How wide predictions are. Noise is what inputs like these do not tell; disagreement between the "
        "networks is what more rows for training would make smaller. Each row's deviation is divided as its "
        "variance is."
    )
    return html.section("width", "Where the width comes from", html.figure(drawing, caption), head="Width")
