"""The normal truncated to a box: every function and its derivatives against a table of high precision."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tggm.special import log_ndtr_interval, truncated_log_z, truncated_mean, truncated_var

# values; first derivatives
VALUE = {np.dtype("float32"): 3e-6, np.dtype("float64"): 5e-15}
SLOPE = {np.dtype("float32"): 2e-5, np.dtype("float64"): 5e-14}


@pytest.fixture(scope="module")
def table():
    with np.load(Path(__file__).parent / "data" / "box_reference.npz") as arrays:
        return dict(arrays)


@jax.jit
def everything(mu, sigma, lower, upper):
    """Compute all functions with all derivatives in one program, as compiling takes most of the time."""

    def one(function, *arguments):
        value, back = jax.vjp(function, *arguments)
        return value, *back(jnp.ones_like(value))

    natural = (mu / sigma / sigma, 1 / sigma / sigma, lower, upper)
    found = {f.__name__[10:]: one(f, mu, sigma, lower, upper) for f in (truncated_mean, truncated_var)}
    mass = one(log_ndtr_interval, lower / sigma, upper / sigma)
    return found | {"log_z": one(truncated_log_z, *natural), "mass": mass}


def scale(name, k, table):
    """Return the divisor of errors of functions that have a zero."""
    std = np.sqrt(table["var"])
    unit = std**2 if name == "var" else 0.0
    if k == 0:
        return {"log_z": 1.0, "var": 0.0}.get(name, unit)
    if name == "mean" and k == 2:
        unit = std
    return unit / (table["sigma"].astype(float) if k == 2 else std)


def test_table(dtype, table):
    table = {name.split("/")[1]: x for name, x in table.items() if name.startswith(str(dtype))}
    arguments = [table[x] for x in ("mu", "sigma", "lower", "upper")]
    for name, values in everything(*arguments).items():
        for k, got in enumerate(values):
            assert got.dtype == dtype
            true = table[name + ("" if k == 0 else f"_{k + 2 if name == 'mass' else k}")]
            if name == "mass" and k:
                true = true * table["sigma"]
            counts = np.abs(true) > np.finfo(dtype).tiny / np.finfo(dtype).eps
            counts &= (table["mu"] == 0) | (name != "mass")  # only there are its limits those of the table
            error = np.abs(np.asarray(got, float) - true)[counts]
            error /= np.maximum(np.abs(true), scale(name, k, table))[counts]
            assert counts.sum() > 150
            assert error.max() <= (SLOPE if k else VALUE)[dtype], (name, k)


def test_table_covers_the_range(dtype, table):
    lower, upper, sigma = (table[f"{dtype}/{x}"].astype(float) for x in ("lower", "upper", "sigma"))
    width = (upper - lower) / sigma
    assert width.min() < 1e-10
    assert np.isinf(width).sum() > 20
    assert np.abs(lower[np.isfinite(lower)] / sigma[np.isfinite(lower)]).max() > 1e4
