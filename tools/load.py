"""Rows through `partial_fit` while eight threads predict and a server answers: nothing may grow.

    python -m tools.load --minutes 10 --output benchmarks/results/load.json
    python -m tools.load --minutes 1440

One thread feeds a regressor blocks of new rows; after each it publishes a copy, and eight threads go on
predicting tables of different lengths with the newest copy. Another one asks the server of `tggm serve` about
rows of a table. After a warm-up of a quarter of the time, the memory of the process may grow by 5 % or 30 MB,
the number of compiled programs not at all, and the median time of a prediction, or of an answer, not by half
between the second and the last quarter.
"""

import argparse
import contextlib
import copy
import http.client
import json
import os
import sys
import threading
import time
from pathlib import Path

import jax
import numpy as np
from tools.fuzz.originals import tables

from tggm import TGGMRegressor
from tggm.cli.answers import Answers
from tggm.cli.server import ModelServer
from tggm.files import parse_model

THREADS, BLOCK = 8, 256
LENGTHS = (1, 7, 60, 200)
PAUSE = 0.05  # seconds between two questions: the server answers 50 a second


def memory():
    """Bytes that the process holds."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


class Programs:
    """Counts what JAX compiles, or takes from its cache."""

    def __init__(self):
        self.count = 0
        jax.monitoring.register_event_duration_secs_listener(self._heard)

    def _heard(self, event, seconds, **more):
        self.count += event == "/jax/core/compile/jaxpr_to_mlir_module_duration"


def rows(rng, count):
    X = rng.normal(size=(count, 6))
    return X, np.sin(X[:, 0]) + 0.3 * np.abs(X[:, 1]) * rng.normal(size=count)


def predict(number, newest, end, record):
    """What a thread does: predict until the end, and note when and how long it took."""
    rng = np.random.default_rng(number)
    while time.monotonic() < end:
        X, _ = rows(rng, LENGTHS[rng.integers(len(LENGTHS))])
        begin = time.monotonic()
        mean, std = newest[0].predict(X, return_std=True)
        record.append((begin, time.monotonic() - begin))
        if not (np.isfinite(mean).all() and (std > 0).all()):
            raise ValueError("a prediction is no number")


@contextlib.contextmanager
def served():
    """A small model of a table behind a server: its port, and a question."""
    model, preparation = parse_model(tables()["table"], "table")
    model.name_features(model.n_features_in_, None)
    answers = Answers(model, preparation)
    with ModelServer(("127.0.0.1", 0), answers) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.server_address[1], answers.example()
        finally:
            server.shutdown()
            thread.join()


def ask(port, question, end, record):
    """What a client does: ask until the end, not too often, and note when and how long it took."""
    while time.monotonic() < end:
        begin = time.monotonic()
        status, content = posted(port, question)
        record.append((begin, time.monotonic() - begin))
        if status != http.HTTPStatus.OK:
            raise ValueError(f"the server answered {status}: {content[:200]!r}")
        time.sleep(PAUSE)


def posted(port, question):
    """The answer to one question: status and content."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    with contextlib.closing(connection):
        connection.request("POST", "/predict", question, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        return answer.status, answer.read()


def run(seconds, seed=0):
    """Figures of so many seconds."""
    rng, programs = np.random.default_rng(seed), Programs()
    model = TGGMRegressor(hidden=20, n_members=2, random_state=0)
    for _ in range(2):
        model.partial_fit(*rows(rng, BLOCK))
    for length in LENGTHS:
        model.predict(rows(rng, length)[0], return_std=True)
    newest, predictions, answers, blocks = [copy.deepcopy(model)], [], [], 0
    with served() as (port, question):
        posted(port, question)
        begin = time.monotonic()
        end = begin + seconds
        threads = [
            threading.Thread(target=predict, args=(k, newest, end, predictions)) for k in range(THREADS)
        ]
        threads.append(threading.Thread(target=ask, args=(port, question, end, answers)))
        for thread in threads:
            thread.start()
        first = None
        while time.monotonic() < end:
            model.partial_fit(*rows(rng, BLOCK))
            newest[0] = copy.deepcopy(model)
            blocks += 1
            if first is None and time.monotonic() > begin + seconds / 4:
                first = memory(), programs.count
        for thread in threads:
            thread.join()
    return figures(seconds, blocks, predictions, answers, begin, first, (memory(), programs.count))


def medians(record, begin, seconds):
    """Of the second and of the last quarter, in seconds."""
    early = [took for at, took in record if begin + 0.25 * seconds < at <= begin + 0.5 * seconds]
    late = [took for at, took in record if at > begin + 0.75 * seconds]
    return float(np.median(early)), float(np.median(late))


def figures(seconds, blocks, predictions, answers, begin, first, last):
    """What happened, and whether it is as promised."""
    grown = last[0] - first[0]
    times = [medians(record, begin, seconds) for record in (predictions, answers)]
    steady = all(late <= 1.5 * early for early, late in times)
    sound = grown <= max(0.05 * first[0], 30e6) and last[1] == first[1] and steady
    return {
        "seconds": round(seconds),
        "rows_learned": blocks * BLOCK,
        "predictions": len(predictions),
        "answers_of_the_server": len(answers),
        "memory_mb": [round(first[0] / 1e6), round(last[0] / 1e6)],
        "programs": [first[1], last[1]],
        "prediction_median_ms": [round(1e3 * each, 1) for each in times[0]],
        "answer_median_ms": [round(1e3 * each, 1) for each in times[1]],
        "sound": bool(sound),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    found = run(60 * options.minutes)
    text = json.dumps(found, indent=1) + "\n"
    print(text, end="")
    if options.output is not None:
        options.output.write_text(text)
    return 0 if found["sound"] else 1


if __name__ == "__main__":
    sys.exit(main())
