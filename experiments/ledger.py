"""Results of one row of a table, kept so that a run that was cut goes on where it stopped.

A file holds, for each data set, the settings and the seed of the model, the seconds that its jobs took
(compiling, fitting, judging; of one core each, or of an accelerator), and one line for each split: figures,
commit and device. Splits that were made with other settings are dropped as soon as one with the new settings
is stored.
"""

import json
import os
import shutil
import subprocess
import threading
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import jax

Result = dict[str, Any]


@cache
def origin() -> dict[str, str]:
    """Commit (TGGM_COMMIT where there is no repository) and the device of this process."""
    commit = os.environ.get("TGGM_COMMIT", "")
    if not commit and shutil.which("git"):
        git = ["git", "-C", str(Path(__file__).parent), "rev-parse", "--short", "HEAD"]
        commit = subprocess.run(git, capture_output=True, text=True).stdout
    device = f"{jax.devices()[0].device_kind}, {os.cpu_count()} cores"
    return {"commit": commit.strip(), "device": device}


class Ledger:
    """The file of one row; may be written to from several threads."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._record: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}

    def missing(self, dataset: str, made_with: dict[str, Any], splits: Iterable[int]) -> list[int]:
        """Those of the splits that are not stored with these settings."""
        there = {result["split"] for result in self._same(dataset, made_with).get("splits", [])}
        return [i for i in splits if i not in there]

    def others(self, dataset: str, made_with: dict[str, Any]) -> bool:
        """Whether results made with other settings are stored."""
        return dataset in self._record and not self._same(dataset, made_with)

    def add(self, dataset: str, made_with: dict[str, Any], results: list[Result], seconds: float) -> None:
        """Store results, which replace those of the same splits, and write the file."""
        with self._lock:
            share = {"job_s": round(seconds / len(results), 3)}
            known = self._same(dataset, made_with).get("splits", [])
            splits = {r["split"]: r for r in [*known, *(r | share for r in results)]}
            total = round(sum(r["job_s"] for r in splits.values()), 1)
            ordered = [splits[i] for i in sorted(splits)]
            self._record[dataset] = {**_plain(made_with), "seconds": total, "splits": ordered}
            self._write()

    def results(self, dataset: str) -> list[Result]:
        """All that is stored of a data set."""
        return list(self._record.get(dataset, {}).get("splits", []))

    def _same(self, dataset: str, made_with: dict[str, Any]) -> dict[str, Any]:
        known = self._record.get(dataset, {})
        return known if all(known.get(k) == _plain(v) for k, v in made_with.items()) else {}

    def _write(self) -> None:
        """Replace the file as a whole: a reader, or a kill, finds the old one or the new one."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        part = self._path.with_suffix(".part")
        part.write_text(_text(self._record))
        part.replace(self._path)


def _plain(value: Any) -> Any:
    """A value as it comes back from a file."""
    return json.loads(json.dumps(value))


def _text(record: dict[str, Any]) -> str:
    """JSON with one line for each split."""
    blocks = []
    for dataset, known in record.items():
        head = [f"  {json.dumps(k)}: {json.dumps(v)}" for k, v in known.items() if k != "splits"]
        lines = ",\n".join(f"   {json.dumps(result)}" for result in known["splits"])
        blocks.append(
            f" {json.dumps(dataset)}: {{\n" + ",\n".join(head) + f',\n  "splits": [\n{lines}\n  ]\n }}'
        )
    return "{\n" + ",\n".join(blocks) + "\n}\n"
