"""`tggm demo`: the activation function of a truncated Gaussian unit, drawn and tabulated.

A latent h ~ N(μ, σ²) kept nonnegative has mean g(μ, σ), a soft version of max(0, μ) that meets it as σ → 0.
"""

from pathlib import Path
from typing import Annotated

import typer

SIGMAS = (0.2, 0.5, 1.0, 2.0)
LOCATIONS = (-4.0, -2.0, -1.0, 0.0, 1.0, 2.0, 4.0)


def demo(
    output: Annotated[Path, typer.Option(help="Folder for the figure; created if missing.")] = Path("demo"),
) -> None:
    """Draw the activation g(mu, sigma) beside max(0, mu), and print a table of it."""
    print(
        "Activation of a truncated Gaussian unit, g(mu, sigma) = E[h | h >= 0] with h ~ N(mu, sigma^2):\n",
        flush=True,
    )
    print(activation_table())
    print(f"\nFigure: {draw(output)}")


def activation_table() -> str:
    """A row for each location: max(0, μ), then g(μ, σ) for each σ."""
    import numpy as np

    from tggm.special import truncated_mean

    mu = np.array(LOCATIONS)
    g = np.asarray(truncated_mean(mu[:, None], np.array(SIGMAS)[None, :]))
    lines = [f"{'mu':>6}  {'max(0, mu)':>10}" + "".join(f"  {f'sigma = {s:g}':>12}" for s in SIGMAS)]
    for location, row in zip(LOCATIONS, g, strict=True):
        lines.append(
            f"{location:6.1f}  {max(0.0, location):10.1f}" + "".join(f"  {value:12.6f}" for value in row)
        )
    return "\n".join(lines)


def draw(folder: Path) -> Path:
    """Write the figure into a folder and return its path."""
    from matplotlib.figure import Figure

    from tggm.plotting import plot_activation

    folder.mkdir(parents=True, exist_ok=True)
    figure = Figure(figsize=(6.4, 4.4), layout="constrained")
    plot_activation(SIGMAS, ax=figure.add_subplot())
    path = folder / "activation.png"
    figure.savefig(path, dpi=160)
    return path
