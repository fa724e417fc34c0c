"""Draw docs/images/architecture.png: the packages, their imports, and the path of a fit through them.

    python tools/architecture.py [OUT.png]

Everything is read from the source tree. The layers are those of import-linter's contract in pyproject.toml;
the purpose of a package is the first sentence of its docstring. The matrix on the right has a mark where the
package of the row imports that of the column. The line follows `TGGMRegressor().fit` through the packages in
the order of first visits (tools/walk.py).
"""

import ast
import re
import sys
import textwrap
import tomllib
from itertools import groupby
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
from walk import files_of, in_a_fresh_process

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "tggm"
OUT = ROOT / "docs" / "images" / "architecture.png"

WIDTH, ROW, TOP = 900, 44, 98  # pixels: of the picture, of a package, above the first
BOX, MATRIX, WALK, CELL = 8, 430, 714, 11  # where the columns begin, and the size of a mark
INK, PALE, MARK, PATH = "#202830", "#eef2f6", "#7d95ad", "#b3432b"


def layers():
    """Return the packages of each layer from top to bottom."""
    config = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    (contract,) = [found for found in config["contracts"] if found["type"] == "layers"]
    return [re.findall(r"\w+", layer.replace("tggm.", "")) for layer in contract["layers"]]


def files_in(package):
    return sorted((SOURCE / package).rglob("*.py")) or [SOURCE / f"{package}.py"]


def purpose(package):
    """Return the first sentence of the docstring of a package or module."""
    folder = SOURCE / package
    path = folder / "__init__.py" if folder.is_dir() else folder.with_suffix(".py")
    text = " ".join((ast.get_docstring(ast.parse(path.read_text())) or "").split())
    return re.split(r"\.(?= |$)", text, maxsplit=1)[0]


def line_count(package):
    return sum(path.read_text().count("\n") for path in files_in(package))


def imported(package):
    """Return the packages that a package imports."""
    found = set()
    for path in files_in(package):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                prefix = f"{getattr(node, 'module', '')}."
                names = [f"{prefix}{alias.name}".removeprefix(".") for alias in node.names]
                found |= {name.split(".")[1] for name in names if name.startswith("tggm.")}
    return found - {package}


def way(visits, packages):
    """Return the packages of a walk in the order of first visits of their files, without repetitions."""
    places = (file.split("/")[0].removesuffix(".py") for file in files_of(visits))
    return [package for package, _ in groupby(places) if package in packages]


def draw(visits, out):
    """Write the picture with the path of these visits."""
    packages = [package for layer in layers() for package in layer]
    middle = {package: TOP + ROW * (k + 0.5) for k, package in enumerate(packages)}
    height = TOP + ROW * len(packages) + 8
    figure = plt.figure(figsize=(WIDTH / 100, height / 100), dpi=100)
    axes = figure.add_axes((0, 0, 1, 1), xlim=(0, WIDTH), ylim=(height, 0))
    axes.axis("off")
    with mpl.rc_context({"font.family": "DejaVu Sans"}):
        heads(axes)
        shades(axes, middle)
        for package, y in middle.items():
            box(axes, package, y)
        matrix(axes, packages, middle)
        path(axes, way(visits, packages), middle)
        figure.savefig(out, dpi=100, metadata={"Software": None})
    plt.close(figure)


def heads(axes):
    for x, words in ((BOX, "package, lines, purpose"), (MATRIX, "imports"), (WALK, "path of fit")):
        axes.text(x, 12, words, color=INK, fontsize=9, weight="bold", va="center")


def shades(axes, middle):
    """Draw a band for every second layer."""
    for k, layer in enumerate(layers()):
        if k % 2 == 0:
            first, last = middle[layer[0]] - ROW / 2, middle[layer[-1]] + ROW / 2
            axes.fill_between([0, WIDTH], first, last, color=PALE, linewidth=0, zorder=0)


def box(axes, package, y):
    axes.text(BOX, y - 11, package, color=INK, fontsize=8.5, weight="bold", va="center")
    axes.text(MATRIX - 20, y - 11, f"{line_count(package):,}", color=INK, fontsize=8, va="center", ha="right")
    lines = textwrap.wrap(purpose(package), 78, max_lines=2, placeholder=" …")
    axes.text(BOX, y + 8, "\n".join(lines), color=INK, fontsize=6.8, va="center", linespacing=1.1)


def matrix(axes, packages, middle):
    """Draw a mark where a package imports another; the diagonal is the package itself."""
    x_of = {package: MATRIX + CELL * k for k, package in enumerate(packages)}
    for package, y in middle.items():
        axes.plot(x_of[package], y, "s", color=INK, markersize=5)
        for other in sorted(imported(package) & set(packages)):
            axes.plot([x_of[other]], [y], "s", color=MARK, markersize=5.5)
    for package, x in x_of.items():
        axes.plot([x, x], [TOP, middle[package]], color=MARK, linewidth=0.5, zorder=1)
        axes.text(x, TOP - 6, package, color=INK, fontsize=6.8, rotation=90, ha="center", va="bottom")


def path(axes, packages, middle):
    """Draw numbered points from left to right, each at the height of its package."""
    step = (WIDTH - WALK - 20) / max(len(packages) - 1, 1)
    xs, ys = [WALK + 8 + step * k for k in range(len(packages))], [middle[package] for package in packages]
    axes.plot(xs, ys, color=PATH, linewidth=1)
    for number, (x, y) in enumerate(zip(xs, ys, strict=True), 1):
        axes.plot(x, y, "o", color=PATH, markersize=10)
        axes.text(x, y, number, color="white", fontsize=6, weight="bold", ha="center", va="center_baseline")


if __name__ == "__main__":
    draw(in_a_fresh_process("regressor"), Path(sys.argv[1]) if len(sys.argv) > 1 else OUT)
