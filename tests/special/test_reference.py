"""Every real function and its first derivatives against the table made by tools/precompute/reference.py."""

from pathlib import Path

import jax
import numpy as np
import pytest

from tests.tolerances import SPECIAL
from tggm import special

ARGUMENTS = {
    "log_ndtr": ("a",),
    "hazard": ("a",),
    "truncated_mean": ("mu", "sigma"),
    "truncated_var": ("mu", "sigma"),
    "truncated_entropy": ("mu", "sigma"),
    "truncated_log_z": ("theta", "precision"),
}
# power of sigma in front of the standardised function
POWER = {"truncated_mean": 1, "truncated_var": 2}


@pytest.fixture(scope="module")
def table():
    with np.load(Path(__file__).parent / "data" / "reference.npz") as arrays:
        return dict(arrays)


def counted(true, arguments, power, dtype):
    """Return the mask where the true value and that of the standardised function are normal numbers."""
    standard = np.abs(true) / (arguments[1].astype(float) ** power if len(arguments) > 1 else 1)
    return np.minimum(np.abs(true), standard) >= np.finfo(dtype).tiny


def worst(got, true, floor, counts):
    assert got.shape == true.shape
    assert np.isfinite(got).all()
    error = np.abs(got.astype(float) - true)[counts] / np.maximum(np.abs(true), floor)[counts]
    return error.max()


@pytest.mark.parametrize("name", ARGUMENTS)
def test_values(name, dtype, table):
    arguments = [table[f"{dtype}/{x}"] for x in ARGUMENTS[name]]
    true = table[f"{dtype}/{name}"]
    got = np.asarray(getattr(special, name)(*arguments))
    assert got.dtype == dtype
    # these two have a zero: there the error is absolute
    floor = 1.0 if name in ("truncated_entropy", "truncated_log_z") else 0.0
    counts = counted(true, arguments, POWER.get(name, 0), dtype)
    assert counts.sum() > 400
    assert worst(got, true, floor, counts) <= SPECIAL[dtype]


@pytest.mark.parametrize(("name", "k"), [(n, k) for n, x in ARGUMENTS.items() for k in range(len(x))])
def test_derivatives(name, k, dtype, table):
    arguments = [table[f"{dtype}/{x}"] for x in ARGUMENTS[name]]
    true = table[f"{dtype}/{name}_{k + 1}"]
    got = np.asarray(jax.jit(jax.vmap(jax.grad(getattr(special, name), k)))(*arguments))
    assert got.dtype == dtype
    counts = counted(true, arguments, POWER.get(name, 1 if name == "truncated_log_z" else 0) - 1, dtype)
    assert worst(got, true, 0.0, counts) <= SPECIAL[dtype]


def test_standard_moments_are_mean_and_variance(dtype, table):
    # at sigma = 1 of the table
    unit = table[f"{dtype}/sigma"] == 1
    alpha = table[f"{dtype}/mu"][unit]
    g, v = special.standard_moments(alpha)
    assert worst(np.asarray(g), table[f"{dtype}/truncated_mean"][unit], 0.0, slice(None)) <= SPECIAL[dtype]
    assert worst(np.asarray(v), table[f"{dtype}/truncated_var"][unit], 0.0, slice(None)) <= SPECIAL[dtype]


def test_table_covers_the_range(dtype, table):
    a = table[f"{dtype}/a"]
    assert a.min() == -1e8
    assert a.max() == 1e8
    for change in (0.0, 0.25, 0.5, 1.0, 8.0):
        assert (np.abs(a.astype(float) - change) < 1e-3).sum() > 10
