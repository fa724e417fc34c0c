"""Groups and splitters: which rows members hold out, and members that are trained again on all rows."""

import numpy as np
import pandas as pd
import pytest
import sklearn
from numpy.testing import assert_array_equal
from sklearn.model_selection import GroupKFold, KFold, PredefinedSplit, TimeSeriesSplit, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from tests.estimators.small import SMALL, settings_of, small_classifier, small_regressor
from tggm import TGGMRegressor, load, save
from tggm.data import from_arrays
from tggm.estimators import from_state, to_state
from tggm.estimators._data import read_labels, read_numbers
from tggm.estimators._holdout import Holdout, choose_calibration_rows, read_holdout
from tggm.predictive.conformal import fewest_rows
from tggm.predictive.member_moments import held_out_predictions
from tggm.training.rows import held_out_groups

GROUPS = np.repeat(np.arange(12), 5)
X = np.random.default_rng(0).standard_normal((60, 3))
Y = X[:, 0] + np.repeat(np.random.default_rng(1).standard_normal(12), 5)
QUICK = {**SMALL, "n_members": 4, "max_epochs": 5}


def held_by(estimator, y=Y, groups=GROUPS, weight=None):
    """Return the pairs (members, rows that they hold out) of a fit, and its block."""
    settings, rng = settings_of(estimator), np.random.default_rng(0)
    rows = (X, y, weight, groups) if estimator.task == "classification" else (X, y, weight, None, groups)
    read = read_labels if estimator.task == "classification" else read_numbers
    blocks = read(estimator, *rows, settings, rng).blocks(settings, np.inf, rng)
    return held_out_groups(blocks.only.members), blocks


@pytest.mark.parametrize("cv", [0.1, 0.3, 4, GroupKFold(3)])
@pytest.mark.parametrize("make", [small_regressor, small_classifier])
def test_whole_groups_are_held_out(cv, make):
    y = Y if make is small_regressor else Y > 0
    found, blocks = held_by(make(n_members=8, cv=cv), y)
    assert len(found) >= 2
    assert not blocks.partial
    for members, rows in found:
        assert len(members) >= 2
        assert np.isin(GROUPS, GROUPS[rows]).sum() == len(rows) < 60


def test_groups_may_be_words_dates_or_objects():
    expected = [rows.tolist() for _, rows in held_by(small_regressor(n_members=4))[0]]
    for groups in (
        [f"g{k:02d}" for k in GROUPS], pd.Series(pd.Timestamp("2024-01-01") + pd.to_timedelta(GROUPS, "D")),
        np.array([(1, "a", 2.5)[k % 3] if k < 3 else f"x{k}" for k in GROUPS], object),
    ):  # fmt: skip
        found, _ = held_by(small_regressor(n_members=4), groups=groups)
        assert [rows.tolist() for _, rows in found] == expected


def test_folds_of_a_splitter_refer_to_all_rows_of_fit():
    """Rows without a weight are left out after the split; rows that are never held out stay in training."""
    fold = np.repeat([-1, 0, 1], 20)
    weight = np.ones(60)
    weight[::2] = 0
    for cv in (PredefinedSplit(fold), list(PredefinedSplit(fold).split())):
        found, blocks = held_by(small_regressor(n_members=5, cv=cv), groups=None, weight=weight)
        assert not blocks.partial
        assert [members for members, _ in found] == [[0, 2, 4], [1, 3]]
        for (_, rows), k in zip(found, (0, 1), strict=True):
            assert_array_equal(np.arange(1, 60, 2)[rows], np.flatnonzero((fold == k) & (weight > 0)))


def test_too_few_members_use_the_last_folds():
    message = r"5 folds, of which n_members=5 uses the last 2: .* n_members=10 uses"
    with pytest.warns(UserWarning, match=message):
        found, _ = held_by(small_regressor(n_members=5, cv=KFold(5)), groups=None)
    assert [rows.tolist() for _, rows in found] == [list(range(36, 48)), list(range(48, 60))]


@pytest.mark.parametrize(
    ("cv", "groups", "message"),
    [
        (0.1, np.zeros(60), "`groups` must have at least two different values; got only 0.0"),
        (0.1, GROUPS[1:], r"`groups` must have one value for each of the 60 rows; got \(59,\)"),
        (0.1, "store", "got the text 'store': pass the column"),
        (0.1, [*GROUPS[:-1], None], "`groups` has no value in row 60"),
        (20, GROUPS, "`cv` is 20, which needs at least 20 groups; there are 12"),
        (70, None, "`cv` is 70, which needs at least 70 rows; there are 60"),
        (GroupKFold(3), None, "'groups' parameter should not be None"),
        ([], None, "`cv` has no folds"),
        (0.99, None, "`cv` must hold out at most half of the rows"),
        ([(np.arange(40), np.arange(30, 60))], None, "a fold of .* has 40 and 30, and 10 are in both"),
        (None, None, "`cv` is None, because a model file holds no splitter"),
    ],
)
def test_bad_folds(cv, groups, message):
    with pytest.raises(ValueError, match=message):
        TGGMRegressor(**QUICK, cv=cv).fit(X, Y, groups=groups)


def test_a_stream_takes_a_fraction_only():
    for cv in (5, KFold(5)):
        with pytest.raises(ValueError, match="`cv` must be a fraction for a stream"):
            TGGMRegressor(**QUICK, cv=cv).fit(from_arrays(X, Y))


def split_in_two():
    """Return rows in which only the second half, which the folds hold out, shows the slope of column 1."""
    rng = np.random.default_rng(2)
    X = rng.standard_normal((200, 3))
    X[:100, 1] = 0
    y = X[:, 0] + 2 * X[:, 1] + 0.1 * rng.standard_normal(200)
    return X, y, [(np.arange(50), np.arange(100, 150)), (np.arange(50), np.arange(150, 200))]


def test_members_are_trained_again_on_all_rows_if_folds_leave_rows_out():
    X, y, folds = split_in_two()
    settings = {**QUICK, "max_epochs": 60, "learning_rate": 0.03, "linear": True}
    again = TGGMRegressor(**settings, cv=folds).fit(X, y)
    assert np.corrcoef(again.predict(X[100:]), y[100:])[0, 1] > 0.95
    assert again.history_["held_out"].shape == (4, again.n_iter_)  # of the folds
    assert again.converged_
    with pytest.raises(AttributeError, match="need held-out rows"):  # none for these members
        _ = again.feature_importances_
    held = np.concatenate([np.arange(100), [101]])
    complete = TGGMRegressor(**settings, cv=[(np.setdiff1d(np.arange(200), held[-1:]), held[-1:])])
    assert len(complete.fit(X, y).feature_importances_) == 3


def test_folds_with_small_training_parts_do_not_calibrate():
    model = small_regressor(n_members=4, cv=[(np.arange(10), [10, 11]), (np.arange(40), [40, 41])])
    _, blocks = held_by(model)
    drawn = model.fit(X, Y, groups=GROUPS).fitted_.model
    (held,) = held_out_predictions(drawn, blocks.only, np.arange(60), 60, "float32", drawn, None)
    assert_array_equal(np.flatnonzero(held.usable_mask), [40, 41])
    (held,) = held_out_predictions(drawn, blocks.only, np.arange(60), 60, "float32", None, None)
    assert_array_equal(np.flatnonzero(held.usable_mask), [10, 11, 40, 41])


def test_a_classifier_is_trained_again_on_all_rows():
    X, y, folds = split_in_two()
    settings = {"max_epochs": 60, "n_members": 4, "cv": folds, "linear": True}
    model = small_classifier(**settings, time_budget=100.0).fit(X, y > 0)
    assert model.score(X[100:], y[100:] > 0) > 0.85


def test_with_a_time_series_the_width_is_that_of_later_rows():
    """The level of the series wanders; a random hold-out compares rows with neighbours in time."""
    rng = np.random.default_rng(0)
    n = 300
    X = np.column_stack([rng.standard_normal(n), np.arange(n) / n])
    y = X[:, 0] + np.cumsum(0.3 * rng.standard_normal(n)) + 0.1 * rng.standard_normal(n)
    settings = {"hidden": (16,), "n_members": 6, "max_epochs": 30, "batch_size": 32, "random_state": 0}
    settings["neighbors"] = False  # rows of training are their own neighbours
    widths = {}
    for cv in (0.1, TimeSeriesSplit(3)):
        model = TGGMRegressor(**settings, cv=cv).fit(X, y)
        widths[str(cv)[:3]] = model.predict(X[-20:], return_std=True)[1].mean()
    assert widths["Tim"] > 1.5 * widths["0.1"]


def test_with_groups_the_width_is_that_for_new_groups():
    """Columns and level are those of the group; one fit holds 10 to 20 groups out, so four are averaged."""
    group, inside = np.repeat(np.arange(500), 10), {"rows": [], "groups": []}
    for seed in range(4):
        rng = np.random.default_rng(seed)
        X = rng.standard_normal((500, 2))[group] + 0.1 * rng.standard_normal((5000, 2))
        y = X[:, 0] + rng.standard_normal(500)[group] + 0.2 * rng.standard_normal(5000)
        for name, given in (("rows", None), ("groups", group[:1000]))[seed > 0 :]:
            model = TGGMRegressor(**QUICK | {"max_epochs": 40, "hidden": (10,), "random_state": seed})
            low, high = model.fit(X[:1000], y[:1000], groups=given).predict_interval(X[1000:], 0.9)
            inside[name].append(np.mean((low <= y[1000:]) & (y[1000:] <= high)))
    assert inside["rows"][0] < 0.8
    assert 0.85 <= np.mean(inside["groups"]) <= 0.95


def test_a_guarantee_sets_whole_groups_aside():
    rng = np.random.default_rng(0)
    groups, usable = np.repeat(np.arange(40), 5), np.ones(200, bool)
    usable[::7] = False
    holdout, kept, chosen = read_holdout((None, None, groups), 0.1, np.ones(200, bool), usable, 0.9, rng)
    aside = groups[~kept]
    assert len(np.unique(aside)) == 9 == chosen.sum()
    assert np.isin(groups, aside).sum() == len(aside) == 45
    assert (usable & ~kept)[chosen].all()
    assert len(np.unique(groups[chosen])) == 9
    assert len(holdout.groups) == 155
    message = "`guarantee` is 0.9, for which 9 groups are set aside; at least 18 groups .* there are 12"
    with pytest.raises(ValueError, match=message):
        TGGMRegressor(**QUICK, guarantee=0.9).fit(X, Y, groups=GROUPS)
    with pytest.raises(ValueError, match="`guarantee` must be None with TimeSeriesSplit as `cv`"):
        TGGMRegressor(**QUICK, guarantee=0.5, cv=TimeSeriesSplit(2)).fit(X, Y)
    model = TGGMRegressor(**QUICK, guarantee=0.75).fit(X, Y, groups=GROUPS)
    assert np.isfinite(model.fitted_.guarantee).sum() == fewest_rows(0.75) == 3


def test_rows_of_new_groups_are_inside():
    """Groups of 1 to 20 rows share most of their error; the score is the size of the error."""
    rng, level, R, inside = np.random.default_rng(0), 0.8, 2000, 0
    for _ in range(R):
        groups = np.repeat(np.arange(31), rng.integers(1, 21, 31))
        error = np.abs(rng.standard_t(2, 31)[groups] + 0.1 * rng.standard_normal(len(groups)))
        old = groups < 30
        given = (None, None, groups[old])
        holdout, kept, _ = read_holdout(given, 0.1, np.ones(old.sum(), bool), old[old], None, rng)
        chosen, _ = choose_calibration_rows(kept, level, holdout, rng)
        scores = np.sort(error[old][chosen])
        inside += error[-1] <= scores[int(np.ceil((len(scores) + 1) * level - 1e-9)) - 1]
    exact = np.ceil(5 * level - 1e-9) / 5  # four groups are set aside
    assert abs(inside / R - exact) < 4 * np.sqrt(exact * (1 - exact) / R)


def test_groups_are_routed_through_cross_validation_and_pipelines():
    seen = []

    class Recorder(TGGMRegressor):
        def fit(self, X, y, sample_weight=None, *, groups=None):
            seen.append(groups)
            return super().fit(X, y, sample_weight, groups=groups)

    with sklearn.config_context(enable_metadata_routing=True):
        model = Recorder(**QUICK).set_fit_request(groups=True)
        for estimator in (model, make_pipeline(StandardScaler(), model)):
            seen.clear()
            found = cross_validate(estimator, X, Y, cv=GroupKFold(2), params={"groups": GROUPS})
            assert np.isfinite(found["test_score"]).all()
            assert len(seen) == 2
            assert not set(seen[0]) & set(seen[1])


def test_a_model_file_holds_no_splitter(tmp_path):
    for cv, stored in ((GroupKFold(2), None), (3, 3), (0.2, 0.2)):
        model = TGGMRegressor(**{**QUICK, "n_members": 6}, cv=cv).fit(X, Y, groups=GROUPS)
        save(model, tmp_path / "m.tggm")
        again = load(tmp_path / "m.tggm")
        assert again.cv == stored
        assert_array_equal(again.predict(X), model.predict(X))
    arrays, meta = to_state(model)
    for wrong in ([], True, "5"):
        changed = meta | {"settings": meta["settings"] | {"cv": wrong}}
        with pytest.raises(ValueError, match="`cv` of a model file must be a number or null"):
            from_state(TGGMRegressor, arrays, changed)


def test_columns_of_a_table_are_not_encoded_by_targets_of_their_group():
    """The word is the group, whose mean target would otherwise be an input."""
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(100), 4)
    table = pd.DataFrame({"a": rng.standard_normal(400), "store": [f"s{k}" for k in groups]})
    y = rng.standard_normal(100)[groups] + 0.1 * rng.standard_normal(400)
    settings, generator = settings_of(small_regressor()), np.random.default_rng(0)
    correlation = []
    for given in (None, groups):
        model = small_regressor()
        data = read_numbers(model, table, y, None, None, given, settings, generator)
        correlation.append(abs(np.corrcoef(data.X[:, 1], y)[0, 1]))
    assert correlation[0] > 0.9
    assert correlation[1] < 0.3


def test_half_of_the_rows_at_most_are_set_aside_for_a_guarantee():
    rng, fewest = np.random.default_rng(0), 9
    assert fewest_rows(0.9) == fewest
    chosen, _ = choose_calibration_rows(np.ones(2 * fewest, np.bool_), 0.9, Holdout(), rng)
    assert chosen.sum() == fewest
    with pytest.raises(ValueError, match=r"at least 18 rows .* needed, and there are 17"):
        choose_calibration_rows(np.ones(2 * fewest - 1, np.bool_), 0.9, Holdout(), rng)
