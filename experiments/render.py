"""Fill the tables of docs/choosing-a-method.md from experiments/results: no figure in that page is typed.

    python experiments/render.py

Each table stands between a pair of comments, <!-- NAME --> and <!-- /NAME -->.
"""

import json
import re
from pathlib import Path

from uci import summary

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "experiments" / "results"
PAGE = ROOT / "docs" / "choosing-a-method.md"
DATASETS = ("boston", "concrete", "energy", "yacht")
METHODS = ("moments", "ep", "meanfield", "exact", "bp", "paper-bp", "paper-ml")


def cell(record: dict, dataset: str) -> str:
    """RMSE and log-likelihood with their standard errors; the number of splits where not all were run."""
    if dataset not in record:
        return "not run"
    rows = record[dataset]["splits"]
    s = summary(rows)
    text = f"{s['rmse'][0]:.3f} ± {s['rmse'][1]:.3f} / {s['ll'][0]:.3f} ± {s['ll'][1]:.3f}"
    return text if len(rows) == 20 else f"{text} ({len(rows)} splits)"


def calibration(record: dict, dataset: str) -> str:
    """CRPS and coverage in per cent."""
    if dataset not in record:
        return "not run"
    s = summary(record[dataset]["splits"])
    return f"{s['crps'][0]:.3f}, {100 * s['cover50'][0]:.0f}, {100 * s['cover90'][0]:.0f}"


def table(records: dict[str, dict], show) -> str:
    lines = ["| method | " + " | ".join(d.capitalize() for d in DATASETS) + " |", "| --- " * 5 + "|"]
    lines += [f"| `{m}` | " + " | ".join(show(r, d) for d in DATASETS) + " |" for m, r in records.items()]
    return "\n".join(lines)


def origin(records: dict[str, dict]) -> str:
    """Where each row comes from."""
    parts = []
    for method, record in records.items():
        seen = sorted({f"{r['device']} at {r['commit']}" for r in record.values()})
        parts.append(f"`{method}`: {'; '.join(seen)}")
    return "Seed 0. " + ". ".join(parts) + "."


def main() -> None:
    records = {}
    for method in METHODS:
        path = RESULTS / f"uci_{method}.json"
        if path.exists():
            records[method] = json.loads(path.read_text())
    blocks = {
        "accuracy": table(records, cell),
        "calibration": table(records, calibration),
        "origin": origin(records),
    }
    page = PAGE.read_text()
    for name, text in blocks.items():
        page, count = re.subn(
            f"<!-- {name} -->.*?<!-- /{name} -->",
            f"<!-- {name} -->\n{text}\n<!-- /{name} -->",
            page,
            flags=re.S,
        )
        assert count == 1, f"{PAGE.name} must hold the markers of {name!r} once"
    PAGE.write_text(page)


if __name__ == "__main__":
    main()
