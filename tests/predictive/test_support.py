"""Limits and steps are found in targets, and only where they are there."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from tggm.predictive import Support
from tggm.predictive.support import (
    NO_PLAN,
    checked_support,
    plan_support,
    plan_supports,
    restored_supports,
)

N = 1000
RNG = np.random.default_rng(0)
LATENT = RNG.standard_normal(N)


def chosen(y):
    """Return the limits of training, and the last candidate."""
    plan = plan_support("auto", np.asarray(y, float))
    return plan.base and tuple(plan.base), tuple(plan.candidates[-1]) if plan.candidates else None


@pytest.mark.parametrize(
    ("y", "base", "last"),
    [
        (LATENT, None, None),
        (np.exp(LATENT), None, (0.0, None, None)),
        (np.maximum(LATENT, 0), (0.0, None, None), None),
        (np.clip(0.5 + LATENT, 0, 1), (0.0, 1.0, None), None),
        (np.minimum(np.exp(LATENT), 2.0), (None, 2.0, None), (0.0, 2.0, None)),
        (np.minimum(LATENT, 1.5) - 7, (None, -5.5, None), None),
        (np.minimum(np.exp(2.5 + 0.8 * LATENT), 99.0), None, (0.0, None, None)),
        (RNG.uniform(0, 100, N), None, (0.0, 100.0, None)),
        (RNG.beta(2, 2, N), None, (0.0, 1.0, None)),
        (RNG.poisson(3, N), (0.0, None, None), (0.0, None, 1.0)),
        (RNG.poisson(9, N), None, (0.0, None, 1.0)),
        (RNG.poisson(0.4, N), (0.0, None, None), (0.0, None, 1.0)),
        (np.round(6 + LATENT), None, (0.0, None, 1.0)),
        (np.round(LATENT * 4) / 4, None, (None, None, 0.25)),
        (50 * np.round(LATENT), None, (None, None, 50.0)),
        (np.round(LATENT, 1) + 1e6, None, (0.0, None, 0.1)),
        (np.round(np.maximum(LATENT, 0.3), 1), (0.3, None, None), (0.3, None, 0.1)),
        (np.clip(np.round(3 + 2 * LATENT), 1, 5), None, (1.0, 5.0, 1.0)),
    ],
)  # fmt: skip
def test_limits_and_steps_that_are_in_the_targets(y, base, last):
    assert chosen(y) == (base, last)


@pytest.mark.parametrize(
    "y", [np.ones(N), LATENT > 0, np.where(LATENT > 0, 1.0, LATENT[0]), LATENT[:40], np.round(LATENT, 6)]
)
def test_targets_without_limits_and_steps(y):
    assert chosen(y) == (None, None)


def test_rows_at_a_limit_have_the_cells_of_the_lattice():
    plan = plan_support("auto", RNG.poisson(0.4, N).astype(float))
    assert plan.cells == (0.0, None, 1.0)
    assert_array_equal(np.ravel(plan.cells.cell(np.array([0.0, 1.0]))), [-np.inf, 0.5, 0.5, 1.5])


def test_only_limits_of_training_are_censored():
    """The end of a scale of grades is a candidate; rows there are measured."""
    y = RNG.choice(4, N, p=[0.5, 0.3, 0.12, 0.08]).astype(float)
    plan = plan_support("auto", y)
    assert plan.base == (0.0, None, None)
    assert plan.cells == (0.0, None, 1.0)
    assert plan.candidates[-1] == (0.0, 3.0, 1.0)


def test_limits_may_be_rounded():
    for support in (Support(0.0, 0.1 + 0.2, 0.1), Support(-0.1 - 0.2, None, 0.1)):
        limit = next(x for x in support[1::-1] if x not in (None, 0.0))
        assert_array_equal(support.observe(np.array([10 * limit, limit / 0.9999])), limit)
        ends = np.ravel(support.cell(np.array([round(limit, 1)])))
        assert np.isinf(ends).sum() == 1


def test_a_given_support_contains_the_targets():
    assert plan_support(Support(0, 9, 0.5), np.array([0.0, 2.5, 9.0])).base == (0, 9, 0.5)
    assert plan_support(None, LATENT) is NO_PLAN
    for y in (-0.5, 9.5, 0.25):
        message = rf"`support` is \(0, 9, 0.5\), which does not contain the target {y:g}\."
        with pytest.raises(ValueError, match=message):
            plan_support(Support(0, 9, 0.5), np.array([1.0, y]))


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("grades", "must be 'auto', None"),
        ((0,), "must be 'auto', None"),
        ((0, "1"), "must be 'auto', None"),
        ((0, True), "must be 'auto', None"),
        ((0, np.nan), "must be 'auto', None"),
        ((1, 1), "lower < upper and a positive step"),
        ((0, 1, 0), "lower < upper and a positive step"),
        ((0, 1, 0.3), "a whole number of steps between its limits"),
    ],
)
def test_bad_supports(value, message):
    with pytest.raises(ValueError, match=message):
        checked_support(value)


def test_good_supports():
    assert checked_support("auto") == "auto"
    assert checked_support(None) is checked_support((None, None)) is None
    assert checked_support([0, None]) == Support(0.0, None, None)
    assert checked_support([(0, None), None]) == [Support(0.0), None]
    assert restored_supports([[0.0, 1.0, 0.1], None], 2) == (Support(0.0, 1.0, 0.1), None)
    with pytest.raises(ValueError, match="supports of 2 outputs"):
        restored_supports([[0.0, 1.0, 0.1]], 2)


def test_each_output_has_its_own_plan():
    Y = np.stack([np.maximum(LATENT, 0), np.where(LATENT > 1, np.nan, LATENT)], axis=1)
    assert plan_supports("auto", Y) == (plan_support("auto", Y[:, 0]), NO_PLAN)
    assert [plan.base for plan in plan_supports([Support(-9.0), None], Y)] == [(-9.0, None, None), None]
    assert [plan.base for plan in plan_supports(Support(-9.0), Y)] == 2 * [(-9.0, None, None)]
