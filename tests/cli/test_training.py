"""What tggm fit decides by itself: which rows are held out, and the settings for so many."""

import numpy as np
import pytest

from tggm.cli.files import CommandError
from tggm.cli.progress import Progress
from tggm.cli.training import MOST_HELD_OUT, FitOptions, build_estimator, rare_classes, split
from tggm.tables import Target
from tggm.training.loop import Trace


def test_held_out_rows_are_a_random_part():
    y = np.arange(100.0)
    train, test = split(y, 0.2, 0, stratified=False)
    assert sorted([*train, *test]) == list(range(100))
    assert len(test) == 20
    assert not np.array_equal(test, split(y, 0.2, 1, stratified=False)[1])
    assert np.array_equal(test, split(y, 0.2, 0, stratified=False)[1])
    assert len(split(y, 0.0, 0, stratified=False)[1]) == 0
    assert len(split(np.zeros(200_000), 0.2, 0, stratified=False)[1]) == MOST_HELD_OUT


def test_each_class_is_held_out_by_its_share_and_learned_from():
    y = np.repeat(["a", "b", "c", "d"], [50, 10, 2, 1])
    train, test = split(y, 0.4, 0, stratified=True)
    assert sorted([*train, *test]) == list(range(63))
    assert [int(np.sum(y[test] == c)) for c in "abcd"] == [20, 4, 1, 0]
    train, _ = split(y, 0.9, 0, stratified=True)
    assert set(y[train]) == set("abcd")


@pytest.mark.parametrize("size", [-0.1, 1.0, 20.0, np.nan])
def test_a_part_is_a_part(size):
    with pytest.raises(CommandError, match="--test-size must be at least 0 and less than 1"):
        FitOptions("y", test_size=size)


def test_settings_by_the_number_of_rows_unless_asked_for():
    small, large = (build_estimator(FitOptions("y"), False, n) for n in (500, 100_000))
    assert (small.hidden, small.n_members, large.hidden, large.n_members) == ("auto", 10, "auto", 5)
    assert build_estimator(FitOptions("y"), True, 500).n_members == 5
    options = FitOptions("y", hidden=(7, 5), members=2, epochs=9, seed=3)
    for is_class in (True, False):
        model = build_estimator(options, is_class, 500)
        got = (model.hidden, model.n_members, model.max_epochs, model.random_state)
        assert got == ((7, 5), 2, 9, 3)


def test_classes_of_too_few_rows_are_named():
    kind = Target("kind", "classification")
    assert rare_classes(np.repeat(["a", "b"], [9, 5]), kind) == []
    (note,) = rare_classes(np.repeat(["a", "b"], [9, 4]), kind)
    assert note == "kind: classes of fewer than 5 rows are hard to learn ('b')"


def test_a_first_look_is_shorter():
    whole, quick = (build_estimator(FitOptions("y", quick=q), False, 10_000) for q in (False, True))
    assert quick.n_members == 3 < whole.n_members
    assert (whole.max_epochs, quick.max_epochs) == ("auto", 102)  # 2,000 steps of 512 rows
    assert build_estimator(FitOptions("y", quick=True, epochs=7, members=2), False, 10_000).max_epochs == 7


def test_a_long_fit_says_at_once_how_to_shorten_it(monkeypatch, capsys):
    now = [0.0]
    monkeypatch.setattr("tggm.cli.progress.time.monotonic", lambda: now[0])
    trace = Trace(np.zeros((1, 1)), np.zeros((1, 1)))
    with Progress(quiet=False) as progress:
        progress.planned(601)
        for done, at in ((1, 5.0), (3, 5.4), (7, 6.2)):  # the first epoch compiles
            now[0] = at
            progress.progressed(done, trace)
        now[0] = 20.0
        progress.progressed(76, trace)
    first, second = capsys.readouterr().err.splitlines()
    assert (
        first == "  2 min 00 s at most; shorter with --quick or --epochs; Ctrl-C keeps the best model so far"
    )
    assert second.startswith(
        "epoch 76/601  log-likelihood 0.000, 0.000 in validation  at most 1 min 45 s left"
    )
