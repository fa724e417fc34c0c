"""The block of the results page with the pictures, each with what it shows and how it was made."""

from collections.abc import Callable

import calibration
import estep
import figure1
import figure2
import gap
from runs import made, read


def _figure1() -> str:
    record = read(figure1.RESULT)
    return (
        "![g(μ, σ)](images/figure1.png)\n\n**The paper's Figure 1.** Mean of a unit before and after "
        f"truncation. {made(record)}"
    )


def _figure2() -> str:
    record = read(figure2.RESULT)
    return (
        "![Test RMSE on Concrete against σ0²](images/figure2.png)\n\n**The paper's Figure 2**, for TGGM-BP "
        f"and TGGM-ML, {record['settings']['epochs']} epochs, other settings as in the paper. Circled: what "
        "held-out rows choose. Grey line: the paper's σ0². Green: the same trainings in another gauge "
        f"(claim 3 below). {made(record)}"
    )


def _gap() -> str:
    record = read(gap.RESULT)
    last = {name.split()[0]: found["course"][-1] for name, found in record["runs"].items()}
    own = {name: f"{found[name]['absolute']:.2g}" for name, found in last.items()}
    far = last["moments"]
    return (
        "![Objective less exact log-likelihood](images/gap.png)\n\n**How far objectives are from the "
        "likelihood** during training, one network of 50 units on "
        f"{record['settings']['dataset'].capitalize()}. At the end the mean distance is {own['meanfield']} "
        f"nats a row for mean field, {own['ep']} for EP and {own['moments']} for moments, each on the "
        "network that it trained. Mean field trains networks for which its bound is tight: on the one that "
        f"moments trained it is {far['meanfield']['absolute']:.2g} nats away, and "
        f"{far['cycles']['absolute']:,.0f} after the paper's ten cycles. {made(record)}"
    )


def _estep() -> str:
    record = read(estep.RESULT)
    ten = next(r for r in record["cyclic"] if r["n"] == 10)
    steps = max(r["steps"] for r in record["newton"])
    settings = record["settings"]
    return (
        f"![Error of the E-step](images/estep.png)\n\n**Error of the E-step**, {settings['units']} units, "
        f"weights of scale 1, {settings['rows']} rows. Ten cycles leave an error of {ten['worst']:.2g} in "
        f"the worst row and {ten['median']:.2g} in the median one; Newton's method ends after {steps} steps. "
        f"The optima that both approach agree to {record['optima_agree_to']:.0e}. {made(record)}"
    )


def _calibration() -> str:
    worst = {name: calibration.furthest(known["counts"]) for name, known in calibration.histograms().items()}
    modest = sum(off > 0 for off in worst.values())
    return (
        "![Calibration](images/calibration.png)\n\n**Calibration of the default**: fraction of test targets "
        "inside central predictive intervals; the band holds 95 % of what a calibrated model would show for "
        f"so many different rows. On {modest} of {len(worst)} sets the interval that is furthest off is too "
        f"wide. {calibration.source()}\n\n"
        f"Fraction inside, in per cent:\n\n{calibration.summary_table()}"
    )


def block() -> str:
    """All figures that have been made."""
    parts = {
        figure1.RESULT: _figure1, figure2.RESULT: _figure2, gap.RESULT: _gap, estep.RESULT: _estep,
        calibration.IMAGE: _calibration,
    }  # fmt: skip
    return "\n\n".join(show() for path, show in parts.items() if path.exists())


BLOCKS: dict[str, Callable[[], str]] = {"figures": block}
