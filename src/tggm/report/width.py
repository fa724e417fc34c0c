"""Where the width of predictions comes from: a picture of noise and disagreement."""

from typing import Any

import numpy as np

from tggm.arrays import Floats
from tggm.plotting.canvas import MODEL, shade
from tggm.report import html
from tggm.report.svg import picture


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
