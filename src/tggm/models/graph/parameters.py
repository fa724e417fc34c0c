r"""The numbers of a graph: weights, biases, noise, couplings, and the precision K of the residuals.

A coupling of two blocks enters K as −√(w_a w_b) D_a^½ V D_b^½, D = diag(1/s), where w_a is one over the
number of couplings at a, and V a contraction made of an unconstrained matrix U:

.. math::
    V = L^{-1} U, \quad L L^T = I + U U^T, \qquad\text{so}\qquad V V^T = I - L^{-1} L^{-T} \prec I.

Every matrix of norm below one is such a V, and K is positive definite whatever U is: training cannot leave
the models. A lateral coupling adds UᵀU to a block of K, which keeps it positive definite too.
"""

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.lax.linalg import cholesky, triangular_solve
from numpy.typing import ArrayLike

from tggm.arrays import Floats
from tggm.models.graph.structure import Coupling, Edge, Structure

Parameters = dict[str, dict[str, Any]]  # "weights", "bias", "log_noise", "coupling": name -> array
START = 0.3  # norm of the contractions training begins with


def contraction(U: Array) -> Array:
    """V = L⁻¹U, of norm below one for any U."""
    L = cholesky(jnp.eye(U.shape[0], dtype=U.dtype) + U @ U.T)
    return triangular_solve(L, U, left_side=True, lower=True)


def share(structure: Structure, coupling: Coupling) -> float:
    """√(w_a w_b): what part of the two blocks' precisions a coupling may use."""
    pairs = [c.ends for c in structure.couplings if not c.lateral]
    counts = [sum(name in ends for ends in pairs) for name in coupling.ends]
    return float(1 / np.sqrt(np.prod(counts)))


class ResidualPrecision(NamedTuple):
    """K, block by block."""

    own: dict[str, Array]  # the diagonals 1/s
    coupled: dict[tuple[str, str], Array]  # what couplings add: off the diagonal, or UᵀU within a block


def residual_precision(structure: Structure, params: Parameters, kept: tuple[str, ...]) -> ResidualPrecision:
    """K of the residuals that are kept."""
    K = ResidualPrecision({name: jnp.exp(-params["log_noise"][name]) for name in kept}, {})
    for c in structure.couplings:
        if not set(c.ends) <= set(kept):
            continue
        U = params["coupling"][c.name]
        if c.lateral:
            K.coupled[c.ends] = U.T @ U
        else:
            a, b = (jnp.sqrt(K.own[name]) for name in c.ends)
            J = share(structure, c) * a[:, None] * contraction(U) * b[None, :]
            K.coupled[c.ends], K.coupled[c.ends[::-1]] = -J, -J.T
    return K


def tie_weights(structure: Structure, tie: Edge | Coupling, weights: ArrayLike) -> Floats:
    """Weights given by the user, checked; errors name the tie."""
    array, wanted = np.asarray(weights, np.float64), structure.shape(tie)
    if array.shape != wanted or not np.isfinite(array).all():
        raise ValueError(
            f"{tie.title}: weights must be finite, of shape {wanted}{tie.layout}; got shape {array.shape}."
        )
    return array


def coupling_weights(
    structure: Structure, coupling: Coupling, weights: ArrayLike, params: Parameters
) -> Floats:
    """The U whose contraction makes K_ab = −J, J the weights; a lateral factor is its own U."""
    J = tie_weights(structure, coupling, weights)
    if coupling.lateral:
        return J
    a, b = (np.exp(0.5 * params["log_noise"][name]) for name in coupling.ends)
    V = a[:, None] * J * b[None, :] / share(structure, coupling)
    norm = float(np.linalg.norm(V, 2))
    if not norm < 1:
        raise ValueError(
            f"{coupling.title} makes the precision matrix indefinite: in units of its blocks' "
            f"noise its norm is {norm:.3g}, and it must be below 1. Multiply its weights by "
            f"{0.99 / norm:.2g} or less, or lower the noise of the blocks."
        )
    return np.linalg.solve(np.linalg.cholesky(np.eye(len(V)) - V @ V.T), V)


def draw(structure: Structure, given: Parameters, rng: np.random.Generator) -> Parameters:
    """Fill in what was not given: weights that make locations of the size of the noise, small couplings."""
    out: Parameters = {kind: dict(values) for kind, values in given.items()}
    for block in structure.blocks:
        if block.role != "input" and block.name not in out["bias"]:
            spread = np.exp(0.5 * out["log_noise"][block.name]) if block.role == "latent" else 0.0
            out["bias"][block.name] = spread * rng.standard_normal(block.size)
    for edge in structure.edges:
        if edge.name not in out["weights"]:
            fan_in = sum(structure.size(p) for p in structure.parents(edge.child))
            scale = np.exp(0.5 * out["log_noise"][edge.child])[:, None] / np.sqrt(fan_in)
            out["weights"][edge.name] = scale * rng.standard_normal(structure.shape(edge))
    for c in structure.couplings:
        if c.name not in out["coupling"]:
            U = rng.standard_normal(structure.shape(c))
            noise = np.exp(0.5 * out["log_noise"][c.first]) if c.lateral else 1.0
            out["coupling"][c.name] = START * U / np.linalg.norm(U, 2) / noise
    return out
