"""Objectives against the paper's published gradients, misprints corrected, and against each other."""

import functools
from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats

from tests.models.small_models import assert_gradient
from tests.paper import small_models as small
from tggm.inference import mean_field
from tggm.paper._model import Objective, latent, subtract_unit_variance
from tggm.training import Rows

FACTORISED = Objective("meanfield", factorised=True)


def problem(rng, rows=6, m=4, n=1, **options):
    model = small.one_layer(rng, m, n, **options)
    X, Y = rng.standard_normal((rows, 3)), rng.standard_normal((rows, n))
    return model, Rows(jnp.asarray(X), jnp.asarray(Y))


def class_problem(rng, rows=5, m=4, n=3):
    X, label = rng.standard_normal((rows, 3)), rng.integers(0, n, rows)
    return small.one_layer(rng, m, n, classes=True), Rows(jnp.asarray(X), jnp.asarray(label))


def require(got, want, **tolerance):
    """Compare the gradients of W0, b0, W1 and b1."""
    for have, value in zip(small.weights(got), want, strict=True):
        assert_allclose(have, value, **tolerance)


def test_gradients_of_back_propagation(rng):
    """Compare ∂E/∂W0 and ∂E/∂W1 with corrected signs and 1/σ1² in both; E is minus the objective."""
    model, rows = problem(rng, n=2)
    W0, b0, W1, b1 = small.weights(model)
    X, Y = map(np.asarray, rows)
    h, v = small.truncated(X @ W0.T + b0, np.sqrt(small.S0))
    error = (Y - h @ W1.T - b1) / small.S1
    back = (error @ W1) * v / small.S0
    got = small.gradient(small.OBJECTIVES["bp"], model, rows)
    require(got, [back.T @ X, back.sum(0), error.T @ h, error.sum(0)], rtol=1e-9)


@pytest.mark.parametrize("solver", ["newton", "cyclic"])
def test_gradients_of_em(rng, solver):
    """Compare ∂Q/∂W0, ∂Q/∂b0, ∂Q/∂W1 and ∂Q/∂b1 with the posterior by Algorithm 1."""
    model, rows = problem(rng, n=2)
    W0, b0, W1, b1 = small.weights(model)
    X, Y = map(np.asarray, rows)
    a = X @ W0.T + b0
    P, gamma = np.eye(4) / small.S0 + W1.T @ W1 / small.S1, a / small.S0 + (Y - b1) @ W1 / small.S1
    h, v = np.swapaxes([small.algorithm_1(P, g) for g in gamma], 0, 1)
    prior = small.truncated(a, np.sqrt(small.S0))[0]
    hh = h.T @ h + np.diag(v.sum(0))
    error = Y - b1 - h @ W1.T
    want = [
        (h - prior).T @ X / small.S0,
        (h - prior).sum(0) / small.S0,
        ((Y - b1).T @ h - W1 @ hh) / small.S1,
        error.sum(0) / small.S1,
    ]
    got = small.gradient(Objective("meanfield", solver, (1000, 1000)), model, rows)
    require(got, want, rtol=1e-6, atol=1e-8)
    squared = (error**2 + v @ (W1**2).T).sum(0)
    assert_allclose(got.likelihood.log_noise, 0.5 * (squared / small.S1 - len(X)), rtol=1e-6, atol=1e-8)


def class_posterior(W1, b1, a, c):
    """Return E[h], Var[h] and E[z] of one row by the supplement's updates of (h, s), s = T z.

    T is −I with column c set to one, its own inverse. Off the diagonal P has −W1ᵀ T⁻¹; the paper prints −W1ᵀ.
    """
    n, m = W1.shape
    T = -np.eye(n)
    T[:, c] = 1
    P = np.block([[np.eye(m) / small.S0 + W1.T @ W1, -W1.T @ T], [-T.T @ W1, T.T @ T]])
    mean, var = small.algorithm_1(P, np.r_[a / small.S0 - W1.T @ b1, T.T @ b1], free=(m + c,))
    return mean[:m], var[:m], T @ mean[m:]


@pytest.mark.parametrize("solver", ["newton", pytest.param("cyclic", marks=pytest.mark.slow)])
def test_class_gradients_of_the_supplement(rng, solver):
    model, rows = class_problem(rng)
    W0, b0, W1, b1 = small.weights(model)
    X, label = map(np.asarray, rows)
    a = X @ W0.T + b0
    parts = [class_posterior(W1, b1, a[i], label[i]) for i in range(len(X))]
    h, v, z = (np.array(part) for part in zip(*parts, strict=True))
    prior = small.truncated(a, np.sqrt(small.S0))[0]
    hh = h.T @ h + np.diag(v.sum(0))
    want = [(h - prior).T @ X / small.S0, (h - prior).sum(0) / small.S0, (z - b1).T @ h - W1 @ hh]
    want.append((z - b1 - h @ W1.T).sum(0))
    objective = Objective("meanfield", solver, (500, 500), factorised=True)
    require(small.gradient(objective, model, rows), want, rtol=1e-5, atol=1e-7)


def supplement(layers, x):
    """Return Q and β of the supplement for any number of hidden layers."""
    W, b = [np.asarray(w) for w in layers.W], [np.asarray(v) for v in layers.b]
    ends = np.cumsum([0, len(layers.b0), *map(len, b)])
    Q, beta = np.eye(ends[-1]), np.zeros(ends[-1])
    beta[: ends[1]] = np.asarray(layers.W0) @ x + np.asarray(layers.b0)
    for i in range(len(W)):
        low, high = slice(ends[i], ends[i + 1]), slice(ends[i + 1], ends[i + 2])
        Q[low, low] += W[i].T @ W[i]
        Q[high, low], Q[low, high] = -W[i], -W[i].T
        beta[low] -= W[i].T @ b[i]
        beta[high] += b[i]
    return Q / small.S0, beta / small.S0, ends


def deep_gradients(layers, x, prior, posterior, ends):
    """Return the supplement's gradients of one row for W0, b0, and weights and biases between layers."""
    (m0, s0), (m1, s1) = ((m, np.outer(m, m) + np.diag(v)) for m, v in (prior, posterior))
    first = slice(0, ends[1])
    found = [np.outer(m1[first] - m0[first], x) / small.S0, (m1[first] - m0[first]) / small.S0]
    for i, (W, b) in enumerate(zip(layers.W, layers.b, strict=True)):
        low, high = slice(ends[i], ends[i + 1]), slice(ends[i + 1], ends[i + 2])
        w, v = np.asarray(W), np.asarray(b)
        second = w @ (s1[low, low] - s0[low, low]) - (s1[high, low] - s0[high, low])
        found += [-(np.outer(v, m1[low] - m0[low]) + second) / small.S0]
        found += [-(w @ (m1[low] - m0[low]) - (m1[high] - m0[high])) / small.S0]
    return found


@pytest.mark.parametrize("classes", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_deep_gradients_of_the_supplement(rng, classes):
    """Use its equations with the output's own variance, 1 or σ1², in the output's blocks instead of σ0²."""
    n, s1 = (3, 1.0) if classes else (2, small.S1)
    model, X = small.layered(rng, (3, 4, 2), n, classes=classes), rng.standard_normal((2, 3))
    y = np.array([2, 0]) if classes else rng.standard_normal((2, n))
    hidden, (_, _, W2, b2) = model.hidden, small.weights(model)
    total = None
    for x, target in zip(X, y, strict=True):
        Q, beta, ends = supplement(hidden, x)
        M, last = ends[-1], slice(ends[-2], ends[-1])
        prior = small.algorithm_1(Q, beta)
        if classes:
            T = -np.eye(n)
            T[:, target] = 1
            P = np.zeros((M + n, M + n))
            P[:M, :M], P[M:, M:], P[M:, last], P[last, M:] = Q, T.T @ T, -T.T @ W2, -W2.T @ T
            gamma = np.concatenate([beta, T.T @ b2])
            gamma[last] -= W2.T @ b2
            P[last, last] += W2.T @ W2
            v, var = small.algorithm_1(P, gamma, free=(M + target,))
            z = T @ v[M:]
        else:
            P, gamma, z = Q.copy(), beta.copy(), target
            P[last, last] += W2.T @ W2 / s1
            gamma[last] += W2.T @ (target - b2) / s1
            v, var = small.algorithm_1(P, gamma)
        m, second = v[last], np.outer(v[last], v[last]) + np.diag(var[last])
        row = deep_gradients(hidden, x, prior, (v[:M], var[:M]), ends)
        row += [(np.outer(z - b2, m) - W2 @ second) / s1, (z - b2 - W2 @ m) / s1]
        total = row if total is None else [a + r for a, r in zip(total, row, strict=True)]
    labels = jnp.asarray(y, jnp.int32) if classes else jnp.asarray(y)
    got = small.gradient(FACTORISED, model, Rows(jnp.asarray(X), labels))
    between = [a for pair in zip(got.hidden.W, got.hidden.b, strict=True) for a in pair]
    W0, b0, W1, b1 = small.weights(got)
    leaves = [W0, b0, *between, W1, b1]
    for have, want in zip(leaves, total, strict=True):
        assert_allclose(have, want, rtol=1e-6, atol=1e-7)


CASES = [("exact", False), ("ep", False), *product(("moments", "bp"), (False, True))]


@pytest.mark.parametrize(("method", "classes"), CASES)
def test_gradients_are_those_of_the_values(rng, method, classes):
    model, rows = class_problem(rng) if classes else problem(rng)
    accuracy = {"rtol": 1e-4, "atol": 1e-5} if classes else {"atol": 1e-6}  # of the probit quadrature
    objective = small.OBJECTIVES[method]
    assert_gradient(lambda m: objective(m, rows, small.BEGIN).sum(), model, rng, eps=1e-4, **accuracy)


def test_deep_gradients_are_those_of_the_values(rng):
    """Test back-propagation through inference of the prior."""
    rows = Rows(jnp.asarray(rng.standard_normal((3, 3))), jnp.asarray(rng.standard_normal((3, 2))))
    model, objective = small.layered(rng, (4, 3)), small.OBJECTIVES["bp"]
    assert_gradient(lambda m: objective(m, rows, small.BEGIN).sum(), model, rng, atol=1e-6)


@functools.cache
def compiled(method):
    return jax.jit(small.OBJECTIVES[method])


def values(method, model, rows):
    return np.asarray(compiled(method)(model, rows, small.BEGIN))


def test_objectives_agree_when_the_latent_noise_vanishes(rng):
    """Let s0 → 0: then h is max(0, a) and y is Gaussian about W1 h + b1, a ReLU network."""
    model, rows = problem(rng, rows=40, m=8, s0=1e-8)
    W0, b0, W1, b1 = small.weights(model)
    X, Y = map(np.asarray, rows)
    want = stats.norm.logpdf(Y, np.maximum(X @ W0.T + b0, 0) @ W1.T + b1, np.sqrt(small.S1))[:, 0]
    for method in small.OBJECTIVES:
        assert_allclose(values(method, model, rows), want, atol=2e-3, err_msg=method)


def test_mean_field_is_below_the_exact_value_and_ep_near_it(rng):
    model, rows = problem(rng, rows=40, m=8, s0=0.8)
    exact = values("exact", model, rows)
    assert np.all(values("meanfield", model, rows) <= exact + 1e-9)
    assert_allclose(values("ep", model, rows), exact, atol=0.01)


def test_bound_never_falls_in_em(rng):
    """Use M-steps for W1, b1 and s1 in closed form: regressions of y on the posterior moments of h."""
    model, rows = problem(rng, rows=40, m=8)
    Y, bounds = np.asarray(rows.y), []

    @jax.jit
    def posterior(model):
        output, root = model.likelihood.output, jnp.exp(-model.likelihood.log_noise / 2)
        U = output.W1 * root[:, None]
        pull = (rows.y - output.b1[None, :]) * root[None, :] @ U
        return mean_field(model.hidden.gaussian(rows.X, U, pull))

    for _ in range(12):
        bounds.append(values("meanfield", model, rows).sum())
        q = posterior(model)
        h, v = np.asarray(q.mean), np.asarray(q.var)
        z = np.column_stack([h, np.ones(len(h))])
        coef = np.linalg.solve(z.T @ z + np.diag([*v.sum(0), 0]), z.T @ Y).T
        noise = (((Y - z @ coef.T) ** 2) + v @ (coef[:, :-1] ** 2).T).mean(0)
        model = small.model_of(model.hidden, coef[:, :-1], coef[:, -1], np.log(noise))
    assert np.all(np.diff(bounds) > -1e-9)
    assert bounds[-1] > bounds[0] + 1


def test_score_of_held_out_rows_is_the_density_of_predictions(rng):
    model, rows = class_problem(rng)
    want = jax.jit(small.OBJECTIVES["moments"])(model, rows, small.BEGIN)
    assert_allclose(jax.jit(small.OBJECTIVES["meanfield"].score)(model, rows), want)
    deep = small.layered(rng, (4, 3))
    rows = Rows(rows.X, jnp.asarray(rng.standard_normal((5, 2))))
    want = jax.jit(lambda m: m.likelihood.log_density(rows.y, latent(m, rows.X, "ep")))(deep)
    assert_allclose(jax.jit(small.OBJECTIVES["ep"].score)(deep, rows), want, rtol=1e-10)
    model, rows = problem(rng)
    assert_allclose(jax.jit(small.OBJECTIVES["ep"].score)(model, rows), values("ep", model, rows), rtol=1e-12)


def test_cycles_change_linearly_during_training(rng):
    model, rows = problem(rng)

    @functools.partial(jax.jit, static_argnames="cycles")
    def bound(cycles, progress):
        return Objective("meanfield", "cyclic", cycles)(model, rows, progress)

    for progress, cycles in ((0.0, 7), (0.5, 4), (1.0, 1)):
        assert_allclose(bound((7, 1), progress), bound((cycles, cycles), 0.0), rtol=1e-12)
    assert np.all(bound((7, 1), 0.0) > bound((7, 1), 1.0))


def test_the_start_of_the_prior_matters_for_few_cycles_only(rng):
    model = small.layered(rng, (4, 3))
    rows = Rows(jnp.asarray(rng.standard_normal((3, 3))), jnp.asarray(rng.standard_normal((3, 2))))

    @functools.partial(jax.jit, static_argnames=("prior", "cycles"))
    def value(prior, cycles):
        return Objective("meanfield", "cyclic", (cycles, cycles), prior)(model, rows, small.BEGIN)

    assert_allclose(value("posterior", 300), value("same", 300), rtol=1e-7)
    assert np.any(np.abs(value("posterior", 1) - value("same", 1)) > 1e-6)


def test_learned_noise_of_back_propagation_loses_the_variance_of_the_units(rng):
    model, rows = problem(rng, rows=50, noise=40.0)
    W0, b0, W1, b1 = small.weights(model)
    quiet = small.model_of(model.hidden, W1, b1, np.log([1e-3]))
    members = jax.tree.map(lambda *leaves: jnp.stack(leaves), model, quiet)
    left = np.exp(subtract_unit_variance(members, rows.X).likelihood.log_noise)
    _, v = small.truncated(np.asarray(rows.X) @ W0.T + b0, np.sqrt(small.S0))
    assert_allclose(np.mean(v @ W1.T**2) + left[0], 40.0, rtol=1e-10)
    assert_allclose(left[1], 1e-5, rtol=1e-10)  # a hundredth remains
