"""Columns of numbers of which nearly all are the smallest: the ranks of the others."""

import json

import numpy as np
import pandas as pd
import pytest

from tests.tables.prepared import prepare
from tggm import TableTransformer
from tggm.tables import TableWarning, Target, preparation_from_json, preparation_to_json
from tggm.tables.columns import LEAST_DIFFERENT, Number, knots_of
from tggm.tables.frames import as_table
from tggm.tables.target_encoding import Outcomes, TargetEncoding, beats_neighbours, code_numbers, encode_codes


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


@pytest.fixture
def sums(rng):
    """Nine tenths are 0; the others are sums that repeat, every second of which means 1."""
    place = rng.integers(1, 51, 6000)
    x = np.where(rng.random(6000) < 0.9, 0.0, 1000.0 + 7 * place)
    return x, np.where(x > 0, place % 2, rng.random(6000) < 0.5).astype(float)


def test_sums_that_repeat_are_target_encoded(sums):
    x, y = sums
    how = TableTransformer(task="regression")
    X = how.fit_transform(pd.DataFrame({"gain": x}), y)
    assert how.get_feature_names_out().tolist() == ["gain", "gain: rank", "gain: mean target"]
    assert "its rank where it is not 0 and its target encoding" in how.columns_[0].description
    usual = X[x > 0, 2]
    assert np.abs(usual - y[x > 0]).mean() < 0.15  # shrunk towards the mean
    new = how.transform(pd.DataFrame({"gain": [0.0, 1007.0, 1014.0, 1010.0]}))[:, 2]
    assert new[1] > 0.8 > 0.2 > new[2]
    assert new[0] == pytest.approx(y[x == 0].mean(), abs=0.02)
    assert new[3] == pytest.approx(y.mean())  # a number that does not repeat


def test_no_row_sees_its_own_target(sums, rng):
    x, noise = sums[0], Outcomes.of(rng.normal(size=6000), False)
    levels = tuple(np.unique(x).tolist())
    seen = encode_codes(code_numbers(x, levels), len(levels) + 1, noise)
    usual = TargetEncoding(noise.names, levels, tuple(map(tuple, seen.tolist())))
    y, few = noise.values[:, 0], x > 0
    assert np.corrcoef(usual.encode(x)[few, 0], y[few])[0, 1] > 0.15  # what it would be worth, were it seen
    assert abs(np.corrcoef(usual.encode_training(x, noise)[few, 0], y[few])[0, 1]) < 0.15
    assert not beats_neighbours(x, levels, 0.0, noise)


def test_a_smooth_relation_is_not_target_encoded(rng):
    x = rng.integers(0, 60, 2000).astype(float)
    smooth = np.sin(x / 10) + 0.3 * rng.normal(size=2000)
    jagged = smooth + (x % 3 == 0)
    x[::7] = np.nan  # filled, these would be a value of their own
    found = [TargetEncoding.of(x, Outcomes.of(y, False)) for y in (smooth, jagged)]
    assert found[0] is None
    assert found[1].encode(np.array([3.0, np.nan])).tolist() == [list(found[1].values[k]) for k in (3, -1)]


def test_no_column_of_a_stream_learns_of_the_target(rng):
    """Its rows are encoded as new ones are, and would see their own targets."""
    fare, level = rng.integers(0, 60, 2000), rng.normal(size=60)
    words = np.where(np.arange(2000) < 20, "n.d.", fare.astype(str))
    table = as_table(pd.DataFrame({"fare": fare, "marked": words, "y": level[fare]}))[0]
    for many in (True, False):
        how = prepare(table, Target("y", "regression"), target_encoding=many)
        assert [column.encoding is not None for column in how.columns] == [many, many]


def test_usual_targets_need_outcomes_and_repetition(gains, sums, rng):
    y = rng.normal(size=6000)
    assert TargetEncoding(("y",), (1.0,), ((0.5,), (0.0,))).encode(np.array([1.0, 2.0])).tolist() == [
        [0.5],
        [0.0],
    ]
    assert TableTransformer().fit(pd.DataFrame({"gain": sums[0]})).columns_[0].encoding is None
    assert TableTransformer().fit(pd.DataFrame({"gain": gains}), y[:3000]).columns_[0].encoding is None
    assert TargetEncoding.of(sums[0], Outcomes.of(sums[1] * 1e200, False)) is None  # squares overflow
    for wrong in (
        {"levels": (2.0, 1.0)}, {"levels": (1.0, np.nan)}, {"values": ((0.5,),)}, {"outputs": ()},
        {"values": ((1.7e308,), (1.0,), (-1.7e308,))}, {"values": ((1.0,), (np.nan,), (1.0,))},
    ):  # fmt: skip
        with pytest.raises(ValueError, match="target encoding of numbers must"):
            TargetEncoding(**({"outputs": ("y",), "levels": (1.0, 2.0), "values": ((1.0,),) * 3} | wrong))


def test_a_file_holds_knots_and_refuses_wrong_ones(sums):
    table = as_table(pd.DataFrame({"gain": sums[0], "y": sums[1] + 0.5}))[0]
    how = prepare(table, Target("y", "regression"))
    stored = json.loads(json.dumps(preparation_to_json(how)))
    assert preparation_from_json(stored) == how
    assert how.columns[0].encoding is not None
    stored["columns"][0]["knots"].reverse()
    with pytest.raises(ValueError, match=r"knots .* must be increasing"):
        preparation_from_json(stored)
    with pytest.raises(ValueError, match="increasing"):
        Number("a", 0.0, False, knots=(1.0,))
