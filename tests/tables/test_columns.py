"""Columns to numbers: against columns encoded by hand and by other libraries."""

import numpy as np
import pandas as pd
import pytest
from sklearn.preprocessing import TargetEncoder

from tggm import TableTransformer
from tggm.data.stream import hash_rows
from tggm.tables import Table, TableError, TableWarning, stream_transformer
from tggm.tables.columns import LEAST_RARE, Category, DateColumn, Number, Statistic
from tggm.tables.target_encoding import Outcomes, TargetEncoding, beats_neighbours, code_numbers, encode_codes

pytestmark = pytest.mark.filterwarnings("ignore::tggm.TableWarning")
MANY = [str(100 + k * k) for k in range(12)]


def table(**columns):
    """Make a table; lists are words, arrays are numbers or dates."""
    given = {n: np.array(c, dtype=object) if isinstance(c, list) else c for n, c in columns.items()}
    return Table("t.csv", given)


def fit(t, **options):
    return TableTransformer(task="regression", **options).fit(t, np.arange(float(len(t))) ** 2)


def encode(how, t):
    notes = []
    return np.concatenate([column.encode(t, notes) for column in how.columns_], axis=1), notes


def test_gaps_in_numbers_become_the_median_and_are_marked():
    t = table(a=["1", None, "5", "3", "100", None])
    how = fit(t)
    X, notes = encode(how, t)
    np.testing.assert_array_equal(X, [[1, 0], [4, 1], [5, 0], [3, 0], [100, 0], [4, 1]])
    assert how.get_feature_names_out().tolist() == ["a", "a is missing"]
    assert notes == [("a: 2 rows without a value, filled with the median 4", False, None)]
    X, (note,) = encode(fit(table(a=np.array([1.0, 2, 4]))), table(a=np.array([np.nan])))
    assert X.tolist() == [[2.0]]
    assert note.text.endswith("unknown: no value was missing in training")
    assert note.unknown.all()


def test_commas_and_units_are_read_as_in_the_training_rows():
    assert fit(table(a=[*MANY, "5,969"])).notes_ == ["a: '5,969' is read as 5969"]
    how = fit(table(a=[f"{k * k},5" for k in range(30)]))
    for word, number in (("1,250", 1.25), ("7.5", 7.5)):
        assert how.transform(table(a=[word])).tolist() == [[number]]
    how = fit(table(a=[f"{k} km" for k in MANY]))
    np.testing.assert_array_equal(how.transform(table(a=["1,200 km", "7"])), [[1200], [7]])
    with pytest.raises(TableError, match="'5 mi' in row 1"):
        how.transform(table(a=["5 mi"]))


CODES = ("SKU{:04d}", "EMP-{:03d}", "INV {}", "{}ABC", "0{}", "$0{}", "{} ABC", "USD{}")


@pytest.mark.parametrize("form", [*CODES, "{}", "${}", "{} km", "{} EUR"])
def test_codes_are_words_and_held_out_rows_decide_where_numbers_are_possible(form, rng):
    """The last codes have targets that increase with them."""
    k = rng.integers(100, 160, 1500)
    level = k / 10 if form == "{} EUR" else rng.normal(size=60)[k - 100]
    words = table(c=[form.format(number) for number in k.tolist()])
    (column,) = TableTransformer().fit(words, level + 0.5 * rng.normal(size=1500)).columns_
    assert isinstance(column, Statistic if form in CODES else Number)


def test_marks_among_numbers_become_indicators():
    t = table(a=[*(f"{k / 8}" for k in range(85)), *["<LOD"] * 12, "<0.5", "<0.2", "<0.1", None])
    how = fit(t)
    X = how.transform(t)
    assert how.get_feature_names_out().tolist() == ["a", "a is missing", "a = <", "a = <LOD"]
    np.testing.assert_array_equal(X[:85, 0], np.arange(85) / 8)
    np.testing.assert_array_equal(X[97:100, 0], [0.5, 0.2, 0.1])
    np.testing.assert_array_equal(X.sum(0)[1:], [1, 3, 12])
    assert "marks ('<', '<LOD')" in how.notes_[0]
    with pytest.raises(TableError, match=r"'lost' in row 2 .* numbers or <, <LOD"):
        how.transform(table(a=["1", "lost"]))
    with pytest.raises(TableError, match="has numbers, but also 'lost' in row 102"):
        fit(table(a=[*t.columns["a"].tolist(), "lost"]))


def test_true_and_false_are_read_in_any_spelling():
    how = fit(table(a=["true", "false"] * 6))
    for spelled in (["True", "FALSE"], ["true", "false"], ["1", "0"]):
        assert how.transform(table(a=spelled)).tolist() == [[1], [0]]


def test_mistakes_among_numbers_are_all_reported():
    numbers = [str(k) for k in range(30)]
    with pytest.raises(
        TableError,
        match=r"'a' .* 'x' in row 31, 'y' in row 32; .*--missing 'x'.*replace\('x', None\) in Python; "
        r"column 'b' .* 'z' in row 2",
    ):
        fit(table(a=[*numbers, "x", "y"], b=["0", "z", *numbers]))
    for words in (["2", "3", "4", "5 or more"] * 5, ["a", "b", "1", "2"] * 10):
        assert isinstance(fit(table(a=words)).columns_[0], Category)


def test_indicators_equal_those_of_pandas(rng):
    colour = rng.choice(["red", "green", "blue"], 60).tolist()
    expected = pd.get_dummies(pd.Series(colour)).astype(float)  # sorted levels
    how = fit(table(c=colour))
    assert how.get_feature_names_out().tolist() == [f"c = {level}" for level in expected.columns]
    np.testing.assert_array_equal(how.transform(table(c=colour)), expected.to_numpy())


def test_rare_unknown_and_missing_categories():
    how = fit(table(c=["a"] * 10 + ["b"] * 5 + ["rare", "odd", None, None]))
    assert how.columns_ == (Category("c", ("a", "b"), rare=("odd", "rare"), missing=True),)
    got, notes = encode(how, table(c=["a", "odd", None, "b", "new"]))
    np.testing.assert_array_equal(got[:4], [[1, 0, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1], [0, 1, 0, 0]])
    assert "1 row with rare or unknown categories ('odd'), counted as 'other'" in notes[0].text
    assert "1 row with rare or unknown categories ('new'), treated as unknown" in notes[1].text
    assert notes[1].unknown.tolist() == [False] * 4 + [True]
    assert "counted as 'missing'" in notes[2].text
    got, notes = encode(fit(table(c=["a", "b"] * 5)), table(c=["b", "new", None]))
    np.testing.assert_array_equal(got, [[0, 1], [0, 0], [0, 0]])
    assert "treated as unknown" in notes[0].text
    assert "no value was missing in training" in notes[1].text


# so many rows that half a percent of them is less than three, three, and more
@pytest.mark.parametrize(("rows", "least"), [(40, 3), (600, 3), (1000, 5), (3000, 15)])
def test_a_category_needs_three_rows_and_half_a_percent(rows, least):
    column = ["enough"] * least + ["rare"] * (least - 1)
    column += ["b", "c"] * ((rows - len(column)) // 2)
    column += ["b"] * (rows - len(column))
    how = fit(table(c=column))
    assert how.columns_ == (Category("c", ("b", "c", "enough"), rare=("rare",), missing=False),)
    np.testing.assert_array_equal(how.transform(table(c=column)).sum(0)[2:], [least, least - 1])


def test_at_most_fifty_categories_get_an_indicator():
    column = [f"w{k:02d}" for k in range(51) for _ in range(3 + (k != 7))]
    (found,) = fit(table(c=column)).columns_
    assert found == Category("c", tuple(f"w{k:02d}" for k in range(51) if k != 7), ("w07",), missing=False)


def test_numbers_and_words_are_read_as_in_the_training_rows():
    how = fit(table(code=["7", "x", "7", "x", "7", "x"]))
    np.testing.assert_array_equal(how.transform(table(code=np.array([7.0]))), [[1, 0]])
    how = fit(table(code=np.array([1.0, 2, 1, 2, 1, 2])), categorical=["code"])
    np.testing.assert_array_equal(how.transform(table(code=["2"])), [[0, 1]])


def test_a_part_of_the_rows_is_counted_as_in_the_file():
    part = table(id=np.arange(40.0), x=np.arange(40.0) ** 3).take(np.flatnonzero(np.arange(40) % 3))
    assert [column.name for column in fit(part).columns_] == ["x"]


def test_dates_become_a_trend_and_cycles():
    days = np.datetime64("2022-01-03") + np.arange(0, 800)  # a Monday
    dates = table(d=days.astype("datetime64[us]"))
    how = fit(dates)
    X = how.transform(dates)
    waves = [f"d: {wave} of the {part}" for part in ("year", "week") for wave in ("sine", "cosine")]
    assert how.get_feature_names_out().tolist() == ["d: years", *waves]
    np.testing.assert_allclose(X[:, 0], np.arange(800) / 365.2425)
    np.testing.assert_allclose(X[7:, 3:], X[:-7, 3:], atol=1e-9)  # weeks repeat
    np.testing.assert_allclose(np.hypot(X[:, 1], X[:, 2]), 1)
    for words in ([str(day) for day in days], [day.item().strftime("%d.%m.%Y") for day in days]):
        np.testing.assert_allclose(how.transform(table(d=words)), X)


def test_gaps_and_words_among_dates():
    how = fit(table(d=[*(f"2024-01-{k:02d}" for k in range(1, 29)), "soon", None]))
    X, notes = encode(how, table(d=["2024-01-05", None, "soon", "2024-01-07", "2024-01-08"]))
    np.testing.assert_array_equal(X[:, -1], [0, 1, 1, 0, 0])
    assert np.isfinite(X).all()
    assert "not dates ('soon')" in notes[0].text
    with pytest.raises(TableError, match="not dates such as 2024-01-31"):
        how.transform(table(d=["soon"]))
    with pytest.raises(TableError, match="has numbers in column 'd'"):
        how.transform(table(d=np.array([1.0])))
    with pytest.raises(TableError, match="has dates in column 'd'"):
        fit(table(d=np.arange(20.0) ** 3)).transform(table(d=np.array(["2024-01-01"], "datetime64[us]")))


def test_shuffled_identifiers_are_left_out_unless_they_predict(rng):
    number, noise = rng.permutation(300) + 1000.0, rng.normal(size=300)
    how = TableTransformer().fit(table(customer=number, x=noise), rng.normal(size=300))
    assert how.left_out_ == {"customer": "it identifies the rows"}
    for y in (np.sin(number / 50) + 0.5 * noise, number % 40):  # a trend, a cycle
        assert not TableTransformer().fit(table(day=number, x=noise), y).left_out_
    assert not TableTransformer().fit(table(day=number, x=noise), number > 1150).left_out_
    spread = rng.choice(10**6, 300, replace=False).astype(float)  # distinct by chance
    assert not TableTransformer().fit(table(customer=spread, x=noise), rng.normal(size=300)).left_out_


def test_columns_that_give_the_target_are_asked_about(rng):
    a, b, x = rng.lognormal(size=(3, 1000))
    y = a * b
    noisy, rough = (y * np.exp(s * rng.normal(size=1000)) for s in (0.02, 0.5))
    holes = np.where(rng.random(1000) < 0.3, np.nan, -y)
    for name, copy in {"round": y.round(1), "noisy": noisy, "bent": np.log(y), "holes": holes}.items():
        (note,) = TableTransformer().fit(table(x=x, **{name: copy}), y).notes_
        assert note.startswith(f"the target can be computed from {name} (R² ")
        assert note.endswith("); is it known beforehand?")
    for sign, other in (("*", b), ("/", 1 / b), ("+", y - a), ("-", a - y)):
        (note,) = TableTransformer().fit(table(a=a, other=other, x=x), y).notes_
        assert f"computed from a {sign} other (R² " in note
    (note,) = TableTransformer().fit(table(x=x, y=y), y > 1).notes_
    assert "computed from y (R² " in note
    (note,) = TableTransformer().fit(table(x=x, y=y), y > np.quantile(y, 0.99)).notes_  # ten rows
    assert "computed from y (R² 1.000)" in note
    for honest in (table(a=a, x=x), table(rough=rough, x=x), table(bent=np.log(y[:19]))):
        assert TableTransformer().fit(honest, y[: len(honest)]).notes_ == []


@pytest.fixture(scope="module")
def towns():
    rng = np.random.default_rng(2)
    effect, town = rng.normal(size=300), rng.integers(300, size=3000)
    return pd.DataFrame({"town": [f"town {k}" for k in town]}), effect[town] + rng.normal(size=3000)


def test_words_are_encoded_by_shrunken_means(towns):
    frame, y = towns
    how = TableTransformer().fit(frame, y)
    (column,) = how.columns_
    assert isinstance(column, Statistic)
    # by hand: (sum + m mean) / (n + m); effects and noise have variance 1, so m is about 1
    own, got = y[frame["town"] == column.levels[0]], column.values[0][0]
    m = (own.sum() - len(own) * got) / (got - y.mean())
    assert 0.7 < m < 1.5
    witness = TargetEncoder(smooth=m).fit(frame, y).transform(frame)
    np.testing.assert_allclose(how.transform(frame)[:, 0], witness[:, 0], rtol=1e-9)


def test_no_training_row_is_encoded_by_its_own_target(towns):
    frame = towns[0]
    noise = np.random.default_rng(3).normal(size=len(frame))
    how = TableTransformer()
    out_of_fold, own = how.fit_transform(frame, noise)[:, 0], how.transform(frame)[:, 0]
    assert abs(np.corrcoef(out_of_fold, noise)[0, 1]) < 4 / np.sqrt(len(noise))
    assert np.corrcoef(own, noise)[0, 1] > 0.2
    changed = noise.copy()
    changed[0] += 100
    again = TableTransformer().fit_transform(frame, changed)[:, 0]
    fold = np.random.default_rng(0).permutation(len(noise)) % 5
    np.testing.assert_allclose(again[fold == fold[0]], out_of_fold[fold == fold[0]], atol=1e-9)


def test_unknown_words_and_gaps_are_encoded_by_the_mean(towns):
    frame, y = towns
    X = TableTransformer().fit(frame, y).transform(pd.DataFrame({"town": ["town nowhere", None]}))
    np.testing.assert_allclose(X[:, 0], y.mean(), atol=0.2)
    classes = TableTransformer().fit(frame, np.digitize(y, [-1, 1]))
    assert classes.get_feature_names_out().tolist() == [*(f"town: mean {k}" for k in range(3)), "town: rows"]
    assert isinstance(TableTransformer().fit(frame).columns_[0], Category)


def test_a_hundred_thousand_words():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"number": [f"w{k}" for k in rng.integers(100_000, size=150_000)]})
    how = TableTransformer().fit(frame, rng.normal(size=len(frame)))
    assert np.isfinite(how.transform(frame[:1000])).all()
    assert len(how.columns_[0].levels) == 20_000
    n = 100_000
    words = pd.DataFrame({"a": np.arange(n).astype(str) + "x", "b": np.tile([1.0, 2.0], n // 2)})
    with pytest.warns(TableWarning, match="a .few of its words repeat"):
        assert TableTransformer().fit_transform(words, np.arange(n)).shape == (n, 1)


def test_the_words_of_a_stream_are_encoded_by_the_rows_of_other_folds(towns):
    word, y = towns[0]["town"].to_numpy(object), towns[1] + 1e6
    starts = range(0, 3000, 600)
    parts = [(k, table(town=word[k : k + 600]), y[k : k + 600]) for k in starts]
    sample = table(town=word[:1500])
    made, encode = stream_transformer(sample, y[:1500], "regression", lambda: parts)
    got = np.concatenate([encode(start, part) for start, part, _ in parts])
    levels, fold = made.columns_[0].levels, hash_rows(1, np.arange(3000)) % 5
    frame = pd.DataFrame({"town": word, "y": y})[np.isin(word, levels)]
    rows = made.transform(table(town=list(levels)))[:, 1]
    np.testing.assert_allclose(rows, np.log1p(frame.groupby("town").size()))
    for k in range(5):  # by hand: (sum + m mean) / (n + m), with m from the first word
        others, own = frame[fold[frame.index] != k], frame[fold[frame.index] == k]
        n, total = others.groupby("town").y.agg(["size", "sum"]).loc[own["town"]].to_numpy().T
        value, mean = got[own.index, 0], y[fold != k].mean()
        m = (total[0] - n[0] * value[0]) / (value[0] - mean)
        assert 0.7 < m < 1.5
        np.testing.assert_allclose(value - 1e6, (total + m * mean) / (n + m) - 1e6, atol=1e-6)


@pytest.fixture
def sums(rng):
    """Nine tenths are 0; the others are repeated sums, every second of which has the target 1."""
    place = rng.integers(1, 51, 6000)
    x = np.where(rng.random(6000) < 0.9, 0.0, 1000.0 + 7 * place)
    return x, np.where(x > 0, place % 2, rng.random(6000) < 0.5).astype(float)


def test_repeated_numbers_are_target_encoded(sums):
    x, y = sums
    how = TableTransformer(task="regression")
    X = how.fit_transform(pd.DataFrame({"gain": x}), y)
    assert how.get_feature_names_out().tolist() == ["gain", "gain: mean target"]
    assert "number and its target encoding" in how.columns_[0].description
    assert np.abs(X[x > 0, 1] - y[x > 0]).mean() < 0.15  # shrunken towards the mean
    new = how.transform(pd.DataFrame({"gain": [0.0, 1007.0, 1014.0, 1010.0]}))[:, 1]
    assert new[1] > 0.8 > 0.2 > new[2]
    assert new[0] == pytest.approx(y[x == 0].mean(), abs=0.02)
    assert new[3] == pytest.approx(y.mean())  # a number that does not repeat
    assert TableTransformer().fit(pd.DataFrame({"gain": x})).columns_[0].encoding is None


def test_noise_and_smooth_relations_are_not_target_encoded(sums, rng):
    x, noise = sums[0], Outcomes.of(rng.normal(size=6000), False)
    levels, few = tuple(np.unique(x).tolist()), x > 0
    values = encode_codes(code_numbers(x, levels), len(levels) + 1, noise)
    encoding = TargetEncoding(noise.names, levels, tuple(map(tuple, values.tolist())), 0)
    y = noise.values[few, 0]
    assert np.corrcoef(encoding.encode(x)[few, 0], y)[0, 1] > 0.15  # by the row's own target, too
    assert abs(np.corrcoef(encoding.encode(x, noise)[few, 0], y)[0, 1]) < 0.15
    assert not beats_neighbours(x, levels, 0.0, noise)
    assert TargetEncoding.of(x, Outcomes.of(sums[1] * 1e200, False)) is None  # squares overflow
    x = rng.integers(0, 60, 2000).astype(float)
    smooth = np.sin(x / 10) + 0.3 * rng.normal(size=2000)
    jagged = smooth + (x % 3 == 0)
    x[::7] = np.nan
    assert TargetEncoding.of(x, Outcomes.of(smooth, False)) is None
    found = TargetEncoding.of(x, Outcomes.of(jagged, False))
    assert found.encode(np.array([3.0, np.nan])).tolist() == [list(found.values[k]) for k in (3, -1)]


def test_target_encodings_can_be_switched_off_for_streams(rng):
    fare, level = rng.integers(0, 60, 2000), rng.normal(size=60)
    marked = ["n.d."] * 20 + [str(k) for k in fare[20:]]
    t = table(fare=fare.astype(float), marked=marked)
    encoded = TableTransformer().fit(t, level[fare])
    streamed = stream_transformer(t, level[fare], "regression", tuple)[0]
    for how, on in ((encoded, True), (streamed, False)):
        assert [column.encoding is not None for column in how.columns_] == [on, on]


@pytest.mark.parametrize(
    "wrong",
    [
        {"levels": (2.0, 1.0)}, {"levels": (1.0, np.nan)}, {"values": ((0.5,),)}, {"outputs": ()},
        {"values": ((1.7e308,), (1.0,), (-1.7e308,))}, {"values": ((1.0,), (np.nan,), (1.0,))},
    ],
)  # fmt: skip
def test_invalid_target_encodings_are_rejected(wrong):
    given = {"outputs": ("y",), "levels": (1.0, 2.0), "values": ((1.0,),) * 3, "others": 0} | wrong
    with pytest.raises(ValueError, match="target encoding of numbers must"):
        TargetEncoding(**given)


@pytest.mark.parametrize(("others", "few"), [(LEAST_RARE - 1, True), (LEAST_RARE, False)])
def test_values_without_an_encoding_are_unknown_if_few_training_rows_had_none(others, few):
    values, notes = ((0.5,), (2.0,), (1.0,)), []
    words = Statistic("town", ("y",), ("rome", "york"), (5, 3, others, 2), (*values, (-1.0,)))
    words.encode(table(town=["york", "oslo", "rome"]), notes)
    fares = Number("fare", 7.0, False, encoding=TargetEncoding(("y",), (7.0, 9.0), values, others))
    fares.encode(table(fare=["9", "8", "7"]), notes)
    found = [note.unknown.tolist() for note in notes if note.unknown is not None]
    assert found == [[False, True, False], [[False] * 2, [False, True], [False] * 2]] * few


def test_a_rare_word_has_one_row_however_many_share_its_encoding():
    column = Statistic("town", ("y",), ("rome", "york"), (5, 3, 7, 2), ((0.5,), (2.0,), (1.0,), (-1.0,)))
    rows = np.exp(column.encode(table(town=["york", "oslo", None]), [])[:, -1]) - 1
    np.testing.assert_allclose(rows, [3, 1, 2])


def test_dates_and_numbers_too_large_to_compute_with_are_named():
    for wrong in ({"origin": 1e300}, {"fill": -1e300}):
        given = {"name": "day", "origin": 0.0, "fill": 0.0, "parts": (), "indicator": False} | wrong
        with pytest.raises(ValueError, match=r"must be within 1e\+08 days of 1970"):
            DateColumn(**given, day_first=True)
    t = table(a=["1", "2"] * 20, big=["1.5e308", "-1.2e308"] * 20)
    with pytest.raises(TableError, match=r"t.csv has 1.5e\+308 in column 'big', too large"):
        fit(t)
