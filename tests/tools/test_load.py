"""The measure of load: a server that answers, and figures that notice growth."""

import json

import pytest

from tools import load


def test_the_server_answers_a_question():
    with load.served() as (port, question):
        status, content = load.posted(port, question)
    assert status == 200
    assert len(json.loads(content)["mean"]) == 1


@pytest.mark.parametrize(
    ("memory", "programs", "late", "sound"),
    [(1.02e9, 7, 0.01, True), (1.2e9, 7, 0.01, False), (1e9, 8, 0.01, False), (1e9, 7, 0.02, False)],
)
def test_growth_is_noticed(memory, programs, late, sound):
    record = [(40.0 * k, 0.01 if k < 7 else late) for k in range(10)]
    found = load.figures(360.0, 3, record, record, 0.0, (1e9, 7), (memory, programs))
    assert found["sound"] is sound
