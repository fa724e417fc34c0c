"""Fill the comparison of README.md from benchmarks/results/fit.json: no figure there is typed.

    python benchmarks/render.py

The table stands between <!-- comparison --> and <!-- /comparison -->.
"""

import json
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
NAMES = {
    "tggm, second fit": "`TGGMRegressor`",
    "MLPRegressor": "scikit-learn `MLPRegressor`",
    "GaussianProcess": "scikit-learn Gaussian process",
    "NGBoost": "NGBoost",
    "CatBoost": "CatBoost with uncertainty",
}


def comparison(record: dict) -> str:
    """RMSE, mean log-density and seconds of each model on each data set."""
    sets = list(dict.fromkeys(fit["dataset"] for fit in record["fits"]))
    found = {(fit["model"], fit["dataset"]): fit for fit in record["fits"]}
    rows = {name: next(fit["rows"] for fit in record["fits"] if fit["dataset"] == name) for name in sets}
    lines = [
        "| RMSE / mean log-density / seconds | "
        + " | ".join(f"{name.capitalize()}, {rows[name]:,} rows" for name in sets) + " |",
        "| --- " * (1 + len(sets)) + "|",
    ]  # fmt: skip
    for model, shown in NAMES.items():
        cells = [found.get((model, name)) for name in sets]
        if any(cells):
            text = [
                f"{c['rmse']:.2f} / {c['ll']:.2f} / {c['seconds']:.1f}" if c else "not run" for c in cells
            ]
            lines.append(f"| {shown} | " + " | ".join(text) + " |")
    note = (
        f"One split and one run, each library with its defaults, {record['machine']}, "
        f"commit {record['commit']}:\n`python benchmarks/fit.py`. The Gaussian process saw 2,000 rows at "
        "most; the first fit of a process also compiles,\nwhich takes a few seconds."
    )
    return "\n".join(lines) + "\n\n" + note


def main() -> None:
    page = ROOT / "README.md"
    table = comparison(json.loads((ROOT / "benchmarks" / "results" / "fit.json").read_text()))
    marks = "<!-- comparison -->", "<!-- /comparison -->"
    text, count = re.subn(
        f"{marks[0]}.*?{marks[1]}", f"{marks[0]}\n{table}\n{marks[1]}", page.read_text(), flags=re.S
    )
    assert count == 1, "README.md must hold the markers of the comparison once"
    page.write_text(text)


if __name__ == "__main__":
    main()
