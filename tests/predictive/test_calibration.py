"""The pooling rule on ensembles with known distributions."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import chi2, kstest

from tests.cases import few
from tests.predictive.held_out_rows import Ensemble, student
from tggm.predictive import GaussianMixture
from tggm.predictive.calibration import Calibration, HeldOut, checked_calibration, fit_calibration, pooled

FRESH = 5000
WITHOUT = Calibration("student", (1.0, 0.07, 0.0))  # without the term of D
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
def test_calibration_improves_the_log_likelihood_of_miscalibrated_ensembles(case, N):
    ensemble = Ensemble(0, **WRONG[case])
    mean, error = gain(ensemble, fit_calibration(ensemble.held_out(N)))
    assert mean > 3 * error


@pytest.mark.parametrize("k", few([1, 2, 3], "1", "2"))
@pytest.mark.parametrize("case", ["four times too wide", "wide with heavy tails"])
def test_probability_transforms_of_new_rows_are_uniform(case, k):
    ensemble = Ensemble(2, D=0.05, **WRONG[case])
    calibration = fit_calibration(ensemble.held_out(5000, k))
    members, y = ensemble.fresh(1000)
    assert kstest(pooled(calibration, members).cdf(y), "uniform").pvalue > 0.01
    assert kstest(members.cdf(y), "uniform").pvalue < 1e-3


def test_width_depends_on_disagreement_where_errors_do():
    """All rows have one width, and errors as large as the members' scatter: g is larger than f."""
    rng = np.random.default_rng(0)

    def rows(N, k):
        s = np.exp(rng.standard_normal(N))
        mean, y = s * rng.standard_normal((10, N)), s * rng.standard_normal(N)
        mask = np.argsort(rng.random((10, N)), axis=0) < k
        return HeldOut(mean, np.full((10, N), 0.5), mask, y, np.ones(N))

    calibration = fit_calibration(rows(1000, 2))
    f, g = calibration.factors
    assert g**2 > 2 * f**2
    new = rows(FRESH, 10)
    laws = [pooled(pool, GaussianMixture(new.mean, new.var)) for pool in (calibration, WITHOUT)]
    each = laws[0].logpdf(new.y) - laws[1].logpdf(new.y)
    assert each.mean() > 5 * each.std() / np.sqrt(FRESH)
    # D of a held-out row has a larger error than that of a new one: tails are a little too heavy
    assert abs(np.mean(np.abs(laws[0].cdf(new.y) - 0.5) < 0.25) - 0.5) < 0.08


def test_few_rows_have_the_tails_of_an_estimated_width():
    assert fit_calibration(Ensemble(0, D=0.0).held_out(20)).numbers[2] >= 0.1


HARM = ["right", "heavy tails", "four times too wide", "members disagree"]


@pytest.mark.parametrize("case", few(HARM, "right", "heavy tails"))
def test_calibration_on_twenty_rows_loses_little(case):
    gains = []
    for seed in range(10):
        ensemble = Ensemble(seed, **WRONG.get(case, {}))
        gains.append(gain(ensemble, fit_calibration(ensemble.held_out(20)))[0])
    assert min(gains) > -0.2
    assert np.mean(gains) > -0.03


def test_light_tails_are_those_of_gaussians():
    heavy, light = Ensemble(0, noise=student), Ensemble(0)
    assert fit_calibration(heavy.held_out(2000)).numbers[2] > 0.1
    assert fit_calibration(light.held_out(2000), most=1e6).numbers[2] == 0
    scales = fit_calibration(heavy.held_out(2000), most=1e6)
    assert scales.kind == "scales"
    assert scales.numbers[2] > 0.1
    members, y = heavy.fresh(FRESH)
    laws = [pooled(each, members) for each in (scales, fit_calibration(heavy.held_out(2000)))]
    one = GaussianMixture(laws[0].mean()[None], laws[0].var()[None])
    scores = [law.logpdf(y).mean() for law in (*laws, one)]
    assert scores[0] > scores[1] - 0.01
    assert scores[0] > scores[2] + 0.03


def test_variances_of_logarithms_are_bounded():
    """With m = 0, f² v = 0.2 and g² D = e the variance is 0.2 + e/(1 + e/c); the widest has at most 3 c."""
    means = np.array([[-1.0, -10.0, -1e6], [1.0, 10.0, 1e6]])
    members, e, c = GaussianMixture(means, np.full((2, 3), 0.8)), 0.09 * 2 * means[0] ** 2, 0.7
    one = pooled(Calibration("scales", (0.5, 0.3, 0.0, c)), members)
    assert_allclose(one.var(), 0.2 + e * c / (e + c))
    law = pooled(Calibration("scales", (0.5, 0.3, 0.25, c)), members)
    _, std, weight = law.components
    assert_allclose(weight.sum(0), 1)
    assert_allclose(std.max(0) ** 2, [2.1, 2.1, 2.1])
    nu, chi = 4.0, chi2.ppf([0.01, 0.06, 0.2, 0.45, 0.8], 4)  # middles of 2, 8, 20, 30 and 40 %
    assert_allclose(std[:, 0] ** 2, np.minimum(one.var()[0] * nu / chi, 3 * c))


def uniform(rng, size):
    return rng.uniform(-1.7, 1.7, size)


def skewed(rng, size):
    return rng.exponential(1.0, size) - 1.0


@pytest.mark.parametrize("noise", [uniform, skewed])
def test_many_rows_reshape_the_errors_and_keep_the_mean(noise):
    ensemble = Ensemble(0, D=0.02, noise=noise)
    held = ensemble.held_out(3000)
    found = fit_calibration(held)
    assert found.kind == "shaped"
    members, y = ensemble.fresh(FRESH)
    shaped, plain = (pooled(each, members) for each in (found, Calibration("student", found.numbers[:3])))
    each = shaped.logpdf(y) - plain.logpdf(y)
    assert each.mean() > max(0.05, 5 * each.std() / np.sqrt(FRESH))
    assert_allclose(shaped.mean(), plain.mean(), rtol=1e-12)
    off = [abs(np.mean(np.abs(law.cdf(y) - 0.5) < 0.25) - 0.5) for law in (shaped, plain)]
    assert off[0] < min(0.03, off[1])


@pytest.mark.parametrize(("noise", "N"), [(uniform, 60), (np.random.Generator.standard_normal, 3000)])
def test_few_rows_or_gaussian_errors_keep_the_student(noise, N):
    assert fit_calibration(Ensemble(0, D=0.02, noise=noise).held_out(N)).kind == "student"


def test_one_outlier_does_not_set_the_width():
    held = Ensemble(0).held_out(300)
    before = fit_calibration(held).numbers[0]
    held.y[7] = 1e6
    assert_allclose(fit_calibration(held).numbers[0], before, rtol=0.1)


def test_rows_without_weight_are_ignored():
    held = Ensemble(0, width=2.0).held_out(300)
    half = held._replace(weight=np.where(np.arange(300) < 150, 1.0, 0.0))
    some = type(held)(*(a[..., :150] for a in held[:5]))
    assert fit_calibration(half) == fit_calibration(some)
    assert fit_calibration(held._replace(weight=np.zeros(300))) == Calibration()
    assert fit_calibration(held._replace(held_out_mask=np.zeros_like(held.held_out_mask))) == Calibration()


def test_targets_that_are_constant_or_all_at_a_limit_give_a_valid_calibration():
    held = Ensemble(0, width=0.1).held_out(200)
    still = held._replace(y=np.zeros(200), mean=np.zeros_like(held.mean))
    for rows in (still, censored_above(held, -100.0)[0]):
        calibration = fit_calibration(rows)
        assert all(np.isfinite(calibration.numbers))
        assert checked_calibration(*calibration) == calibration


def test_one_member_and_few_rows():
    single = Ensemble(0, K=1, width=3.0).held_out(400, k=1)
    assert_array_equal(single.pooled().between, 0)
    assert fit_calibration(single).kind != "linear"
    assert fit_calibration(Ensemble(0).held_out(3)) == Calibration()


def test_calibration_does_not_depend_on_units():
    ensemble = Ensemble(0, width=2.0)
    calibration = fit_calibration(ensemble.held_out(400))
    members, y = ensemble.fresh(50)
    mean, std, _ = members.components
    moved = type(members)(mean, std**2, loc=5.0, scale=10.0)
    found, before = pooled(calibration, moved).logpdf(5 + 10 * y), pooled(calibration, members).logpdf(y)
    assert_allclose(found, before - np.log(10), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("k", [1, 2, 3, 10])
@pytest.mark.parametrize("D", [0.0, 0.5, 1.0])
def test_errors_are_reduced_as_by_averaging_all_members(k, D):
    """By half of it if no row is held out twice."""
    N = 20_000
    rows = Ensemble(0, D=D).held_out(N, k, lean=0.4 if k > 1 else 0.0).pooled()
    want = 1 + D / k - (1.0 if k > 1 else 0.5) * D * (1 / k - 1 / 10)
    # five standard errors
    assert_allclose((rows.error**2 / rows.var).mean(), want, atol=5 * want * np.sqrt(2 / N))


@pytest.mark.parametrize("k", [2, 3, 9, 10])
def test_disagreement_equals_that_of_new_rows(k):
    """Members that trained on a row agree more; D is estimated from the others."""
    N = 20_000
    held = Ensemble(1, D=0.5).held_out(N, k, lean=0.8)
    rows = held.pooled()
    scatter = rows.between / rows.var
    # a variance of k Gaussians, averaged over rows: five standard errors
    assert_allclose(scatter.mean(), 0.5, atol=5 * 0.5 * np.sqrt(2 / (k - 1) / N))


@pytest.mark.parametrize("D", [1e-4, 1.0])
def test_disagreement_of_two_of_three_members(D):
    """Rows held out by one member get the mean of the other rows."""
    N = 4000
    held = Ensemble(3, K=3, D=D).held_out(N, k=2, lean=0.8)
    once = np.arange(N) % 2 == 0
    held.held_out_mask[:, once] = np.arange(3)[:, None] == 0
    pooled_rows = held.pooled()
    scatter = pooled_rows.between / pooled_rows.var
    # each row's variance of two Gaussians has a relative standard error of √2
    for rows in (once, ~once):
        assert_allclose(scatter[rows].mean(), D, rtol=5 * np.sqrt(2 / (N / 2)))


@pytest.mark.parametrize("k", [2, 5])
def test_disagreement_of_members_trained_on_a_row_does_not_predict_its_error(k):
    """Each has fitted another share of the error: they differ where it is large, unlike at new rows."""
    N = 20_000
    ensemble = Ensemble(2, D=0.3)
    held = ensemble.held_out(N, k, lean=0.0)
    share = ensemble.rng.uniform(0, 0.6, held.mean.shape)
    fitted = held.mean + share * (held.y - held.mean)
    held = held._replace(mean=np.where(held.held_out_mask, held.mean, fitted))
    centre = np.where(held.held_out_mask, held.mean, 0.0).sum(0) / k
    square = (held.y - centre) ** 2 / held.var[0]
    seen = np.where(held.held_out_mask, np.nan, held.mean)
    leaked = np.corrcoef(square, np.nanvar(seen, axis=0) / held.var[0])[0, 1]
    rows = held.pooled()
    left = np.corrcoef(square, rows.between / rows.var)[0, 1]
    assert leaked > 0.2
    assert abs(left) < 0.1 * leaked + 5 / np.sqrt(N)


def test_disagreement_is_that_of_all_members_if_no_row_is_held_out_twice():
    held = Ensemble(1, D=0.5).held_out(100, k=1)
    assert_allclose(held.pooled().between, held.mean.var(0, ddof=1), rtol=1e-12)


def test_mean_and_width_come_from_members_that_held_the_row_out():
    mask = np.array([[True], [True], [False], [False]])
    mean, var = np.array([[1.0], [2.0], [9.0], [9.5]]), np.array([[1.0], [4.0], [1e-4], [1e-4]])
    held = HeldOut(mean, var, mask, np.array([9.0]), np.ones(1))
    rows = held.pooled()
    assert_allclose(rows.var, 2.5)
    assert_allclose(rows.error**2, (9 - 1.5) ** 2 - held.mean.var(ddof=1) / 8)


def test_squared_errors_are_multiplied_by_the_optimism():
    held = Ensemble(0).held_out(50)
    plain, larger = held.pooled(), held._replace(optimism=1.2).usable(1000).pooled()
    assert_allclose(larger.error**2, 1.2 * plain.error**2)


def test_repeated_rows_of_a_group_count_once():
    """Kish's design effect of groups of m equal rows is m."""
    held, m = Ensemble(0).held_out(50), 6
    copies = [np.repeat(a, m, axis=-1) for a in held[:5]]
    many = HeldOut(*copies, 1.1, None, np.repeat(np.arange(50), m))
    assert_allclose(many.pooled().weight.sum(), 50)
    assert_allclose(many.usable(10**4).pooled().error[::m] ** 2, held.pooled().error ** 2 * 1.6, rtol=1e-9)
    single = held._replace(group=np.arange(50), optimism=1.1).pooled()
    assert_allclose(single.error, held._replace(optimism=1.1).pooled().error)


def test_disagreement_if_members_were_trained_again():
    """Only the two members that held a row out and the retrained members are used; all others are wrong."""
    D, N, other = 0.3, 4000, Ensemble(1, D=0.3)
    mean, var, y = other._rows(N)
    mask = np.arange(10)[:, None] // 2 == np.arange(N)[None] % 5
    scatter = mean - mean.mean(0) + y  # all of them trained on the row
    rows = HeldOut(np.where(mask, mean, 1e3), var, mask, y, np.ones(N), again=scatter).pooled()
    exact = D * var[0]  # the variance of the members, relative to that of the noise
    assert rows.estimated
    error = np.sqrt(2 / 9) * np.sqrt((exact**2).sum()) / exact.sum() * 3
    assert abs(rows.between.sum() / exact.sum() - 1) < 4 * error
    fresh = np.ma.array(mean, mask=~mask).var(0, ddof=1).filled()
    assert np.corrcoef(rows.between, exact)[0, 1] > np.corrcoef(fresh, exact)[0, 1] + 0.1


def test_unusable_rows_are_left_out():
    held = Ensemble(0).held_out(50)
    held.held_out_mask[:, :10] = False
    held.weight[10:20] = 0
    held.y[20] = np.nan
    held.mean[3, 21] = np.inf
    assert len(held.usable(1000).y) == 28
    some = held.usable(7)
    assert len(some.y) == 7
    assert some.y[0] == held.y[22]
    assert some.y[-1] == held.y[-1]


def test_effective_number_of_weighted_rows():
    held = Ensemble(0).held_out(40)
    held.weight[:20] = 3.0
    assert_allclose(held.pooled().weight.sum(), (60 + 20) ** 2 / (9 * 20 + 20))
    assert_allclose(held._replace(weight=7 * held.weight).pooled().weight, held.pooled().weight)


def test_calibrations_from_files_are_checked():
    assert checked_calibration("student", [1, 2, 0.1]) == Calibration("student", (1.0, 2.0, 0.1))
    for kind, numbers, message in [
        ("wide", (), "must be one of 'linear', 'scales', 'shaped', 'student'; got 'wide'"),
        ("student", (1.0,), r"must be 3 \(f, g, 1/ν\); got \(1.0,\)"),
        ("linear", 3, r"must be 0 \(none\); got 3"),
        ("student", (0.0, 0.5, 0.1), "`f` of the calibration 'student' must be from 0.01 to 100; got 0.0"),
        ("student", (np.nan, 0.5, 0.1), "f of the calibration student.* must be finite"),
        ("student", ("1", 0.5, 0.1), "must be a number; got '1'"),
        ("shaped", (1.0, 0.5, 0.0, *[0.0] * 17), "`1/ν` of the calibration 'shaped' must be from 0.0001"),
        ("student", (1.0, 0.5, 0.6), "`1/ν` of the calibration 'student' must be from 0 to 0.4; got 0.6"),
    ]:
        with pytest.raises(ValueError, match=message):
            checked_calibration(kind, numbers)


def censored_above(held, limit):
    """Limit the targets from above; the rows at the limit are only known to be at least the limit."""
    beyond = held.y > limit
    y = np.minimum(held.y, limit)
    return held._replace(y=y, ends=(y, np.where(beyond, np.inf, y))), ~beyond


@pytest.mark.parametrize("noise", [np.random.Generator.standard_normal, student])
@pytest.mark.parametrize("limit", [-0.7, 0.5])
def test_rows_at_a_limit_keep_the_width_of_all_rows(noise, limit):
    ensemble = Ensemble(0, D=0.02, unequal=0.0, noise=noise)
    held = ensemble.held_out(3000, lean=0.0)
    centred = held._replace(mean=held.mean - held.mean.mean(0), y=held.y - held.mean.mean(0))
    limited, measured = censored_above(centred, limit)
    alone = limited._replace(weight=1.0 * measured, ends=None)
    each = [fit_calibration(rows) for rows in (centred, limited, alone)]
    mean, var = np.zeros((2, 1)), np.ones((2, 1))
    q = np.array([[0.05, 0.2]])  # below the limit
    all_, found, biased = (pooled(law, GaussianMixture(mean, var)).ppf(q) for law in each)
    assert_allclose(found, all_, rtol=0.15)
    if limit < 0:
        assert np.all(np.abs(biased - all_) > 0.25)


@pytest.mark.parametrize("step", [1e-6, 0.5, 3.0])
def test_cells_of_rounded_targets_give_the_width_before_rounding(step):
    ensemble = Ensemble(3, width=3.0, D=0.02, unequal=0.0, noise=student)
    held = ensemble.held_out(4000)
    y = np.round(held.y / step) * step
    rounded = fit_calibration(held._replace(y=y, ends=(y - 0.5 * step, y + 0.5 * step)))
    members, y = ensemble.fresh(FRESH)
    laws = [pooled(each, members) for each in (fit_calibration(held), rounded)]
    lost = laws[0].logpdf(y) - laws[1].logpdf(y)
    assert abs(lost.mean()) < 0.01 + 3 * lost.std() / np.sqrt(FRESH)
    if step < 1e-3:
        assert_allclose(rounded.numbers, fit_calibration(held).numbers, rtol=0.02, atol=0.02)
