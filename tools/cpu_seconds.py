"""Measure the CPU seconds of each test.

    python -m pytest -p tools.cpu_seconds --cpu-seconds=FILE tests/estimators
    python tools/cpu_seconds.py FILE...          # totals by folder, the largest files and tests

Write = before FILE: after a space pytest would take FILE for a test. The seconds are user and system seconds
of the process and of its children, and the part that JAX spent on tracing, lowering and compiling.
"""

import argparse
import json
import resource
from collections import defaultdict
from collections.abc import Callable, Generator
from pathlib import Path

import pytest

STAGES = {
    "/jax/core/compile/jaxpr_trace_duration": "trace",
    "/jax/core/compile/jaxpr_to_mlir_module_duration": "lower",
    "/jax/core/compile/backend_compile_duration": "compile",
}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--cpu-seconds", type=Path, help="file that gets one line of JSON for every test")


class Recorder:
    """Write a line after each test; a fixture counts for the first test that uses it."""

    def __init__(self, path: Path) -> None:
        import jax.monitoring

        self.file = path.open("a", encoding="utf-8")
        self.stages: dict[str, float] = defaultdict(float)
        self.before = 0.0
        jax.monitoring.register_event_duration_secs_listener(self.add)

    def add(self, event: str, seconds: float, **_: object) -> None:
        """Add the durations that JAX reports."""
        if event in STAGES:
            self.stages[STAGES[event]] += seconds

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Record the seconds of a test and its fixtures."""
        self.stages.clear()
        before = processor_seconds()
        result = yield
        spent = {"cpu": processor_seconds() - before, **self.stages}
        rounded = {name: round(value, 3) for name, value in spent.items()}
        self.file.write(json.dumps({"test": item.nodeid, **rounded}) + "\n")
        self.file.flush()
        return result


def pytest_configure(config: pytest.Config) -> None:
    path = config.getoption("--cpu-seconds")
    if path is not None:
        config.pluginmanager.register(Recorder(path))


def processor_seconds() -> float:
    usage = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(use.ru_utime + use.ru_stime for use in usage)


def totals(records: list[dict], key: Callable[[str], str]) -> list[tuple[str, dict[str, float]]]:
    found: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for record in records:
        for name, value in record.items():
            if name != "test":
                found[key(record["test"])][name] += value
    return sorted(found.items(), key=lambda item: -item[1]["cpu"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--top", type=int, default=40)
    options = parser.parse_args()
    lines = [line for path in options.files for line in path.read_text().splitlines()]
    records = [json.loads(line) for line in lines]
    for title, key in {
        "all": lambda test: "all",
        "folder": lambda test: "/".join(test.split("::")[0].split("/")[:-1][:2]),
        "file": lambda test: test.split("::")[0],
        "test": lambda test: test,
    }.items():
        print(f"\n{'cpu':>8}{'trace':>8}{'lower':>8}{'compile':>8}  {title}")
        for name, spent in totals(records, key)[: options.top]:
            print("".join(f"{spent[stage]:8.1f}" for stage in ("cpu", "trace", "lower", "compile")), name)


if __name__ == "__main__":
    main()
