"""Columns of numbers of which nearly all are the smallest: the ranks of the others."""

import json

import numpy as np
import pandas as pd
import pytest

from tggm import TableTransformer
from tggm.tables import TableWarning, Target, preparation_from_json, preparation_to_json, prepare
from tggm.tables.columns.number import LEAST_DIFFERENT, Number, knots_of
from tggm.tables.frames import as_table


@pytest.fixture
def gains(rng):
    """Four fifths are 0, and the others from 1 to 100,000."""
    return np.where(rng.random(3000) < 0.8, 0.0, 10 ** rng.uniform(0, 5, 3000))


def test_ranks_are_even_whatever_the_scale(gains, rng):
    how = TableTransformer().fit(pd.DataFrame({"gain": gains}), rng.random(3000))
    assert how.get_feature_names_out().tolist() == ["gain", "gain: rank"]
    number, rank = how.transform(pd.DataFrame({"gain": gains})).T
    assert np.array_equal(number, gains)
    assert np.all(rank[gains == 0] == -0.3)
    assert np.mean(rank[gains > 0]) == pytest.approx(0.5, abs=0.02)  # whereas the scale has most near 0
    order = np.argsort(gains)
    assert np.all(np.diff(rank[order]) >= 0)
    far = how.transform(pd.DataFrame({"gain": [-5.0, 1e300]}))[:, 1]
    assert far.tolist() == [-0.3, 1.0]
    assert "its rank where it is not 0" in how.columns_[0].description


def test_gaps_and_marks_have_the_rank_of_the_median(gains, rng):
    words = np.array([f"{v:.2f}" for v in gains], dtype=object)
    words[:20], words[20:40] = None, "n.d."
    with pytest.warns(TableWarning, match="numbers with marks"):
        how = TableTransformer().fit(pd.DataFrame({"gain": words}), rng.random(3000))
    names = ["gain", "gain: rank", "gain is missing", "gain = n.d."]
    assert how.get_feature_names_out().tolist() == names
    assert how.transform(pd.DataFrame({"gain": [None, "n.d."]})).tolist() == [
        [0, -0.3, 1, 0],
        [0, -0.3, 0, 1],
    ]


def test_only_crowded_columns_have_ranks(gains, rng):
    few = np.where(gains > 0, np.arange(3000) % (LEAST_DIFFERENT - 1) + 1, 0)
    assert knots_of(few.astype(float)) == ()  # what other values are there can be told by their size
    assert knots_of(np.where(rng.random(3000) < 0.7, 0.0, rng.random(3000) + 1)) == ()
    assert knots_of(np.where(gains > 0, -gains, 0.0)) == ()  # the usual value is the largest
    assert knots_of(np.array([])) == knots_of(gains[:2000]) == ()  # too few
    assert knots_of(gains)[0] == 0


def test_a_file_holds_knots_and_refuses_wrong_ones(gains):
    table = as_table(pd.DataFrame({"gain": gains, "y": gains * 2 + 1}))[0]
    how = prepare(table, Target("y", "regression"))
    stored = json.loads(json.dumps(preparation_to_json(how)))
    assert preparation_from_json(stored) == how
    stored["columns"][0]["knots"].reverse()
    with pytest.raises(ValueError, match=r"knots .* must be increasing"):
        preparation_from_json(stored)
    with pytest.raises(ValueError, match="increasing"):
        Number("a", 0.0, False, knots=(1.0,))
