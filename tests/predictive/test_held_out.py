"""What all members would have said, from those that held a row out."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from tests.predictive.held_out_rows import Ensemble
from tggm.predictive.held_out import HeldOut


@pytest.mark.parametrize("k", [1, 2, 3, 10])
@pytest.mark.parametrize("D", [0.0, 0.5, 1.0])
def test_errors_lose_what_averaging_all_takes_off(k, D):
    """Half of it where no row is held out twice; members that saw a row lean to its target then."""
    N = 20_000
    rows = Ensemble(0, D=D).held_out(N, k, lean=0.4 if k > 1 else 0.0).pooled()
    error = (rows.y - rows.members.mean()) / np.sqrt(rows.members.member_moments()[1][0])
    want = 1 + D / k - (1.0 if k > 1 else 0.5) * D * (1 / k - 1 / 10)
    assert_allclose((error**2).mean(), want, atol=5 * want * np.sqrt(2 / N))  # five standard errors


@pytest.mark.parametrize("k", [2, 3, 9, 10])
def test_members_scatter_as_on_new_rows(k):
    """Those that saw a row lean to its target and to each other; D is told by those that did not."""
    N = 20_000
    held = Ensemble(1, D=0.5).held_out(N, k, lean=0.8)
    mean, var = held.pooled().members.member_moments()
    scatter = mean.var(0, ddof=1) / var[0]
    # a variance of k Gaussians, averaged over rows: five standard errors
    assert_allclose(scatter.mean(), 0.5, atol=5 * 0.5 * np.sqrt(2 / (k - 1) / N))


@pytest.mark.parametrize("D", [1e-4, 1.0])
def test_two_of_three_members_tell_how_far_they_differ(D):
    """Rows held out by one have their mean; nobody is left to ask about the others."""
    N = 4000
    held = Ensemble(3, K=3, D=D).held_out(N, k=2, lean=0.8)
    once = np.arange(N) % 2 == 0
    held.there[:, once] = np.arange(3)[:, None] == 0
    mean, var = held.pooled().members.member_moments()
    scatter = mean.var(0, ddof=1) / var[0]
    # each row's variance of two Gaussians has a relative standard error of √2
    for rows in (once, ~once):
        assert_allclose(scatter[rows].mean(), D, rtol=5 * np.sqrt(2 / (N / 2)))


@pytest.mark.parametrize("k", [2, 5])
def test_disagreement_of_those_that_know_a_target_does_not_foretell_its_error(k):
    """Each leans to the target by another share: they differ most where it is odd, and new rows will not."""
    N = 20_000
    ensemble = Ensemble(2, D=0.3)
    held = ensemble.held_out(N, k, lean=0.0)
    share = ensemble.rng.uniform(0, 0.6, held.mean.shape)
    held = held._replace(mean=np.where(held.there, held.mean, held.mean + share * (held.y - held.mean)))
    centre = np.where(held.there, held.mean, 0.0).sum(0) / k
    square = (held.y - centre) ** 2 / held.var[0]
    seen = np.where(held.there, np.nan, held.mean)
    leaks = np.corrcoef(square, np.nanvar(seen, axis=0) / held.var[0])[0, 1]
    mean, var = held.pooled().members.member_moments()
    left = np.corrcoef(square, mean.var(0, ddof=1) / var[0])[0, 1]
    assert leaks > 0.2
    assert abs(left) < 0.1 * leaks + 5 / np.sqrt(N)


def test_members_scatter_as_they_do_where_no_row_is_held_out_twice():
    held = Ensemble(1, D=0.5).held_out(100, k=1)
    mean, _ = held.pooled().members.member_moments()
    assert_allclose(mean - mean.mean(0), held.mean - held.mean.mean(0), atol=1e-12)


def test_the_mean_and_the_width_come_from_members_that_had_not_seen_the_row():
    there = np.array([[True], [True], [False], [False]])
    held = HeldOut(
        np.array([[1.0], [2.0], [9.0], [9.5]]),
        np.array([[1.0], [4.0], [1e-4], [1e-4]]),
        there,
        np.array([9.0]),
        np.ones(1),
    )
    rows = held.pooled()
    assert_allclose(rows.members.mean(), 1.5)
    var = rows.members.member_moments()[1]
    assert_allclose(var.mean(0), 2.5)


def test_errors_grow_by_what_choosing_the_epoch_took_off():
    held = Ensemble(0).held_out(50)
    plain, larger = held.pooled(), held._replace(optimism=1.2).usable(1000).pooled()
    assert_allclose((larger.y - larger.members.mean()) ** 2, 1.2 * (plain.y - plain.members.mean()) ** 2)


def test_rows_that_say_nothing_are_left_out():
    held = Ensemble(0).held_out(50)
    held.there[:, :10] = False
    held.weight[10:20] = 0
    held.y[20] = np.nan
    held.mean[3, 21] = np.inf
    assert len(held.usable(1000).y) == 28
    some = held.usable(7)
    assert len(some.y) == 7
    assert some.y[0] == held.y[22]
    assert some.y[-1] == held.y[-1]


def test_weights_count_as_rows_of_equal_weight():
    held = Ensemble(0).held_out(40)
    held.weight[:20] = 3.0
    assert_allclose(held.pooled().n_effective, (60 + 20) ** 2 / (9 * 20 + 20))
    assert_allclose(held._replace(weight=7 * held.weight).pooled().weight, held.pooled().weight)


def test_one_member_has_no_scatter():
    rows = Ensemble(0, K=1).held_out(30, k=1).pooled()
    assert rows.members.member_moments()[0].shape == (1, 30)
    assert np.all(np.isfinite(rows.y))
