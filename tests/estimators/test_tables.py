"""Tables as they come in both estimators: in any order, with gaps and words, and the same as `tggm fit`."""

import re

import numpy as np
import pandas as pd
import pytest

import tggm
from tests.cli.commands import rows, write
from tggm import TableWarning, TGGMClassifier, TGGMRegressor
from tggm.cli.app import run
from tggm.tables import TableError, read_table

TINY = {"hidden": 4, "n_members": 2, "max_epochs": 10, "random_state": 0}
NAMES = ["area", "garden", "heating"]


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """A file with numbers, words and gaps."""
    return write(tmp_path_factory.mktemp("houses") / "houses.csv", rows(90, 0))


@pytest.fixture(scope="module")
def houses(path):
    return pd.read_csv(path)


@pytest.fixture(scope="module")
def model(houses):
    return TGGMRegressor(**TINY).fit(houses[NAMES], houses["price"])


def test_a_regressor_takes_a_data_frame(model, houses):
    assert model.feature_names_in_.tolist() == NAMES
    assert model.n_features_in_ == 3
    assert model.table_.get_feature_names_out()[0] == "area"
    assert np.corrcoef(model.predict(houses[NAMES]), houses["price"])[0, 1] > 0.9


def test_columns_may_come_in_any_order_with_others_between(model, houses):
    expected = model.predict(houses[NAMES])
    shuffled = houses.assign(extra=1)[["price", "heating", "extra", "area", "garden"]]
    np.testing.assert_array_equal(model.predict(shuffled), expected)
    for ask in (model.predict_interval, model.predict_dist):
        ask(shuffled)


def test_a_missing_column_is_named(model, houses):
    with pytest.raises(TableError, match="`X` has no column 'garden'; "):
        model.predict(houses[["area", "heating"]])
    with pytest.raises(TableError, match="'big' in row 1 of column 'area', which should hold numbers"):
        model.predict(pd.DataFrame({"area": ["big"], "garden": ["no"], "heating": ["gas"]}))


@pytest.mark.parametrize(
    ("change", "kind", "sentence"),
    [
        (lambda X: X[:0], ValueError, "`X` has no rows; pass one at least."),
        (lambda X: X[["heating"]][:0], ValueError, "`X` has no rows; pass one at least."),
        (lambda X: X[[]], TableError, "it has no columns."),
        (lambda X: pd.concat([X, X], axis=1), TableError, "`X` has two columns of one name"),
        (lambda X: "new.csv", TypeError, "got 'new.csv'. Read it: pandas.read_csv('new.csv')."),
        (lambda X: X.to_dict("list"), TypeError, "got a dict. Pass pandas.DataFrame(X)."),
        (lambda X: X.iloc[0], ValueError, "X.to_frame().T if it is a row."),
    ],
    ids=["rows", "words", "columns", "twice", "name", "dict", "row"],
)
def test_what_is_no_table_is_said(model, houses, change, kind, sentence):
    with pytest.raises(kind, match=re.escape(sentence)):
        model.predict(change(houses[NAMES]))


def test_a_column_in_use_is_no_guess_for_another(model, houses):
    X = houses[NAMES].rename(columns={"heating": "haeting"})
    with pytest.raises(TableError, match="no column 'heating'; did you mean 'haeting'"):
        model.predict(X)
    with pytest.raises(TableError, match="no column 'area'; it has 'garden', 'heating'"):
        model.predict(houses[["garden", "heating"]])


@pytest.mark.parametrize("words", [True, False])
def test_targets_that_are_no_numbers_are_named(houses, words):
    X = houses[NAMES] if words else np.ones((len(houses), 2))
    with pytest.raises(ValueError, match=r"`y` has '.*', which is not a number; .* TGGMClassifier"):
        TGGMRegressor(**TINY).fit(X, houses["heating"].fillna("none"))
    with pytest.raises(TypeError, match=re.escape("fit(df.drop(columns='price'), df['price'])")):
        TGGMRegressor(**TINY).fit(X, "price")


def test_targets_that_are_dates_are_refused(houses):
    X = houses[NAMES]
    y = pd.Series(pd.date_range("2020-01-01", periods=len(X)), index=X.index)
    with pytest.raises(ValueError, match=r"`y` holds dates or durations .*; pass numbers, such as days"):
        TGGMRegressor().fit(X, y)


def test_a_classifier_takes_a_data_frame(houses, tmp_path):
    label = pd.Series(np.where(houses["price"] > 300, "dear", "cheap"), name="kind")
    model = TGGMClassifier(**TINY).fit(houses[NAMES], label)
    assert model.classes_.tolist() == ["cheap", "dear"]
    p = model.predict_proba(houses[NAMES[::-1]])
    np.testing.assert_array_equal(p, model.predict_proba(houses[NAMES]))
    tggm.save(model, tmp_path / "m.tggm")
    again = tggm.load(tmp_path / "m.tggm")
    np.testing.assert_array_equal(again.predict_proba(houses[NAMES]), p)
    assert again.table_preparation().target.name == "kind"


def test_save_and_load_keep_the_table(model, houses, tmp_path):
    tggm.save(model, tmp_path / "m.tggm")
    again = tggm.load(tmp_path / "m.tggm")
    np.testing.assert_array_equal(again.predict(houses), model.predict(houses))
    assert again.feature_names_in_.tolist() == NAMES
    assert again.table_.columns_ == model.table_.columns_
    tggm.save(again, tmp_path / "again.tggm")
    assert (tmp_path / "again.tggm").read_bytes() == (tmp_path / "m.tggm").read_bytes()


def test_names_and_numbers_of_targets_in_files(houses, tmp_path, capsys):
    frame = houses[NAMES].rename(columns={"area": "y"})
    for target in (houses["price"].to_numpy(), np.column_stack([houses["price"], houses["price"] ** 2])):
        model = TGGMRegressor(**TINY).fit(frame, target)
        tggm.save(model, tmp_path / "m.tggm")
        again = tggm.load(tmp_path / "m.tggm")
        np.testing.assert_array_equal(again.predict(frame), model.predict(frame))
        assert again.table_preparation().target.name == "y (target)"
    assert run(["info", str(tmp_path / "m.tggm")]) == 2
    assert "predicts several columns at once; use it in Python" in capsys.readouterr().err


def test_the_command_line_makes_the_same_model(path, model, houses, tmp_path, capsys):
    file = str(tmp_path / "m.tggm")
    words = ["--hidden", "4", "--members", "2", "--epochs", "10", "--test-size", "0", "--quiet"]
    assert run(["fit", path, "-t", "price", "-o", file, *words]) == 0
    other = tggm.load(file)
    for name, array in model.fitted_.model.arrays().items():
        np.testing.assert_array_equal(other.fitted_.model.arrays()[name], array)
    np.testing.assert_array_equal(other.predict(houses[["price", *NAMES[::-1]]]), model.predict(houses))
    # and what was saved from Python is predicted with on the command line
    tggm.save(model, tmp_path / "python.tggm")
    out = []
    for name in (file, str(tmp_path / "python.tggm")):
        capsys.readouterr()
        assert run(["predict", name, path, "--quiet"]) == 0
        out.append(capsys.readouterr().out)
    assert out[0] == out[1]
    got = np.array([float(line.split(",")[0]) for line in out[0].splitlines()[1:]])
    np.testing.assert_allclose(got, model.predict(houses), rtol=1e-9)


def test_a_model_takes_tables_of_files(model, path, houses):
    np.testing.assert_array_equal(model.predict(read_table(path)), model.predict(houses))


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
    with pytest.warns(TableWarning, match=r"gaps in columns where the model saw none \(x1\)") as warned:
        got = model.predict(np.column_stack([X[:5, 0], np.full(5, np.nan)]))
    assert warned[0].filename == __file__  # the line that asked, not one of the package
    np.testing.assert_allclose(got, expected, rtol=1e-3)
    with pytest.raises(ValueError, match="infinity"):
        model.predict(np.full((1, 2), np.inf))


def test_a_model_of_numbers_names_the_words_it_is_given():
    X = np.arange(40.0).reshape(20, 2)
    model = TGGMRegressor(**TINY).fit(X, X[:, 0] ** 2)
    with pytest.raises(TableError, match="`X` has 'a' in row 1 of column 'x1', which should hold numbers"):
        model.predict([[1, "a"]])
    with pytest.raises(TableError, match="`X` has dates in column 'x0'"):
        model.predict(np.array([["2020-01-01", "2020-01-02"]], dtype="datetime64[D]"))
    with pytest.raises(ValueError, match="X has 1 features, but TGGMRegressor is expecting 2"):
        model.predict(pd.DataFrame({"a": [1.0]}))
    np.testing.assert_allclose(model.predict(pd.DataFrame(X)), model.predict(X))


def test_arrays_of_words(houses):
    X = houses[NAMES].to_numpy(dtype=object)
    model = TGGMRegressor(**TINY).fit(X, houses["price"])
    assert not hasattr(model, "feature_names_in_")
    np.testing.assert_allclose(model.predict(X[:3].tolist()), model.predict(X)[:3], rtol=1e-6)


def test_partial_fit_goes_on_with_its_table(houses):
    X = houses[NAMES].assign(street=[f"street {k % 60}" for k in range(90)])
    model = TGGMRegressor(**TINY).partial_fit(X, houses["price"])
    before = model.table_
    assert before.columns_[-1].outputs == ()  # rows that come again would see their own targets
    model.partial_fit(X[[*NAMES[::-1], "street"]][:40], houses["price"][:40])
    assert model.table_ is before
    assert np.isfinite(model.predict(X)).all()


def test_missing_targets_are_no_zeros_to_columns(rng):
    """Of two equal outputs, one with gaps."""
    fare, word = rng.integers(0, 60, (2, 2000))
    y = 10 + rng.normal(size=60)[fare] + rng.normal(size=60)[word]
    Y = np.column_stack([y, np.where(rng.random(2000) < 0.2, np.nan, y)])
    model = TGGMRegressor(**TINY)
    begun = model.begin(pd.DataFrame({"fare": fare, "word": [f"w{k}" for k in word]}), Y)
    names = model.table_.get_feature_names_out().tolist()
    for column in ("fare", "word"):
        one, two = (begun.source.X[:, names.index(f"{column}: mean target {k}")] for k in (0, 1))
        np.testing.assert_allclose(two, one, atol=0.5)


@pytest.mark.parametrize("kind", [TGGMRegressor, TGGMClassifier])
def test_nothing_is_learned_from_rows_of_weight_0(houses, kind):
    y = houses["price"] if kind is TGGMRegressor else houses["price"] > 300
    counts = np.arange(len(houses)) % 10 > 0
    spoiled = houses[NAMES].copy()
    spoiled.loc[~counts, ["area", "garden"]] = [1e9, "nonsense"]
    some = kind(**TINY).fit(spoiled, y, sample_weight=counts.astype(float))
    assert some.table_.columns_ == kind(**TINY).fit(houses[NAMES][counts], y[counts]).table_.columns_


def test_many_splits_at_once_refuse_gaps():
    X = np.array([[1.0], [np.nan], [2.0]])
    with pytest.raises(ValueError, match="`X` has gaps; fill them first"):
        tggm.fit_together([TGGMRegressor.one_layer(**TINY)], X, X[:, 0], [[0, 2]])
