r"""The numbers of a graph: weights, biases, noise, couplings, and the precision K of the residuals.

A coupling of two blocks enters K as −√(w_a w_b) D_a^½ V D_b^½, D = diag(1/s), where w_a is one over the
number of couplings at a, and V a contraction made of an unconstrained matrix U:

.. math::
    V = L^{-1} U, \quad L L^T = I + U U^T, \qquad\text{so}\qquad V V^T = I - L^{-1} L^{-T} \prec I.

Every matrix of norm below one is such a V, and K is positive definite whatever U is: training cannot leave
the models. A lateral coupling adds UᵀU to a block of K, which keeps it positive definite too.
"""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.lax.linalg import cholesky, triangular_solve
from numpy.typing import ArrayLike, NDArray

from tggm.models.graph.structure import Coupling, Edge, Structure

Parameters = dict[str, dict[str, Any]]  # "weights", "bias", "log_noise", "coupling": name -> array
Floats = NDArray[np.float64]
START = 0.3  # norm of the contractions training begins with


def contraction(U: Array) -> Array:
    """V = L⁻¹U, of norm below one for any U."""
    L = cholesky(jnp.eye(U.shape[0], dtype=U.dtype) + U @ U.T)
    return triangular_solve(L, U, left_side=True, lower=True)


def expansion(V: Floats) -> Floats:
    """The U whose contraction is V; ValueError unless the norm of V is below one."""
    norm = float(np.linalg.norm(V, 2))
    if not norm < 1:
        raise ValueError(norm)
    return np.linalg.solve(np.linalg.cholesky(np.eye(len(V)) - V @ V.T), V)


def share(structure: Structure, coupling: Coupling) -> float:
    """√(w_a w_b): what part of the two blocks' precisions a coupling may use."""
    counts = [len(structure.pair_couplings(name)) for name in (coupling.first, coupling.second)]
    return float(1 / np.sqrt(np.prod(counts)))


def residual_precision(structure: Structure, params: Parameters, kept: tuple[str, ...]) -> dict[Any, Array]:
    """Blocks of K: vectors under (a,) for diagonals, matrices under (a, b) for what is coupled."""
    K: dict[Any, Array] = {(name,): jnp.exp(-params["log_noise"][name]) for name in kept}
    for c in structure.couplings:
        if c.first not in kept or c.second not in kept:
            continue
        U = params["coupling"][c.name]
        if c.lateral:
            K[c.first, c.first] = U.T @ U
        else:
            roots = [jnp.sqrt(K[name,]) for name in (c.first, c.second)]
            J = share(structure, c) * roots[0][:, None] * contraction(U) * roots[1][None, :]
            K[c.first, c.second], K[c.second, c.first] = -J, -J.T
    return K


def edge_weights(structure: Structure, edge: Edge, weights: ArrayLike) -> Floats:
    """Weights given by the user, checked; errors name the edge."""
    array, wanted = np.asarray(weights, np.float64), (structure.size(edge.child), structure.size(edge.parent))
    if array.shape != wanted or not np.isfinite(array).all():
        raise ValueError(
            f"Edge {edge.name!r}: weights must be finite, of shape {wanted} (child by parent); "
            f"got shape {array.shape}."
        )
    return array


def coupling_weights(
    structure: Structure, coupling: Coupling, weights: ArrayLike, params: Parameters
) -> Floats:
    """U of a coupling given by its J (K_ab = −J) or its lateral factor; errors name the coupling."""
    array = np.asarray(weights, np.float64)
    a, b = coupling.first, coupling.second
    wanted = (
        (coupling.rank, structure.size(a)) if coupling.lateral else (structure.size(a), structure.size(b))
    )
    if array.shape != wanted or not np.isfinite(array).all():
        raise ValueError(
            f"Coupling {coupling.name!r}: weights must be finite, of shape {wanted}; got shape {array.shape}."
        )
    if coupling.lateral:
        return array
    roots = [np.exp(0.5 * params["log_noise"][name]) for name in (a, b)]
    V = roots[0][:, None] * array * roots[1][None, :] / share(structure, coupling)
    try:
        return expansion(V)
    except ValueError as error:
        norm = float(error.args[0])
        raise ValueError(
            f"Coupling {coupling.name!r} makes the precision matrix indefinite: in units of its blocks' "
            f"noise its norm is {norm:.3g}, and it must be below 1. Multiply its weights by "
            f"{0.99 / norm:.2g} or less, or lower the noise of the blocks."
        ) from None


def draw(structure: Structure, given: Parameters, rng: np.random.Generator) -> Parameters:
    """Fill in what was not given: weights that make locations of the size of the noise, small couplings."""
    out: Parameters = {kind: dict(values) for kind, values in given.items()}
    for block in structure.blocks:
        if block.role != "input" and block.name not in out["bias"]:
            spread = np.exp(0.5 * out["log_noise"][block.name]) if block.role == "latent" else 0.0
            out["bias"][block.name] = spread * rng.standard_normal(block.size)
    for edge in structure.edges:
        if edge.name not in out["weights"]:
            shape = structure.size(edge.child), structure.size(edge.parent)
            fan_in = sum(structure.size(p) for p in structure.parents(edge.child))
            scale = np.exp(0.5 * out["log_noise"][edge.child])[:, None] / np.sqrt(fan_in)
            out["weights"][edge.name] = scale * rng.standard_normal(shape)
    for c in structure.couplings:
        if c.name not in out["coupling"]:
            shape = (c.rank or structure.size(c.first), structure.size(c.second))
            U = rng.standard_normal(shape)
            unit = START * U / np.linalg.norm(U, 2)
            noise = np.exp(0.5 * out["log_noise"][c.first]) if c.lateral else 1.0
            out["coupling"][c.name] = unit / noise
    return out
