"""What all members would have said, from those that held a row out."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from tests.predictive.held_out_rows import Ensemble
from tggm.predictive.held_out import HeldOut


@pytest.mark.parametrize("k", [1, 2, 3, 10])
@pytest.mark.parametrize("D", [0.0, 0.5, 4.0])
def test_errors_become_those_of_the_pool_of_all(k, D):
    N = 20_000
    rows = Ensemble(0, D=D).held_out(N, k).pooled()
    error = (rows.y - rows.members.mean()) / np.sqrt(rows.members.member_moments()[1][0])
    # With k = 1 no two members that had not seen a row can be compared; those that had lean to it, so that D
    # is taken for (1 − 0.4)² D, and errors stay larger than they should
    want = 1 + D / 10 if k > 1 else 1 + D - 0.36 * D * 0.9
    # three standard errors of a mean square; D of a row is known from its ten members only, hence a twentieth
    assert_allclose((error**2).mean(), want, atol=3 * want * np.sqrt(2 / N) + 0.06 * D)


@pytest.mark.parametrize("k", [1, 3, 10])
def test_members_scatter_as_on_new_rows(k):
    ensemble = Ensemble(1, D=0.5)
    rows, (fresh, _) = ensemble.held_out(20_000, k).pooled(), ensemble.fresh(20_000)

    def disagreement(members):
        mean, var = members.member_moments()
        return (mean.var(0, ddof=1) / var[0]).mean()

    if k == 1:  # those that saw the rows lean towards them, and none shows by how much
        assert 0.1 < disagreement(rows.members) < disagreement(fresh)
    else:
        assert_allclose(disagreement(rows.members), disagreement(fresh), rtol=0.05)


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
    assert_allclose(np.exp(np.log(var).mean(0)), 2.0)


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


def test_rows_on_which_members_differ_wildly_do_not_speak_for_others():
    held = Ensemble(3, D=0.2).held_out(2000, k=2, lean=0.0)
    wild = np.arange(2000) % 20 == 0
    mean = np.where(wild & held.there, held.y + 30 * (held.mean - held.y), held.mean)

    def typical(held):
        return np.median(held.pooled().members.member_moments()[0].std(0))

    assert_allclose(typical(held._replace(mean=mean)), typical(held), rtol=0.3)  # means of squares: 7 times
