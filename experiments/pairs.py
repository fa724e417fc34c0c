"""Rows of Table 1 compared split by split: differences, their standard errors, and who does better."""

from typing import Any

from datasets import UCI
from page import table
from quoted import PAPER
from runs import RESULTS, mean_error, read

Splits = dict[int, dict[str, Any]]


def per_split(row: str) -> dict[str, Splits]:
    """Figures of a row of Table 1 by data set and split, or of experiments/uci.py where that has more."""
    found: dict[str, Splits] = {}
    for path in (RESULTS / f"uci_{row}.json", RESULTS / "table1" / f"{row}.json"):
        for name, kept in read(path).items():
            splits = {s.get("split", i): s for i, s in enumerate(kept["splits"]) if "rmse" in s}
            if len(splits) >= len(found.get(name, {})):
                found[name] = splits
    return {name: found[name] for name in UCI if found.get(name)}


def paired(one: Splits, two: Splits, measure: str) -> tuple[float, float, int]:
    """Mean over common splits of `one` less `two`, its standard error, and how many splits."""
    common = sorted(set(one) & set(two))
    return *mean_error([one[i][measure] - two[i][measure] for i in common]), len(common)


def signed(mean: float, error: float, digits: int | None = None) -> str:
    """A difference with its standard error."""
    if digits is None:
        digits = 3 if abs(mean) + abs(error) >= 0.05 else 5
    return f"{mean:+.{digits}f} ± {error:.{digits}f}"


def both(values: Any, digits: int = 3) -> str:
    """A mean with its standard error."""
    mean, error = mean_error(values)
    return f"{mean:.{digits}f} ± {error:.{digits}f}"


def comparison(row: str, against: str, names: tuple[str, str]) -> str:
    """A sentence that counts, and a table of differences of `row` less `against`."""
    ours, theirs = per_split(row), per_split(against)
    lines, better, surely, worse, agreed = [], 0, 0, 0, 0
    for name in (sets := [name for name in ours if name in theirs]):
        mean, error, n = paired(ours[name], theirs[name], "rmse")
        quoted = PAPER[name][names[0]].mean - PAPER[name][names[1]].mean
        better, surely, worse = better + (mean < 0), surely + (mean < -2 * error), worse + (mean > 2 * error)
        agreed += (mean < 0) == (quoted < 0)
        density = signed(*paired(ours[name], theirs[name], "ll")[:2])
        shown = f"{quoted:+.3f}" if abs(quoted) >= 0.02 else f"{quoted:+.5f}"
        lines.append([name.capitalize(), str(n), signed(mean, error), shown, density])
    counted = (
        f"**Held on {better} of {len(sets)} sets**, where {names[0]} has the lower mean RMSE: lower by more "
        f"than two standard errors of the paired difference on {surely}, higher by more than two on {worse}. "
        f"The sign is that of the paper's figures on {agreed} of {len(sets)}."
    )
    head = ["data set", "splits", "RMSE difference", "the paper's", "log-likelihood difference"]
    return f"{counted}\n\n{table(head, lines)}"


def counted_better(row: str, against: str, measure: str, sign: int) -> tuple[int, int]:
    """On how many sets the row is better by more than two standard errors, and on how many worse."""
    ours, theirs = per_split(row), per_split(against)
    found = [paired(ours[name], theirs[name], measure) for name in ours if name in theirs]
    ahead = [sign * mean / error for mean, error, _ in found]
    return sum(a > 2 for a in ahead), sum(a < -2 for a in ahead)


def side_by_side(rows: dict[str, str], against: str) -> str:
    """Differences in RMSE and log-likelihood of several rows from one, for each data set."""
    theirs = per_split(against)
    lines = []
    for name, base in theirs.items():
        cells = []
        for row in rows:
            known = per_split(row).get(name)
            cells += [signed(*paired(known, base, m)[:2]) if known else "not run" for m in ("rmse", "ll")]
        lines.append([name.capitalize(), *cells])
    head = ["data set", *(f"{words}: {m}" for words in rows.values() for m in ("RMSE", "log-likelihood"))]
    return table(head, lines)
