"""Seconds to read a CSV file and to prepare it, beside what pandas and pyarrow take to read it.

Seconds of the clock, and CPU seconds of all threads: a busy machine changes the former alone.

    python benchmarks/table_reading.py [--rows 200000]

Ten columns: six numbers (one with gaps, one with thousands separators), two of few words, one of 2,000 words,
one of dates; the target is a number. Prints the table and writes ``benchmarks/results/table_reading.json``.
"""

import argparse
import csv
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from record import keep

from tggm.tables import TableTransformer, choose_target, read_table


def write(path: Path, rows: int) -> None:
    rng = np.random.default_rng(0)
    days = np.datetime64("2020-01-01") + rng.integers(0, 1500, rows)
    columns = {
        "a": rng.normal(size=rows).round(6),
        "b": rng.integers(0, 1000, rows),
        "c": rng.gamma(2.0, size=rows).round(4),
        "gaps": np.where(rng.random(rows) < 0.1, "", rng.normal(size=rows).round(3).astype(str)),
        "grouped": [f"{x:,}" for x in rng.integers(0, 100_000, rows).tolist()],
        "colour": rng.choice(["red", "green", "blue"], rows),
        "state": rng.choice([f"state {k}" for k in range(40)], rows),
        "zip": rng.choice([f"Z{k:04d}" for k in range(2000)], rows),
        "day": np.datetime_as_string(days),
        "y": rng.normal(size=rows).round(5),
    }
    with path.open("w", newline="") as file:
        out = csv.writer(file)
        out.writerow(columns)
        out.writerows(zip(*columns.values(), strict=True))


def seconds(call: Callable[[], Any]) -> tuple[dict[str, float], Any]:
    clock, cpu = time.perf_counter(), time.process_time()
    result = call()
    return {"s": time.perf_counter() - clock, "cpu_s": time.process_time() - cpu}, result


def prepared(table: Any) -> Any:
    target, _ = choose_target(table, "y", None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return TableTransformer(task=target.task).fit_transform(table.without("y"), target.values(table))


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--rows", type=int, default=200_000)
    rows = p.parse_args().rows
    import pandas as pd
    from pyarrow import csv as arrow

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table.csv"
        write(path, rows)
        read, table = seconds(lambda: read_table(str(path)))
        preparing, X = seconds(lambda: prepared(table))
        figures = {
            "rows": rows,
            "columns": len(table.names),
            "features": X.shape[1],
            "read": read,
            "prepare": preparing,
            "pandas": seconds(lambda: pd.read_csv(path))[0],
            "pyarrow": seconds(lambda: arrow.read_csv(path))[0],
        }
    for name, value in figures.items():
        took = isinstance(value, dict) and f"{value['s']:10.3g} s {value['cpu_s']:10.3g} CPU s"
        print(f"{name:10s} {took or f'{value:10,d}'}")
    print(f"written to {keep('table_reading', figures)}")


if __name__ == "__main__":
    main()
