"""Data frames, words and missing values in both estimators."""

import re

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

import tggm
from tests.estimators.small import settings_of
from tggm import TableTransformer, TableWarning, TGGMClassifier, TGGMRegressor
from tggm.data import from_arrays
from tggm.estimators import table_description
from tggm.estimators._data import read_numbers
from tggm.tables import TableError, read_table

TINY = {"hidden": 4, "n_members": 2, "max_epochs": 10, "random_state": 0}
NAMES = ["area", "garden", "heating"]


def drawn_houses():
    rng = np.random.default_rng(0)
    area, garden = rng.uniform(40, 200, 90), rng.choice(["yes", "no"], 90)
    price = 50 + 2 * area + 30 * (garden == "yes") + 10 * rng.normal(size=90)
    shown = np.where(np.arange(90) % 9, area.round(1), np.nan)
    heating = rng.choice(np.array(["gas", "oil", None], object), 90)
    return pd.DataFrame({"area": shown, "garden": garden, "heating": heating, "price": price.round(2)})


@pytest.fixture(scope="module")
def houses():
    return drawn_houses()


@pytest.fixture(scope="module")
def model(houses):
    return TGGMRegressor(**TINY).fit(houses[NAMES], houses["price"])


def test_columns_may_be_in_any_order_with_others_between(model, houses, tmp_path):
    expected = model.predict(houses[NAMES])
    assert np.corrcoef(expected, houses["price"])[0, 1] > 0.9
    shuffled = houses.assign(extra=1)[["price", "heating", "extra", "area", "garden"]]
    np.testing.assert_array_equal(model.predict(shuffled), expected)
    for method in (model.predict_interval, model.predict_dist):
        method(shuffled)
    houses.to_csv(tmp_path / "houses.csv", index=False)
    np.testing.assert_array_equal(model.predict(read_table(str(tmp_path / "houses.csv"))), expected)


def test_rows_with_new_categories_are_predicted(model, houses):
    new = houses[NAMES].assign(heating="wood")
    assert np.isfinite(model.predict(new[:3])).all()
    with pytest.warns(TableWarning, match=r"heating: 90 rows .*\('wood'\).* a known one \('gas', 'oil'\)"):
        model.predict(new)


@pytest.mark.parametrize(
    ("change", "kind", "sentence"),
    [
        (lambda X: X[:0], ValueError, "`X` has no rows; pass at least one."),
        (lambda X: X[[]], TableError, "it has no columns."),
        (lambda X: pd.concat([X, X], axis=1), TableError, "`X` has two columns with the same name"),
        (lambda X: "new.csv", TypeError, "got 'new.csv'. Read it: pandas.read_csv('new.csv')."),
        (lambda X: X.iloc[0], ValueError, "X.to_frame().T if it is a row."),
        (lambda X: X[["area"]].rename(columns={"area": "size"}), TableError, "it has 'size'"),
        (lambda X: X.rename(columns={"heating": "heatin"}), TableError, "did you mean 'heatin'"),
        (lambda X: X.to_dict("records"), TypeError, "got a dict. Pass pandas.DataFrame(X)."),
        (lambda X: None, TypeError, "`X` must be a table or an array; got None."),
        (lambda X: X["area"].tolist(), ValueError, "shape (90,). Reshape your data: X.reshape(-1, 1)"),
        (lambda X: X[:1].assign(area="big"), TableError, "'big' in row 1 of column 'area', which should"),
    ],
)
def test_bad_tables(model, houses, change, kind, sentence):
    with pytest.raises(kind, match=re.escape(sentence)):
        model.predict(change(houses[NAMES]))


def test_a_fit_needs_columns_and_labels_of_one_type(houses):
    with pytest.raises(TableError, match="`X` has no column to predict from; pass at least one"):
        TGGMRegressor(**TINY).fit(houses[[]], houses["price"])
    mixed = np.where(houses["price"] > 300, 1, houses["heating"].fillna("none"))
    with pytest.raises(ValueError, match=r"`y` has '\w+' and 1; pass words only: y.astype\(str\)"):
        TGGMClassifier(**TINY).fit(houses[NAMES], mixed)
    with pytest.warns(TableWarning, match="`y` has the same value in every row"):
        TGGMRegressor(**TINY).fit(houses[["area"]], np.ones(len(houses)))


@pytest.mark.parametrize("dtype", ["boolean", "Int64"])
def test_nullable_labels_keep_their_type(houses, dtype):
    label = (houses["price"] > 300).astype(dtype)
    classes = TGGMClassifier(**TINY).fit(houses[NAMES], label).classes_
    assert classes.tolist() == [False, True]
    assert classes.dtype.kind == {"boolean": "b", "Int64": "i"}[dtype]


@pytest.mark.parametrize("words", [True, False])
def test_bad_targets_of_tables(houses, words):
    X = houses[NAMES] if words else np.ones((len(houses), 2))
    with pytest.raises(ValueError, match=r"`y` has '.*', which is not a number; .* TGGMClassifier"):
        TGGMRegressor(**TINY).fit(X, houses["heating"].fillna("none"))
    with pytest.raises(TypeError, match=re.escape("fit(df.drop(columns='price'), df['price'])")):
        TGGMRegressor(**TINY).fit(X, "price")
    with pytest.raises(ValueError, match=r"`y` holds dates or durations .*; pass numbers, such as days"):
        TGGMRegressor().fit(X, pd.Series(pd.date_range("2020-01-01", periods=len(X))))


@pytest.mark.parametrize("name", ["kind", "area"])
def test_a_classifier_takes_a_data_frame(houses, tmp_path, name):
    label = pd.Series(np.where(houses["price"] > 300, "dear", "cheap"), name=name)
    model = TGGMClassifier(**TINY).fit(houses[NAMES], label)
    assert model.classes_.tolist() == ["cheap", "dear"]
    p = model.predict_proba(houses[NAMES[::-1]])
    np.testing.assert_array_equal(p, model.predict_proba(houses[NAMES]))
    tggm.save(model, tmp_path / "m.tggm")
    again = tggm.load(tmp_path / "m.tggm")
    np.testing.assert_array_equal(again.predict_proba(houses[NAMES]), p)
    assert table_description(again).target.name == {"kind": "kind", "area": "area (target)"}[name]


def test_a_model_file_stores_the_table(model, houses, tmp_path):
    tggm.save(model, tmp_path / "m.tggm")
    again = tggm.load(tmp_path / "m.tggm")
    np.testing.assert_array_equal(again.predict(houses), model.predict(houses))
    assert again.feature_names_in_.tolist() == NAMES
    assert again.table_.columns_ == model.table_.columns_
    tggm.save(again, tmp_path / "again.tggm")
    assert (tmp_path / "again.tggm").read_bytes() == (tmp_path / "m.tggm").read_bytes()


def test_gaps_in_arrays():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(90, 3))
    y = X[:, 0] + 0.1 * rng.normal(size=90)
    X[::4, 1] = np.nan
    model = TGGMRegressor(**TINY).fit(X, y)
    assert (model.n_features_in_, model.fitted_.scales.x.shift.shape) == (3, (4,))
    assert np.isfinite(model.predict(X)).all()
    model = TGGMRegressor(**TINY).fit(X[:, [0, 2]], y)
    assert model.table_ is None
    expected = model.predict(np.column_stack([X[:5, 0], np.full(5, X[:, 2].mean())]))
    with pytest.warns(TableWarning, match=r"columns without any in training \(x1\)") as warned:
        got = model.predict(np.column_stack([X[:5, 0], np.full(5, np.nan)]))
    assert warned[0].filename == __file__
    np.testing.assert_allclose(got, expected, atol=0.1)
    with pytest.raises(ValueError, match="infinity"):
        model.predict(np.full((1, 2), np.inf))


def test_a_model_of_numbers_rejects_words():
    X = np.arange(40.0).reshape(20, 2)
    model = TGGMRegressor(**TINY).fit(X, X[:, 0] ** 2)
    with pytest.raises(TableError, match="`X` has 'a' in row 1 of column 'x1', which should hold numbers"):
        model.predict([[1, "a"]])
    with pytest.raises(TableError, match="`X` has dates in column 'x0'"):
        model.predict(np.array([["2020-01-01", "2020-01-02"]], dtype="datetime64[D]"))
    with pytest.raises(ValueError, match="X has 1 features, but TGGMRegressor is expecting 2"):
        model.predict(pd.DataFrame({"a": [1.0]}))
    np.testing.assert_allclose(model.predict(pd.DataFrame(X)), model.predict(X))


def test_target_encoding_ignores_missing_targets(rng):
    """Two outputs are equal, and one has missing targets."""
    fare, word = rng.integers(0, 60, (2, 2000))
    y = 10 + rng.normal(size=60)[fare] + rng.normal(size=60)[word]
    Y = np.column_stack([y, np.where(rng.random(2000) < 0.2, np.nan, y)])
    frame = pd.DataFrame({"fare": fare, "word": [f"w{k}" for k in word]})
    model = TGGMRegressor(**TINY)
    data = read_numbers(model, frame, Y, None, None, None, settings_of(model), rng)
    names = data.columns.encoder.get_feature_names_out().tolist()
    for column in ("fare", "word"):
        one, two = (data.X[:, names.index(f"{column}: mean target {k}")] for k in (0, 1))
        np.testing.assert_allclose(two, one, atol=0.5)


def test_columns_of_arrays_are_chosen_by_position(model, houses, tmp_path):
    """The garden is a number; the stored model keeps the choice."""
    X = np.column_stack([houses["area"].fillna(99), houses["garden"] == "yes", np.arange(90) % 5])
    found = clone(model).set_params(ignore=[2], categorical=[1]).fit(X, houses["price"])
    assert found.table_.get_feature_names_out().tolist() == ["x0", "x1 = 0", "x1 = 1"]
    tggm.save(found, tmp_path / "m.tggm")
    again = tggm.load(tmp_path / "m.tggm")
    assert (again.ignore, again.categorical, again.dates) == ((2,), (1,), ())
    np.testing.assert_array_equal(again.predict(X), found.predict(X))
    with pytest.raises(ValueError, match="`ignore` must be empty for a stream; leave its columns out"):
        found.fit(from_arrays(X, houses["price"]))


@pytest.mark.parametrize("kind", [TGGMRegressor, TGGMClassifier])
def test_the_encoder_ignores_rows_of_weight_0(houses, kind):
    y = houses["price"] if kind is TGGMRegressor else houses["price"] > 300
    counts = np.arange(len(houses)) % 10 > 0
    spoiled = houses[NAMES].copy()
    spoiled.loc[~counts, ["area", "garden"]] = [1e9, "nonsense"]
    model = kind(**{**TINY, "max_epochs": 1}).fit(spoiled, y, sample_weight=counts.astype(float))
    other = TableTransformer(task=kind.task).fit(houses[NAMES][counts], y[counts])
    assert model.table_.columns_ == other.columns_
