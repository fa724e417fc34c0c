"""Errors of precision matrices name argument, value and remedy."""

import jax
import numpy as np
import pytest

from tggm.precision import Dense, Diagonal, Layered, LowRank


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Diagonal([1.0, -0.5]), r"`values` must be positive; got -0.5 at index 1.*1 / variance"),
        (lambda: Diagonal(np.ones((2, 2))), r"`values` must have 1 axes; got shape \(2, 2\)"),
        (lambda: Diagonal([1.0, np.nan]), r"`values` must be finite; got nan at index \[1\].*impute"),
        (lambda: LowRank([1.0, 0.0], np.ones((1, 2))), r"`base` must be positive; got 0 at index 1"),
        (lambda: LowRank(np.ones(3), np.ones((3, 2))), r"base has 3 .*, weights has shape \(3, 2\). Transp"),
        (lambda: Layered([], []), r"`diagonal_blocks` must hold at least one block"),
        (lambda: Layered([np.eye(2)], [np.eye(2)]), r"one block fewer than `diagonal_blocks` \(1\); got 1"),
        (lambda: Layered([np.ones((2, 3))], []), r"`diagonal_blocks\[0\]` must be square; .* \(2, 3\)"),
        (
            lambda: Layered([np.eye(2), np.eye(3)], [np.zeros((2, 3))]),
            r"`lower_blocks\[0\]` must have shape \(3, 2\) \(layer 1 by layer 0\); got \(2, 3\)",
        ),
        (
            lambda: Layered([np.eye(1), np.eye(1)], [[[2.0]]]),
            r"`precision` must be positive definite; smallest eigenvalue is -1 \(m = 2\)",
        ),
        (lambda: Dense(np.ones((2, 3))), r"`matrix` must be square; got shape \(2, 3\)"),
        (
            lambda: Dense([[1.0, 0.5], [0.0, 1.0]]),
            r"`matrix` must be symmetric; .*0.5.*\(matrix \+ matrix.T\) / 2",
        ),
        (
            lambda: Dense([[1.0, 2.0], [2.0, 1.0]]),
            r"`matrix` must be positive definite; smallest eigenvalue is -1 \(m = 2\)\..*add a ridge",
        ),
    ],
)
def test_bad_values(build, message):
    with pytest.raises(ValueError, match=message):
        build()


def test_only_real_numbers():
    with pytest.raises(TypeError, match=r"`values` must be real numbers; got dtype complex128"):
        Diagonal(np.array([1j]))


def test_the_recommended_ridge_works():
    P = np.array([[1.0, 1.149], [1.149, 1.0]])
    with pytest.raises(ValueError, match="add a ridge") as caught:
        Dense(P)
    ridge = float(str(caught.value).split(" * eye")[0].split("+ ")[-1])
    Dense(P + ridge * np.eye(2))


def test_integers_become_floating():
    assert Diagonal([1, 2]).dtype == np.float64
    assert Dense([[2, 1], [1, 2]]).dtype == np.float64
    with jax.enable_x64(False):
        assert Diagonal([1, 2]).dtype == np.float32


def test_mixed_precision_becomes_the_wider():
    assert LowRank(np.ones(2, np.float32), np.ones((1, 2))).dtype == np.float64
    mixed = Layered([np.eye(2, dtype=np.float32), np.eye(2)], [np.zeros((2, 2), np.float32)])
    assert {a.dtype for a in jax.tree.leaves(mixed)} == {np.dtype("float64")}


def test_traced_values_are_not_checked():
    assert jax.jit(lambda d: Diagonal(d).values)(np.array([-1.0])) == -1.0
    assert jax.jit(lambda P: Dense(P).matrix[0, 1])(np.array([[1.0, 2.0], [2.0, 1.0]])) == 2.0
