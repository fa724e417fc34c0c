"""What the samplers' tests share: Monte Carlo tolerances from independent chains, and Geweke's joint test."""

import jax
import jax.numpy as jnp
import numpy as np

from tggm.gaussian import TruncatedGaussian
from tggm.precision import Dense


def assert_draws_match(draws, mean, var, limit=4.5):
    """Moments of draws (steps, chains, m) against their true values, in standard errors over the chains.

    Chains are independent, whatever the correlation within them: the standard error of an average is the
    spread of the chains' averages over the square root of their number.
    """
    draws = np.asarray(draws, float)
    for statistic, truth in ((draws, mean), ((draws - mean) ** 2, var)):
        per_chain = statistic.mean(0)
        error = per_chain.std(0, ddof=1) / np.sqrt(per_chain.shape[0])
        z = (per_chain.mean(0) - truth) / error
        assert np.abs(z).max() < limit, z


def assert_geweke(kernel, n_walkers=20_000, n_rounds=8, limit=4.5):
    """Successive-conditional against marginal-conditional simulation (Geweke, 2004).

    The joint is p(h, y) = N_T(h | mu, P⁻¹) N(y | h, I). Walkers start with h drawn from the prior by
    rejection and alternate y | h with one step of the kernel for h | y, whose precision is P + I and shift
    γ + y. If the kernel leaves p(h | y) alone, h keeps its prior distribution: compared with fresh draws by
    rejection.
    """
    rng = np.random.default_rng(7)
    P = np.array([[1.5, 0.9], [0.9, 1.2]])
    mu = np.array([0.3, -0.2])
    root = np.linalg.cholesky(np.linalg.inv(P))

    def prior(n):
        h = mu + rng.standard_normal((12 * n, 2)) @ root.T
        h = h[(h >= 0).all(1)]
        assert len(h) >= n
        return h[:n]

    posterior, gamma = Dense(P + np.eye(2)), P @ mu
    h = jnp.asarray(prior(n_walkers))
    for key in jax.random.split(jax.random.key(11), n_rounds):
        y = np.asarray(h) + rng.standard_normal(h.shape)
        h = kernel(TruncatedGaussian(posterior, gamma + y), key, h)

    def statistics(h):
        h = np.asarray(h)
        return np.column_stack([h, h**2, h.prod(1), np.exp(-h), (h < 0.2), (h > 1.0)])

    ours, theirs = statistics(h), statistics(prior(n_walkers))
    error = np.sqrt((ours.var(0) + theirs.var(0)) / n_walkers)
    z = (ours.mean(0) - theirs.mean(0)) / error
    assert np.abs(z).max() < limit, z
