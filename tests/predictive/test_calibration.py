"""Calibration on ensembles of which the truth is known."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import kstest

from tests.cases import few
from tests.predictive.held_out_rows import Ensemble, student
from tggm.predictive import MomentPredictive
from tggm.predictive.calibration import Calibration, checked, factors_of, fitted, pooled
from tggm.predictive.held_out import HeldOut

FRESH = 5000
WITHOUT = Calibration("student", (1.0, 0.07, 0.0))  # what members disagree on does not count
STUDENT = ("student",)  # what members of several layers are pooled by

WRONG = {
    "four times too wide": {"width": 4.0},
    "too narrow": {"width": 0.3},
    "members disagree": {"D": 3.0},
    "heavy tails": {"noise": student},
    "wide with heavy tails": {"width": 4.0, "noise": student},
}


def gain(ensemble, calibration):
    members, y = ensemble.fresh(FRESH)
    each = pooled(calibration, members).logpdf(y) - members.logpdf(y)
    return each.mean(), each.std() / np.sqrt(FRESH)


@pytest.mark.parametrize("case", WRONG, ids=str)
@pytest.mark.parametrize("N", few([100, 2000], "100"))
def test_what_is_wrong_becomes_better(case, N):
    ensemble = Ensemble(0, **WRONG[case])
    mean, error = gain(ensemble, fitted(ensemble.held_out(N), kinds=STUDENT))
    assert mean > 3 * error


@pytest.mark.parametrize("k", few([1, 2, 3], "1", "2"))
@pytest.mark.parametrize("case", ["four times too wide", "wide with heavy tails"])
def test_uniform_afterwards(case, k):
    """Of the probability transforms of new rows; numbers from 5,000 rows are off by up to 1/√5,000 too."""
    ensemble = Ensemble(2, D=0.05, **WRONG[case])
    calibration = fitted(ensemble.held_out(5000, k), kinds=STUDENT)
    members, y = ensemble.fresh(1000)
    assert kstest(pooled(calibration, members).cdf(y), "uniform").pvalue > 0.01
    assert kstest(members.cdf(y), "uniform").pvalue < 1e-3


def test_width_follows_disagreement_where_errors_do():
    """Members of one width for all rows, whose errors are as large as their scatter: g is more than f."""
    rng = np.random.default_rng(0)

    def rows(N, k):
        s = np.exp(rng.standard_normal(N))
        mean, y = s * rng.standard_normal((10, N)), s * rng.standard_normal(N)
        there = np.argsort(rng.random((10, N)), axis=0) < k
        return HeldOut(mean, np.full((10, N), 0.5), there, y, np.ones(N))

    calibration = fitted(rows(1000, 2), kinds=STUDENT)
    f, g = factors_of(calibration)
    assert g**2 > 2 * f**2
    new = rows(FRESH, 10)
    laws = [pooled(pool, MomentPredictive(new.mean, new.var)) for pool in (calibration, WITHOUT)]
    each = laws[0].logpdf(new.y) - laws[1].logpdf(new.y)
    assert each.mean() > 5 * each.std() / np.sqrt(FRESH)
    # D of a row held out is rougher than that of a new one: tails come out a little too heavy
    assert abs(np.mean(np.abs(laws[0].cdf(new.y) - 0.5) < 0.25) - 0.5) < 0.08


def test_what_is_right_stays():
    ensemble = Ensemble(1, D=0.0)
    assert fitted(ensemble.held_out(1000, lean=0.0)) == Calibration("linear", ())


def test_the_map_of_a_cdf_needs_many_rows():
    ensemble = Ensemble(1, width=3.0)
    assert fitted(ensemble.held_out(150), kinds=["linear", "beta"]).kind == "linear"
    calibration = fitted(ensemble.held_out(1000), kinds=["linear", "beta"])
    assert calibration.kind == "beta"
    assert gain(ensemble, calibration)[0] > 0.3


def test_a_student_of_few_rows_has_the_tails_of_an_estimated_width():
    assert fitted(Ensemble(0, D=0.0).held_out(20), kinds=["student"]).numbers[2] >= 0.1


HARM = ["right", "heavy tails", "four times too wide", "members disagree"]


@pytest.mark.parametrize("case", few(HARM, "right", "heavy tails"))
def test_twenty_rows_do_little_harm(case):
    gains = []
    for seed in range(10):
        ensemble = Ensemble(seed, **WRONG.get(case, {}))
        gains.append(gain(ensemble, fitted(ensemble.held_out(20), kinds=STUDENT))[0])
    assert min(gains) > -0.2
    assert np.mean(gains) > -0.03


def test_light_tails_on_demand():
    held = Ensemble(0, noise=student).held_out(2000)
    assert fitted(held, kinds=["student"]).numbers[2] > 0.1
    assert fitted(held, kinds=["student"], light_tails=True).numbers[2] == 0


def test_heavy_tails_that_end():
    """Under a power of the target: as good as a Student, and better than a Gaussian."""
    ensemble = Ensemble(0, noise=student)
    held, (members, y) = ensemble.held_out(2000), ensemble.fresh(FRESH)
    ends, never_ends, light = (
        pooled(fitted(held, kinds=[kind], light_tails=light), members).logpdf(y).mean()
        for kind, light in (("scales", False), ("student", False), ("student", True))
    )
    assert ends > light + 0.02
    assert abs(ends - never_ends) < 0.01


def uniform(rng, size):
    return rng.uniform(-1.7, 1.7, size)


def skewed(rng, size):
    return rng.exponential(1.0, size) - 1.0


@pytest.mark.parametrize("noise", [uniform, skewed])
def test_many_rows_bend_the_law_of_errors_and_leave_the_mean(noise):
    ensemble = Ensemble(0, D=0.02, noise=noise)
    held = ensemble.held_out(3000)
    found = fitted(held, kinds=STUDENT)
    assert found.kind == "shaped"
    members, y = ensemble.fresh(FRESH)
    bent, plain = (pooled(each, members) for each in (found, Calibration("student", found.numbers[:3])))
    each = bent.logpdf(y) - plain.logpdf(y)
    assert each.mean() > max(0.05, 5 * each.std() / np.sqrt(FRESH))
    assert_allclose(bent.mean(), plain.mean(), rtol=1e-12)
    off = [abs(np.mean(np.abs(law.cdf(y) - 0.5) < 0.25) - 0.5) for law in (bent, plain)]
    assert off[0] < min(0.03, off[1])


@pytest.mark.parametrize(("noise", "N"), [(uniform, 60), (np.random.Generator.standard_normal, 3000)])
def test_few_rows_or_usual_ones_bend_nothing(noise, N):
    assert fitted(Ensemble(0, D=0.02, noise=noise).held_out(N), kinds=STUDENT).kind == "student"


def test_one_wild_row_does_not_set_the_width():
    held = Ensemble(0).held_out(300)
    before = fitted(held, kinds=["student"]).numbers[0]
    held.y[7] = 1e6
    assert_allclose(fitted(held, kinds=["student"]).numbers[0], before, rtol=0.1)


def test_rows_without_weight_change_nothing():
    held = Ensemble(0, width=2.0).held_out(300)
    half = held._replace(weight=np.where(np.arange(300) < 150, 1.0, 0.0))
    some = type(held)(*(a[..., :150] for a in held[:5]))
    assert fitted(half) == fitted(some)
    assert fitted(held._replace(weight=np.zeros(300))) == Calibration()
    assert fitted(held._replace(there=np.zeros_like(held.there))) == Calibration()


def test_constant_targets():
    held = Ensemble(0, width=0.1).held_out(200)
    still = held._replace(y=np.zeros(200), mean=np.zeros_like(held.mean))
    calibration = fitted(still)
    assert all(np.isfinite(calibration.numbers))
    assert checked(*calibration) == calibration


def test_how_much_of_the_scatter_counts():
    assert factors_of(Calibration("student", (1.0, 3.0, 0.0))) == (1.0, 3.0)
    assert factors_of(Calibration()) == (1.0, 1.0)


def test_one_member_and_few_rows():
    assert fitted(Ensemble(0, K=1, width=3.0).held_out(400, k=1)).kind != "linear"
    assert fitted(Ensemble(0).held_out(3)) == Calibration()


def test_same_in_any_units():
    ensemble = Ensemble(0, width=2.0)
    calibration = fitted(ensemble.held_out(400))
    members, y = ensemble.fresh(50)
    mean, var = members.member_moments()
    moved = type(members)(mean, var, loc=5.0, scale=10.0)
    assert_allclose(
        pooled(calibration, moved).logpdf(5 + 10 * y),
        pooled(calibration, members).logpdf(y) - np.log(10),
        rtol=1e-10,
        atol=1e-10,
    )


def test_what_a_file_says_is_checked():
    assert checked("student", [1, 2, 0.1]) == Calibration("student", (1.0, 2.0, 0.1))
    for kind, numbers, message in [
        (
            "wide",
            (),
            "must be one of 'beta', 'linear', 'scales', 'shaped', 'student'; got 'wide'",
        ),
        ("beta", (1.0,), r"must be 2 \(a, b\); got \(1.0,\)"),
        ("linear", 3, r"must be 0 \(none\); got 3"),
        ("student", (0.0, 0.5, 0.1), "`f` of the calibration 'student' must be from 0.01 to 100; got 0.0"),
        ("student", (np.nan, 0.5, 0.1), "f of the calibration student.* must be finite"),
        ("student", ("1", 0.5, 0.1), "must be a number; got '1'"),
        ("student", (1.0, 0.5, 0.6), "`1/ν` of the calibration 'student' must be from 0 to 0.4; got 0.6"),
    ]:
        with pytest.raises(ValueError, match=message):
            checked(kind, numbers)
