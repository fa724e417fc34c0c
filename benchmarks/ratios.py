"""One table out of all stored figures: what we take and what a named opponent takes, accuracy beside time."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple


class Ratio(NamedTuple):
    """One comparison; `factor` is how many times as long the opponent takes."""

    job: str
    opponent: str
    seconds: float
    opponent_seconds: float
    accuracy: str  # ours, then the opponent's

    @property
    def factor(self) -> float:
        """How many times as long the opponent takes."""
        return self.opponent_seconds / self.seconds

    @property
    def key(self) -> tuple[str, str]:
        """What is compared."""
        return self.job, self.opponent


def special(record: dict[str, Any]) -> Iterator[Ratio]:
    rows = {row["name"]: row for row in record["rows"]}
    for name, row in rows.items():
        words = name.rsplit(" ", 1)
        if words[0] in ("plain JAX", "look-up table", "scipy truncnorm"):
            ours = rows[f"ours {words[1]}"]
            errors = f"{max(ours['errors']):.0e}, {max(row['errors']):.0e} relative error"
            job = f"hazard, mean, variance of a truncated normal, {words[1]}"
            yield Ratio(job, words[0], ours["ns"] * 1e-9, row["ns"] * 1e-9, errors)


def fit(record: dict[str, Any]) -> Iterator[Ratio]:
    fits = {(row["dataset"], row["model"]): row for row in record["fits"]}
    for (name, model), row in fits.items():
        if not model.startswith("tggm"):
            ours = fits[name, "tggm, default"]
            error = "error" if "error" in row else "rmse"
            words = " share of errors / log-probability" if error == "error" else " RMSE / log-density"
            figures = ", ".join(f"{r[error]:.3g} / {r['ll']:.2f}" for r in (ours, row)) + words
            yield Ratio(f"fit to {name}, {row['rows']} rows", model, ours["seconds"], row["seconds"], figures)


def predict_proba(record: dict[str, Any]) -> Iterator[Ratio]:
    job = f"probabilities of {record['rows']} rows, {record['hidden']} units"
    yield Ratio(job, "scikit-learn MLPClassifier", record["TGGMClassifier"], record["MLPClassifier"], "")


def orthant(record: dict[str, Any]) -> Iterator[Ratio]:
    names = {"scipy": "scipy multivariate_normal.cdf", "botorch_mvnxpb": "BoTorch MVNXPB"}
    for case in record["cases"]:
        for key, name in names.items():
            if case.get(key):
                errors = f"{case['tggm']['error']:.0e}, {case[key]['error']:.0e} relative error"
                job = f"orthant probability, {case['d']} variables, correlation {case['rho']}"
                yield Ratio(job, name, case["tggm"]["seconds"], case[key]["seconds"], errors)


def inference(record: dict[str, Any]) -> Iterator[Ratio]:
    for row in record.get("newton", {}).get("results", []):
        if row["scale"] != 1.0:  # the whole table is that of the script
            continue
        job = f"mean field, {row['n']} output{'s' * (row['n'] > 1)}, {row['m']} units"
        errors = f"{row['residual']:.0e} residual, {row['error_10_cycles']:.0e} sd error"
        yield Ratio(job, "the paper's 10 cycles", row["seconds"], row["seconds_10_cycles"], errors)
    for row in record.get("ep", {}).get("results", []):
        job = f"log Z by EP, 50 units, weights of scale {row['scale']}, noise {row['noise']}"
        errors = f"{row['ep']['median']:.0e} nats, exact"
        yield Ratio(job, "exact (Fourier)", row["ep"]["seconds"], row["exact_seconds"], errors)


def streaming(record: dict[str, Any]) -> Iterator[Ratio]:
    best: dict[str, dict[str, Any]] = {}
    for row in record["fits"]:
        if row["rows_per_second"] > best.get(row["fit"], {"rows_per_second": 0})["rows_per_second"]:
            best[row["fit"]] = row
    ours, other = best["stream"], best["memory"]
    sizes = ", ".join(f"{row['resident_MiB']} MiB for {row['rows']:.0e} rows" for row in (ours, other))
    speeds = (1e6 / row["rows_per_second"] for row in (ours, other))
    yield Ratio("a million rows of a stream", "the fit in memory", *speeds, sizes)


def devices(record: dict[str, Any]) -> Iterator[Ratio]:
    alone = {row["batch"]: row for row in record["fits"] if row["way"] == "one device"}
    for row in record["fits"]:
        if row["way"] != "one device":
            times = (1e6 / r["rows_per_second"] for r in (row, alone[row["batch"]]))
            figures = f"{row['log_density']:.3f}, {alone[row['batch']]['log_density']:.3f} log-density"
            job = f"a million rows, batches of {row['batch']}: {row['way']}"
            yield Ratio(job, "one device", *times, figures)


SOURCES: dict[str, Callable[[dict[str, Any]], Iterator[Ratio]]] = {
    "special": special,
    "inference": inference,
    "orthant": orthant,
    "fit": fit,
    "predict_proba": predict_proba,
    "streaming": streaming,
    "devices": devices,
}


def stored(folder: Path) -> dict[str, dict[str, Any]]:
    """All figures of a folder, by name."""
    return {path.stem: json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))}


def ratios(figures: dict[str, dict[str, Any]]) -> list[Ratio]:
    """All comparisons that the figures hold."""
    return [row for name, read in SOURCES.items() if name in figures for row in read(figures[name])]


def duration(seconds: float) -> str:
    """A time in the unit that suits it."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"
