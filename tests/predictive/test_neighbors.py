"""Weights of neighbours, the choice of the rule, and the check of stored neighbours."""

from dataclasses import asdict, replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from tggm.predictive import GaussianMixture, Observed
from tggm.predictive.calibration import Calibration
from tggm.predictive.neighbors import (
    KINDS,
    PREFIX,
    Candidates,
    Neighbors,
    Rule,
    checked_neighbors,
    choose,
    class_losses,
    crps_losses,
    find_held_out,
    projections,
    typical_distance,
)

RULE = Rule(2, 0.8, 0.5, 1.0, 0.3)


def stored(rng, rows=40, **changes):
    given = {"weight": None, "rule": RULE, "value": rng.normal(size=(rows, 1)).astype(np.float32)}
    points = rng.normal(size=(rows, 3)).astype(np.float32)
    return Neighbors(np.zeros((2, 5, 3), np.float32), points, **{**given, **changes})


def test_weights_decrease_with_the_distance_and_leave_a_rest():
    rule = Rule(3, 1.0, 2.0)
    weight = rule.weights(np.array([[0.0, 1.0, 4.0], [1e6, 1e6, 1e7]]))
    assert np.all(np.diff(weight, axis=1) <= 0)
    kappa = np.array([1 / 0.01, 4 / (1 + 0.04), 4 / (16 + 0.04)])
    assert_allclose(weight[0], kappa / (1 + kappa.sum()))
    assert weight[1].sum() < 1e-10
    assert_allclose(rule.weights(np.ones((1, 2)), 2.0), rule.weights(np.ones((1, 4)))[:, :2] * 2, rtol=1e-12)


def test_neighbors_are_those_of_brute_force(rng):
    near = stored(rng, weight=rng.uniform(0.5, 2, 40).astype(np.float32))
    points = rng.normal(size=(6, 3))
    found = near.near(points)
    distance = np.linalg.norm(points[:, None] - near.points[None], axis=2)
    order = np.argsort(distance, axis=1)[:, :2]
    assert_allclose(found.value[..., 0], near.value[order, 0])
    kappa = near.weight[order] * 0.25 / (np.take_along_axis(distance, order, 1) ** 2 + 0.0025)
    assert_allclose(found.weight, 0.8 * kappa / (1 + kappa.sum(1, keepdims=True)), rtol=1e-5)


def test_means_of_a_mixture_with_neighbors(rng):
    members = GaussianMixture(rng.normal(size=(3, 4)), np.ones((3, 4)), loc=5.0, scale=2.0)
    pool = Calibration("student", (1.0, 1.0, 0.1))
    near = stored(rng).near(rng.normal(size=(4, 3)))
    m, law = members.components[0].mean(0), pool.distribution(np.zeros(4), np.ones(4), np.ones(4))
    mixed = near.mix(law, 0, members)
    want = (near.weight * (near.value[:, :, 0] + m[:, None])).sum(1)  # the law itself has mean 0
    assert_allclose(mixed.mean(), want, atol=1e-12)


def test_probabilities_of_classes_with_neighbors(rng):
    near = stored(rng, value=rng.integers(0, 3, 40).astype(np.int32)).near(rng.normal(size=(5, 3)))
    p = rng.dirichlet(np.ones(3), 5)
    mixed = np.exp(near.mix_classes(np.log(p)))
    assert_allclose(mixed.sum(1), 1)
    for c in range(3):
        votes = (near.weight * (near.value == c)).sum(1)
        assert_allclose(mixed[:, c], (1 - near.weight.sum(1)) * p[:, c] + votes)


def test_losses_are_the_crps_and_the_log_probability(rng):
    law = Calibration("student", (1.0, 1.0, 0.1)).distribution(rng.normal(size=6), np.ones(6), np.ones(6))
    y, centre = rng.normal(size=6), rng.normal(size=(6, 4))
    v = 0.2 * rng.dirichlet(np.ones(3), 6)
    near = stored(rng, rule=Rule(3, 1.0, 1.0, 0.0, 0.3)).near(rng.normal(size=(6, 3)))
    members = GaussianMixture(np.zeros((1, 6)), np.ones((1, 6)))
    mixed = replace(near, weight=v, value=centre[:, :3, None]).mix(law, 0, members)
    assert_allclose(crps_losses(law, y, centre, 0.3 * law.std()[:, None])(v), mixed.crps(y), rtol=1e-3)
    # a kernel beyond a limit has its whole weight at the limit
    limited = Observed(law, -0.5, None), np.maximum(y, -0.5)
    centre[:, :2] = -0.5, -5.0
    mixed = Observed(replace(near, weight=v, value=centre[:, :3, None]).mix(law, 0, members), -0.5)
    std = np.where(centre < -0.5, 1e-9, 0.3 * law.std()[:, None])
    found = crps_losses(*limited, np.maximum(centre, -0.5), std)(v)
    # the kernel at the limit is not clipped in the losses
    assert_allclose(found, mixed.crps(limited[1]), atol=0.1 * v[:, 0].max())
    label, classes = np.array([0, 1]), np.array([[0, 1], [0, 0]])
    p = np.log([[0.5, 0.5], [0.9, 0.1]])
    found = class_losses(p, label, classes)(np.array([[0.2, 0.3], [0.2, 0.3]]))
    assert_allclose(np.exp(-found), [0.5 * 0.5 + 0.2, 0.5 * 0.1])


def test_a_rule_is_chosen_only_if_neighbors_help(rng):
    """Neighbours have the target of the row, or no relation to it."""
    N, ones = 200, np.ones(200)
    y = rng.normal(size=N)
    law = GaussianMixture(np.zeros((1, N)), np.ones((1, N)))
    distance = np.sort(rng.uniform(0.5, 2, (N, 8)), axis=1)
    found = Candidates(distance, np.tile(np.arange(8), (N, 1)), 3.0)
    for signal, noise, helps in ((1, 0.1, True), (0, 1.0, False)):
        centre = signal * y[:, None] + noise * rng.normal(size=(N, 8))

        def losses(b, h, c=centre):
            return crps_losses(law, y, c, np.array(h))

        rule = choose(found, losses, KINDS, ones, None, None)
        assert (rule is not None) == helps
        assert choose(found, losses, KINDS, ones, None, 5).count == 5
        if helps:
            weight = rule.weights(3.0 * distance[:, : rule.count]).sum(1)
            assert weight.mean() > 0.5


def test_places_of_held_out_rows_use_the_members_of_their_group(rng):
    """Rows of a group are compared only with rows that it trained on, in its own units."""
    points = rng.normal(size=(60, 2, 4))
    points[:, 1] *= 100
    trained = [np.arange(60) >= 20, np.arange(60) < 40]
    found = find_held_out(points[:, 0], points, [points[:20, 0], points[40:, 1]], trained, 5)
    assert found.stored[:20].min() >= 20
    assert found.stored[20:].max() < 40
    assert 0.3 < np.median(found.distance[20:]) / np.median(found.distance[:20]) < 3
    same = find_held_out(np.zeros((60, 4)), np.zeros((60, 1, 4)), [np.zeros((5, 4))], [np.ones(60, bool)], 5)
    assert same is None
    queries = [points[:20, 0], points[40:, 1]]
    assert find_held_out(np.zeros((60, 4)), points, queries, trained, 5) is None  # all rows at one place
    assert_allclose(typical_distance(np.array([[0.0], [0.0], [1.0], [3.0]])), 1.5)


def test_projections_keep_distances_of_a_low_dimensional_layer(rng):
    factors = rng.normal(size=(200, 3))
    layers = np.stack([factors @ rng.normal(size=(3, 6)) for _ in range(4)])
    every, pair = np.split(projections(layers, [[0, 1, 2, 3], [1, 3]]), 2, axis=2)
    assert not pair[[0, 2]].any()
    for projection, members in ((every, [0, 1, 2, 3]), (pair, [1, 3])):
        points = sum(layers[k] @ projection[k] for k in members)
        square = ((points[0] - points[1:]) ** 2).sum(1)
        want = np.mean([((layers[k, 0] - layers[k, 1:]) ** 2).sum(1) for k in members], axis=0)
        assert_allclose(square, want, rtol=1e-5)


CHANGES = {
    "no array": lambda a, r: a.pop(PREFIX + "points"),
    "extra array": lambda a, r: a.update({PREFIX + "more": np.zeros(3)}),
    "not finite": lambda a, r: a[PREFIX + "points"].__setitem__((0, 0), np.nan),
    "too large": lambda a, r: a[PREFIX + "value"].__setitem__((0, 0), 1e30),
    "wrong shape": lambda a, r: a.update({PREFIX + "value": np.zeros((3, 1))}),
    "wrong layer": lambda a, r: a.update({PREFIX + "projection": np.zeros((2, 4, 3))}),
    "negative weight": lambda a, r: a.update({PREFIX + "weight": -np.ones(40)}),
    "count": lambda a, r: r.update(count=41),
    "share": lambda a, r: r.update(share=1.5),
    "radius": lambda a, r: r.update(radius=0.0),
    "slope": lambda a, r: r.update(slope=0.5),
    "width": lambda a, r: r.update(width=float("nan")),
    "missing": lambda a, r: r.pop("width"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_wrong_neighbors_in_a_file_raise(rng, name):
    arrays, rule = stored(rng).arrays(), asdict(RULE)
    assert checked_neighbors(arrays, rule, (2, 5), 1, 1).rule == RULE
    CHANGES[name](arrays, rule)
    with pytest.raises(ValueError, match="neighbo"):
        checked_neighbors(arrays, rule, (2, 5), 1, 1)


def test_neighbors_without_a_rule_or_with_unknown_classes_raise(rng):
    arrays = stored(rng).arrays()
    with pytest.raises(ValueError, match="rule"):
        checked_neighbors(arrays, None, (2, 5), 1, 1)
    assert checked_neighbors({}, None, (2, 5), 1, 1) is None
    classes = stored(rng, value=np.full(40, 3, np.int32)).arrays()
    with pytest.raises(ValueError, match="numbers of classes"):
        checked_neighbors(classes, asdict(RULE), (2, 5), 0, 3)
